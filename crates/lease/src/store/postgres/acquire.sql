-- $1 name, $2 holder, $3 incarnation, $4 priority, $5 ttl_us, $6 above, $7 unchanged?, $8 its incarnation, $9 its term,
-- $10 its beat, $11 beacon (its key, or null), $12 not_after (microseconds)
--
-- A plain UPDATE takes no lock on a row that its WHERE rejects, and looks at it again after waiting for one. Time is read by
-- clock_timestamp(), when it is needed: now() is when the transaction began.
WITH own AS MATERIALIZED (
    SELECT LIT($11) AS beacon
), made AS (
    INSERT INTO lease (name, holder, incarnation, term, beat, ttl_us, expires_at, since, renewed_at, priority, beacon,
                       server_up, reason)
    SELECT $1, $2, $3, $6 + 1, 0, $5, clock_timestamp() + $5 * interval '1 microsecond', clock_timestamp(),
           clock_timestamp(), $4, (SELECT beacon FROM own), pg_postmaster_start_time(), 'created'
    WHERE clock_timestamp() <= to_timestamp($12 / 1e6)
    -- Whichever key: of two who make the row at once, the second may meet the other's name, or its name and term.
    ON CONFLICT DO NOTHING
    RETURNING *
), took AS (
    UPDATE lease SET
        holder = $2,
        incarnation = $3,
        -- An own row above what is known to be over is the answer to an earlier request whose reply was lost.
        term = CASE WHEN incarnation = $3 AND term > $6 THEN term ELSE greatest(term, $6) + 1 END,
        beat = CASE WHEN incarnation = $3 AND term > $6 THEN beat + 1 ELSE 0 END,
        since = CASE WHEN incarnation = $3 AND term > $6 THEN since ELSE clock_timestamp() END,
        step_down = step_down AND incarnation = $3 AND term > $6,
        successor = CASE WHEN incarnation = $3 AND term > $6 THEN successor END,
        previous = CASE WHEN incarnation = $3 AND term > $6 THEN previous ELSE holder END,
        ttl_us = $5,
        expires_at = clock_timestamp() + $5 * interval '1 microsecond',
        renewed_at = clock_timestamp(),
        priority = $4,
        beacon = (SELECT beacon FROM own),
        server_up = pg_postmaster_start_time(),
        reason = CASE
            WHEN incarnation IS NULL AND successor = $2 THEN 'reserved'
            WHEN incarnation IS NULL AND successor IS NULL THEN 'released'
            WHEN incarnation = $3 AND term > $6 THEN reason
            WHEN incarnation = $3 THEN 'reacquired'
            WHEN expires_at < clock_timestamp() THEN 'expired'
            WHEN $7 AND term = $9 AND beat = $10 AND incarnation IS NOT DISTINCT FROM $8 THEN 'unchanged'
            ELSE 'beacon-gone'
        END
    WHERE name = $1 AND clock_timestamp() <= to_timestamp($12 / 1e6) AND (
        incarnation = $3
        OR (incarnation IS NULL AND (successor IS NULL OR successor = $2))
        OR expires_at < clock_timestamp()
        OR ($7 AND term = $9 AND beat = $10 AND incarnation IS NOT DISTINCT FROM $8)
        OR ((SELECT beacon FROM own) IS NOT NULL AND GONE)
    )
    RETURNING *
), granted AS (
    SELECT * FROM made UNION ALL SELECT * FROM took
), recorded AS (
    INSERT INTO lease_history (name, at, reason, term, from_holder, to_holder)
    SELECT name, since, reason, term, previous, holder FROM granted WHERE beat = 0
), shown AS (
    SELECT true AS granted, granted.* FROM granted
    UNION ALL
    SELECT false, lease.* FROM lease WHERE name = $1 AND NOT EXISTS (SELECT FROM granted)
)
SELECT MICROS(clock_timestamp()) AS at, shown.granted, COLUMNS
FROM (SELECT 1) AS one LEFT JOIN shown ON true
