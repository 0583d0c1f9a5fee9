-- $1 name, $2 before, $3 limit
SELECT id, name, MICROS(at) AS at, reason, term, from_holder, to_holder, note
FROM lease_history WHERE name = $1 AND id < $2 ORDER BY id DESC LIMIT $3
