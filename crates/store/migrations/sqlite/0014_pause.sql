-- When the CA asked for the pause: with it, a pause that was noted in the future is no longer than
-- it was meant to be.

ALTER TABLE acme_account ADD COLUMN paused_at INTEGER;
