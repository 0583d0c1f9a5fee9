-- Everything a replica remembers. Times are microseconds since 1970 in UTC, ids are the 16 bytes of a UUID, truth is 0 or 1.

CREATE TABLE setting (
    key   TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Data keys, wrapped under the master key.
CREATE TABLE sealing_key (
    id         INTEGER PRIMARY KEY,
    wrapped    BLOB    NOT NULL,
    master_key TEXT    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

-- Every secret there is. The reference holds the promise that no value is ever sealed under a key that is gone.
CREATE TABLE sealed (
    owner       TEXT    NOT NULL,
    id          BLOB    NOT NULL,
    sealing_key INTEGER NOT NULL REFERENCES sealing_key (id),
    value       BLOB    NOT NULL,
    PRIMARY KEY (owner, id)
) STRICT;
CREATE INDEX sealed_under ON sealed (sealing_key);

CREATE TABLE claim (
    id               BLOB    PRIMARY KEY NOT NULL,
    resource         TEXT    NOT NULL,
    name             TEXT,
    orchestration_id TEXT    NOT NULL,
    domain_id        BLOB,
    created_at       INTEGER NOT NULL,
    released_at      INTEGER
) STRICT;
-- The three promises: a live name has one owner, so has a live resource, and an orchestration is one request.
CREATE UNIQUE INDEX claim_live_name ON claim (name) WHERE released_at IS NULL AND name IS NOT NULL;
CREATE UNIQUE INDEX claim_live_resource ON claim (resource) WHERE released_at IS NULL;
CREATE UNIQUE INDEX claim_orchestration ON claim (orchestration_id);
CREATE INDEX claim_released ON claim (resource, released_at) WHERE released_at IS NOT NULL;
CREATE UNIQUE INDEX claim_domain ON claim (domain_id) WHERE domain_id IS NOT NULL;

CREATE TABLE domain (
    id               BLOB    PRIMARY KEY NOT NULL,
    name             TEXT    NOT NULL,
    tenant           TEXT,
    resource         TEXT    NOT NULL,
    target           TEXT    NOT NULL,
    edge_group       TEXT    NOT NULL,
    labels           TEXT    NOT NULL,
    orchestration_id TEXT    NOT NULL,
    -- What was asked for at first, once a person has changed it: a replay is compared with this.
    original         TEXT,
    import_sha256    TEXT,
    state            TEXT    NOT NULL,
    attempt          INTEGER NOT NULL DEFAULT 0,
    entered_at       INTEGER NOT NULL,
    next_attempt_at  INTEGER,
    queued_at        INTEGER,
    failures         INTEGER NOT NULL DEFAULT 0,
    failing_since    INTEGER,
    error_code       TEXT,
    error_detail     TEXT,
    certificate_id   BLOB,
    order_id         BLOB,
    wanted           TEXT,
    -- Did the worker that holds the claim read `wanted` as it stands?
    wanted_seen      INTEGER NOT NULL DEFAULT 1,
    removing_since   INTEGER,
    revoke           INTEGER NOT NULL DEFAULT 0,
    removed_at       INTEGER,
    pruned           INTEGER NOT NULL DEFAULT 0,
    -- When a worker should look. A claim moves it to the claim's own end, so that claimed rows are not scanned.
    due_at           INTEGER,
    -- Something it waits for happened while a worker held it: look again at once.
    nudged           INTEGER NOT NULL DEFAULT 0,
    claimed_by       TEXT,
    incarnation      BLOB,
    claimed_until    INTEGER,
    claim_epoch      INTEGER NOT NULL DEFAULT 0,
    lapses           INTEGER NOT NULL DEFAULT 0,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    version          INTEGER NOT NULL DEFAULT 1,
    -- Versions by which people moved on since the worker last read the row: it need not lose its work over them.
    unseen           INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX domain_due ON domain (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX domain_due_order ON domain (due_at) WHERE order_id IS NOT NULL AND due_at IS NOT NULL;
CREATE INDEX domain_queue ON domain ((certificate_id IS NULL), queued_at, id)
    WHERE queued_at IS NOT NULL AND order_id IS NULL AND removing_since IS NULL;
CREATE UNIQUE INDEX domain_live_name ON domain (name) WHERE removed_at IS NULL;
CREATE INDEX domain_state ON domain (state, name) WHERE removed_at IS NULL;
CREATE INDEX domain_tenant ON domain (tenant, name) WHERE removed_at IS NULL AND tenant IS NOT NULL;
CREATE INDEX domain_removed ON domain (removed_at) WHERE removed_at IS NOT NULL AND NOT pruned;
CREATE INDEX domain_claimed ON domain (claimed_until) WHERE claimed_until IS NOT NULL;

CREATE TABLE certificate (
    id            BLOB    PRIMARY KEY NOT NULL,
    domain_id     BLOB    NOT NULL,
    chain_pem     TEXT    NOT NULL,
    serial        TEXT    NOT NULL,
    sha256        TEXT    NOT NULL,
    not_before    INTEGER NOT NULL,
    not_after     INTEGER NOT NULL,
    issuer        TEXT    NOT NULL,
    directory     TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,
    superseded_at INTEGER
) STRICT;
CREATE INDEX certificate_newest ON certificate (domain_id) WHERE superseded_at IS NULL;
CREATE INDEX certificate_directory ON certificate (directory, not_after) WHERE superseded_at IS NULL;

CREATE TABLE acme_account (
    id           BLOB    PRIMARY KEY NOT NULL,
    directory    TEXT    NOT NULL UNIQUE,
    email        TEXT,
    url          TEXT,
    paused_until INTEGER,
    pause_reason TEXT,
    -- The order budget: when the bucket will be full again (GCRA's theoretical arrival time).
    budget_at    INTEGER,
    created_at   INTEGER NOT NULL
) STRICT;

CREATE TABLE acme_order (
    id         BLOB    PRIMARY KEY NOT NULL,
    domain_id  BLOB    NOT NULL,
    account_id BLOB    NOT NULL,
    url        TEXT,
    csr        BLOB,
    -- What it took of the budget, in microseconds of refill: given back if the CA never made it.
    cost       INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    ended_at   INTEGER
) STRICT;
CREATE UNIQUE INDEX acme_order_open ON acme_order (domain_id) WHERE ended_at IS NULL;
CREATE INDEX acme_order_in_flight ON acme_order (account_id) WHERE ended_at IS NULL;
CREATE INDEX acme_order_ended ON acme_order (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE challenge (
    token             TEXT    PRIMARY KEY NOT NULL,
    order_id          BLOB    NOT NULL,
    name              TEXT    NOT NULL,
    kind              TEXT    NOT NULL,
    key_authorization TEXT    NOT NULL,
    url               TEXT    NOT NULL,
    authorization_url TEXT    NOT NULL,
    created_at        INTEGER NOT NULL
) STRICT;
CREATE INDEX challenge_order ON challenge (order_id);
CREATE INDEX challenge_alpn ON challenge (name) WHERE kind = 'tls-alpn-01';
CREATE INDEX challenge_age ON challenge (created_at);

CREATE TABLE terms (
    directory TEXT    PRIMARY KEY NOT NULL,
    url       TEXT    NOT NULL,
    seen_at   INTEGER NOT NULL,
    agreed_at INTEGER
) STRICT;

CREATE TABLE token (
    id         BLOB    PRIMARY KEY NOT NULL,
    name       TEXT    NOT NULL,
    scope      TEXT    NOT NULL,
    hash       BLOB    NOT NULL UNIQUE,
    edge       TEXT,
    edge_group TEXT,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;

CREATE TABLE revision (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    epoch  INTEGER NOT NULL,
    number INTEGER NOT NULL
) STRICT;
INSERT INTO revision (one, epoch, number) VALUES (1, 1, 0);

-- What edges should serve; a row without a certificate is a tombstone.
CREATE TABLE deployment (
    name           TEXT    NOT NULL,
    edge_group     TEXT    NOT NULL,
    domain_id      BLOB    NOT NULL,
    certificate_id BLOB,
    revision       INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    PRIMARY KEY (name, edge_group)
) STRICT;
CREATE INDEX deployment_feed ON deployment (edge_group, revision);
CREATE INDEX deployment_domain ON deployment (domain_id);

CREATE TABLE edge (
    id            BLOB    PRIMARY KEY NOT NULL,
    name          TEXT    NOT NULL UNIQUE,
    edge_group    TEXT    NOT NULL,
    registered_at INTEGER NOT NULL,
    last_seen_at  INTEGER NOT NULL,
    epoch         INTEGER NOT NULL DEFAULT 0,
    revision      INTEGER NOT NULL DEFAULT 0,
    error_code    TEXT,
    error_detail  TEXT
) STRICT;

CREATE TABLE observation (
    domain_id    BLOB    NOT NULL,
    edge_id      BLOB    NOT NULL,
    sha256       TEXT,
    error_code   TEXT,
    error_detail TEXT,
    seen_at      INTEGER NOT NULL,
    PRIMARY KEY (domain_id, edge_id)
) STRICT;

-- History, event stream and count deltas at once. One writer at a time: rows appear in the order of their ids. `xid` is the log's
-- epoch, which rises when a backup was restored: readers of the life before may have seen higher ids than there are now.
CREATE TABLE event (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    xid          INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    instance     TEXT    NOT NULL,
    actor        TEXT    NOT NULL,
    kind         TEXT    NOT NULL,
    domain_id    BLOB,
    subject      TEXT    NOT NULL,
    from_state   TEXT,
    to_state     TEXT,
    duration_ms  INTEGER NOT NULL DEFAULT 0,
    attempt      INTEGER NOT NULL DEFAULT 0,
    error_code   TEXT,
    detail       TEXT
) STRICT;
CREATE INDEX event_order ON event (xid, id);
CREATE INDEX event_history ON event (domain_id, id) WHERE domain_id IS NOT NULL;
CREATE INDEX event_notice ON event (at) WHERE domain_id IS NULL;

CREATE TABLE event_log (
    one       INTEGER PRIMARY KEY CHECK (one = 1),
    epoch     INTEGER NOT NULL,
    folded_id INTEGER NOT NULL
) STRICT;
INSERT INTO event_log (one, epoch, folded_id) VALUES (1, 0, 0);

CREATE TABLE state_count (
    state TEXT    PRIMARY KEY NOT NULL,
    count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
