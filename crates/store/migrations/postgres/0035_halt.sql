-- A pause that a person set by hand: nothing that the CA says shortens or lifts it, and without an end it has none. A row of its own:
-- the account's own pause is the CA's.

CREATE TABLE account_halt (
    account_id   uuid        PRIMARY KEY,
    halted_at    timestamptz NOT NULL,
    halted_until timestamptz,
    halted_by    text        NOT NULL
);

-- Who lifted the last pause of an account, and when.
CREATE TABLE account_resume (
    account_id uuid        PRIMARY KEY,
    resumed_at timestamptz NOT NULL,
    resumed_by text        NOT NULL
);

-- With which directory a replica orders; the release before writes none. A table of its own: another column of the replica's would break
-- what replicas of the release before have prepared.
CREATE TABLE replica_directory (
    instance    text PRIMARY KEY,
    incarnation uuid NOT NULL,
    directory   text NOT NULL
);

-- What a budget is reckoned from after a wrong clock: orders that were charged to it.
CREATE INDEX acme_order_charged ON acme_order (ended_at) WHERE ended_at IS NOT NULL AND cost > 0;
