-- What an edge found when it compared itself with a restored database: names it serves that the database does not know, and names it
-- is to serve and did not any more. The names are a JSON list of the first thousand; the number counts them all.
CREATE TABLE edge_difference (
    edge_id       BLOB    PRIMARY KEY REFERENCES edge (id) ON DELETE CASCADE,
    unknown       INTEGER NOT NULL DEFAULT 0,
    unknown_names TEXT    NOT NULL DEFAULT '[]',
    absent        INTEGER NOT NULL DEFAULT 0,
    absent_names  TEXT    NOT NULL DEFAULT '[]'
) STRICT, WITHOUT ROWID;
