-- $1 name, $2 note, $3 channel
WITH forced AS (
    UPDATE lease SET
        previous = holder,
        holder = NULL,
        incarnation = NULL,
        term = term + 1,
        beat = 0,
        ttl_us = 0,
        since = clock_timestamp(),
        expires_at = clock_timestamp(),
        renewed_at = clock_timestamp(),
        step_down = false,
        successor = NULL,
        beacon = NULL,
        reason = 'forced'
    WHERE name = $1
    RETURNING *
), recorded AS (
    INSERT INTO lease_history (name, at, reason, term, from_holder, note)
    SELECT name, since, reason, term, previous, $2 FROM forced
)
SELECT MICROS(clock_timestamp()) AS at, forced.term,
       CASE WHEN forced.name IS NOT NULL THEN pg_notify($3, $1) END AS woken
FROM (SELECT 1) AS one LEFT JOIN forced ON true
