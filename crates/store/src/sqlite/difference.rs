//! What edges found when they compared themselves with a restored database.

use async_trait::async_trait;

use super::{SqliteStore, sql};
use crate::{Difference, Differences, EdgeId, Error, Names, Result};

const KEEP: &str = "
    INSERT INTO edge_difference (edge_id, unknown, unknown_names, absent, absent_names)
    SELECT id, $2, $3, coalesce($4, 0), coalesce($5, '[]') FROM edge WHERE id = $1
    ON CONFLICT (edge_id) DO UPDATE SET unknown = $2, unknown_names = $3,
        absent = coalesce($4, edge_difference.absent), absent_names = coalesce($5, edge_difference.absent_names)";

/// A name that was added again is known, and one that was removed again is not to be served. Each kind gives a row at least: there may
/// be more names than were told.
const LEFT: &str = "
    SELECT d.kind, n.value AS name, d.total, json_array_length(d.names) AS told
    FROM (SELECT edge_id, 'unknown' AS kind, unknown AS total, unknown_names AS names FROM edge_difference
          UNION ALL SELECT edge_id, 'absent', absent, absent_names FROM edge_difference) d
    JOIN edge e ON e.id = d.edge_id LEFT JOIN json_each(d.names) AS n
        ON (d.kind = 'absent') = ((SELECT p.certificate_id FROM deployment p
            WHERE p.name = n.value AND p.edge_group = e.edge_group) IS NOT NULL)
    WHERE d.edge_id = $1 ORDER BY 1, 2";

#[async_trait]
impl Differences for SqliteStore {
    async fn keep_difference(
        &self,
        edge: EdgeId,
        unknown: &Names,
        absent: Option<&Names>,
    ) -> Result<()> {
        let count = |names: &Names| i64::try_from(names.count).unwrap_or(i64::MAX);
        let keep = sql(KEEP)
            .bind(edge.0)
            .bind(count(unknown))
            .bind(unknown.as_json())
            .bind(absent.map(count))
            .bind(absent.map(Names::as_json));
        let kept = self.writer.execute("keep a difference", keep).await?;
        if kept.rows_affected() > 0 { Ok(()) } else { Err(Error::NotFound("edge")) }
    }

    async fn difference(&self, edge: EdgeId) -> Result<Difference> {
        let rows = self.readers.rows("read a difference", sql(LEFT).bind(edge.0)).await?;
        Difference::read(&rows)
    }
}
