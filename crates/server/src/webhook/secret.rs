//! What messages are signed with: `whsec_` and base64, as Standard Webhooks writes it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_store::Secret;
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::token::NoRandomness;

const PREFIX: &str = "whsec_";
const LENGTHS: std::ops::RangeInclusive<usize> = 24..=64;

/// A new secret: as it is kept, and as it is shown once.
pub(crate) fn mint() -> Result<(Secret, String), NoRandomness> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoRandomness)?;
    Ok((Secret::new(bytes.to_vec()), format!("{PREFIX}{}", STANDARD.encode(bytes))))
}

/// A secret that a person gave; none when it is no such.
pub(crate) fn parse(text: &str) -> Option<Secret> {
    let bytes = STANDARD.decode(text.strip_prefix(PREFIX)?).ok()?;
    LENGTHS.contains(&bytes.len()).then(|| Secret::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_can_be_given() {
        let (secret, text) = mint().unwrap();
        assert_eq!(parse(&text), Some(secret));
        for bad in ["", "whsec_", "whsec_AAAA", "AAAA", "whsec_not base64 at all, or is it"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
