//! Strangers at edges, and the requests to take them over.

use async_trait::async_trait;
use holdfast_model::Note;
use sqlx::Postgres;

use super::{PostgresStore, sql};
use crate::{
    Actor, Adopt, Adopted, Adoption, EdgeId, Found, Page, Paged, Result, Stranger, Strangers,
    Topic,
    page::paged,
    pool::Transaction,
    row::{Fields as _, adoption, found},
    stranger::{MANY, adoption_subject},
};

const FORGET: &str = "DELETE FROM stranger WHERE edge_id = $1 AND NOT (file = ANY($2))";
const KEEP: &str = "
    INSERT INTO stranger AS s (edge_id, file, names, sha256, shadows, seen_at)
    SELECT $1, n.file, n.names, n.sha256, n.shadows, clock_timestamp()
    FROM unnest($2::text[], $3::text[], $4::text[], $5::boolean[]) AS n (file, names, sha256, shadows)
    ON CONFLICT (edge_id, file) DO UPDATE SET names = EXCLUDED.names, sha256 = EXCLUDED.sha256, shadows = EXCLUDED.shadows,
        seen_at = EXCLUDED.seen_at
    WHERE (s.names, s.sha256, s.shadows) IS DISTINCT FROM (EXCLUDED.names, EXCLUDED.sha256, EXCLUDED.shadows)";
const LIST: &str = "
    SELECT s.file, s.names, s.sha256, s.shadows, r.code AS error_code, r.detail AS error_detail,
        EXISTS (SELECT 1 FROM adoption a WHERE a.edge_id = s.edge_id AND a.file = s.file) AS asked
    FROM stranger s LEFT JOIN adoption_refusal r ON r.edge_id = s.edge_id AND r.file = s.file
    WHERE s.edge_id = $1 AND s.file > $2 ORDER BY s.file LIMIT $3";

const ADOPT: &str = "
    INSERT INTO adoption (edge_id, file, name, requested_at)
    SELECT DISTINCT s.edge_id, s.file, p.name, clock_timestamp()
    FROM edge e JOIN stranger s ON s.edge_id = e.id
    CROSS JOIN LATERAL jsonb_array_elements_text(s.names::jsonb) AS n (name)
    JOIN deployment p ON p.name = n.name AND p.edge_group = e.edge_group AND p.certificate_id IS NOT NULL
    WHERE e.id = $1 AND ($3::text IS NULL OR s.file = $3) AND ($2::text IS NULL OR EXISTS (
        SELECT 1 FROM jsonb_array_elements_text(s.names::jsonb) AS m (name)
        JOIN deployment o ON o.name = m.name AND o.edge_group = e.edge_group AND o.certificate_id IS NOT NULL WHERE o.name = $2))
    ON CONFLICT (edge_id, file, name) DO UPDATE SET requested_at = EXCLUDED.requested_at, delivered_at = NULL
    RETURNING file, name";
const TOLD: &str = "
    UPDATE adoption SET delivered_at = clock_timestamp()
    WHERE edge_id = $1 AND (delivered_at IS NULL OR delivered_at < clock_timestamp() - interval '30 seconds'
        OR delivered_at > clock_timestamp())
    RETURNING file, name";
const ASKED_AGAIN: &str = "DELETE FROM adoption_refusal WHERE edge_id = $1 AND file = ANY($2)";
const REFUSED: &str = "
    INSERT INTO adoption_refusal (edge_id, file, code, detail) SELECT edge_id, file, $3, $4 FROM stranger WHERE edge_id = $1 AND file = $2
    ON CONFLICT (edge_id, file) DO UPDATE SET code = EXCLUDED.code, detail = EXCLUDED.detail";
const DONE: &str = "
    DELETE FROM adoption a USING unnest($2::text[], $3::text[]) AS n (file, name)
    WHERE a.edge_id = $1 AND a.file = n.file AND a.name = n.name
    RETURNING a.file, a.name";

