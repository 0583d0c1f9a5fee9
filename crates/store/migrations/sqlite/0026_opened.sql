-- Open orders of an account, by their age.

CREATE INDEX acme_order_opened ON acme_order (account_id, created_at) WHERE ended_at IS NULL;
