//! A statement past the product: what a broken disk, a restored backup or another release may have written.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Runs it in a process of its own: closing a file that this process has open would drop SQLite's locks of it.
pub fn run_sql(url: &str, statement: &str) -> Result<()> {
    let mut command = match url.strip_prefix("sqlite:") {
        Some(file) => {
            let mut sqlite = Command::new("sqlite3");
            sqlite.args(["-bail", "-cmd", ".timeout 10000", file, statement]);
            sqlite
        }
        None => {
            let mut psql = Command::new("psql");
            psql.args([url, "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1"]);
            psql.args(["--command", statement]);
            psql
        }
    };
    let ended = command.output().context("running a database's client")?;
    let said = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "{statement}: {said}");
    Ok(())
}
