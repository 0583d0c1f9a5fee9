-- An edge that is gone, while observations of it are left: they are forgotten some at a time, in the order of the domains, up to
-- `done_to` so far. The release before knows none, and forgets all of them at once.
CREATE TABLE departed_edge (
    id      BLOB PRIMARY KEY NOT NULL,
    done_to BLOB NOT NULL DEFAULT x''
) STRICT;
