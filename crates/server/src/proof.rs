//! The answer that only this installation can give.

use crate::{AppState, Problem};

/// Hex of the HMAC of a nonce under the cluster's secret.
pub(crate) async fn answer(state: &AppState, nonce: &str) -> Result<String, Problem> {
    let secret = state.cluster_secret.get_or_try_init(|| state.store.cluster_secret()).await?;
    Ok(holdfast_store::proof_answer(secret, nonce))
}
