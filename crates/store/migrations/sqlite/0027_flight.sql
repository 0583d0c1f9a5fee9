-- Replaced by the index `acme_order_opened`.

DROP INDEX acme_order_in_flight;
