-- Replicas, leases and the work that is done once. The release before knows nothing of it, and needs not.

-- Who is there, by the names people know. Written at every heartbeat, so nothing that changes then is indexed. One that left in
-- order keeps its row for a while: if it comes back it has its place in the order of age again.
CREATE TABLE replica (
    instance      text COLLATE "C" PRIMARY KEY,
    incarnation   uuid             NOT NULL,
    url           text             NOT NULL,
    role          text             NOT NULL,
    version       text             NOT NULL,
    registered_at timestamptz      NOT NULL,
    started_at    timestamptz      NOT NULL,
    beat_at       timestamptz      NOT NULL,
    draining      boolean          NOT NULL DEFAULT false,
    left_at       timestamptz
) WITH (fillfactor = 50);

-- What became of each singleton task, written under its lease's term.
CREATE TABLE task (
    name     text COLLATE "C" PRIMARY KEY,
    lease    text        NOT NULL,
    instance text        NOT NULL,
    term     bigint      NOT NULL,
    runs     bigint      NOT NULL,
    ran_at   timestamptz NOT NULL,
    took_us  bigint      NOT NULL,
    ok       boolean     NOT NULL,
    outcome  text        NOT NULL,
    next_at  timestamptz NOT NULL
) WITH (fillfactor = 50);

-- What the renewal sweep reads: certificates by their end, and rows nobody would ever look at again.
CREATE INDEX certificate_end ON certificate (not_after, id) WHERE superseded_at IS NULL;
CREATE INDEX domain_forgotten ON domain (id)
    WHERE due_at IS NULL AND state = 'Active' AND removing_since IS NULL AND removed_at IS NULL;

-- The tables of `holdfast-lease`, as it ships them.
-- Leases. The host applies this text; applying it again changes nothing.
--
-- Rows are kept for ever: the term must survive. UNIQUE (name, term) makes the term part of a key, so that a change of
-- owner waits for open guards (FOR KEY SHARE) while a renewal does not. Nothing is indexed that a renewal changes, so
-- every renewal is a HOT update.
CREATE TABLE IF NOT EXISTS lease (
    name        text        PRIMARY KEY,
    holder      text,
    incarnation uuid,
    term        bigint      NOT NULL,
    beat        bigint      NOT NULL,
    ttl_us      bigint      NOT NULL,
    expires_at  timestamptz NOT NULL,
    since       timestamptz NOT NULL,
    renewed_at  timestamptz NOT NULL,
    priority    smallint    NOT NULL,
    step_down   boolean     NOT NULL DEFAULT false,
    successor   text,
    -- The advisory lock that the owner's session holds as a sign of life, and when the server had been started then.
    beacon      bigint,
    server_up   timestamptz,
    reason      text        NOT NULL,
    previous    text,
    UNIQUE (name, term),
    CHECK ((holder IS NULL) = (incarnation IS NULL))
) WITH (fillfactor = 50);

CREATE TABLE IF NOT EXISTS lease_history (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text        NOT NULL,
    at          timestamptz NOT NULL,
    reason      text        NOT NULL,
    term        bigint      NOT NULL,
    from_holder text,
    to_holder   text,
    note        text
);

CREATE INDEX IF NOT EXISTS lease_history_name ON lease_history (name, id);
CREATE INDEX IF NOT EXISTS lease_history_at ON lease_history (at);

-- For leases kept elsewhere (Redis), whose terms can fall back: a term counts once it is registered here. `wanted` is the
-- term about to be: it closes the door to guards of lower ones, which would otherwise hold up its registration for ever.
CREATE TABLE IF NOT EXISTS lease_fence (
    name        text   PRIMARY KEY,
    term        bigint NOT NULL,
    wanted      bigint NOT NULL,
    incarnation uuid   NOT NULL,
    UNIQUE (name, term)
) WITH (fillfactor = 50);
