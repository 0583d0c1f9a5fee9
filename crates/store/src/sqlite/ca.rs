//! The accounts at CAs as a whole, and who orders with them.

use std::time::Duration;

use async_trait::async_trait;
use holdfast_gateway::point::{Point, around};
use uuid::Uuid;

use super::{
    SqliteStore, ca_failure::failure, event::note, maybe_time, now, replica::signs_of_life, sql,
    time,
};
use crate::{
    AccountId, Actor, CaAccount, CaAccounts, Error, OrderLimits, OtherAccount, QueueCounts, Result,
    Topic,
    ca_failure::LONGEST_AWAY,
    query::{
        ca::{LIFT, UNHALT},
        ca_failure,
    },
    row::{ca_account, other_account, queue_counts},
    vital::COUNTED,
};

const ACCOUNTS: &str = concat!(
    "SELECT a.id, a.directory, a.url, a.paused_until, a.paused_at, a.pause_reason, a.unusable, a.budget_at,
        f.since AS failing_since, f.failure, h.halted_at, h.halted_until, h.halted_by, u.resumed_at, u.resumed_by, $2 AS now,
        (SELECT count(*) FROM (SELECT 1 FROM acme_order o WHERE o.account_id = a.id AND o.ended_at IS NULL LIMIT $1)) AS in_flight
    FROM acme_account a LEFT JOIN account_halt h ON h.account_id = a.id LEFT JOIN account_resume u ON u.account_id = a.id",
    failure!(),
    "ORDER BY a.created_at, a.id"
);

macro_rules! counted {
    ($renews:literal, $new:literal) => {
        concat!(
            "(SELECT count(*) FROM (SELECT 1 FROM domain
                WHERE queued_at IS NOT NULL AND order_id IS NULL AND removing_since IS NULL AND renews = ",
            $renews,
            " AND (certificate_id IS NULL) = ",
            $new,
            " LIMIT $1))"
        )
    };
}

const COUNTS: &str = concat!(
    "SELECT ",
    counted!("0", "1"),
    " AS new, ",
    counted!("0", "0"),
    " AS charged, ",
    counted!("1", "0"),
    " AS renewals"
);

const HALT: &str = "
    INSERT INTO account_halt (account_id, halted_at, halted_until, halted_by)
    SELECT id, $4, $2, $3 FROM acme_account WHERE id = $1
    ON CONFLICT (account_id) DO UPDATE SET halted_at = excluded.halted_at, halted_until = excluded.halted_until, halted_by = excluded.halted_by";

const RESUMED: &str = "
    INSERT INTO account_resume (account_id, resumed_at, resumed_by) VALUES ($1, $3, $2)
    ON CONFLICT (account_id) DO UPDATE SET resumed_at = excluded.resumed_at, resumed_by = excluded.resumed_by";

const SERVE: &str = "
    INSERT INTO replica_directory (instance, incarnation, directory) VALUES ($1, $2, $3)
    ON CONFLICT (instance) DO UPDATE SET incarnation = excluded.incarnation, directory = excluded.directory
    WHERE replica_directory.incarnation <> excluded.incarnation OR replica_directory.directory <> excluded.directory";

const OTHERS: &str = "
    SELECT a.id, EXISTS (SELECT 1 FROM replica_directory s JOIN replica r ON r.instance = s.instance AND r.incarnation = s.incarnation
        WHERE s.directory = a.directory AND r.left_at IS NULL AND r.beat_at > $2 AND r.beat_at <= $3) AS is_served
    FROM acme_account a WHERE a.directory <> $1";

#[async_trait]
impl CaAccounts for SqliteStore {
    async fn ca_accounts(&self, limits: OrderLimits) -> Result<Vec<CaAccount>> {
        let now = now();
        let list = sql(ACCOUNTS).bind(i64::from(COUNTED)).bind(time(now));
        let list = list.bind(time(now.plus(LONGEST_AWAY)));
        let rows = self.readers.rows("list accounts", list).await?;
        rows.iter().map(|row| ca_account(row, limits)).collect()
    }

    async fn queue_counts(&self) -> Result<QueueCounts> {
        let count = sql(COUNTS).bind(i64::from(COUNTED));
        queue_counts(&self.readers.one("count the queue", count).await?)
    }

    async fn halt_account(
        &self,
        id: AccountId,
        wait: Option<Duration>,
        actor: &Actor,
        subject: &str,
    ) -> Result<()> {
        let mut transaction = self.writer.begin("halt an account").await?;
        let now = now();
        let until = maybe_time(wait.map(|wait| now.plus(wait)));
        let halt = sql(HALT).bind(id.0).bind(until).bind(&*actor.name).bind(time(now));
        if transaction.execute(halt).await?.rows_affected() == 0 {
            transaction.abandon().await?;
            return Err(Error::NotFound("account"));
        }
        note(&mut transaction, actor, "ca-paused", subject, &crate::ca::told(wait)).await?;
        around(Point::STORE_PAUSE, transaction.commit()).await?;
        self.tell(&[Topic::Work, Topic::Events]);
        Ok(())
    }

    async fn resume_account(&self, id: AccountId, actor: &Actor, subject: &str) -> Result<bool> {
        let mut transaction = self.writer.begin("resume an account").await?;
        let mut lifted = 0;
        for statement in [UNHALT, LIFT, ca_failure::LIFT] {
            lifted += transaction.execute(sql(statement).bind(id.0)).await?.rows_affected();
        }
        if lifted > 0 {
            let resumed = sql(RESUMED).bind(id.0).bind(&*actor.name).bind(time(now()));
            transaction.execute(resumed).await?;
            note(&mut transaction, actor, "ca-resumed", subject, "orders go on").await?;
        }
        around(Point::STORE_PAUSE, transaction.commit()).await?;
        self.tell(&[Topic::Work, Topic::Events]);
        Ok(lifted > 0)
    }

    async fn serve_directory(
        &self,
        instance: &str,
        incarnation: Uuid,
        directory: &str,
    ) -> Result<()> {
        let serve = sql(SERVE).bind(instance).bind(incarnation).bind(directory);
        self.writer.execute("say at which directory it orders", serve).await?;
        Ok(())
    }

    async fn other_accounts(&self, directory: &str, stale: Duration) -> Result<Vec<OtherAccount>> {
        let (since, until) = signs_of_life(stale);
        let others = sql(OTHERS).bind(directory).bind(since).bind(until);
        self.readers.rows("find other accounts", others).await?.iter().map(other_account).collect()
    }
}
