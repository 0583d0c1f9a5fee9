-- Why the CA does not give the certificate of an order that may have been finalized, and since when it is that reason: such an order is given
-- up only after a while.

ALTER TABLE acme_order ADD COLUMN trouble TEXT;
ALTER TABLE acme_order ADD COLUMN trouble_since INTEGER;
