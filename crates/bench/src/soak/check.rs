//! What must never be true, looked for when everything is at rest.

use std::fmt;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use sqlx::{Connection as _, PgConnection, Row as _};

use super::installation::{Installation, Storage};
use super::ledger::Life;
use crate::api::{Api, state};
use crate::network::Network;

/// What was looked at.
#[derive(Default)]
pub(super) struct Found {
    active: usize,
    gone: usize,
    issued: usize,
    steps: usize,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { active, gone, issued, steps } = self;
        write!(
            f,
            "{active} Active, {gone} removed, {issued} certificates, {steps} steps of history, all in order"
        )
    }
}

pub(super) async fn all(network: &Network, installations: &[Installation]) -> Result<Found> {
    let accounts = network.accounts().await?;
    ensure!(accounts.len() == installations.len(), "more than one account each: {accounts:?}");
    let orders = network.orders(None).await?;
    for order in &orders {
        ensure!(finalized(order) <= 1, "finalized more than once: {order}");
    }
    let mut found = Found::default();
    for installation in installations {
        check(installation, &orders, &mut found)
            .await
            .with_context(|| format!("on {}", installation.title))?;
    }
    Ok(found)
}

async fn check(installation: &Installation, orders: &[Value], found: &mut Found) -> Result<()> {
    let api = installation.replicas.first().context("no replica")?.api();
    for (name, lives) in installation.ledger.by_name() {
        let mut downloads = 0;
        for life in &lives {
            downloads += history(api, life, found).await?;
        }
        let removed = lives.iter().filter(|life| life.removed).count();
        let of_name = |order: &&Value| {
            let names = order.get("names").and_then(Value::as_array);
            names.is_some_and(|names| names.iter().any(|one| one == name))
        };
        let issued = orders.iter().filter(of_name).filter(|order| finalized(order) > 0).count();
        // A removal may come between a finalized order and its download, once in each life.
        ensure!(
            (downloads..=downloads + removed).contains(&issued),
            "{name}: {issued} finalized orders for {downloads} downloads, {removed} removals"
        );
        found.issued += issued;
    }
    nothing_left(&installation.storage).await
}

fn finalized(order: &Value) -> u64 {
    order.get("finalized").and_then(Value::as_u64).unwrap_or(u64::MAX)
}

/// Checks that a life's history has no gap and ends where the domain is; how often it got a certificate.
async fn history(api: &Api, life: &Life, found: &mut Found) -> Result<usize> {
    let id = life.id.as_deref().context("a life without an id")?;
    let steps = steps(api, id).await?;
    let text = |step: &Value, field: &str| {
        step.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let first = steps.first().with_context(|| format!("{} has no history", life.name))?;
    ensure!(["", "Initial"].contains(&text(first, "from").as_str()), "begins late: {first}");
    for (earlier, later) in steps.iter().zip(steps.iter().skip(1)) {
        let fits =
            text(earlier, "to") == text(later, "from") && text(earlier, "at") <= text(later, "at");
        ensure!(fits, "a gap in the history of {}: {earlier} then {later}", life.name);
    }
    let last = steps.last().map(|step| text(step, "to")).unwrap_or_default();
    if life.gone {
        found.gone += 1;
    } else {
        let domain = api.domain(&life.name).await?;
        ensure!(last == state(&domain), "{} is {}, not {last}", life.name, state(&domain));
        found.active += 1;
    }
    found.steps += steps.len();
    let got = |step: &&Value| {
        text(step, "to") == "CertificateDownloaded" && text(step, "from") != "CertificateDownloaded"
    };
    Ok(steps.iter().filter(got).count())
}

async fn steps(api: &Api, id: &str) -> Result<Vec<Value>> {
    let (mut steps, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = api.web().get(&format!("/v1/domains/{id}/history?limit=1000{cursor}")).await?;
        let items = page.get("items").and_then(Value::as_array).context("no items")?;
        steps.extend(items.iter().cloned());
        match page.get("next_cursor").and_then(Value::as_str) {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(steps),
        }
    }
}

/// No challenge is answered any more, no order is open, no claim is held.
async fn nothing_left(storage: &Storage) -> Result<()> {
    let Storage::Postgres { url, .. } = storage else { return Ok(()) };
    let mut connection = PgConnection::connect(url).await?;
    let asked = "SELECT (SELECT count(*) FROM challenge), (SELECT count(*) FROM acme_order WHERE ended_at IS NULL),
                        (SELECT count(*) FROM sealed WHERE owner = 'order')";
    let row = sqlx::query(asked).fetch_one(&mut connection).await?;
    let left: (i64, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    ensure!(left == (0, 0, 0), "challenges, open orders, keys of orders left: {left:?}");
    connection.close().await?;
    Ok(())
}
