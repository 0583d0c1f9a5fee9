//! A challenge's row.

use super::{Fields, corrupt};
use crate::{ChallengeAnswer, ChallengeKind, NewChallenge, OpenChallenge, Result};

fn kind(row: &impl Fields) -> Result<ChallengeKind> {
    let text = row.text("kind")?;
    [ChallengeKind::Http01, ChallengeKind::TlsAlpn01]
        .into_iter()
        .find(|kind| kind.as_str() == text)
        .ok_or_else(|| corrupt("challenge kind", text))
}

pub(crate) fn answer(row: &impl Fields) -> Result<ChallengeAnswer> {
    Ok(ChallengeAnswer {
        name: row.hostname("name")?,
        kind: kind(row)?,
        key_authorization: row.text("key_authorization")?,
    })
}

pub(crate) fn open_challenge(row: &impl Fields) -> Result<OpenChallenge> {
    Ok(OpenChallenge { token: row.text("token")?, answer: answer(row)? })
}

/// The challenge joined to an order, if it has one.
pub(crate) fn challenge(row: &impl Fields) -> Result<Option<NewChallenge>> {
    let Some(token) = row.maybe_text("token")? else { return Ok(None) };
    Ok(Some(NewChallenge {
        kind: kind(row)?,
        token,
        key_authorization: row.text("key_authorization")?,
        url: row.text("challenge_url")?,
        authorization_url: row.text("authorization_url")?,
    }))
}
