-- Why the CA does not accept the account, until it is registered anew or the CA accepts it again. The pause beside it only says when
-- the CA is asked again.

ALTER TABLE acme_account ADD COLUMN unusable text;
