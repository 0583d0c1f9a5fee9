-- How a CA fails a replica, in that replica's words: since when, when it asks again, and until when that counts if it says nothing more. An
-- orderly answer to that replica ends it; a person who resumes the CA lifts it.

CREATE TABLE ca_failure (
    account_id     BLOB    NOT NULL,
    instance       TEXT    NOT NULL,
    failure        TEXT    NOT NULL,
    since          INTEGER NOT NULL,
    asked_again_at INTEGER NOT NULL,
    counts_until   INTEGER NOT NULL,
    lifted         INTEGER NOT NULL,
    PRIMARY KEY (account_id, instance)
) STRICT;
