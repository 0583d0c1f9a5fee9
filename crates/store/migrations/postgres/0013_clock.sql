-- A clock that was wrong for a moment is found by what it wrote: rows that were written, or are
-- claimed, later than now. The predicate is one that hardly another statement names: else the planner reads
-- all domains by this index where it should look each of them up.

CREATE INDEX domain_written ON domain ((greatest(updated_at, claimed_until))) WHERE NOT pruned;
