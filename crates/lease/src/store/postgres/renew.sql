-- $1 incarnation, $2 not_after (microseconds), $3 names, $4 terms, $5 ttls, $6 beat
WITH asked AS (
    SELECT * FROM unnest($3::text[], $4::bigint[], $5::bigint[]) AS asked (name, term, ttl_us)
), kept AS (
    UPDATE lease SET
        beat = greatest(beat + 1, $6),
        ttl_us = asked.ttl_us,
        expires_at = clock_timestamp() + asked.ttl_us * interval '1 microsecond',
        renewed_at = clock_timestamp()
    FROM asked
    WHERE lease.name = asked.name AND lease.term = asked.term AND lease.incarnation = $1
      AND clock_timestamp() <= to_timestamp($2 / 1e6)
    RETURNING lease.*
), shown AS (
    SELECT true AS kept, kept.* FROM kept
    UNION ALL
    SELECT false, lease.* FROM lease JOIN asked USING (name) WHERE name NOT IN (SELECT name FROM kept)
)
SELECT MICROS(clock_timestamp()) AS at, shown.kept, COLUMNS
FROM (SELECT 1) AS one LEFT JOIN shown ON true
