-- The SHA-256 of a chain as it was written: a letter that changed on the disk is noticed before it is
-- served. None where an earlier release wrote it.

ALTER TABLE certificate ADD COLUMN chain_sha256 bytea;
