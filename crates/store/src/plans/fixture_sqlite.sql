-- A hundred thousand of everything that grows with the installation; what waits is not due yet, so that a test's own domains come first.
INSERT OR IGNORE INTO webhook (id, url, events, created_at, after_xid, after_id)
    VALUES (x'000000000000000000000000000000aa', 'https://old.example.com', '[]', 0, 0, 0);
INSERT OR IGNORE INTO edge (id, name, edge_group, registered_at, last_seen_at, epoch, revision)
    VALUES (x'000000000000000000000000000000ee', 'old', 'default', 0, unixepoch() * 1000000, 1, 100000);
UPDATE revision SET number = 100000;
CREATE TEMPORARY TABLE n AS
    WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 100000)
    SELECT n, unhex(printf('d0000000000000000000%012d', n)) AS domain, unhex(printf('c0000000000000000000%012d', n)) AS certificate,
        printf('d%06d.example.com', n) AS name, unixepoch() * 1000000 AS now FROM n;
INSERT INTO claim (id, resource, name, orchestration_id, domain_id, created_at)
    SELECT domain, hex(domain), name, 'o' || n, domain, now FROM n;
INSERT INTO domain (id, name, tenant, resource, target, edge_group, labels, orchestration_id, state, entered_at, queued_at, certificate_id,
        due_at, created_at, updated_at)
    SELECT domain, name, 't' || n % 100, hex(domain), 'edge.example.net', 'default', '{}', 'o' || n,
        CASE n % 33 WHEN 0 THEN 'AcmeOrdering' WHEN 1 THEN 'DnsVerificationFailed' ELSE 'Active' END, now,
        CASE WHEN n % 33 = 0 THEN now + 3600000000 END, CASE WHEN n % 33 > 1 THEN certificate END,
        CASE WHEN n % 33 > 0 THEN now + 3600000000 + n * 1000000 END, now, now FROM n;
INSERT INTO certificate (id, domain_id, chain_pem, serial, sha256, not_before, not_after, issuer, directory, created_at)
    SELECT certificate, domain, 'chain', 's' || n, 'sha-d' || n, now - 10 * 86400000000, now + 60 * 86400000000 + n * 1000000, 'Test CA',
        'https://ca.test/directory', now FROM n;
INSERT INTO sealed (owner, id, sealing_key, value)
    SELECT 'certificate', certificate, (SELECT min(id) FROM sealing_key), x'00' FROM n;
INSERT INTO acme_order (id, domain_id, account_id, cost, created_at, ended_at) SELECT domain, domain, domain, 1, now, now FROM n;
INSERT INTO challenge (token, order_id, name, kind, key_authorization, url, authorization_url, created_at)
    SELECT 't' || n, domain, name, 'http-01', 'k', 'u', 'a', now FROM n;
INSERT INTO deployment (name, edge_group, domain_id, certificate_id, revision, updated_at)
    SELECT name, 'default', domain, CASE WHEN n % 50 > 0 THEN certificate END, n, now FROM n;
INSERT INTO observation (domain_id, edge_id, sha256, seen_at) SELECT domain, x'000000000000000000000000000000ee', 'sha-d' || n, now FROM n;
INSERT INTO event (xid, at, instance, actor, kind, domain_id, subject, from_state, to_state)
    SELECT 0, now, 'here', 'worker', 'transition', domain, name, 'Initial', 'Active' FROM n;
INSERT INTO event (xid, at, instance, actor, kind, subject) SELECT 0, now, 'here', 'worker', 'tested', name FROM n;
UPDATE event_log SET folded_id = (SELECT max(id) FROM event);
INSERT INTO delivery (id, webhook_id, lane, kind, body, created_at, ended_at, delivered)
    SELECT domain, x'000000000000000000000000000000aa', name, 'domain.active', '{}', now, now, 1 FROM n;
INSERT INTO stranger (edge_id, file, names, shadows, seen_at)
    SELECT x'000000000000000000000000000000ee', name, '[]', 0, now FROM n WHERE n <= 1000;
INSERT INTO adoption (edge_id, file, name, requested_at, delivered_at)
    SELECT x'000000000000000000000000000000ee', name, name, now, now FROM n WHERE n <= 1000;
INSERT INTO alert (code, subject, detail, raised_at) SELECT 'domain-expiring', name, '', now FROM n WHERE n <= 5000;
INSERT INTO lease_history (name, at_us, reason, term) SELECT 'maintenance', now, 'acquired', n FROM n;
INSERT INTO ca_wait (account_id, key, scope, reason, until, noted_at)
    SELECT domain, name, CASE n % 3 WHEN 0 THEN 'name' WHEN 1 THEN 'paused-name' ELSE 'unknown' END, '', now + 86400000000, now - 3600000000 FROM n;
DROP TABLE n;
