-- Reports of edges in their order: the newest session that was opened, and the newest report that was heard. A table of its own: another
-- column of the edge's would break what replicas of the release before have prepared. They take reports as they come.
CREATE TABLE edge_session (
    edge_id  uuid   PRIMARY KEY REFERENCES edge ON DELETE CASCADE,
    opened   bigint NOT NULL,
    session  bigint NOT NULL DEFAULT 0,
    sequence bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
