-- What the CA wants left alone beyond one request: a name, a registered domain. The account's own pause is in its row.

CREATE TABLE ca_wait (
    account_id BLOB NOT NULL,
    key        TEXT NOT NULL,
    scope      TEXT NOT NULL,
    reason     TEXT NOT NULL,
    until      INTEGER NOT NULL,
    noted_at   INTEGER NOT NULL,
    PRIMARY KEY (account_id, key, scope)
) STRICT;

-- By scope: what waits for people, and what was noted lately for a reason that nobody knows.
CREATE INDEX ca_wait_scope ON ca_wait (account_id, scope, until);
CREATE INDEX ca_wait_noted ON ca_wait (account_id, scope, noted_at);
-- What is over, and what a wrong clock left in the future.
CREATE INDEX ca_wait_until ON ca_wait (until);
