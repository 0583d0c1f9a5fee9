-- Why an edge did not take a file over that it was asked to; gone with the file, or when it is asked again. The release before says it
-- in the event log alone.
CREATE TABLE adoption_refusal (
    edge_id BLOB NOT NULL,
    file    TEXT NOT NULL,
    code    TEXT NOT NULL,
    detail  TEXT NOT NULL,
    PRIMARY KEY (edge_id, file),
    FOREIGN KEY (edge_id, file) REFERENCES stranger (edge_id, file) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
