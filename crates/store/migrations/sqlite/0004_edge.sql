-- Agents beside proxies: what they are, which files of others they found there, and which of those they are asked to take over.
-- The release before does not know any of it, and needs not.

ALTER TABLE edge ADD COLUMN agent_version TEXT;
ALTER TABLE edge ADD COLUMN agent_target TEXT;
ALTER TABLE edge ADD COLUMN agent_mode TEXT;

-- A file that serves certificates at an edge and is none of ours. `names` is a JSON list.
CREATE TABLE stranger (
    edge_id BLOB    NOT NULL,
    file    TEXT    NOT NULL,
    names   TEXT    NOT NULL,
    sha256  TEXT,
    shadows INTEGER NOT NULL,
    seen_at INTEGER NOT NULL,
    PRIMARY KEY (edge_id, file)
) STRICT, WITHOUT ROWID;

-- A person asked the edge to take such a file over for a name of ours; gone once the edge has said how it went.
CREATE TABLE adoption (
    edge_id      BLOB    NOT NULL,
    file         TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    requested_at INTEGER NOT NULL,
    delivered_at INTEGER,
    PRIMARY KEY (edge_id, file, name)
) STRICT, WITHOUT ROWID;

-- A new edge lists by name.
CREATE INDEX deployment_listing ON deployment (edge_group, name) WHERE certificate_id IS NOT NULL;
-- What an edge refuses.
CREATE INDEX observation_refused ON observation (edge_id, domain_id) WHERE error_code IS NOT NULL;
-- An edge fetches by fingerprint; a person goes back to the certificate before.
CREATE INDEX certificate_sha256 ON certificate (sha256);
CREATE INDEX certificate_domain ON certificate (domain_id, created_at);

-- After a return to it, a certificate is not renewed before this.
ALTER TABLE certificate ADD COLUMN held_until INTEGER;
