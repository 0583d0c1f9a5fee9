//! Strangers at edges, and the requests to take them over.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_model::Note;

use super::{SqliteStore, Tx, event, now, sql, time};
use crate::{
    Actor, Adopt, Adopted, Adoption, EdgeId, Found, Page, Paged, Result, Stranger, Strangers,
    Topic,
    page::paged,
    row::{Fields as _, adoption, found},
    stranger::{MANY, adoption_subject},
};

/// How long an edge may take to say how it went before it is told again.
const AGAIN: Duration = Duration::from_secs(30);

const FORGET: &str = "
    DELETE FROM stranger WHERE edge_id = $1 AND file NOT IN (SELECT value FROM json_each($2))";
const KEEP: &str = "
    INSERT INTO stranger (edge_id, file, names, sha256, shadows, seen_at) VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (edge_id, file) DO UPDATE SET names = excluded.names, sha256 = excluded.sha256, shadows = excluded.shadows,
        seen_at = excluded.seen_at";
const LIST: &str = "
    SELECT s.file, s.names, s.sha256, s.shadows, r.code AS error_code, r.detail AS error_detail,
        EXISTS (SELECT 1 FROM adoption a WHERE a.edge_id = s.edge_id AND a.file = s.file) AS asked
    FROM stranger s LEFT JOIN adoption_refusal r ON r.edge_id = s.edge_id AND r.file = s.file
    WHERE s.edge_id = $1 AND s.file > $2 ORDER BY s.file LIMIT $3";

const ADOPT: &str = "
    INSERT INTO adoption (edge_id, file, name, requested_at)
    SELECT DISTINCT s.edge_id, s.file, p.name, $4
    FROM edge e CROSS JOIN stranger s ON s.edge_id = e.id CROSS JOIN json_each(s.names) AS n
    CROSS JOIN deployment p ON p.name = n.value AND p.edge_group = e.edge_group AND p.certificate_id IS NOT NULL
    WHERE e.id = $1 AND ($3 IS NULL OR s.file = $3) AND ($2 IS NULL OR EXISTS (
        SELECT 1 FROM json_each(s.names) AS m
        JOIN deployment o ON o.name = m.value AND o.edge_group = e.edge_group AND o.certificate_id IS NOT NULL WHERE o.name = $2))
    ON CONFLICT (edge_id, file, name) DO UPDATE SET requested_at = excluded.requested_at, delivered_at = NULL
    RETURNING file, name";
const WAITING: &str = "
    SELECT file, name FROM adoption WHERE edge_id = $1 AND (delivered_at IS NULL OR delivered_at < $2 OR delivered_at > $2 + 30000000)";
const TOLD: &str = "
    UPDATE adoption SET delivered_at = $3 WHERE edge_id = $1 AND (delivered_at IS NULL OR delivered_at < $2 OR delivered_at > $2 + 30000000)
    RETURNING file, name";
const ASKED_AGAIN: &str = "DELETE FROM adoption_refusal WHERE edge_id = $1 AND file = $2";
const REFUSED: &str = "
    INSERT INTO adoption_refusal (edge_id, file, code, detail) SELECT edge_id, file, $3, $4 FROM stranger WHERE edge_id = $1 AND file = $2
    ON CONFLICT (edge_id, file) DO UPDATE SET code = excluded.code, detail = excluded.detail";
const DONE: &str = "DELETE FROM adoption WHERE edge_id = $1 AND file = $2 AND name = $3";

#[async_trait]
impl Strangers for SqliteStore {
    async fn strangers(&self, edge: EdgeId, page: &Page) -> Result<Paged<Found>> {
        let after = page.after.clone().unwrap_or_default();
        let statement = sql(LIST).bind(edge.0).bind(after).bind(page.rows());
        let rows = self.readers.rows("list strangers", statement).await?;
        paged(&rows, page, |row| Ok((Some(found(row)?), row.text("file")?)))
    }

    async fn adopt(&self, edge: EdgeId, what: &Adopt, actor: &Actor) -> Result<Vec<Adoption>> {
        let mut transaction = self.writer.begin("ask to adopt").await?;
        let ask = sql(ADOPT)
            .bind(edge.0)
            .bind(what.name().map(ToOwned::to_owned))
            .bind(what.file().map(ToOwned::to_owned))
            .bind(time(now()));
        let asked = transaction.rows(ask).await?;
        let asked: Vec<_> = asked.iter().map(adoption).collect::<Result<_>>()?;
        for one in &asked {
            transaction.execute(sql(ASKED_AGAIN).bind(edge.0).bind(one.file.clone())).await?;
        }
        for one in asked.iter().take(MANY) {
            let subject = one.name.as_str();
            event::note(&mut transaction, actor, "edge-adopt", subject, &one.file).await?;
        }
        if let Some(rest) = asked.len().checked_sub(MANY).filter(|rest| *rest > 0) {
            let subject = adoption_subject(edge);
            let detail = format!("and {rest} files more");
            event::note(&mut transaction, actor, "edge-adopt", &subject, &detail).await?;
        }
        transaction.commit().await?;
        self.tell(&[Topic::Deployments, Topic::Events]);
        Ok(asked)
    }

    async fn adoptions(&self, edge: EdgeId) -> Result<Vec<Adoption>> {
        let before = time(now().minus(AGAIN));
        // Every poll asks; only what is to be told is worth the writer's time.
        let waiting = sql(WAITING).bind(edge.0).bind(before);
        if self.readers.rows("read adoptions", waiting).await?.is_empty() {
            return Ok(Vec::new());
        }
        let told = sql(TOLD).bind(edge.0).bind(before).bind(time(now()));
        let rows = self.writer.rows("read adoptions", told).await?;
        rows.iter().map(adoption).collect()
    }
}

/// Keeps these as all the strangers of an edge.
pub(super) async fn keep(transaction: &mut Tx, edge: EdgeId, strangers: &[Stranger]) -> Result<()> {
    let files: Vec<_> = strangers.iter().map(|one| one.file.as_str()).collect();
    let files = serde_json::to_string(&files).unwrap_or_default();
    transaction.execute(sql(FORGET).bind(edge.0).bind(files)).await?;
    for one in strangers {
        let keep = sql(KEEP)
            .bind(edge.0)
            .bind(one.file.clone())
            .bind(serde_json::to_string(&one.names).unwrap_or_default())
            .bind(one.sha256.clone())
            .bind(one.shadows)
            .bind(time(now()));
        transaction.execute(keep).await?;
    }
    Ok(())
}

/// The edge has said how these went: those that it had been asked for are told, each once. Were there any?
pub(super) async fn end(
    transaction: &mut Tx,
    edge: EdgeId,
    name: &str,
    adopted: &[Adopted],
    actor: &Actor,
) -> Result<bool> {
    let mut any = false;
    for one in adopted {
        let Adoption { file, name: subject } = &one.adoption;
        let end = sql(DONE).bind(edge.0).bind(file.clone()).bind(subject.to_string());
        if transaction.execute(end).await?.rows_affected() > 0 {
            if let Some(Note { code, detail }) = &one.error {
                let refused = sql(REFUSED).bind(edge.0).bind(file.clone()).bind(code.to_string());
                transaction.execute(refused.bind(detail.clone())).await?;
            }
            let (kind, detail) = one.told(name);
            event::note(transaction, actor, kind, subject.as_str(), &detail).await?;
            any = true;
        }
    }
    Ok(any)
}
