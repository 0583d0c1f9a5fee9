//! Keys that are replaced while the servers run: the data key, with everything sealed anew under it, and the key of the account
//! at the CA.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use holdfast_cluster::ACME_WRITER;
use holdfast_store::{Actor, SharedStore};
use http::StatusCode;
use serde::Serialize;
use tokio::sync::watch;
use utoipa::ToSchema;

use crate::auth::Admin;
use crate::request::Panicked;
use crate::{AppState, Kind, Problem};

/// Values sealed anew per round: a round is short, so that nobody waits for it.
const ROUND: u32 = 500;

/// How long the answer is held back for the end; the work goes on after it.
const PATIENCE: Duration = Duration::from_secs(20);

/// How far a rotation is.
#[derive(Debug, Clone, Copy, Default, Serialize, ToSchema)]
pub(super) struct Rotation {
    /// Values sealed anew so far.
    resealed: u64,
    /// Is nothing left under an older key?
    complete: bool,
}

/// Makes a new data key and seals everything anew under it.
#[utoipa::path(
    post, path = "/v1/keys:rotate", operation_id = "rotateKeys", tag = "keys",
    responses(
        (status = 200, description = "Complete", body = Rotation),
        (status = 202, description = "Still under way; an event `key-rotated` tells the end", body = Rotation),
    ),
)]
pub(super) async fn rotate(
    Admin(caller): Admin,
    State(state): State<AppState>,
) -> Result<(StatusCode, Json<Rotation>), Problem> {
    let Ok(alone) = state.rotation.clone().try_lock_owned() else {
        let detail = "A rotation is under way on this replica; wait for its event `key-rotated`.";
        return Err(Problem::new(Kind::RotationRunning, detail));
    };
    let (progress, watched) = watch::channel(Rotation::default());
    let (store, actor) = (state.store.clone(), state.actor(&caller));
    store.new_data_key().await?;
    // On its own, so that it ends also when who asked goes away; and when another leads meanwhile: that there is a new key was decided
    // under the leader's fence, and what is sealed anew says what it said before, whoever does it and however often.
    let work = tokio::spawn(async move {
        let done = reseal_all(&store, &actor, &progress).await;
        drop(alone);
        done
    });
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(done) => Ok((StatusCode::OK, Json(done.map_err(Panicked::from)??))),
        Err(_) => Ok((StatusCode::ACCEPTED, Json(*watched.borrow()))),
    }
}

/// The account whose key was changed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct AccountKey {
    /// The ACME directory it is at.
    directory: String,
}

/// How long to wait for another replica that has to do with the account.
const TURN: Duration = Duration::from_secs(5);

/// Changes the key of the account at the CA. The next key is sealed before the CA hears of it: a change that breaks off
/// anywhere is completed by the next start, or by asking again.
#[utoipa::path(
    post, path = "/v1/keys:rotate-account", operation_id = "rotateAccountKey", tag = "keys",
    responses(
        (status = 200, description = "The CA knows the account by a new key", body = AccountKey),
    ),
)]
pub(super) async fn rotate_account(
    Admin(caller): Admin,
    State(state): State<AppState>,
) -> Result<Json<AccountKey>, Problem> {
    let Some(ca) = state.ca.clone() else {
        return Err(Problem::new(Kind::NoCa, "Ask a replica that has an [acme] section."));
    };
    let Ok(alone) = state.rotation.clone().try_lock_owned() else {
        let detail = "A rotation is under way on this replica; ask again when it has ended.";
        return Err(Problem::new(Kind::RotationRunning, detail));
    };
    let (cluster, directory) = (state.cluster.clone(), ca.directory().to_owned());
    // On its own, so that it ends also when who asked goes away; and not under the leader's fence: what the CA was told is to be written down
    // whoever leads by then. That one key follows another rests on the journal, not on who leads.
    let work = tokio::spawn(async move {
        let changed = cluster.around(ACME_WRITER, TURN, ca.change_key()).await;
        drop(alone);
        changed
    });
    let Ok(changed) = tokio::time::timeout(PATIENCE, work).await else {
        let detail = "The CA is slow; the change goes on by itself, and asking again completes it.";
        return Err(Problem::new(Kind::TimedOut, detail));
    };
    changed.map_err(Panicked::from)??;
    let detail = "the CA knows the account by a new key";
    state.store.notice(&state.actor(&caller), "account-key-changed", &directory, detail).await?;
    Ok(Json(AccountKey { directory }))
}

async fn reseal_all(
    store: &SharedStore,
    actor: &Actor,
    progress: &watch::Sender<Rotation>,
) -> Result<Rotation, Problem> {
    loop {
        let round = store.reseal(ROUND).await?;
        progress.send_modify(|so_far| {
            so_far.resealed += round.resealed;
            so_far.complete = round.complete;
        });
        if round.complete {
            break;
        }
    }
    let rotation = *progress.borrow();
    let detail = format!("{} values were sealed under a new key", rotation.resealed);
    store.notice(actor, "key-rotated", "data-key", &detail).await?;
    Ok(rotation)
}
