-- How many orders were given: of every four, one is for who has no certificate yet. A table of its own: another column of the account's
-- would break what replicas of the release before have prepared.
CREATE TABLE order_turn (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    turn bigint  NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
INSERT INTO order_turn DEFAULT VALUES;
