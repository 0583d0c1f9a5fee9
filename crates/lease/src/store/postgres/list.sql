-- $1 after, $2 limit
SELECT MICROS(clock_timestamp()) AS at, COLUMNS
FROM (SELECT 1) AS one LEFT JOIN (SELECT * FROM lease WHERE name > $1 ORDER BY name LIMIT $2) AS page ON true
ORDER BY name
