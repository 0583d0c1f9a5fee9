-- How much an edge is behind and refuses, where that is more than a reader counts by itself: counted by one for all. In a table of
-- its own, because another column of the edge's would break what replicas of the release before have prepared.

CREATE TABLE edge_count (
    edge_id  BLOB    PRIMARY KEY NOT NULL REFERENCES edge (id) ON DELETE CASCADE,
    behind   INTEGER NOT NULL,
    refusals INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
