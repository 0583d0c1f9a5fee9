-- Replaced by the index `sealed_by_key`.

DROP INDEX sealed_under;
