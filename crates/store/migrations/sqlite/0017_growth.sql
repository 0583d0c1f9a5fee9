-- Claims that were released and never became a domain are deleted after a time.
CREATE INDEX claim_given_back ON claim (released_at) WHERE domain_id IS NULL AND released_at IS NOT NULL;

-- How much an edge is behind and refuses, where that is more than a reader counts by itself: counted by one for all.
ALTER TABLE edge ADD COLUMN counted_behind INTEGER NOT NULL DEFAULT 0;
ALTER TABLE edge ADD COLUMN counted_refusals INTEGER NOT NULL DEFAULT 0;
