-- Two more lanes: names whose DNS is silent, and Active names, which are only looked at. The index `domain_lane` stays for the release
-- before, whose claims are found by its expression; it goes with the release after this one.
-- With a million domains it takes about three seconds on a small machine, in which no domain is written.

CREATE INDEX domain_room ON domain ((
    CASE WHEN removing_since IS NOT NULL THEN 4 WHEN order_id IS NOT NULL THEN 0
         WHEN state IN ('CertificateDownloaded', 'CertificateDeploying', 'CertificateDeployed', 'CertificateDeploymentFailed') THEN 2
         WHEN state = 'Initial' THEN 1 WHEN state = 'Active' AND wanted IS NULL THEN 6
         WHEN state IN ('DnsVerifying', 'DnsVerificationFailed') AND wanted IS NULL
             AND error_code IN ('dns-silent', 'dns-timeout', 'dns-resolver-unreachable') THEN 5
         WHEN certificate_id IS NOT NULL THEN 3 WHEN wanted IS NOT NULL THEN 1
         WHEN state IN ('DnsVerificationFailed', 'AcmeOrderFailed', 'AcmeChallengeFailed', 'CertificateDownloadFailed', 'Failed') THEN 4
         ELSE 1 END
), due_at) WHERE due_at IS NOT NULL;
