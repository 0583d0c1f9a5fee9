-- $1 names: a read without a lock
SELECT MICROS(clock_timestamp()) AS at, COLUMNS
FROM (SELECT 1) AS one LEFT JOIN lease ON name = ANY($1)
