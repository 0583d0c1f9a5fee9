-- Open orders of an account by their age: who counts them need not pass those that have ended and that a long snapshot keeps.

CREATE INDEX acme_order_opened ON acme_order (account_id, created_at) WHERE ended_at IS NULL;
