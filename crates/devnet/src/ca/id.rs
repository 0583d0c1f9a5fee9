//! Names that nobody can guess.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom as _, SystemRandom};

/// So many random bytes.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // The system's generator fails only where there is none; then nothing else here works either.
    if SystemRandom::new().fill(&mut bytes).is_err() {
        tracing::error!("the system gives no random numbers");
    }
    bytes
}

/// So many random bytes, in base64url.
pub(crate) fn random_text<const N: usize>() -> String {
    URL_SAFE_NO_PAD.encode(random_bytes::<N>())
}

/// A new object's id, in letters that survive everywhere.
pub(crate) fn new_id() -> String {
    hex(&random_bytes::<10>())
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Hexadecimal digits as bytes; what are none are left out.
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2).map(|pair| String::from_utf8_lossy(pair).into_owned());
    pairs.filter_map(|pair| u8::from_str_radix(&pair, 16).ok()).collect()
}
