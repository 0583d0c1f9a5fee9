-- Webhooks: who is told of what, and every message on its way. Alerts that stand. What `/metrics` and alerts ask for by index.

CREATE TABLE webhook (
    id         uuid        PRIMARY KEY,
    url        text        NOT NULL,
    -- A JSON list.
    events     text        NOT NULL,
    created_at timestamptz NOT NULL,
    -- How far the event log was read for it. Whoever moves this, or ends a delivery, holds the row: so none of a lane is forgotten.
    after_xid  bigint      NOT NULL,
    after_id   bigint      NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE delivery (
    number     bigint           GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         uuid             NOT NULL UNIQUE,
    webhook_id uuid             NOT NULL,
    -- What must arrive in order: all of one domain.
    lane       text COLLATE "C" NOT NULL,
    kind       text             NOT NULL,
    body       text             NOT NULL,
    created_at timestamptz      NOT NULL,
    -- When to send it. A claim moves it to the claim's own end; none while an earlier one of its lane is open, and when it is over.
    due_at     timestamptz,
    claim      bigint           NOT NULL DEFAULT 0,
    attempt    bigint           NOT NULL DEFAULT 0,
    status     bigint,
    error      text,
    ended_at   timestamptz,
    delivered  boolean          NOT NULL DEFAULT false
) WITH (fillfactor = 80);
CREATE INDEX delivery_due ON delivery (webhook_id, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX delivery_lane ON delivery (webhook_id, lane, number) WHERE ended_at IS NULL;
CREATE INDEX delivery_list ON delivery (webhook_id, number);
CREATE INDEX delivery_ended ON delivery (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX delivery_open ON delivery (webhook_id, created_at) WHERE ended_at IS NULL;

-- Those that stand. The key is the promise that each is raised once, by whichever replica.
CREATE TABLE alert (
    code      text        NOT NULL,
    subject   text        NOT NULL,
    detail    text        NOT NULL,
    raised_at timestamptz NOT NULL,
    PRIMARY KEY (code, subject)
);

CREATE INDEX certificate_expiry ON certificate (not_after) WHERE superseded_at IS NULL;
-- Who stays in a state that it should leave by itself. Rests, failures and the queue are not among them.
CREATE INDEX domain_stay ON domain (state, entered_at)
    WHERE removed_at IS NULL AND state IN ('Initial', 'DnsVerifying', 'DnsVerified', 'AcmeOrderCreated', 'AcmeChallengePreparing',
        'AcmeChallengePrepared', 'AcmeChallengeValidating', 'AcmeChallengeValidated', 'CertificateDownloading', 'CertificateDownloaded',
        'CertificateDeploying', 'CertificateDeployed', 'RenewalDue', 'Renewing');
