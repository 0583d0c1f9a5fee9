//! A message's signature, as Standard Webhooks has it: HMAC-SHA256 over id, timestamp and body, so that neither can be exchanged.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use holdfast_store::Secret;
use ring::hmac;

/// The value of `webhook-signature`.
pub(super) fn sign(secret: &Secret, id: &str, seconds: i64, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose());
    let tag = hmac::sign(&key, format!("{id}.{seconds}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_standards_own_example() {
        // From the Standard Webhooks reference libraries.
        let secret = crate::webhook::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature =
            sign(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, r#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
