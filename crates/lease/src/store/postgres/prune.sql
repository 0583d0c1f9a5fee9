-- $1 older than (microseconds)
DELETE FROM lease_history WHERE id IN (
    SELECT id FROM lease_history WHERE at < clock_timestamp() - $1 * interval '1 microsecond' ORDER BY at LIMIT 10000
)
