-- $1 incarnation, $2 not_after (microseconds), $3 names, $4 terms, $5 ttls, $6 beat
--
-- What is kept, and not asked to step down, is not shown: of many leases that is all there is to say.
WITH kept AS (
    UPDATE lease SET
        beat = greatest(beat + 1, $6),
        ttl_us = asked.ttl_us,
        expires_at = clock_timestamp() + asked.ttl_us * interval '1 microsecond',
        renewed_at = clock_timestamp()
    FROM unnest($3::text[], $4::bigint[], $5::bigint[]) AS asked (name, term, ttl_us)
    WHERE lease.name = asked.name AND lease.term = asked.term AND lease.incarnation = $1
      AND clock_timestamp() <= (SELECT to_timestamp($2 / 1e6))
    RETURNING lease.name, lease.step_down, lease.successor
), shown (asked, kept, asked_to_step_down, in_favour_of) AS (
    SELECT name, true, step_down, successor FROM kept WHERE step_down OR successor IS NOT NULL
    UNION ALL
    SELECT name, false, false, NULL
    FROM (SELECT name FROM unnest($3::text[]) AS asked (name) EXCEPT SELECT name FROM kept) AS missed
    WHERE (SELECT count(*) FROM kept) < cardinality($3::text[])
)
SELECT MICROS(clock_timestamp()) AS at, asked, kept, asked_to_step_down, in_favour_of, COLUMNS
FROM (SELECT 1) AS one LEFT JOIN (shown LEFT JOIN lease ON lease.name = shown.asked AND NOT shown.kept) ON true
