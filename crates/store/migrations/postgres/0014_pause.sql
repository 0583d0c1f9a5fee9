-- When the CA asked for the pause: with it, a pause that was noted in the future is no longer than
-- it was meant to be. A step of its own: whoever locks two tables at once may wait for those who
-- wait for it.

ALTER TABLE acme_account ADD COLUMN paused_at timestamptz;
