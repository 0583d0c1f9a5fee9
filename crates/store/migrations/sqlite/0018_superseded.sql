-- Certificates that were superseded are deleted some days after their end.

CREATE INDEX certificate_over ON certificate (not_after) WHERE superseded_at IS NOT NULL;
