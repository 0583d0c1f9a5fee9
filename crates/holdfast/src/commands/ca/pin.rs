//! `holdfast ca unpin`: the issuer that a private CA is held to.

use holdfast_acme::certificate::Pin;
use holdfast_store::{OrderLimits, SharedStore};
use serde_json::json;

use crate::{config::Config, failure::Failure, output::Output, wiring};

/// Straight on the database: who may do that is who may name the roots in its configuration.
pub(super) async fn unpin(config: &Config, output: Output) -> Result<(), Failure> {
    let store = wiring::store::open(config).await?;
    let directory = config.acme.directory.as_str();
    let done = forget(&store, directory, wiring::ca::limits(&config.acme)).await;
    wiring::store::close(&store).await;
    let pinned = done?;
    if output.is_json() {
        output.json(&json!({ "directory": directory, "pinned": pinned }));
        return Ok(());
    }
    let good = output.style().good("✓");
    output.line(match pinned {
        Some(name) => format!(
            "{good} The CA at {directory} is not held to `{name}` any more: its next chain decides."
        ),
        None => format!("{good} The CA at {directory} was held to no issuer."),
    });
    Ok(())
}

/// Gives the issuer's name.
async fn forget(
    store: &SharedStore,
    directory: &str,
    limits: OrderLimits,
) -> Result<Option<String>, Failure> {
    let account = store.account(directory, limits).await.map_err(wiring::store::failed)?;
    let Some((id, pin)) = account.and_then(|account| Some((account.id, account.pin?))) else {
        return Ok(None);
    };
    store.unpin_issuer(id).await.map_err(wiring::store::failed)?;
    Ok(Some(Pin::parse(&pin).map_or(pin, |pin| pin.name().to_owned())))
}
