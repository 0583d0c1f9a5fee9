//! A report is taken: what was seen is kept, and what waits for it is woken.

use holdfast_gateway::point::{Point, around};
use holdfast_model::Note;
use uuid::Uuid;

use super::{live_since, removal, sql};
use crate::{
    Actor, EdgeId, EdgeReport, Error, Observation, PROXY_DOWN, ReportOrder, Result, Topic,
    UNUSABLE,
    row::{Fields as _, revision},
    sqlite::{SqliteStore, Tx, domain::due_unless_claimed, now, stranger, time},
};

/// Later than any before, also than one that a restored backup does not know of: by the clock, unless that was set back.
const OPEN: &str = "
    INSERT INTO edge_session (edge_id, opened) SELECT id, $2 FROM edge WHERE id = $1
    ON CONFLICT (edge_id) DO UPDATE SET opened = max(opened + 1, excluded.opened)
    RETURNING opened";
const OPENED: &str = "SELECT opened FROM edge_session WHERE edge_id = $1";
const COUNT: &str = "
    UPDATE edge_session SET session = $2, sequence = $3 WHERE edge_id = $1 AND (session, sequence) <= ($2, $3)";
const BEFORE: &str = "
    SELECT e.name, e.edge_group, e.epoch, e.revision, e.error_code, CASE WHEN r.epoch = $2 AND r.number < $3 THEN 0 ELSE $3 END AS up_to,
        e.last_seen_at > $4 AND e.last_seen_at <= $4 + 35000000 AS live
    FROM edge e, revision r WHERE e.id = $1";
const HEARD: &str = "
    UPDATE edge SET last_seen_at = $2, epoch = $3, revision = $4, error_code = $5, error_detail = $6,
        agent_mode = coalesce($7, agent_mode)
    WHERE id = $1";
const SEEN: &str = "
    INSERT INTO observation (domain_id, edge_id, sha256, error_code, error_detail, seen_at)
    SELECT d.id, e.id, $3, $4, $5, $6 FROM domain d JOIN edge e ON e.id = $2 AND e.edge_group = d.edge_group
    WHERE d.id = $1 AND d.removed_at IS NULL
    ON CONFLICT (domain_id, edge_id) DO UPDATE SET sha256 = excluded.sha256, error_code = excluded.error_code,
        error_detail = excluded.error_detail, seen_at = excluded.seen_at";

/// What waits for the report becomes due: a domain being deployed, one being removed, and one whose deployment had failed but is served
/// now. What a failing edge repeats must not drive it round and round.
const NUDGE: &str = concat!(
    "UPDATE domain SET nudged = 1, ",
    due_unless_claimed!(),
    " WHERE id = $1 AND removed_at IS NULL AND (removing_since IS NOT NULL OR state = 'CertificateDeploying'
        OR (state = 'CertificateDeploymentFailed' AND $3 = (SELECT sha256 FROM certificate WHERE id = certificate_id)))"
);

/// So does one at rest whose certificate the edge cannot load, when the edge says so for the first time.
const DOUBT: &str = concat!(
    "UPDATE domain SET nudged = 1, ",
    due_unless_claimed!(),
    " WHERE id = $1 AND removed_at IS NULL AND state = 'Active' AND removing_since IS NULL
        AND $4 IS NOT (SELECT error_code FROM observation WHERE domain_id = $1 AND edge_id = $3)"
);
const GONE: &str = "
    SELECT domain_id FROM deployment WHERE edge_group = $1 AND certificate_id IS NULL AND revision > $2 AND revision <= $3";

impl SqliteStore {
    pub(super) async fn begin_session(&self, edge: EdgeId) -> Result<i64> {
        let open = sql(OPEN).bind(edge.0).bind(time(now()));
        let row = around(Point::STORE_OBSERVE, self.writer.rows("open a session", open)).await?;
        row.first().ok_or(Error::NotFound("edge"))?.number("opened")
    }

    /// Keeps a report; gives whom it concerns.
    pub(super) async fn take_report(
        &self,
        edge: EdgeId,
        report: &EdgeReport,
        actor: &Actor,
    ) -> Result<Vec<Topic>> {
        let mut transaction = self.writer.begin("take a report").await?;
        match take(&mut transaction, edge, report, actor).await {
            Ok(topics) => transaction.commit().await.map(|_| topics),
            Err(error) => transaction.abandon().await.and(Err(error)),
        }
    }
}

