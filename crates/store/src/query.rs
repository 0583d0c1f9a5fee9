//! Statements that both databases understand, one module per noun. What only one of them understands is in its own files.

macro_rules! select_domain {
    ($where:literal) => {
        concat!(
            "SELECT ",
            crate::row::domain_columns!(),
            " FROM domain d LEFT JOIN certificate c ON c.id = d.certificate_id WHERE ",
            $where
        )
    };
}
pub(crate) use select_domain;

/// Of accounts.
pub(crate) mod account {
    /// What another account was paused for does not hold for this one.
    pub(crate) const REGISTERED: &str = "
        UPDATE acme_account SET url = $2, email = coalesce($3, email),
            unusable = CASE WHEN url IS DISTINCT FROM $2 THEN NULL ELSE unusable END,
            pause_reason = CASE WHEN url IS DISTINCT FROM $2 THEN NULL ELSE pause_reason END,
            paused_until = CASE WHEN url IS DISTINCT FROM $2 THEN NULL ELSE paused_until END
        WHERE id = $1";

    pub(crate) const FORGOTTEN: &str =
        "UPDATE acme_account SET url = NULL, pin = NULL WHERE id = $1";

    pub(crate) const PIN: &str =
        "UPDATE acme_account SET pin = coalesce(pin, $2) WHERE id = $1 RETURNING pin";

    pub(crate) const UNPIN: &str = "UPDATE acme_account SET pin = NULL WHERE id = $1";

    pub(crate) const MARK: &str =
        "UPDATE acme_account SET unusable = $2 WHERE id = $1 AND unusable IS DISTINCT FROM $2";

    pub(crate) const JOURNAL_NEXT: &str = "
        INSERT INTO sealed (owner, id, sealing_key, value) SELECT 'account-next', id, $2, $3 FROM acme_account WHERE id = $1
        ON CONFLICT (owner, id) DO NOTHING";

    pub(crate) const NEXT: &str =
        "SELECT value FROM sealed WHERE owner = 'account-next' AND id = $1";

    pub(crate) const TERMS: &str = "
        SELECT t.directory, t.url, t.seen_at, t.agreed_at, r.url AS replaced
        FROM terms t LEFT JOIN terms_replaced r ON r.directory = t.directory WHERE t.directory = $1";
}

/// Of orders.
pub(crate) mod order {
    pub(crate) const ACCOUNT: &str =
        "SELECT account_id FROM acme_order WHERE domain_id = $1 AND ended_at IS NULL";
}

/// Of accounts at CAs as a whole.
pub(crate) mod ca {
    pub(crate) const UNHALT: &str = "DELETE FROM account_halt WHERE account_id = $1";

    pub(crate) const LIFT: &str = "
        UPDATE acme_account SET paused_until = NULL, pause_reason = NULL WHERE id = $1 AND paused_until IS NOT NULL";
}

/// Of how a CA fails replicas.
pub(crate) mod ca_failure {
    pub(crate) const IS_LIFTED: &str =
        "SELECT lifted FROM ca_failure WHERE account_id = $1 AND instance = $2";

    pub(crate) const LIFT: &str =
        "UPDATE ca_failure SET lifted = true WHERE account_id = $1 AND NOT lifted";

    /// Of replicas that are gone.
    pub(crate) const PRUNE: &str =
        "DELETE FROM ca_failure WHERE instance NOT IN (SELECT instance FROM replica)";
}

/// Of alerts that stand.
pub(crate) mod alert {
    /// The name at which so many that were told of have been passed; none near the end.
    pub(crate) const NEXT_TOLD: &str = "
        SELECT subject FROM alert WHERE code = 'domain-expiring' AND subject > $1 ORDER BY subject LIMIT 1 OFFSET $2";
}

/// Of what waits for a CA.
pub(crate) mod ca_wait {
    /// A name may be spelt like another's registered domain.
    pub(crate) const LIFT: &str = "
        DELETE FROM ca_wait WHERE account_id = $1 AND key IN ($2, $3)
            AND ((key = $2 AND scope <> 'registered-domain') OR (key = $3 AND scope = 'registered-domain'))";
}

/// Of edges that are gone.
pub(crate) mod departure {
    pub(crate) const DEPART: &str = "INSERT INTO departed_edge (id) VALUES ($1)";

    /// In one go what an index lists by edge; observations, which none does, are left to a chore.
    pub(crate) const FORGET: [&str; 3] = [
        "DELETE FROM stranger WHERE edge_id = $1",
        "DELETE FROM adoption WHERE edge_id = $1",
        "DELETE FROM edge WHERE id = $1",
    ];

    pub(crate) const DEPARTED: &str = "SELECT id, done_to FROM departed_edge ORDER BY id LIMIT 1";

    /// The domain at which so many observations, of whichever edge, have been passed; none near the end.
    pub(crate) const NEXT: &str = "SELECT domain_id FROM observation WHERE domain_id > $1 ORDER BY domain_id LIMIT 1 OFFSET $2";

    pub(crate) const UNSEE: &str =
        "DELETE FROM observation WHERE edge_id = $1 AND domain_id > $2 AND domain_id <= $3";

    pub(crate) const UNSEE_REST: &str =
        "DELETE FROM observation WHERE edge_id = $1 AND domain_id > $2";

    pub(crate) const DONE_TO: &str = "UPDATE departed_edge SET done_to = $2 WHERE id = $1";

    pub(crate) const DONE: &str = "DELETE FROM departed_edge WHERE id = $1";
}

/// Of sealed values.
pub(crate) mod sealed {
    pub(crate) const OLDER: &str = "
        SELECT owner, id, sealing_key, value FROM sealed
        WHERE sealing_key < $1 AND (sealing_key, owner, id) > ($2, $3, $4) ORDER BY sealing_key, owner, id LIMIT $5";

