-- Claims that were released and never became a domain are deleted after a time.

CREATE INDEX claim_given_back ON claim (released_at) WHERE domain_id IS NULL AND released_at IS NOT NULL;