#[async_trait]
impl Strangers for PostgresStore {
    async fn strangers(&self, edge: EdgeId, page: &Page) -> Result<Paged<Found>> {
        let after = page.after.clone().unwrap_or_default();
        let statement = sql(LIST).bind(edge.0).bind(after).bind(page.rows());
        let rows = self.pool.rows("list strangers", statement).await?;
        paged(&rows, page, |row| Ok((Some(found(row)?), row.text("file")?)))
    }

    async fn adopt(&self, edge: EdgeId, what: &Adopt, actor: &Actor) -> Result<Vec<Adoption>> {
        let mut transaction = self.pool.begin("ask to adopt").await?;
        let ask = sql(ADOPT)
            .bind(edge.0)
            .bind(what.name().map(ToOwned::to_owned))
            .bind(what.file().map(ToOwned::to_owned));
        let asked = transaction.rows(ask).await?;
        let asked: Vec<_> = asked.iter().map(adoption).collect::<Result<_>>()?;
        let files: Vec<_> = asked.iter().map(|one| one.file.clone()).collect();
        transaction.execute(sql(ASKED_AGAIN).bind(edge.0).bind(files)).await?;
        for one in asked.iter().take(MANY) {
            let subject = one.name.as_str();
            super::event::note(&mut transaction, actor, "edge-adopt", subject, &one.file).await?;
        }
        if let Some(rest) = asked.len().checked_sub(MANY).filter(|rest| *rest > 0) {
            let subject = adoption_subject(edge);
            let detail = format!("and {rest} files more");
            super::event::note(&mut transaction, actor, "edge-adopt", &subject, &detail).await?;
        }
        transaction.commit().await?;
        self.herald.tell(&[Topic::Deployments, Topic::Events]);
        Ok(asked)
    }

    async fn adoptions(&self, edge: EdgeId) -> Result<Vec<Adoption>> {
        let rows = self.pool.rows("read adoptions", sql(TOLD).bind(edge.0)).await?;
        rows.iter().map(adoption).collect()
    }
}

/// Keeps these as all the strangers of an edge, whose row is locked.
pub(super) async fn keep(
    transaction: &mut Transaction<'_, Postgres>,
    edge: EdgeId,
    strangers: &[Stranger],
) -> Result<()> {
    let files: Vec<_> = strangers.iter().map(|one| one.file.clone()).collect();
    transaction.execute(sql(FORGET).bind(edge.0).bind(files.clone())).await?;
    let names = |one: &Stranger| serde_json::to_string(&one.names).unwrap_or_default();
    let keep = sql(KEEP)
        .bind(edge.0)
        .bind(files)
        .bind(strangers.iter().map(names).collect::<Vec<_>>())
        .bind(strangers.iter().map(|one| one.sha256.clone()).collect::<Vec<_>>())
        .bind(strangers.iter().map(|one| one.shadows).collect::<Vec<_>>());
    transaction.execute(keep).await?;
    Ok(())
}

/// The edge has said how these went: those that it had been asked for are told, each once. Were there any?
pub(super) async fn end(
    transaction: &mut Transaction<'_, Postgres>,
    edge: EdgeId,
    name: &str,
    adopted: &[Adopted],
    actor: &Actor,
) -> Result<bool> {
    let files: Vec<_> = adopted.iter().map(|one| one.adoption.file.clone()).collect();
    let names: Vec<_> = adopted.iter().map(|one| one.adoption.name.to_string()).collect();
    let ended = transaction.rows(sql(DONE).bind(edge.0).bind(files).bind(names)).await?;
    let ended: Vec<_> = ended.iter().map(adoption).collect::<Result<_>>()?;
    for ended in &ended {
        let Some(one) = adopted.iter().find(|one| one.adoption == *ended) else { continue };
        if let Some(Note { code, detail }) = &one.error {
            let file = one.adoption.file.clone();
            let refused = sql(REFUSED).bind(edge.0).bind(file).bind(code.to_string());
            transaction.execute(refused.bind(detail.clone())).await?;
        }
        let (kind, detail) = one.told(name);
        let subject = one.adoption.name.as_str();
        super::event::note(transaction, actor, kind, subject, &detail).await?;
    }
    Ok(!ended.is_empty())
}
