//! The proof that a replica passed a request on: term and hop, under a MAC that only who has the cluster's secret can make, and that
//! is good for no other request.

use axum::extract::Request;
use holdfast_store::Secret;
use http::{HeaderName, HeaderValue, header};
use ring::hmac;

use crate::{AppState, Problem, proof};

/// The header. A client's own is dropped unread unless its MAC is right, which a client's cannot be.
pub(super) const HEADER: HeaderName = HeaderName::from_static("holdfast-pass");

/// What another replica says of a request that it passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pass {
    /// The term of the leader it is meant for.
    pub(super) term: u64,
    /// How often it was passed on, this time included.
    pub(super) hop: u8,
}

/// Takes the proof off a request; none where there is none, or a false one.
pub(super) async fn take(state: &AppState, request: &mut Request) -> Result<Option<Pass>, Problem> {
    let mut given = request.headers().get_all(HEADER).iter().cloned().collect::<Vec<_>>();
    request.headers_mut().remove(HEADER);
    let (Some(value), true) = (given.pop(), given.is_empty()) else { return Ok(None) };
    let secret = proof::secret(state).await?;
    Ok(value.to_str().ok().and_then(|value| open(secret, value, request)))
}

/// The proof for a request, as a header.
pub(super) fn seal(secret: &Secret, pass: Pass, request: &Request) -> Option<HeaderValue> {
    let said = said(pass, request);
    let mac = hmac::sign(&key(secret), said.as_bytes());
    let mac: String = mac.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    HeaderValue::try_from(format!("1.{}.{}.{mac}", pass.term, pass.hop)).ok()
}

fn open(secret: &Secret, value: &str, request: &Request) -> Option<Pass> {
    let rest = value.strip_prefix("1.")?;
    let (term, rest) = rest.split_once('.')?;
    let (hop, mac) = rest.split_once('.')?;
    let pass = Pass { term: term.parse().ok()?, hop: hop.parse().ok()? };
    let said = said(pass, request);
    hmac::verify(&key(secret), said.as_bytes(), &bytes(mac)?).ok().map(|()| pass)
}

/// The secret signs for other purposes too; what begins with a purpose is good for no other.
fn key(secret: &Secret) -> hmac::Key {
    let root = hmac::Key::new(hmac::HMAC_SHA256, secret.expose());
    let derived = hmac::sign(&root, b"holdfast-forward-v1");
    hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref())
}

fn said(pass: Pass, request: &Request) -> String {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let caller = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let caller = String::from_utf8_lossy(caller.unwrap_or_default());
    format!("{}\n{}\n{}\n{path}\n{caller}", pass.term, pass.hop, request.method())
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    if !hex.is_ascii() || !hex.len().is_multiple_of(2) {
        return None;
    }
    let pairs = (0..hex.len()).step_by(2).map(|at| hex.get(at..at + 2));
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http::Method;
    use proptest::prelude::*;

    use super::*;

    fn request(method: Method, path: &str, token: &str) -> Request {
        let request = Request::builder().method(method).uri(path);
        request.header(header::AUTHORIZATION, token).body(Body::empty()).unwrap()
    }

    fn secret(text: &str) -> Secret {
        Secret::from(text.to_owned())
    }

    #[test]
    fn a_pass_is_good_for_its_request_alone() {
        let (ours, pass) = (secret("hush"), Pass { term: 7, hop: 1 });
        let here = || request(Method::POST, "/v1/domains?x=1", "Bearer a");
        let value = seal(&ours, pass, &here()).unwrap();
        let value = value.to_str().unwrap();
        assert_eq!(open(&ours, value, &here()), Some(pass));
        assert_eq!(open(&secret("other"), value, &here()), None);
        for other in [
            request(Method::PUT, "/v1/domains?x=1", "Bearer a"),
            request(Method::POST, "/v1/domains?x=2", "Bearer a"),
            request(Method::POST, "/v1/domains?x=1", "Bearer b"),
        ] {
            assert_eq!(open(&ours, value, &other), None);
        }
        for altered in [value.replacen("1.7.", "1.8.", 1), value.replacen(".1.", ".2.", 1)] {
            assert_eq!(open(&ours, &altered, &here()), None, "{altered}");
        }
    }

    #[test]
    fn the_proof_of_reach_is_no_pass() {
        // Anybody can have a nonce of their choice signed with the same secret.
        let ours = secret("hush");
        let here = request(Method::POST, "/v1/domains", "Bearer a");
        let signed = holdfast_store::proof_answer(&ours, "0123456789abcdef");
        assert_eq!(open(&ours, &format!("1.7.1.{signed}"), &here), None);
    }

    proptest! {
        #[test]
        fn any_header_is_ours_or_nothing(value in "1\\.[0-9]{0,22}\\.[0-9]{0,4}\\.[0-9a-f]{0,66}|.*") {
            let here = request(Method::POST, "/v1/domains", "Bearer a");
            prop_assert_eq!(open(&secret("hush"), &value, &here), None);
        }
    }
}