    /// Whose it is, for people.
    pub(crate) const NAME: &str = "
        SELECT d.name FROM certificate c JOIN domain d ON d.id = c.domain_id WHERE $1 = 'certificate' AND c.id = $2
        UNION ALL
        SELECT d.name FROM acme_order o JOIN domain d ON d.id = o.domain_id WHERE $1 = 'order' AND o.id = $2";

    pub(crate) const LEFT: &str = "
        SELECT owner, id FROM sealed WHERE sealing_key < (SELECT max(id) FROM sealing_key)
        ORDER BY sealing_key, owner, id LIMIT $1";

    pub(crate) const ROTATING: &str = "SELECT value FROM setting WHERE key = 'rotation'";

    pub(crate) const BEGIN_ROTATION: &str = "
        INSERT INTO setting (key, value) VALUES ('rotation', $1) ON CONFLICT (key) DO UPDATE SET value = excluded.value";

    /// Only the one that was begun with this key.
    pub(crate) const END_ROTATION: &str =
        "DELETE FROM setting WHERE key = 'rotation' AND value = $1";
}

/// Of certificates.
pub(crate) mod certificate {
    pub(crate) const NEWEST: &str = "
        SELECT c.id, c.domain_id, c.chain_pem, c.chain_sha256, c.serial, c.sha256, c.not_before, c.not_after, c.issuer, c.directory,
            d.name, s.value
        FROM domain d JOIN certificate c ON c.id = d.certificate_id JOIN sealed s ON s.owner = 'certificate' AND s.id = c.id
        WHERE d.id = $1";

    /// Where a name is deployed to several groups, as in the moment of a change of groups, the newest counts.
    pub(crate) const DEPLOYED: &str = "
        SELECT c.id, c.domain_id, c.chain_pem, c.chain_sha256, c.serial, c.sha256, c.not_before, c.not_after, c.issuer, c.directory,
            p.name, s.value
        FROM deployment p JOIN certificate c ON c.id = p.certificate_id JOIN sealed s ON s.owner = 'certificate' AND s.id = c.id
        WHERE p.name = $1 ORDER BY p.revision DESC LIMIT 1";

    pub(crate) const DEPLOYED_IN: &str = "
        SELECT c.id, c.domain_id, c.chain_pem, c.chain_sha256, c.serial, c.sha256, c.not_before, c.not_after, c.issuer, c.directory,
            p.name, s.value
        FROM deployment p JOIN certificate c ON c.id = p.certificate_id JOIN sealed s ON s.owner = 'certificate' AND s.id = c.id
        WHERE p.name = $1 AND p.edge_group = $2";

    /// SQLite goes through tables in the order of a `CROSS JOIN`; left to itself, without statistics, it began with all that is
    /// sealed. `IS NOT FALSE` keeps PostgreSQL from an index of all live domains.
    pub(crate) const BY_SHA256: &str = "
        SELECT c.id, c.domain_id, c.chain_pem, c.chain_sha256, c.serial, c.sha256, c.not_before, c.not_after, c.issuer, c.directory,
            d.name, s.value, d.edge_group
        FROM certificate c CROSS JOIN domain d CROSS JOIN sealed s
        WHERE c.sha256 = $1 AND d.id = c.domain_id AND (d.removed_at IS NULL) IS NOT FALSE AND s.owner = 'certificate' AND s.id = c.id
        ORDER BY coalesce(d.id = $2, false) DESC, coalesce(d.edge_group = $3, false) DESC, c.id DESC LIMIT 1";

    /// How many were made for a domain since, up to a limit.
    pub(crate) const MADE_SINCE: &str = "
        SELECT count(*) AS made FROM (SELECT 1 FROM certificate WHERE domain_id = $1 AND created_at > $2 LIMIT $3) AS recent";

    pub(crate) const HELD: &str = "
        SELECT c.held_until FROM domain d JOIN certificate c ON c.id = d.certificate_id WHERE d.id = $1";
}

/// Of challenges.
pub(crate) mod challenge {
    pub(crate) const BY_TOKEN: &str =
        "SELECT name, kind, key_authorization FROM challenge WHERE token = $1";

    pub(crate) const BY_NAME: &str = "
        SELECT name, kind, key_authorization FROM challenge WHERE name = $1 AND kind = 'tls-alpn-01'
        ORDER BY created_at DESC LIMIT 1";

    pub(crate) const OPEN: &str = "
        SELECT token, name, kind, key_authorization FROM challenge ORDER BY created_at DESC LIMIT $1";
}

/// Of domains.
pub(crate) mod domain {
    pub(crate) const BY_ID: &str = select_domain!("d.id = $1");

    pub(crate) const BY_NAME: &str = select_domain!("d.name = $1 AND d.removed_at IS NULL");

    // One statement per filter: with the choice inside, no index would serve all of them.
    pub(crate) const LIST: &str = select_domain!(
        "d.removed_at IS NULL AND d.name > $1 AND d.name < $2 ORDER BY d.name LIMIT $3"
    );

    pub(crate) const LIST_STATE: &str = select_domain!(
        "d.removed_at IS NULL AND d.name > $1 AND d.name < $2 AND d.state = $4 ORDER BY d.name LIMIT $3"
    );

    pub(crate) const LIST_TENANT: &str = select_domain!(
        "d.removed_at IS NULL AND d.name > $1 AND d.name < $2 AND d.tenant = $4 ORDER BY d.name LIMIT $3"
    );

    pub(crate) const LIST_BOTH: &str = select_domain!(
        "d.removed_at IS NULL AND d.name > $1 AND d.name < $2 AND d.tenant = $4 AND d.state = $5 ORDER BY d.name LIMIT $3"
    );
}
