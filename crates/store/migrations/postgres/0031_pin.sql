-- Who issued the topmost certificate of the account's first chain, where the roots of what the CA issues are not known.

ALTER TABLE acme_account ADD COLUMN pin text;
