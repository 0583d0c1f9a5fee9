-- $1 names: a read without a lock
SELECT MICROS(clock_timestamp()) AS at, COLUMNS, GONE AS beacon_gone
FROM (SELECT 1) AS one LEFT JOIN lease ON name = ANY($1)
