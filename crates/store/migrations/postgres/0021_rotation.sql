-- A rotation goes over sealed values in this order.

CREATE INDEX sealed_by_key ON sealed (sealing_key, owner, id);
