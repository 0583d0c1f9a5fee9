-- Where the log's places begin since the last restore: `xid` of an event is this plus the writing transaction. It replaces
-- `epoch << 48`, which has room for too few epochs to never repeat one; the release before still reads `epoch`.
ALTER TABLE event_log ADD COLUMN base bigint NOT NULL DEFAULT 0;
UPDATE event_log SET base = epoch << 48;

-- What an edge found when it compared itself with a restored database: names it serves that the database does not know, and names it
-- is to serve and did not any more. The names are a JSON list of the first thousand; the number counts them all.
CREATE TABLE edge_difference (
    edge_id       uuid   PRIMARY KEY REFERENCES edge ON DELETE CASCADE,
    unknown       bigint NOT NULL DEFAULT 0,
    unknown_names text   NOT NULL DEFAULT '[]',
    absent        bigint NOT NULL DEFAULT 0,
    absent_names  text   NOT NULL DEFAULT '[]'
);
