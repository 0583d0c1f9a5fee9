-- By revision, because a report looks for tombstones by it and must not read all of them; by age, because they are deleted.

CREATE INDEX deployment_tombstone ON deployment (revision) WHERE certificate_id IS NULL;
CREATE INDEX deployment_withdrawn ON deployment (updated_at) WHERE certificate_id IS NULL;
