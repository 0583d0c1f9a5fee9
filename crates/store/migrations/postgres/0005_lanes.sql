-- Lanes: what is due, by what it is due for, so that a flood of one kind keeps no other waiting. The lane follows from the row, and
-- nobody has to write it: the release before works on as it is.

-- The new index serves this too; one less is kept up with every step. First, so that the table is locked once and for all: whoever
-- waits for a stronger lock while it holds a weaker one waits for those who wait for it.
DROP INDEX domain_due_order;
CREATE INDEX domain_lane ON domain ((
    CASE WHEN removing_since IS NOT NULL THEN 4 WHEN order_id IS NOT NULL THEN 0
         WHEN state IN ('CertificateDownloaded', 'CertificateDeploying', 'CertificateDeployed', 'CertificateDeploymentFailed') THEN 2
         WHEN state = 'Initial' THEN 1 WHEN certificate_id IS NOT NULL THEN 3 WHEN wanted IS NOT NULL THEN 1
         WHEN state IN ('DnsVerificationFailed', 'AcmeOrderFailed', 'AcmeChallengeFailed', 'CertificateDownloadFailed', 'Failed') THEN 4
         ELSE 1 END
), due_at) WHERE due_at IS NOT NULL;

-- An installation makes its first admin token once. Whoever makes it holds this row until it is there.
CREATE TABLE first_token (
    one boolean PRIMARY KEY DEFAULT true CHECK (one)
);
INSERT INTO first_token DEFAULT VALUES;
