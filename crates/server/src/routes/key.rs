//! Keys that are replaced while the servers run: the data key, with everything sealed anew under it, and the account at the CA or
//! its key.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use holdfast_acme::Ca;
use holdfast_cluster::ACME_WRITER;
use holdfast_store::{Actor, Resealing, Rotation, SharedStore};
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
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub(super) struct RotationView {
    /// Values sealed anew so far.
    resealed: u64,
    /// Is nothing left under an older key?
    complete: bool,
    /// Values that do not open; they stay as they are.
    left_count: u64,
    /// The first of them.
    left: Vec<SealedValueView>,
}

/// A sealed value, by its row.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct SealedValueView {
    /// What kind of thing it belongs to.
    owner: String,
    /// Which one.
    id: String,
    /// The name of the domain it is for, where there is one.
    name: Option<String>,
}

impl From<&Rotation> for RotationView {
    fn from(rotation: &Rotation) -> Self {
        let left = rotation.named.iter().map(|value| SealedValueView {
            owner: value.owner.clone(),
            id: value.id.to_string(),
            name: value.name.clone(),
        });
        Self {
            resealed: rotation.resealed,
            complete: rotation.is_complete(),
            left_count: rotation.left,
            left: left.collect(),
        }
    }
}

/// Makes a new data key and seals everything anew under it.
#[utoipa::path(
    post, path = "/v1/keys:rotate", operation_id = "rotateKeys", tag = "keys",
    responses(
        (status = 200, description = "Over: everything that opens is sealed under the new key", body = RotationView),
        (status = 202, description = "Still under way; an event `key-rotated` tells the end", body = RotationView),
    ),
)]
pub(super) async fn rotate(
    Admin(caller): Admin,
    State(state): State<AppState>,
) -> Result<(StatusCode, Json<RotationView>), Problem> {
    let Ok(alone) = state.rotation.clone().try_lock_owned() else {
        let detail = "A rotation is under way on this replica; wait for its event `key-rotated`.";
        return Err(Problem::new(Kind::RotationRunning, detail));
    };
    let (progress, watched) = watch::channel(RotationView::default());
    let (store, actor) = (state.store.clone(), state.actor(&caller));
    store.new_data_key().await?;
    // On its own, so that it ends also when who asked goes away; and when another leads meanwhile: that there is a new key was decided
    // under the leader's fence, and what is sealed anew says what it said before, whoever does it and however often. A rotation that is
    // cut short here is ended as singleton work.
    let work = tokio::spawn(async move {
        let done = reseal_all(&store, &actor, &progress).await;
        drop(alone);
        done
    });
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(done) => Ok((StatusCode::OK, Json(done.map_err(Panicked::from)??))),
        Err(_) => Ok((StatusCode::ACCEPTED, Json(watched.borrow().clone()))),
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
    let directory = with_ca(&state, |ca| async move { ca.change_key().await }).await?;
    let detail = "the CA knows the account by a new key";
    state.store.notice(&state.actor(&caller), "account-key-changed", &directory, detail).await?;
    Ok(Json(AccountKey { directory }))
}

/// Makes another account at the CA, with a new key, in place of one that the CA does not accept any more. Refused while the CA
/// accepts the account.
#[utoipa::path(
    post, path = "/v1/keys:register-account", operation_id = "registerAccount", tag = "keys",
    responses(
        (status = 200, description = "The CA knows the new account", body = AccountKey),
    ),
)]
pub(super) async fn register_account(
    Admin(caller): Admin,
    State(state): State<AppState>,
) -> Result<Json<AccountKey>, Problem> {
    let directory = with_ca(&state, |ca| async move { ca.register_anew().await }).await?;
    let detail = "another account was registered at the CA";
    state.store.notice(&state.actor(&caller), "account-registered", &directory, detail).await?;
    Ok(Json(AccountKey { directory }))
}

/// Does something about the account at the CA, one request at a time; gives the CA's directory.
async fn with_ca<W, F>(state: &AppState, work: W) -> Result<String, Problem>
where
    W: FnOnce(Ca) -> F,
    F: Future<Output = Result<(), holdfast_acme::Error>> + Send + 'static,
{
    let Some(ca) = state.ca.clone() else {
        return Err(Problem::new(Kind::NoCa, "Ask a replica that has an [acme] section."));
    };
    let Ok(alone) = state.rotation.clone().try_lock_owned() else {
        let detail = "A rotation is under way on this replica; ask again when it has ended.";
        return Err(Problem::new(Kind::RotationRunning, detail));
    };
    let (cluster, directory) = (state.cluster.clone(), ca.directory().to_owned());
    let work = work(ca);
    // On its own, so that it ends also when who asked goes away; and not under the leader's fence: what the CA was told is to be written down
    // whoever leads by then. That one key follows another rests on the journal, not on who leads.
    let work = tokio::spawn(async move {
        let done = cluster.around(ACME_WRITER, TURN, work).await;
        drop(alone);
        done
    });
    let Ok(done) = tokio::time::timeout(PATIENCE, work).await else {
        let detail = "The CA is slow; the change goes on by itself, and asking again completes it.";
        return Err(Problem::new(Kind::TimedOut, detail));
    };
    done.map_err(Panicked::from)??;
    Ok(directory)
}

async fn reseal_all(
    store: &SharedStore,
    actor: &Actor,
    progress: &watch::Sender<RotationView>,
) -> Result<RotationView, Problem> {
    let mut resealing = Resealing::default();
    loop {
        let ended = resealing.step(store, ROUND, actor).await?;
        if let Some(rotation) = ended {
            return Ok(RotationView::from(&rotation));
        }
        progress.send_replace(RotationView::from(resealing.so_far()));
    }
}
