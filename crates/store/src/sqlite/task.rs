//! What became of singleton tasks.

use async_trait::async_trait;

use super::{SqliteStore, now, sql, time};
use crate::{Fence, Result, TaskRun, TaskStatus, Tasks, row::task};

const RECORD: &str = "
    INSERT INTO task (name, lease, instance, term, runs, ran_at, took_us, ok, outcome, next_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    ON CONFLICT (name) DO UPDATE SET lease = excluded.lease, instance = excluded.instance, term = excluded.term,
        runs = runs + excluded.runs, ran_at = excluded.ran_at, took_us = excluded.took_us, ok = excluded.ok,
        outcome = excluded.outcome, next_at = excluded.next_at";
const ALL: &str = "SELECT * FROM task ORDER BY name";

#[async_trait]
impl Tasks for SqliteStore {
    async fn record_task(&self, fence: Option<&Fence>, run: &TaskRun) -> Result<()> {
        let mut transaction = self.fenced("record a task", fence).await?;
        let now = now();
        let record = sql(RECORD)
            .bind(&*run.name)
            .bind(&*run.lease)
            .bind(&*run.instance)
            .bind(fence.map_or(0, |fence| fence.term))
            .bind(i64::try_from(run.runs).unwrap_or(i64::MAX))
            .bind(time(now))
            .bind(i64::try_from(run.took.as_micros()).unwrap_or(i64::MAX))
            .bind(run.ok)
            .bind(&*run.outcome)
            .bind(time(now.plus(run.next_in)));
        transaction.execute(record).await?;
        transaction.commit().await
    }

    async fn tasks(&self) -> Result<Vec<TaskStatus>> {
        let rows = self.readers.rows("list tasks", sql(ALL)).await?;
        rows.iter().map(|row| task(row, now())).collect()
    }
}
