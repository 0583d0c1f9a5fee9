-- Everything a replica remembers. Names are A-labels, compared byte by byte: an index in the server's own
-- collation would order them otherwise after an upgrade of the operating system.

CREATE TABLE setting (
    key   text PRIMARY KEY,
    value text NOT NULL
);

-- Data keys, wrapped under the master key.
CREATE TABLE sealing_key (
    id         bigint      PRIMARY KEY,
    wrapped    bytea       NOT NULL,
    master_key text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Every secret there is. The reference holds the promise that no value is ever sealed under a key that is gone.
CREATE TABLE sealed (
    owner       text   NOT NULL,
    id          uuid   NOT NULL,
    sealing_key bigint NOT NULL REFERENCES sealing_key,
    value       bytea  NOT NULL,
    PRIMARY KEY (owner, id)
);
CREATE INDEX sealed_under ON sealed (sealing_key);

CREATE TABLE claim (
    id               uuid             PRIMARY KEY,
    resource         text COLLATE "C" NOT NULL,
    name             text COLLATE "C",
    orchestration_id text COLLATE "C" NOT NULL,
    domain_id        uuid,
    created_at       timestamptz      NOT NULL,
    released_at      timestamptz
);
-- The three promises: a live name has one owner, so has a live resource, and an orchestration is one request.
CREATE UNIQUE INDEX claim_live_name ON claim (name) WHERE released_at IS NULL AND name IS NOT NULL;
CREATE UNIQUE INDEX claim_live_resource ON claim (resource) WHERE released_at IS NULL;
CREATE UNIQUE INDEX claim_orchestration ON claim (orchestration_id);
CREATE INDEX claim_released ON claim (resource, released_at) WHERE released_at IS NOT NULL;
CREATE UNIQUE INDEX claim_domain ON claim (domain_id) WHERE domain_id IS NOT NULL;

CREATE TABLE domain (
    id               uuid             PRIMARY KEY,
    name             text COLLATE "C" NOT NULL,
    tenant           text COLLATE "C",
    resource         text COLLATE "C" NOT NULL,
    target           text             NOT NULL,
    edge_group       text COLLATE "C" NOT NULL,
    labels           text             NOT NULL,
    orchestration_id text             NOT NULL,
    -- What was asked for at first, once a person has changed it: a replay is compared with this.
    original         text,
    import_sha256    text,
    state            text COLLATE "C" NOT NULL,
    attempt          bigint           NOT NULL DEFAULT 0,
    entered_at       timestamptz      NOT NULL,
    next_attempt_at  timestamptz,
    queued_at        timestamptz,
    failures         bigint           NOT NULL DEFAULT 0,
    failing_since    timestamptz,
    error_code       text,
    error_detail     text,
    certificate_id   uuid,
    order_id         uuid,
    wanted           text,
    -- Did the worker that holds the claim read `wanted` as it stands?
    wanted_seen      boolean          NOT NULL DEFAULT true,
    removing_since   timestamptz,
    revoke           boolean          NOT NULL DEFAULT false,
    removed_at       timestamptz,
    pruned           boolean          NOT NULL DEFAULT false,
    -- When a worker should look. A claim moves it to the claim's own end, so that claimed rows are not scanned.
    due_at           timestamptz,
    -- Something it waits for happened while a worker held it: look again at once.
    nudged           boolean          NOT NULL DEFAULT false,
    claimed_by       text,
    incarnation      uuid,
    claimed_until    timestamptz,
    claim_epoch      bigint           NOT NULL DEFAULT 0,
    lapses           bigint           NOT NULL DEFAULT 0,
    created_at       timestamptz      NOT NULL,
    updated_at       timestamptz      NOT NULL,
    version          bigint           NOT NULL DEFAULT 1,
    -- Versions by which people moved on since the worker last read the row: it need not lose its work over them.
    unseen           bigint           NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX domain_due ON domain (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX domain_due_order ON domain (due_at) WHERE order_id IS NOT NULL AND due_at IS NOT NULL;
CREATE INDEX domain_queue ON domain ((certificate_id IS NULL), queued_at, id)
    WHERE queued_at IS NOT NULL AND order_id IS NULL AND removing_since IS NULL;
CREATE UNIQUE INDEX domain_live_name ON domain (name) WHERE removed_at IS NULL;
CREATE INDEX domain_state ON domain (state, name) WHERE removed_at IS NULL;
CREATE INDEX domain_tenant ON domain (tenant, name) WHERE removed_at IS NULL AND tenant IS NOT NULL;
CREATE INDEX domain_removed ON domain (removed_at) WHERE removed_at IS NOT NULL AND NOT pruned;

CREATE TABLE certificate (
    id            uuid        PRIMARY KEY,
    domain_id     uuid        NOT NULL,
    chain_pem     text        NOT NULL,
    serial        text        NOT NULL,
    sha256        text        NOT NULL,
    not_before    timestamptz NOT NULL,
    not_after     timestamptz NOT NULL,
    issuer        text        NOT NULL,
    directory     text        NOT NULL,
    created_at    timestamptz NOT NULL,
    superseded_at timestamptz
);
CREATE INDEX certificate_newest ON certificate (domain_id) WHERE superseded_at IS NULL;
CREATE INDEX certificate_directory ON certificate (directory, not_after) WHERE superseded_at IS NULL;

CREATE TABLE acme_account (
    id           uuid        PRIMARY KEY,
    directory    text        NOT NULL UNIQUE,
    email        text,
    url          text,
    paused_until timestamptz,
    pause_reason text,
    -- The order budget: when the bucket will be full again (GCRA's theoretical arrival time).
    budget_at    timestamptz,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

CREATE TABLE acme_order (
    id         uuid        PRIMARY KEY,
    domain_id  uuid        NOT NULL,
    account_id uuid        NOT NULL,
    url        text,
    csr        bytea,
    -- What it took of the budget, in microseconds of refill: given back if the CA never made it.
    cost       bigint      NOT NULL,
    created_at timestamptz NOT NULL,
    ended_at   timestamptz
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX acme_order_open ON acme_order (domain_id) WHERE ended_at IS NULL;
CREATE INDEX acme_order_in_flight ON acme_order (account_id) WHERE ended_at IS NULL;
CREATE INDEX acme_order_ended ON acme_order (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE challenge (
    token             text        PRIMARY KEY,
    order_id          uuid        NOT NULL,
    name              text        NOT NULL,
    kind              text        NOT NULL,
    key_authorization text        NOT NULL,
    url               text        NOT NULL,
    authorization_url text        NOT NULL,
    created_at        timestamptz NOT NULL
);
CREATE INDEX challenge_order ON challenge (order_id);
CREATE INDEX challenge_alpn ON challenge (name) WHERE kind = 'tls-alpn-01';
CREATE INDEX challenge_age ON challenge (created_at);

CREATE TABLE terms (
    directory text        PRIMARY KEY,
    url       text        NOT NULL,
    seen_at   timestamptz NOT NULL,
    agreed_at timestamptz
);

CREATE TABLE token (
    id         uuid        PRIMARY KEY,
    name       text        NOT NULL,
    scope      text        NOT NULL,
    hash       bytea       NOT NULL UNIQUE,
    edge       text,
    edge_group text,
    created_at timestamptz NOT NULL,
    revoked_at timestamptz
);

-- The counter behind revisions: locked until commit by whoever takes a number, so numbers appear in order.
CREATE TABLE revision (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    epoch  bigint  NOT NULL,
    number bigint  NOT NULL
) WITH (fillfactor = 10);
INSERT INTO revision (epoch, number) VALUES (1, 0);

-- What edges should serve; a row without a certificate is a tombstone.
CREATE TABLE deployment (
    name           text COLLATE "C" NOT NULL,
    edge_group     text COLLATE "C" NOT NULL,
    domain_id      uuid             NOT NULL,
    certificate_id uuid,
    revision       bigint           NOT NULL,
    updated_at     timestamptz      NOT NULL,
    PRIMARY KEY (name, edge_group)
);
CREATE INDEX deployment_feed ON deployment (edge_group, revision);
CREATE INDEX deployment_domain ON deployment (domain_id);

-- Written at every sign of life, so nothing that changes then is indexed.
CREATE TABLE edge (
    id            uuid             PRIMARY KEY,
    name          text COLLATE "C" NOT NULL UNIQUE,
    edge_group    text COLLATE "C" NOT NULL,
    registered_at timestamptz      NOT NULL,
    last_seen_at  timestamptz      NOT NULL,
    epoch         bigint           NOT NULL DEFAULT 0,
    revision      bigint           NOT NULL DEFAULT 0,
    error_code    text,
    error_detail  text
) WITH (fillfactor = 50);

CREATE TABLE observation (
    domain_id    uuid        NOT NULL,
    edge_id      uuid        NOT NULL,
    sha256       text,
    error_code   text,
    error_detail text,
    seen_at      timestamptz NOT NULL,
    PRIMARY KEY (domain_id, edge_id)
) WITH (fillfactor = 80);

-- History, event stream and count deltas at once. `xid` is the writing transaction above the log's epoch (48 bits up): readers
-- stay below what is still running, so nothing can appear behind them. The epoch is part of the default, and a restored
-- database, whose transactions count from lower again, gets a new one.
CREATE TABLE event (
    id           bigint      GENERATED ALWAYS AS IDENTITY,
    xid          bigint      NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
    at           timestamptz NOT NULL,
    instance     text        NOT NULL,
    actor        text        NOT NULL,
    kind         text        NOT NULL,
    domain_id    uuid,
    subject      text        NOT NULL,
    from_state   text,
    to_state     text,
    duration_ms  bigint      NOT NULL DEFAULT 0,
    attempt      bigint      NOT NULL DEFAULT 0,
    error_code   text,
    detail       text,
    PRIMARY KEY (xid, id)
);
CREATE INDEX event_history ON event (domain_id, id) WHERE domain_id IS NOT NULL;
CREATE INDEX event_notice ON event (at) WHERE domain_id IS NULL;

CREATE TABLE event_log (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    epoch      bigint  NOT NULL,
    folded_xid bigint  NOT NULL,
    folded_id  bigint  NOT NULL
) WITH (fillfactor = 10);
INSERT INTO event_log (epoch, folded_xid, folded_id) VALUES (0, 0, 0);

CREATE TABLE state_count (
    state text   PRIMARY KEY,
    count bigint NOT NULL
) WITH (fillfactor = 10);
