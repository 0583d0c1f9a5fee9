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
