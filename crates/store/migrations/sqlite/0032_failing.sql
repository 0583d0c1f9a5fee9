-- Since when the CA fails, how, in the words of the replica that met it last, and when that one asks again. An orderly answer ends it.

ALTER TABLE acme_account ADD COLUMN failing_since INTEGER;
ALTER TABLE acme_account ADD COLUMN failure TEXT;
ALTER TABLE acme_account ADD COLUMN asked_again_at INTEGER;
