-- Tombstones up to this revision may have been deleted: an edge that has not applied it lists anew.

ALTER TABLE revision ADD COLUMN floor INTEGER NOT NULL DEFAULT 0;
