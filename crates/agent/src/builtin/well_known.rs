//! Challenges and proofs: the two paths that are answered here whatever stands behind the edge.

use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode};

use super::answer::{Answer, and, text, with_type};
use super::quiet::Quiet;
use super::source::Source;
use crate::Result;
use crate::error::chain;

const CHALLENGE: &str = "/.well-known/acme-challenge/";
const PROOF: &str = "/.well-known/holdfast/";

/// Longer than any CA's token.
const LONGEST_TOKEN: usize = 128;

static FAILED: Quiet = Quiet::new();

/// Answers if the request is for one of them.
pub(super) async fn answer<B>(source: &dyn Source, request: &Request<B>) -> Option<Answer> {
    let path = request.uri().path();
    if let Some(rest) = path.strip_prefix(CHALLENGE) {
        return Some(
            asked_for(request, rest, "challenge", async |token| source.http_answer(token).await)
                .await,
        );
    }
    let rest = path.strip_prefix(PROOF)?;
    Some(asked_for(request, rest, "proof", async |nonce| source.proof(nonce).await.map(Some)).await)
}

async fn asked_for<B>(
    request: &Request<B>,
    rest: &str,
    what: &str,
    find: impl AsyncFnOnce(&str) -> Result<Option<String>>,
) -> Answer {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return and(
            text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered here"),
            ALLOW,
            "GET, HEAD",
        );
    }
    // What cannot be a token never reaches the store.
    let Some(token) = token(rest) else { return unknown(what) };
    match find(token).await {
        Ok(Some(found)) => found_answer(found),
        Ok(None) => unknown(what),
        Err(error) => {
            if let Some(count) = FAILED.may_speak() {
                tracing::warn!(error = chain(&error), count, "a {what} could not be answered");
            }
            text(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("the {what} cannot be looked up now; try again"),
            )
        }
    }
}

/// To the letter: a CA compares it.
fn found_answer(found: String) -> Answer {
    let mut answer = with_type(StatusCode::OK, "text/plain", found);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    headers.insert(http::header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

fn unknown(what: &str) -> Answer {
    text(StatusCode::NOT_FOUND, format!("there is no such {what} here"))
}

/// The token at the end of a path: the alphabet of base64url, and nothing else.
fn token(rest: &str) -> Option<&str> {
    let is_token = !rest.is_empty()
        && rest.len() <= LONGEST_TOKEN
        && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    is_token.then_some(rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tokens() {
        assert_eq!(
            token("evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA"),
            Some("evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA")
        );
        for bad in
            ["", "a/b", "..", "a.b", "a%2Fb", "a b", "ü", "a\0", "a?b", "a+b=", &"a".repeat(129)]
        {
            assert_eq!(token(bad), None, "for {bad:?}");
        }
    }

    proptest! {
        #[test]
        fn a_token_can_be_put_anywhere(text in any::<String>()) {
            if let Some(token) = token(&text) {
                prop_assert_eq!(token, &text);
                prop_assert!(!token.contains(['/', '.', '\\', '%', '\'', '"', '<', '\0', '\n', '\r']));
            }
        }
    }
}
