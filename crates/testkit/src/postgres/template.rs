//! The data directory that servers start from: made once per machine by `initdb`, then copied.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::ROLE;
use crate::scratch;
use crate::spawner;

/// PostgreSQL refuses to run as root; Debian's package brings a user for it.
pub(crate) fn user() -> Option<&'static str> {
    rustix::process::getuid().is_root().then_some("postgres")
}

/// The newest PostgreSQL's program of that name.
pub(super) fn program(name: &str) -> Result<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql")
        .context("PostgreSQL is not installed: run ./dev setup")?;
    let newest = versions
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .max();
    let newest = newest.context("PostgreSQL is not installed: run ./dev setup")?;
    Ok(format!("/usr/lib/postgresql/{newest}/bin/{name}").into())
}

/// Copies the template, made first where it is missing.
pub(super) fn copy_to(data: &Path) -> Result<()> {
    let template = template()?;
    own(data)?;
    run(Command::new("cp").args(["-a", "--reflink=auto"]).arg(template.join(".")).arg(data))
}

#[expect(clippy::disallowed_methods, reason = "test data, which needs no crash point")]
fn template() -> Result<PathBuf> {
    let initdb = program("initdb")?;
    let version =
        initdb.iter().rev().nth(2).and_then(|version| version.to_str()).context("no version")?;
    let base = scratch::base()?;
    let template = base.join(format!("postgres-{version}"));
    let lock = scratch::lock_file(&base.join("postgres.lock"))?;
    lock.lock()?;
    if !template.exists() {
        // Renamed only when complete, so that a killed initdb leaves no half template behind.
        let unfinished = template.with_extension("unfinished");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished)?;
        }
        own(&unfinished)?;
        run(Command::new(initdb)
            .args([
                "--username",
                ROLE,
                "--auth=trust",
                "--no-locale",
                "--encoding=UTF8",
                "--wal-segsize=1",
            ])
            .args(["--no-sync", "--no-instructions", "--pgdata"])
            .arg(&unfinished))?;
        fs::rename(&unfinished, &template)?;
    }
    Ok(template)
}

/// Makes an empty directory that belongs to who runs the server.
pub(super) fn own(directory: &Path) -> Result<()> {
    let mut command = Command::new("install");
    if let Some(user) = user() {
        command.args(["-o", user, "-g", user]);
    }
    let status = command.args(["-d", "-m", "700"]).arg(directory).status()?;
    ensure!(status.success(), "{} could not be made", directory.display());
    Ok(())
}

/// Runs a command to its end as who runs the server.
pub(super) fn run(command: &mut Command) -> Result<()> {
    let mut bound = spawner::bound_to_us(command, "KILL", user());
    bound.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = spawner::spawn(bound)?.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed: {said}", command.get_program().display());
    Ok(())
}
