//! Vital signs: one statement, every part of it an index range with a bound.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_model::{Domain, State, Timestamp};

use super::{PostgresStore, maybe_time, micros, sql, time};
use crate::{
    Error, Expiring, Result, Revision, VitalSigns, Vitals,
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
    SELECT statement_timestamp() AS now,
        (SELECT count(*) FROM (SELECT 1 FROM domain WHERE due_at >= $2 AND due_at <= statement_timestamp() LIMIT $1) n) AS due,
        (SELECT min(due_at) FROM domain WHERE due_at >= $2) AS next_due_at,
        (SELECT count(*) FROM (SELECT 1 FROM domain
            WHERE queued_at IS NOT NULL AND order_id IS NULL AND removing_since IS NULL LIMIT $1) n) AS queued,
        least(
            (SELECT queued_at FROM domain WHERE queued_at IS NOT NULL AND order_id IS NULL AND removing_since IS NULL
                AND renews IS true AND (certificate_id IS NULL) IS false ORDER BY queued_at LIMIT 1),
            (SELECT queued_at FROM domain WHERE queued_at IS NOT NULL AND order_id IS NULL AND removing_since IS NULL
                AND renews IS false AND (certificate_id IS NULL) IS false ORDER BY queued_at LIMIT 1),
            (SELECT queued_at FROM domain WHERE queued_at IS NOT NULL AND order_id IS NULL AND removing_since IS NULL
                AND renews IS false AND (certificate_id IS NULL) IS true ORDER BY queued_at LIMIT 1)) AS queued_since,
        (SELECT count(*) FROM (SELECT 1 FROM acme_order WHERE ended_at IS NULL LIMIT $1) n) AS orders,
        (SELECT count(*) FROM (SELECT 1 FROM challenge WHERE created_at > '-infinity' LIMIT $1) n) AS challenges,
        (SELECT min(not_after) FROM certificate WHERE superseded_at IS NULL) AS first_expiry,
        (SELECT count(*) FROM (SELECT 1 FROM webhook w JOIN delivery d ON d.webhook_id = w.id AND d.ended_at IS NULL LIMIT $1) n)
            AS deliveries";
const WITHIN: &str = "
    SELECT count(*) AS n FROM (SELECT 1 FROM certificate
        WHERE superseded_at IS NULL AND not_after <= statement_timestamp() + $2 * interval '1 microsecond' LIMIT $1) n";
/// The clock's row is always there; with nobody who stays it stands alone.
const STAYING: &str = concat!(
    "SELECT clock.now, ",
    domain_columns!(),
    " FROM (SELECT statement_timestamp() AS now) clock LEFT JOIN LATERAL (
        SELECT * FROM domain d WHERE d.removed_at IS NULL AND ",
    working_states!(),
    "   AND d.state = $1 AND d.entered_at >= coalesce($4::timestamptz, '-infinity')
            AND d.entered_at < statement_timestamp() - $2 * interval '1 microsecond' ORDER BY d.entered_at LIMIT $3) d ON true
    LEFT JOIN certificate c ON c.id = d.certificate_id ORDER BY d.entered_at"
);
/// `OFFSET 0` keeps the look at a domain a look at one: joined as tables, all domains may be read for a few certificates.
const EXPIRING: &str = "
    SELECT d.name, c.not_before, c.not_after FROM certificate c
    CROSS JOIN LATERAL (SELECT name FROM domain d WHERE d.id = c.domain_id
        AND d.certificate_id = c.id AND d.removed_at IS NULL AND d.removing_since IS NULL OFFSET 0) d
    WHERE c.superseded_at IS NULL AND c.not_after <= statement_timestamp() + $1 * interval '1 microsecond'
    ORDER BY c.not_after LIMIT $2";

const UNAPPLIED: &str = "
    SELECT updated_at FROM deployment WHERE edge_group = $1 AND revision > $2 ORDER BY revision LIMIT 1";

#[async_trait]
impl VitalSigns for PostgresStore {
    async fn vitals_from(&self, spans: &[Duration], from: Option<Timestamp>) -> Result<Vitals> {
        let mut expiring = Vec::with_capacity(spans.len());
        for span in spans {
            let within = sql(WITHIN).bind(i64::from(COUNTED)).bind(micros(*span));
            let row = self.pool.one("count what expires", within).await?;
            expiring.push(u64::try_from(row.number("n")?).unwrap_or(0));
        }
        let from = time(from.unwrap_or(Timestamp::from_seconds(0)));
        let read = sql(VITALS).bind(i64::from(COUNTED)).bind(from);
        let row = self.pool.one("read vital signs", read).await?;
        vitals(&row, row.at("now")?, expiring)
    }

    async fn staying(&self, state: State, over: Duration, limit: u32) -> Result<Vec<Domain>> {
        let look = self.marks.staying.begin(&state.as_str());
        let [from] = look.from.map(maybe_time);
        let staying = sql(STAYING).bind(state.as_str()).bind(micros(over)).bind(i64::from(limit));
        let rows = self.pool.rows("find who stays", staying.bind(from)).await?;
        let first = rows.first().ok_or(Error::NotFound("clock"))?;
        let (now, stays) = (first.at("now")?, first.maybe_id("id")?.is_some());
        let done = first.maybe_at("entered_at")?.unwrap_or(now.minus(over));
        self.marks.staying.looked(state.as_str(), look, now, [Some(done)]);
        Ok(rows.iter().filter(|_| stays).filter_map(listed).collect())
    }

    async fn unapplied_since(&self, group: &str, at: Revision) -> Result<Option<Timestamp>> {
        let unapplied = sql(UNAPPLIED).bind(group).bind(at.number);
        let row = self.pool.row("find what is not applied", unapplied).await?;
        row.map(|row| row.at("updated_at")).transpose()
    }

    async fn expiring(&self, within: Duration, limit: u32) -> Result<Vec<Expiring>> {
        let soon = sql(EXPIRING).bind(micros(within)).bind(i64::from(limit));
        self.pool.rows("find what expires", soon).await?.iter().map(expiring).collect()
    }
}
