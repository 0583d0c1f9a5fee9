//! External account binding (RFC 8555, section 7.3.4).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::Ca;
use super::jwk::Jwk;
use super::jws::{Jws, Signer};
use super::problem::{Kind, Problem};

/// Checks a new account's binding, if it has or needs one.
pub(crate) fn check(
    ca: &Ca,
    binding: Option<&Value>,
    account_key: &Jwk,
    url: &str,
) -> Result<(), Problem> {
    let Some(binding) = binding else {
        return match ca.settings.external_account_required {
            true => Err(Problem::new(
                Kind::ExternalAccountRequired,
                "a new account must be bound to an external one here",
            )),
            false => Ok(()),
        };
    };
    let binding = Jws::parse_binding(binding)?;
    let Signer::Kid(key_id) = &binding.signer else {
        return Err(Problem::malformed("the external account binding must name its key with kid"));
    };
    if binding.nonce.is_some() || binding.url != url {
        return Err(Problem::malformed(
            "the external account binding must have newAccount's url and no nonce",
        ));
    }
    let accounts = &ca.settings.external_accounts;
    let known = accounts.iter().find(|known| known.key_id == *key_id);
    let key = known.and_then(|known| URL_SAFE_NO_PAD.decode(&known.hmac_key).ok());
    if !key.is_some_and(|key| binding.verify_hs256(&key)) {
        return Err(Problem::unauthorized(
            "the external account binding's key is unknown or did not sign it with HS256",
        ));
    }
    let bound = serde_json::from_slice(&binding.payload).ok().and_then(|key| Jwk::parse(&key).ok());
    match bound.as_ref() == Some(account_key) {
        true => Ok(()),
        false => Err(Problem::malformed("the external account binding is for another account key")),
    }
}

impl Jws {
    fn parse_binding(binding: &Value) -> Result<Self, Problem> {
        Self::parse(binding.to_string().as_bytes())
    }
}
