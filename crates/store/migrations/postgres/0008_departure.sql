-- An edge that is gone, while observations of it are left: they are forgotten some at a time, in the order of the domains, up to
-- `done_to` so far. The release before knows none, and forgets all of them at once.
CREATE TABLE departed_edge (
    id      uuid PRIMARY KEY,
    done_to uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000'
);
