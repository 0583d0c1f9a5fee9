-- What is over is deleted: an index for each thing that is looked for by its age, each in a step of its own, because building one
-- keeps writers away and no step locks two tables. The release before deletes nothing of this, and works on.

CREATE INDEX domain_gone ON domain (removed_at) WHERE removed_at IS NOT NULL;
