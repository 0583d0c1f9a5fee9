//! What became of singleton tasks.

use async_trait::async_trait;

use super::{PostgresStore, micros, sql};
use crate::{
    Fence, Result, TaskRun, TaskStatus, Tasks,
    row::{Fields as _, task},
};

const RECORD: &str = "
    INSERT INTO task AS t (name, lease, instance, term, runs, ran_at, took_us, ok, outcome, next_at)
    VALUES ($1, $2, $3, $4, $5, clock_timestamp(), $6, $7, $8, clock_timestamp() + $9 * interval '1 microsecond')
    ON CONFLICT (name) DO UPDATE SET lease = EXCLUDED.lease, instance = EXCLUDED.instance, term = EXCLUDED.term,
        runs = t.runs + EXCLUDED.runs, ran_at = EXCLUDED.ran_at, took_us = EXCLUDED.took_us, ok = EXCLUDED.ok,
        outcome = EXCLUDED.outcome, next_at = EXCLUDED.next_at";
const ALL: &str = "SELECT *, clock_timestamp() AS now FROM task ORDER BY name";

#[async_trait]
impl Tasks for PostgresStore {
    async fn record_task(&self, fence: Option<&Fence>, run: &TaskRun) -> Result<()> {
        let mut transaction = self.fenced("record a task", fence).await?;
        let record = sql(RECORD)
            .bind(&*run.name)
            .bind(&*run.lease)
            .bind(&*run.instance)
            .bind(fence.map_or(0, |fence| fence.term))
            .bind(i64::try_from(run.runs).unwrap_or(i64::MAX))
            .bind(micros(run.took))
            .bind(run.ok)
            .bind(&*run.outcome)
            .bind(micros(run.next_in));
        transaction.execute(record).await?;
        transaction.commit().await
    }

    async fn tasks(&self) -> Result<Vec<TaskStatus>> {
        let rows = self.pool.rows("list tasks", sql(ALL)).await?;
        rows.iter().map(|row| task(row, row.at("now")?)).collect()
    }
}
