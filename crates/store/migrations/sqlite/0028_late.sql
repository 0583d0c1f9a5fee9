-- Certificates that a CA issued with more than a third of their life behind them: its clock or ours is wrong, or it backdates them. There
-- should be none, so the index is as good as empty.
CREATE INDEX certificate_late ON certificate (created_at)
    WHERE superseded_at IS NULL AND directory <> 'imported' AND created_at - not_before > (not_after - not_before) / 3;
