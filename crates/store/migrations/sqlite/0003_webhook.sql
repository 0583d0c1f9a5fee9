-- Webhooks: who is told of what, and every message on its way. Alerts that stand. What `/metrics` and alerts ask for by index.

CREATE TABLE webhook (
    id         BLOB    PRIMARY KEY NOT NULL,
    url        TEXT    NOT NULL,
    -- A JSON list.
    events     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    -- How far the event log was read for it.
    after_xid  INTEGER NOT NULL,
    after_id   INTEGER NOT NULL
) STRICT;

CREATE TABLE delivery (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    id         BLOB    NOT NULL UNIQUE,
    webhook_id BLOB    NOT NULL,
    -- What must arrive in order: all of one domain.
    lane       TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    body       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    -- When to send it. A claim moves it to the claim's own end; none while an earlier one of its lane is open, and when it is over.
    due_at     INTEGER,
    claim      INTEGER NOT NULL DEFAULT 0,
    attempt    INTEGER NOT NULL DEFAULT 0,
    status     INTEGER,
    error      TEXT,
    ended_at   INTEGER,
    delivered  INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX delivery_due ON delivery (webhook_id, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX delivery_lane ON delivery (webhook_id, lane, number) WHERE ended_at IS NULL;
CREATE INDEX delivery_list ON delivery (webhook_id, number);
CREATE INDEX delivery_ended ON delivery (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX delivery_open ON delivery (webhook_id, created_at) WHERE ended_at IS NULL;

-- Those that stand. The key is the promise that each is raised once.
CREATE TABLE alert (
    code      TEXT    NOT NULL,
    subject   TEXT    NOT NULL,
    detail    TEXT    NOT NULL,
    raised_at INTEGER NOT NULL,
    PRIMARY KEY (code, subject)
) STRICT;

CREATE INDEX certificate_expiry ON certificate (not_after) WHERE superseded_at IS NULL;
-- Who stays in a state that it should leave by itself. Rests, failures and the queue are not among them.
CREATE INDEX domain_stay ON domain (state, entered_at)
    WHERE removed_at IS NULL AND state IN ('Initial', 'DnsVerifying', 'DnsVerified', 'AcmeOrderCreated', 'AcmeChallengePreparing',
        'AcmeChallengePrepared', 'AcmeChallengeValidating', 'AcmeChallengeValidated', 'CertificateDownloading', 'CertificateDownloaded',
        'CertificateDeploying', 'CertificateDeployed', 'RenewalDue', 'Renewing');
