-- How much an edge is behind and refuses, where that is more than a reader counts by itself: counted by one for all. In a table of
-- its own, because another column of the edge's would break what replicas of the release before have prepared.

CREATE TABLE edge_count (
    edge_id  uuid   PRIMARY KEY REFERENCES edge ON DELETE CASCADE,
    behind   bigint NOT NULL,
    refusals bigint NOT NULL
);
