-- Replaced by the index `domain_gone`. Dropping one locks out readers too, so it is not done while another is built.

DROP INDEX domain_removed;
