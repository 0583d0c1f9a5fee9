//! The answer that only this installation can give.

use holdfast_store::Secret;

use crate::{AppState, Problem};

/// The secret that all replicas share, read once.
pub(crate) async fn secret(state: &AppState) -> Result<&Secret, Problem> {
    Ok(state.cluster_secret.get_or_try_init(|| state.store.cluster_secret()).await?)
}

/// Hex of the HMAC of a nonce under the cluster's secret.
pub(crate) async fn answer(state: &AppState, nonce: &str) -> Result<String, Problem> {
    Ok(holdfast_store::proof_answer(secret(state).await?, nonce))
}
