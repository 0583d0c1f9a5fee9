//! A streaming standby that confirms every commit of its primary, as a failover needs it.

use std::process::Command;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::{Result, ensure};
use sqlx::{Connection as _, Executor as _, PgConnection};

use super::{Durability, Postgres, ROLE, run, template};
use crate::eventually::eventually;
use crate::port::free_port;
use crate::scratch::Scratch;

/// Longest wait for a standby to follow, or to take over.
const LIMIT: Duration = Duration::from_secs(60);

impl Postgres {
    /// Copies this server and starts the copy as its standby. From here on a commit is answered when the standby has it.
    pub async fn synchronous_standby(&self) -> Result<Postgres> {
        let (directory, port) = (Scratch::new()?, free_port()?);
        let data = directory.path().join("data");
        let primary = self.port;
        tokio::task::spawn_blocking(move || {
            template::own(&data)?;
            let mut copy = Command::new(template::program("pg_basebackup")?);
            copy.args(["-h", "127.0.0.1", "-p", &primary.to_string(), "-U", ROLE]);
            copy.args(["--checkpoint=fast", "--no-sync", "--write-recovery-conf", "-D"]).arg(data);
            template::run(&mut copy)
        })
        .await??;
        let durability = Durability::Relaxed;
        let process = run(&directory, port, durability, &[]).await?;
        let databases = AtomicU64::new(0);
        let environment = Vec::new();
        let standby = Self { process, port, durability, environment, databases, directory };
        self.wait_for_every_commit_to_be_copied().await?;
        Ok(standby)
    }

    async fn wait_for_every_commit_to_be_copied(&self) -> Result<()> {
        let mut session = PgConnection::connect(&self.url("postgres")).await?;
        session.execute("ALTER SYSTEM SET synchronous_standby_names = '*'").await?;
        session.execute("SELECT pg_reload_conf()").await?;
        eventually(LIMIT, "a synchronous standby", async || {
            let state = "SELECT coalesce(max(sync_state), 'none') FROM pg_stat_replication";
            let state: String = sqlx::query_scalar(state)
                .fetch_one(&mut session)
                .await
                .map_err(|error| error.to_string())?;
            if state == "sync" { Ok(()) } else { Err(state) }
        })
        .await;
        session.close().await?;
        Ok(())
    }

    /// Makes a standby the primary, and returns when it takes writes.
    pub async fn promote(&self) -> Result<()> {
        let mut session = PgConnection::connect(&self.url("postgres")).await?;
        let wait = i32::try_from(LIMIT.as_secs())?;
        let promoted: bool = sqlx::query_scalar("SELECT pg_promote(true, $1)")
            .bind(wait)
            .fetch_one(&mut session)
            .await?;
        ensure!(promoted, "the standby was not promoted within {LIMIT:?}");
        session.close().await?;
        Ok(())
    }

    /// Takes writes, or no longer does, in every session that begins a transaction from now on.
    pub async fn set_read_only(&self, read_only: bool) -> Result<()> {
        let mut session = PgConnection::connect(&self.url("postgres")).await?;
        session.execute("SET default_transaction_read_only = off").await?;
        session
            .execute(match read_only {
                true => "ALTER SYSTEM SET default_transaction_read_only = on",
                false => "ALTER SYSTEM RESET default_transaction_read_only",
            })
            .await?;
        session.execute("SELECT pg_reload_conf()").await?;
        let wanted = if read_only { "on" } else { "off" };
        eventually(LIMIT, "the setting to be in force", async || {
            let mut fresh = PgConnection::connect(&self.url("postgres")).await?;
            let found: String =
                sqlx::query_scalar("SHOW transaction_read_only").fetch_one(&mut fresh).await?;
            ensure!(found == wanted, "it is {found}");
            Ok(())
        })
        .await;
        Ok(())
    }
}
