-- One of everything that grows with the installation for each row of `n`; what waits is not due yet, so that a test's own domains come
-- first.
INSERT INTO webhook (id, url, events, created_at, after_xid, after_id)
    VALUES ('00000000-0000-0000-0000-0000000000aa', 'https://old.example.com', '[]', now(), 0, 0) ON CONFLICT DO NOTHING;
INSERT INTO edge (id, name, edge_group, registered_at, last_seen_at, epoch, revision)
    VALUES ('00000000-0000-0000-0000-0000000000ee', 'old', 'default', now(), now(), 1, 100000) ON CONFLICT DO NOTHING;
UPDATE revision SET number = 100000;
INSERT INTO claim (id, resource, name, orchestration_id, domain_id, created_at)
    SELECT domain, domain::text, name, 'o' || n, domain, now() FROM n;
INSERT INTO domain (id, name, tenant, resource, target, edge_group, labels, orchestration_id, state, entered_at, queued_at, certificate_id,
        due_at, created_at, updated_at)
    SELECT domain, name, 't' || n % 100, domain::text, 'edge.example.net', 'default', '{}', 'o' || n,
        CASE n % 33 WHEN 0 THEN 'AcmeOrdering' WHEN 1 THEN 'DnsVerificationFailed' ELSE 'Active' END, now(),
        CASE WHEN n % 33 = 0 THEN now() + interval '1 hour' END, CASE WHEN n % 33 > 1 THEN certificate END,
        CASE WHEN n % 33 > 0 THEN now() + interval '1 hour' + n * interval '1 second' END, now(), now() FROM n;
INSERT INTO certificate (id, domain_id, chain_pem, serial, sha256, not_before, not_after, issuer, directory, created_at)
    SELECT certificate, domain, 'chain', 's' || n, 'sha-d' || n, now() - interval '10 days', now() + interval '60 days' + n * interval '1 second', 'Test CA',
        'https://ca.test/directory', now() FROM n;
INSERT INTO sealed (owner, id, sealing_key, value)
    SELECT 'certificate', certificate, (SELECT min(id) FROM sealing_key), '\x00' FROM n;
INSERT INTO acme_order (id, domain_id, account_id, cost, created_at, ended_at) SELECT domain, domain, domain, 1, now(), now() + interval '1 day' FROM n;
INSERT INTO challenge (token, order_id, name, kind, key_authorization, url, authorization_url, created_at)
    SELECT 't' || n, domain, name, 'http-01', 'k', 'u', 'a', now() FROM n;
INSERT INTO deployment (name, edge_group, domain_id, certificate_id, revision, updated_at)
    SELECT name, 'default', domain, CASE WHEN n % 50 > 0 THEN certificate END, n, now() FROM n;
INSERT INTO observation (domain_id, edge_id, sha256, seen_at) SELECT domain, '00000000-0000-0000-0000-0000000000ee', 'sha-d' || n, now() FROM n;
INSERT INTO event (at, instance, actor, kind, domain_id, subject, from_state, to_state)
    SELECT now(), 'here', 'worker', 'transition', domain, name, 'Initial', 'Active' FROM n;
INSERT INTO event (at, instance, actor, kind, subject) SELECT now() + interval '1 day', 'here', 'worker', 'tested', name FROM n;
UPDATE event_log SET folded_xid = (SELECT max(xid) FROM event), folded_id = (SELECT max(id) FROM event);
INSERT INTO delivery (id, webhook_id, lane, kind, body, created_at, ended_at, delivered)
    SELECT domain, '00000000-0000-0000-0000-0000000000aa', name, 'domain.active', '{}', now(), now() + interval '1 day', true FROM n;
INSERT INTO stranger (edge_id, file, names, shadows, seen_at)
    SELECT '00000000-0000-0000-0000-0000000000ee', name, '[]', false, now() FROM n WHERE n <= 1000;
INSERT INTO adoption (edge_id, file, name, requested_at, delivered_at)
    SELECT '00000000-0000-0000-0000-0000000000ee', name, name, now(), now() FROM n WHERE n <= 1000;
INSERT INTO alert (code, subject, detail, raised_at) SELECT 'domain-expiring', name, '', now() FROM n WHERE n <= 5000;
INSERT INTO lease_history (name, at, reason, term) SELECT 'maintenance', now() + interval '1 day', 'acquired', n FROM n;
INSERT INTO ca_wait (account_id, key, scope, reason, until, noted_at)
    SELECT domain, name, CASE n % 3 WHEN 0 THEN 'name' WHEN 1 THEN 'paused-name' ELSE 'unknown' END, '', now() + interval '1 day', now() - interval '1 hour' FROM n;
DROP TABLE n;