async fn take(
    transaction: &mut Tx,
    edge: EdgeId,
    report: &EdgeReport,
    actor: &Actor,
) -> Result<Vec<Topic>> {
    let before = sql(BEFORE)
        .bind(edge.0)
        .bind(report.up_to.epoch)
        .bind(report.up_to.number)
        .bind(live_since());
    let before = transaction.row(before).await?.ok_or(Error::NotFound("edge"))?;
    if !is_current(transaction, edge, report.order).await? {
        return Ok(Vec::new());
    }
    let (group, known) = (before.text("edge_group")?, revision(&before)?);
    let up_to = before.number("up_to")?;
    hear(transaction, edge, report, up_to).await?;
    let mut nudged = 0;
    let turned = has_turned(before.maybe_text("error_code")?.as_deref(), report.error.as_ref());
    // One that is back may have nothing to say of what waits for it.
    if turned || !before.flag("live")? {
        let nudge = sql(removal::NUDGE).bind(group.as_str()).bind(time(now()));
        nudged += transaction.execute(nudge).await?.rows_affected();
    }
    for observation in &report.observations {
        nudged += see(transaction, edge, observation).await?;
    }
    let from = if known.epoch == report.up_to.epoch { known.number } else { 0 };
    for row in transaction.rows(sql(GONE).bind(group).bind(from).bind(up_to)).await? {
        nudged += nudge(transaction, row.id("domain_id")?, None).await?;
    }
    if let Some(strangers) = &report.strangers {
        stranger::keep(transaction, edge, strangers).await?;
    }
    let name = before.text("name")?;
    let told = stranger::end(transaction, edge, &name, &report.adopted, actor).await?;
    let topics = [(nudged > 0, Topic::Work), (told, Topic::Events)];
    Ok(topics.into_iter().filter_map(|(concerned, topic)| concerned.then_some(topic)).collect())
}

/// Did the edge begin or cease to complain of itself, or of its proxy? Then what is being deployed in its group is looked at again.
fn has_turned(before: Option<&str>, now: Option<&Note>) -> bool {
    let (was_down, is_down) =
        (before == Some(PROXY_DOWN), now.is_some_and(|note| note.code == PROXY_DOWN));
    before.is_some() != now.is_some() || was_down != is_down
}

/// Counts the report; false for one that comes after a later one.
async fn is_current(
    transaction: &mut Tx,
    edge: EdgeId,
    order: Option<ReportOrder>,
) -> Result<bool> {
    let Some(ReportOrder { session, sequence }) = order else { return Ok(true) };
    let opened = transaction.row(sql(OPENED).bind(edge.0)).await?;
    let opened = opened.map(|row| row.number("opened")).transpose()?;
    if opened.is_none_or(|opened| opened < session) {
        return Err(Error::NotFound("edge"));
    }
    let count = sql(COUNT).bind(edge.0).bind(session).bind(sequence);
    Ok(transaction.execute(count).await?.rows_affected() > 0)
}

async fn hear(transaction: &mut Tx, edge: EdgeId, report: &EdgeReport, up_to: i64) -> Result<()> {
    let statement = sql(HEARD)
        .bind(edge.0)
        .bind(time(now()))
        .bind(report.up_to.epoch)
        .bind(up_to)
        .bind(report.error.as_ref().map(|note| note.code.to_string()))
        .bind(report.error.as_ref().map(|note| note.detail.as_str()))
        .bind(report.mode.as_deref());
    transaction.execute(statement).await?;
    Ok(())
}

async fn see(transaction: &mut Tx, edge: EdgeId, seen: &Observation) -> Result<u64> {
    let mut nudged = 0;
    if seen.error.as_ref().is_some_and(|note| note.code == UNUSABLE) {
        let doubt = sql(DOUBT).bind(seen.domain.0).bind(time(now())).bind(edge.0).bind(UNUSABLE);
        nudged += transaction.execute(doubt).await?.rows_affected();
    }
    let statement = sql(SEEN)
        .bind(seen.domain.0)
        .bind(edge.0)
        .bind(seen.sha256.as_deref())
        .bind(seen.error.as_ref().map(|note: &Note| note.code.to_string()))
        .bind(seen.error.as_ref().map(|note| note.detail.as_str()))
        .bind(time(now()));
    if transaction.execute(statement).await?.rows_affected() == 0 {
        return Ok(0);
    }
    Ok(nudged + nudge(transaction, seen.domain.0, seen.sha256.as_deref()).await?)
}

async fn nudge(transaction: &mut Tx, domain: Uuid, sha256: Option<&str>) -> Result<u64> {
    let statement = sql(NUDGE).bind(domain).bind(time(now())).bind(sha256);
    Ok(transaction.execute(statement).await?.rows_affected())
}
