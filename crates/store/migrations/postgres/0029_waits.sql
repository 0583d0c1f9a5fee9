-- What the CA wants left alone beyond one request: a name, a registered domain. The account's own pause is in its row.

CREATE TABLE ca_wait (
    account_id uuid NOT NULL,
    key        text NOT NULL,
    scope      text NOT NULL,
    reason     text NOT NULL,
    until      timestamptz NOT NULL,
    noted_at   timestamptz NOT NULL,
    PRIMARY KEY (account_id, key, scope)
);

-- By scope: what waits for people, and what was noted lately for a reason that nobody knows.
CREATE INDEX ca_wait_scope ON ca_wait (account_id, scope, until);
CREATE INDEX ca_wait_noted ON ca_wait (account_id, scope, noted_at);
-- What is over, and what a wrong clock left in the future.
CREATE INDEX ca_wait_until ON ca_wait (until);
