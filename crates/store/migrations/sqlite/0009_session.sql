-- Reports of edges in their order: the newest session that was opened, and the newest report that was heard.
CREATE TABLE edge_session (
    edge_id  BLOB    PRIMARY KEY NOT NULL REFERENCES edge (id) ON DELETE CASCADE,
    opened   INTEGER NOT NULL,
    session  INTEGER NOT NULL DEFAULT 0,
    sequence INTEGER NOT NULL DEFAULT 0
) STRICT;
