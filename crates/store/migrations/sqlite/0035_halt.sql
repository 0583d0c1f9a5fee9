-- A pause that a person set by hand: nothing that the CA says shortens or lifts it, and without an end it has none. A row of its own:
-- the account's own pause is the CA's.

CREATE TABLE account_halt (
    account_id   BLOB    PRIMARY KEY NOT NULL,
    halted_at    INTEGER NOT NULL,
    halted_until INTEGER,
    halted_by    TEXT    NOT NULL
) STRICT;

-- Who lifted the last pause of an account, and when.
CREATE TABLE account_resume (
    account_id BLOB    PRIMARY KEY NOT NULL,
    resumed_at INTEGER NOT NULL,
    resumed_by TEXT    NOT NULL
) STRICT;

-- With which directory a replica orders; the release before writes none. A table of its own: another column of the replica's would break
-- what replicas of the release before have prepared.
CREATE TABLE replica_directory (
    instance    TEXT PRIMARY KEY NOT NULL,
    incarnation BLOB NOT NULL,
    directory   TEXT NOT NULL
) STRICT;

-- What a budget is reckoned from after a wrong clock: orders that were charged to it.
CREATE INDEX acme_order_charged ON acme_order (ended_at) WHERE ended_at IS NOT NULL AND cost > 0;
