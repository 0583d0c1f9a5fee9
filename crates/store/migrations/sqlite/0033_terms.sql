-- Which terms were agreed to before the ones that stand now. A step of its own: it locks another table.

ALTER TABLE terms ADD COLUMN replaced TEXT;
