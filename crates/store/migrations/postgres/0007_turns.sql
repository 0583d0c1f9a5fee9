-- How many orders were given: of every four, one is for who has no certificate yet. A step of its own, which locks no other table:
-- replicas that work meanwhile lock accounts before domains and domains before accounts.
ALTER TABLE acme_account ADD COLUMN IF NOT EXISTS turn bigint NOT NULL DEFAULT 0;
