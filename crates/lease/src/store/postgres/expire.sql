-- $1 name, $2 incarnation, $3 term, $4 beat, $5 not_after (microseconds)
--
-- A row that is about to be taken because it showed no life for a whole lease is expired first. Where the clock was set
-- back, its expiry lies far ahead, and overlapping guards of a dead holder would be let in, and hold up the takeover, for ever.
UPDATE lease SET expires_at = least(expires_at, clock_timestamp())
WHERE name = $1 AND incarnation IS NOT DISTINCT FROM $2 AND term = $3 AND beat = $4
  AND clock_timestamp() <= to_timestamp($5 / 1e6)
