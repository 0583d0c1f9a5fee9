-- Which terms were agreed to before the ones that stand now. A table of its own: the release before reads the other one whole, and
-- another column would break what its replicas have prepared.

CREATE TABLE terms_replaced (
    directory text PRIMARY KEY,
    url       text NOT NULL
);
