//! A report is taken: what was seen is kept, and what waits for it is woken.
//!
//! The edge's row is locked first, so reports of one edge take their turns, and one that comes after a later one is known by its order.

use std::collections::BTreeMap;

use holdfast_gateway::point::{Point, around};
use holdfast_model::Note;
use sqlx::Postgres;
use uuid::Uuid;

use super::{live, sql};
use crate::{
    Actor, EdgeId, EdgeReport, Error, Observation, PROXY_DOWN, Result, Topic, UNUSABLE,
    pool::Statement,
    postgres::{PostgresStore, domain::due_unless_claimed, stranger},
    row::Fields as _,
};

/// Later than any before, also than one that a restored backup does not know of: by the clock, unless that was set back.
const OPEN: &str = "
    INSERT INTO edge_session AS s (edge_id, opened)
    SELECT id, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM edge WHERE id = $1
    ON CONFLICT (edge_id) DO UPDATE SET opened = greatest(s.opened + 1, EXCLUDED.opened)
    RETURNING opened";

/// The report is kept, and what waits for it becomes due: domains being deployed, those being removed, and those whose deployment had
/// failed but are served now; also those at rest whose certificate the edge cannot load. What a failing edge repeats must not drive them
/// round and round. When the edge begins or ceases to complain of itself, and when it was silent and is back, the first thousand that are
/// being deployed in its group are due: of more, each looks again by itself. The domains' rows are locked before
/// anything is kept of them: one that is gone meanwhile is seen to be, and leaves nothing behind.
const OBSERVE: &str = concat!(
    "WITH before AS (
        SELECT e.id, e.name, e.edge_group, e.epoch, e.revision, e.error_code AS complaint, CASE WHEN r.epoch = $2 AND r.number < $3 THEN 0 ELSE $3 END AS up_to,
            NOT ",
    live!(),
    "   AS silent
        FROM edge e, revision r WHERE e.id = $1 FOR UPDATE OF e),
    counted AS (
        UPDATE edge_session s SET session = $10, sequence = $11 FROM before b
        WHERE s.edge_id = b.id AND s.opened >= $10 AND (s.session, s.sequence) <= ($10, $11) RETURNING s.edge_id),
    current AS (SELECT b.* FROM before b WHERE $10::bigint IS NULL OR EXISTS (SELECT 1 FROM counted)),
    heard AS (UPDATE edge e SET last_seen_at = clock_timestamp(), epoch = $2, revision = b.up_to, error_code = $4, error_detail = $5,
            agent_mode = coalesce($12, e.agent_mode)
        FROM current b WHERE e.id = b.id RETURNING e.id),
    said AS (SELECT * FROM unnest($6::uuid[], $7::text[], $8::text[], $9::text[]) AS s (domain_id, sha256, code, detail)),
    gone AS (
        SELECT p.domain_id FROM deployment p WHERE p.edge_group = (SELECT edge_group FROM current) AND p.certificate_id IS NULL
            AND p.revision > (SELECT CASE WHEN epoch = $2 THEN revision ELSE 0 END FROM current)
            AND p.revision <= (SELECT up_to FROM current)),
    turned AS (
        SELECT edge_group FROM current
        WHERE silent OR (complaint IS NULL) <> ($4::text IS NULL) OR (complaint = $14) IS DISTINCT FROM ($4 = $14)),
    deploying AS (
        SELECT few.id FROM turned CROSS JOIN LATERAL (
            SELECT d.id FROM domain d WHERE d.state = 'CertificateDeploying' AND d.edge_group = turned.edge_group
                AND d.removed_at IS NULL LIMIT 1000) few),
    alive AS (
        SELECT d.id, d.state, d.removing_since, d.certificate_id FROM domain d
        WHERE d.id = ANY (ARRAY(SELECT domain_id FROM said UNION SELECT domain_id FROM gone UNION SELECT id FROM deploying)) AND d.removed_at IS NULL
          AND d.edge_group = (SELECT edge_group FROM current)
        ORDER BY d.id FOR NO KEY UPDATE OF d),
    kept AS (
        INSERT INTO observation (domain_id, edge_id, sha256, error_code, error_detail, seen_at)
        SELECT s.domain_id, heard.id, s.sha256, s.code, s.detail, clock_timestamp()
        FROM heard, said s JOIN alive d ON d.id = s.domain_id
        ON CONFLICT (domain_id, edge_id) DO UPDATE SET sha256 = EXCLUDED.sha256, error_code = EXCLUDED.error_code,
            error_detail = EXCLUDED.error_detail, seen_at = EXCLUDED.seen_at),
    waiting AS (
        SELECT d.id FROM alive d LEFT JOIN certificate c ON c.id = d.certificate_id LEFT JOIN said s ON s.domain_id = d.id
            LEFT JOIN observation o ON o.domain_id = d.id AND o.edge_id = $1
        WHERE d.removing_since IS NOT NULL OR d.state = 'CertificateDeploying'
           OR (d.state = 'CertificateDeploymentFailed' AND s.sha256 = c.sha256)
           OR (d.state = 'Active' AND s.code = $13 AND o.error_code IS DISTINCT FROM $13)),
    nudged AS (UPDATE domain d SET nudged = true, ",
    due_unless_claimed!(),
    "   FROM waiting w, heard WHERE d.id = w.id RETURNING d.id)
    SELECT b.name, (SELECT count(*) FROM nudged) AS nudged, EXISTS (SELECT 1 FROM heard) AS heard,
        $10::bigint IS NULL OR EXISTS (SELECT 1 FROM edge_session s WHERE s.edge_id = b.id AND s.opened >= $10) AS known
    FROM before b"
);

