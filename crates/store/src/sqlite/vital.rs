//! Vital signs: every part an index range with a bound.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_model::{Domain, State, Timestamp};

use super::{SqliteStore, now, sql, time};
use crate::{
    Expiring, Result, Revision, VitalSigns, Vitals,
    row::{Fields as _, domain_columns, expiring, listed, vitals},
    vital::COUNTED,
};

/// To the letter what the index is made for: its planner compares texts, not meanings.
macro_rules! working_states {
    () => {
        "d.state IN ('Initial', 'DnsVerifying', 'DnsVerified', 'AcmeOrderCreated', 'AcmeChallengePreparing', \
         'AcmeChallengePrepared', 'AcmeChallengeValidating', 'AcmeChallengeValidated', 'CertificateDownloading', 'CertificateDownloaded', \
         'CertificateDeploying', 'CertificateDeployed', 'RenewalDue', 'Renewing')"
    };
}

const VITALS: &str = "
    SELECT
        (SELECT count(*) FROM (SELECT 1 FROM domain WHERE due_at >= $3 AND due_at <= $2 LIMIT $1)) AS due,
        (SELECT min(due_at) FROM domain WHERE due_at >= $3) AS next_due_at,
        (SELECT count(*) FROM (SELECT 1 FROM domain
            WHERE queued_at IS NOT NULL AND order_id IS NULL AND removing_since IS NULL LIMIT $1)) AS queued,
        (SELECT min(queued_at) FROM (
            SELECT * FROM (SELECT queued_at FROM domain WHERE queued_at IS NOT NULL AND order_id IS NULL AND removing_since IS NULL
                AND renews = 1 AND (certificate_id IS NULL) = 0 ORDER BY queued_at LIMIT 1)
            UNION ALL
            SELECT * FROM (SELECT queued_at FROM domain WHERE queued_at IS NOT NULL AND order_id IS NULL AND removing_since IS NULL
                AND renews = 0 AND (certificate_id IS NULL) = 0 ORDER BY queued_at LIMIT 1)
            UNION ALL
            SELECT * FROM (SELECT queued_at FROM domain WHERE queued_at IS NOT NULL AND order_id IS NULL AND removing_since IS NULL
                AND renews = 0 AND (certificate_id IS NULL) = 1 ORDER BY queued_at LIMIT 1))) AS queued_since,
        (SELECT count(*) FROM (SELECT 1 FROM acme_order WHERE ended_at IS NULL LIMIT $1)) AS orders,
        (SELECT count(*) FROM (SELECT 1 FROM challenge LIMIT $1)) AS challenges,
        (SELECT min(not_after) FROM certificate WHERE superseded_at IS NULL) AS first_expiry,
        (SELECT count(*) FROM (SELECT 1 FROM delivery WHERE ended_at IS NULL LIMIT $1)) AS deliveries";
const WITHIN: &str = "
    SELECT count(*) AS n FROM (SELECT 1 FROM certificate WHERE superseded_at IS NULL AND not_after <= $2 LIMIT $1)";
const STAYING: &str = concat!(
    "SELECT ",
    domain_columns!(),
    " FROM domain d LEFT JOIN certificate c ON c.id = d.certificate_id WHERE d.removed_at IS NULL AND ",
    working_states!(),
    " AND d.state = $1 AND d.entered_at < $2 ORDER BY d.entered_at LIMIT $3"
);
const EXPIRING: &str = "
    SELECT d.name, c.not_before, c.not_after FROM certificate c JOIN domain d ON d.id = c.domain_id
    WHERE c.superseded_at IS NULL AND c.not_after <= $1
        AND d.certificate_id = c.id AND d.removed_at IS NULL AND d.removing_since IS NULL
    ORDER BY c.not_after LIMIT $2";

const UNAPPLIED: &str = "
    SELECT updated_at FROM deployment WHERE edge_group = $1 AND revision > $2 ORDER BY revision LIMIT 1";

#[async_trait]
impl VitalSigns for SqliteStore {
    async fn vitals_from(&self, spans: &[Duration], from: Option<Timestamp>) -> Result<Vitals> {
        let (at, most) = (now(), i64::from(COUNTED));
        let mut expiring = Vec::with_capacity(spans.len());
        for span in spans {
            let within = sql(WITHIN).bind(most).bind(time(at.plus(*span)));
            let row = self.readers.one("count what expires", within).await?;
            expiring.push(u64::try_from(row.number("n")?).unwrap_or(0));
        }
        let from = from.unwrap_or(Timestamp::from_seconds(0));
        let read = sql(VITALS).bind(most).bind(time(at)).bind(time(from));
        vitals(&self.readers.one("read vital signs", read).await?, at, expiring)
    }

    async fn staying(&self, state: State, over: Duration, limit: u32) -> Result<Vec<Domain>> {
        let before = time(now().minus(over));
        let staying = sql(STAYING).bind(state.as_str()).bind(before).bind(i64::from(limit));
        let rows = self.readers.rows("find who stays", staying).await?;
        Ok(rows.iter().filter_map(listed).collect())
    }

    async fn unapplied_since(&self, group: &str, at: Revision) -> Result<Option<Timestamp>> {
        let unapplied = sql(UNAPPLIED).bind(group).bind(at.number);
        let row = self.readers.row("find what is not applied", unapplied).await?;
        row.map(|row| row.at("updated_at")).transpose()
    }

    async fn expiring(&self, within: Duration, limit: u32) -> Result<Vec<Expiring>> {
        let soon = sql(EXPIRING).bind(time(now().plus(within))).bind(i64::from(limit));
        self.readers.rows("find what expires", soon).await?.iter().map(expiring).collect()
    }
}
