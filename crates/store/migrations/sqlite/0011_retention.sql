-- What is over is deleted: an index for each thing that is looked for by its age. The release before deletes nothing of this, and works on.

-- Removed domains.
DROP INDEX domain_removed;
CREATE INDEX domain_gone ON domain (removed_at) WHERE removed_at IS NOT NULL;
CREATE INDEX certificate_over ON certificate (not_after) WHERE superseded_at IS NOT NULL;

-- Tombstones up to this revision may have been deleted: an edge that has not applied it lists anew.
ALTER TABLE revision ADD COLUMN floor INTEGER NOT NULL DEFAULT 0;
-- By revision, which is the order of time as well: a report looks for tombstones by it too, and must not read all of them.
CREATE INDEX deployment_tombstone ON deployment (revision) WHERE certificate_id IS NULL;

-- A rotation goes over sealed values in this order.
DROP INDEX sealed_under;
CREATE INDEX sealed_by_key ON sealed (sealing_key, owner, id);
