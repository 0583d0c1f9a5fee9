-- Lanes: what is due, by what it is due for, so that a flood of one kind keeps no other waiting. The lane follows from the row, and
-- nobody has to write it: the release before works on as it is.

-- Both at once, before any work: whoever holds the one waits for the other, and the index of a million rows would be made in vain.
LOCK TABLE acme_account, domain IN ACCESS EXCLUSIVE MODE;

CREATE INDEX domain_lane ON domain ((
    CASE WHEN removing_since IS NOT NULL THEN 4 WHEN order_id IS NOT NULL THEN 0
         WHEN state IN ('CertificateDownloaded', 'CertificateDeploying', 'CertificateDeployed', 'CertificateDeploymentFailed') THEN 2
         WHEN state = 'Initial' THEN 1 WHEN certificate_id IS NOT NULL THEN 3 WHEN wanted IS NOT NULL THEN 1
         WHEN state IN ('DnsVerificationFailed', 'AcmeOrderFailed', 'AcmeChallengeFailed', 'CertificateDownloadFailed', 'Failed') THEN 4
         ELSE 1 END
), due_at) WHERE due_at IS NOT NULL;
-- It serves this too; one index less is kept up with every step.
DROP INDEX domain_due_order;

-- How many orders were given: of every four, one is for who has no certificate yet.
ALTER TABLE acme_account ADD COLUMN turn bigint NOT NULL DEFAULT 0;

-- An installation makes its first admin token once. Whoever makes it holds this row until it is there.
CREATE TABLE first_token (
    one boolean PRIMARY KEY DEFAULT true CHECK (one)
);
INSERT INTO first_token DEFAULT VALUES;
