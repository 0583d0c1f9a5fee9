-- How a CA fails a replica, in that replica's words: since when, when it asks again, and until when that counts if it says nothing more. An
-- orderly answer to that replica ends it; a person who resumes the CA lifts it.

CREATE TABLE ca_failure (
    account_id     uuid        NOT NULL,
    instance       text        NOT NULL,
    failure        text        NOT NULL,
    since          timestamptz NOT NULL,
    asked_again_at timestamptz NOT NULL,
    counts_until   timestamptz NOT NULL,
    lifted         boolean     NOT NULL,
    PRIMARY KEY (account_id, instance)
);
