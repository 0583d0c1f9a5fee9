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
