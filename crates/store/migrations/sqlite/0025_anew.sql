-- A restore may have brought back a certificate that the CA has revoked since. Where the domain is being deployed, the CA is asked
-- once it is served.

ALTER TABLE domain ADD COLUMN ask_anew INTEGER NOT NULL DEFAULT 0;
