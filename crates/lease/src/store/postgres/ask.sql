-- $1 name, $2 term, $3 successor, $4 over (priority, or null), $5 not_after (microseconds), $6 channel
WITH asked AS (
    UPDATE lease SET step_down = true, successor = $3
    WHERE name = $1 AND term = $2 AND incarnation IS NOT NULL AND ($4::smallint IS NULL OR priority < $4)
      AND clock_timestamp() <= to_timestamp($5 / 1e6)
    RETURNING name
)
SELECT MICROS(clock_timestamp()) AS at, asked.name IS NOT NULL AS done,
       CASE WHEN asked.name IS NOT NULL THEN pg_notify($6, $1) END AS woken
FROM (SELECT 1) AS one LEFT JOIN asked ON true
