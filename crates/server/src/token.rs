//! API tokens as texts: made once, shown once, kept and compared as a hash.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest;
use ring::rand::{SecureRandom as _, SystemRandom};

/// The system gave no randomness.
#[derive(Debug, thiserror::Error)]
#[error("the system gave no randomness for a token")]
pub struct NoRandomness;

/// A new token: `hf_` and 32 random bytes.
///
/// # Errors
/// When the system gives no randomness.
pub fn mint() -> Result<String, NoRandomness> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok(format!("hf_{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// What is kept of a token. The lookup is by hash, so how long it takes tells nothing of the token.
#[must_use]
pub fn hash(token: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, token.as_bytes()).as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_and_never_the_same() {
        let (one, other) = (mint().unwrap(), mint().unwrap());
        assert!(one.starts_with("hf_") && one.len() == 46, "{one}");
        assert_ne!(hash(&one), hash(&other));
    }
}
