-- Why an edge did not take a file over that it was asked to; gone with the file, or when it is asked again. The release before says it
-- in the event log alone.
CREATE TABLE adoption_refusal (
    edge_id uuid             NOT NULL,
    file    text COLLATE "C" NOT NULL,
    code    text             NOT NULL,
    detail  text             NOT NULL,
    PRIMARY KEY (edge_id, file),
    FOREIGN KEY (edge_id, file) REFERENCES stranger ON DELETE CASCADE
);
