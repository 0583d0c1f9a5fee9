//! `holdfast restored`: after the database was restored from a backup, nothing may go back.

use std::{path::PathBuf, time::Duration};

use holdfast_acme::Standing;
use holdfast_store::{Error, HIGHEST_EPOCH, Replica, Restored, Revision, SharedStore};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    config::Config,
    environment::Environment,
    failure::{Failure, chain},
    output::{Format, Output},
    wiring,
};

/// Beyond the time between two signs of life.
const MARGIN: Duration = Duration::from_secs(3);

/// How often signs of life are looked for.
const PACE: Duration = Duration::from_millis(250);

/// Tell that the database was restored.
#[derive(Debug, clap::Args)]
pub(crate) struct RestoredArgs {
    /// The configuration: TOML or HCL, by its ending
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// A revision that an edge has seen, where it complains that the control plane is still behind it: see `holdfast edge list`
    #[arg(long, value_name = "REVISION", value_parser = above)]
    above: Option<Revision>,
    /// How the result is written
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Table)]
    output: Format,
}

/// Does it.
pub(crate) async fn run(args: &RestoredArgs, environment: &Environment) -> Result<(), Failure> {
    let config = Config::load(&args.config, environment)?;
    let is_checked = wiring::store::refuse_damaged(&config.database.url).await?;
    let store = wiring::store::open(&config).await?;
    let beat = Duration::from_secs(config.replicas.heartbeat_seconds.into());
    let before = store.replicas(MARGIN).await.map_err(wiring::store::failed)?;
    refuse_while_replicas_run(&store, &before, beat).await?;
    let above = args.above.unwrap_or_default().epoch;
    // Looked for again before its commit: a replica may have been started meanwhile.
    let restored =
        store.restored_above(above, Some(&before)).await.map_err(wiring::store::failed)?;
    let told = Told { restored, account: account(Some(&config), &store).await };
    wiring::store::close(&store).await;
    let output = Output::new(args.output, environment);
    if output.is_json() {
        output.json(&told.json());
        return Ok(());
    }
    if !is_checked {
        let seconds = wiring::store::CHECK.as_secs();
        output.line(format!("  Not every page of the file could be checked within {seconds} s."));
    }
    told.say(output);
    Ok(())
}

fn above(text: &str) -> Result<Revision, String> {
    let seen: Revision = text.parse().map_err(|_| {
        "not a revision, which is EPOCH.NUMBER; `holdfast edge list` shows what an edge has seen"
            .to_owned()
    })?;
    if seen.epoch > HIGHEST_EPOCH {
        return Err(format!("no restore can have given epoch {}; check the number", seen.epoch));
    }
    Ok(seen)
}

/// A restored database holds old signs of life, also of replicas that are gone: what counts is a new one. It is waited for wherever a
/// replica has not left, connected or not: one that was cut off by the restart of the database is about to come back.
async fn refuse_while_replicas_run(
    store: &SharedStore,
    before: &[Replica],
    beat: Duration,
) -> Result<(), Failure> {
    if !store.may_be_used_by_others().await.map_err(wiring::store::failed)? {
        return Ok(());
    }
    let deadline = Instant::now() + beat + MARGIN;
    while Instant::now() < deadline {
        sleep(PACE).await;
        let now = store.replicas(MARGIN).await.map_err(wiring::store::failed)?;
        if let Some(running) = Replica::heard_since(before, &now) {
            return Err(wiring::store::failed(Error::ReplicaRuns(running.instance.clone())));
        }
    }
    Ok(())
}

/// What the CA says of the account as the backup has it.
pub(super) enum Account {
    /// There is none, or no CA to ask.
    None,
    /// It can be used.
    Usable,
    /// It cannot be used, for this reason.
    Unusable(String),
    /// The CA could not be asked, for this reason.
    Unknown(String),
}

/// Asks the CA whether it still knows the account by the key that the database has.
pub(super) async fn account(config: Option<&Config>, store: &SharedStore) -> Account {
    let Some(config) = config else { return Account::None };
    let ca = match wiring::ca::open(&config.acme, &config.edge, store.clone()) {
        Ok(ca) => ca,
        Err(failure) => return Account::Unknown(failure.to_string()),
    };
    match ca.standing().await {
        Ok(Standing::None) => Account::None,
        Ok(Standing::Usable) => Account::Usable,
        Ok(Standing::Unusable(note)) => Account::Unusable(note.detail),
        Err(error) => Account::Unknown(chain(&error)),
    }
}

/// What became of a restore.
pub(super) struct Told {
    pub(super) restored: Restored,
    pub(super) account: Account,
}

impl Told {
    /// For scripts.
    pub(super) fn json(&self) -> Value {
        let (account, reason) = match &self.account {
            Account::None => ("none", None),
            Account::Usable => ("usable", None),
            Account::Unusable(why) => ("unusable", Some(why)),
            Account::Unknown(why) => ("unknown", Some(why)),
        };
        let Restored { epoch, orders, deployments } = self.restored;
        json!({
            "epoch": epoch, "orders": orders, "deployments": deployments,
            "account": { "state": account, "reason": reason },
        })
    }

    /// For people.
    pub(super) fn say(&self, output: Output) {
        let (style, Restored { epoch, orders, deployments }) = (output.style(), self.restored);
        output.line(format!(
            "{} Revisions are in epoch {epoch} now; edges list anew.",
            style.good("✓")
        ));
        output.line(format!("  {orders} open orders are looked at anew at the CA."));
        output.line(format!(
            "  {deployments} certificates are deployed and seen anew, and the CA is asked whether it has revoked them."
        ));
        match &self.account {
            Account::None => {}
            Account::Usable => output.line("  The CA knows the account."),
            Account::Unusable(why) => output.line(format!(
                "{} {why}. Nothing is ordered until you start the servers and run `holdfast ca register`.",
                style.bad("✗")
            )),
            Account::Unknown(why) => output.line(format!(
                "  Whether the CA knows the account is not known: {why}. If it does not, an alert says so."
            )),
        }
        output.line("Start the servers. `holdfast edge show NAME` then lists names that the edge serves and this database does not know, and names that it did not serve any more.");
    }
}