impl PostgresStore {
    pub(super) async fn begin_session(&self, edge: EdgeId) -> Result<i64> {
        let open = self.pool.row("open a session", sql(OPEN).bind(edge.0));
        let row = around(Point::STORE_OBSERVE, open).await?;
        row.ok_or(Error::NotFound("edge"))?.number("opened")
    }

    pub(super) async fn take_report(
        &self,
        edge: EdgeId,
        report: &EdgeReport,
        actor: &Actor,
    ) -> Result<()> {
        let (nudged, told) = if report.strangers.is_none() && report.adopted.is_empty() {
            let observe = self.pool.row("take a report", observed(edge, report));
            (Heard::read(around(Point::STORE_OBSERVE, observe).await?.as_ref())?.nudged, false)
        } else {
            self.take_whole_report(edge, report, actor).await?
        };
        if nudged {
            self.herald.tell(&[Topic::Work]);
        }
        if told {
            self.herald.tell(&[Topic::Events]);
        }
        Ok(())
    }

    /// What is seldom said needs statements of its own. Was anything nudged, and anything told?
    async fn take_whole_report(
        &self,
        edge: EdgeId,
        report: &EdgeReport,
        actor: &Actor,
    ) -> Result<(bool, bool)> {
        let mut transaction = self.pool.begin("take a report").await?;
        let row = transaction.row(observed(edge, report)).await?;
        let heard = match Heard::read(row.as_ref()) {
            Ok(heard) => heard,
            Err(error) => {
                transaction.abandon().await?;
                return Err(error);
            }
        };
        let mut told = false;
        if let Some(name) = heard.of {
            if let Some(strangers) = &report.strangers {
                stranger::keep(&mut transaction, edge, strangers).await?;
            }
            told = stranger::end(&mut transaction, edge, &name, &report.adopted, actor).await?;
        }
        around(Point::STORE_OBSERVE, transaction.commit()).await?;
        Ok((heard.nudged, told))
    }
}

/// What became of a report.
struct Heard {
    /// The edge's name; none where the report came too late to count.
    of: Option<String>,
    nudged: bool,
}

impl Heard {
    fn read(row: Option<&sqlx::postgres::PgRow>) -> Result<Self> {
        let unknown = Error::NotFound("edge");
        let Some(row) = row else { return Err(unknown) };
        if !row.flag("known")? {
            return Err(unknown);
        }
        let of = row.flag("heard")?.then(|| row.text("name")).transpose()?;
        Ok(Self { of, nudged: row.number("nudged")? > 0 })
    }
}

fn observed(edge: EdgeId, report: &EdgeReport) -> Statement<Postgres> {
    // Said twice in one report: the later word counts.
    let said: BTreeMap<Uuid, &Observation> =
        report.observations.iter().map(|one| (one.domain.0, one)).collect();
    let code = |note: &Note| note.code.to_string();
    let detail = |note: &Note| note.detail.clone();
    sql(OBSERVE)
        .bind(edge.0)
        .bind(report.up_to.epoch)
        .bind(report.up_to.number)
        .bind(report.error.as_ref().map(code))
        .bind(report.error.as_ref().map(detail))
        .bind(said.keys().copied().collect::<Vec<_>>())
        .bind(said.values().map(|one| one.sha256.clone()).collect::<Vec<_>>())
        .bind(said.values().map(|one| one.error.as_ref().map(code)).collect::<Vec<_>>())
        .bind(said.values().map(|one| one.error.as_ref().map(detail)).collect::<Vec<_>>())
        .bind(report.order.map(|order| order.session))
        .bind(report.order.map(|order| order.sequence))
        .bind(report.mode.clone())
        .bind(UNUSABLE)
        .bind(PROXY_DOWN)
}
