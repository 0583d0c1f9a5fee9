-- $1 name, $2 incarnation, $3 term, $4 successor, $5 reserve_us, $6 not_after (microseconds), $7 channel
WITH freed AS (
    UPDATE lease SET
        previous = holder,
        holder = NULL,
        incarnation = NULL,
        beat = beat + 1,
        ttl_us = $5,
        since = clock_timestamp(),
        expires_at = clock_timestamp() + $5 * interval '1 microsecond',
        renewed_at = clock_timestamp(),
        step_down = false,
        successor = $4,
        beacon = NULL,
        reason = CASE WHEN $4::text IS NULL THEN 'departed' ELSE 'stepped-down' END
    WHERE name = $1 AND incarnation = $2 AND term = $3 AND clock_timestamp() <= to_timestamp($6 / 1e6)
    RETURNING *
), recorded AS (
    INSERT INTO lease_history (name, at, reason, term, from_holder)
    SELECT name, since, reason, term, previous FROM freed
)
SELECT MICROS(clock_timestamp()) AS at, freed.name IS NOT NULL AS done,
       CASE WHEN freed.name IS NOT NULL THEN pg_notify($7, $1) END AS woken
FROM (SELECT 1) AS one LEFT JOIN freed ON true
