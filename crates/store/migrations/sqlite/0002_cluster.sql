-- Replicas, leases and the work that is done once. SQLite serves one process, which is a cluster of one.

CREATE TABLE replica (
    instance      TEXT    PRIMARY KEY NOT NULL,
    incarnation   BLOB    NOT NULL,
    url           TEXT    NOT NULL,
    role          TEXT    NOT NULL,
    version       TEXT    NOT NULL,
    registered_at INTEGER NOT NULL,
    started_at    INTEGER NOT NULL,
    beat_at       INTEGER NOT NULL,
    draining      INTEGER NOT NULL DEFAULT 0,
    left_at       INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE task (
    name     TEXT    PRIMARY KEY NOT NULL,
    lease    TEXT    NOT NULL,
    instance TEXT    NOT NULL,
    term     INTEGER NOT NULL,
    runs     INTEGER NOT NULL,
    ran_at   INTEGER NOT NULL,
    took_us  INTEGER NOT NULL,
    ok       INTEGER NOT NULL,
    outcome  TEXT    NOT NULL,
    next_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX certificate_end ON certificate (not_after, id) WHERE superseded_at IS NULL;
CREATE INDEX domain_forgotten ON domain (id)
    WHERE due_at IS NULL AND state = 'Active' AND removing_since IS NULL AND removed_at IS NULL;

-- The tables of `holdfast-lease`, as it ships them.
-- Leases. The host applies this text; applying it again changes nothing. Rows are kept for ever: the term must survive.
CREATE TABLE IF NOT EXISTS lease (
    name        TEXT    PRIMARY KEY,
    holder      TEXT,
    incarnation TEXT,
    term        INTEGER NOT NULL,
    beat        INTEGER NOT NULL,
    ttl_us      INTEGER NOT NULL,
    expires_us  INTEGER NOT NULL,
    since_us    INTEGER NOT NULL,
    priority    INTEGER NOT NULL,
    step_down   INTEGER NOT NULL,
    successor   TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS lease_history (
    id          INTEGER PRIMARY KEY,
    name        TEXT    NOT NULL,
    at_us       INTEGER NOT NULL,
    reason      TEXT    NOT NULL,
    term        INTEGER NOT NULL,
    from_holder TEXT,
    to_holder   TEXT,
    note        TEXT
) STRICT;

CREATE INDEX IF NOT EXISTS lease_history_name ON lease_history (name, id);
CREATE INDEX IF NOT EXISTS lease_history_at ON lease_history (at_us);
