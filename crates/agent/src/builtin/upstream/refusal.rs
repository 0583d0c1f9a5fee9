//! Requests that are never forwarded, whatever the upstream.

use http::header::{ALLOW, CONTENT_TYPE, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use http::{HeaderName, Method, Request, StatusCode};

use crate::builtin::answer::{Answer, and, text, with_type};
use crate::builtin::quiet::Quiet;

/// UNIMPLEMENTED, by the numbers of gRPC.
const GRPC_UNIMPLEMENTED: &str = "12";
const GRPC_REFUSED: &str = "this edge does not pass on gRPC: it speaks HTTP/1.1 to its upstream";

static GRPC: Quiet = Quiet::new();

/// The answer to a request that must not be forwarded.
pub(super) fn refusal<B>(request: &Request<B>) -> Option<Answer> {
    if *request.method() == Method::CONNECT || *request.method() == Method::TRACE {
        let sentence = format!("this edge does not forward {}", request.method());
        let refused = text(StatusCode::METHOD_NOT_ALLOWED, sentence);
        return Some(and(refused, ALLOW, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"));
    }
    if has_other_coding(request.headers()) {
        let sentence = "the request's body has a transfer coding that this edge does not know";
        return Some(text(StatusCode::NOT_IMPLEMENTED, sentence));
    }
    is_grpc(request.headers()).then(refuse_grpc)
}

/// Is the body coded in any way but chunked? The edge could not undo it, and must not pass it on as if it had.
pub(super) fn has_other_coding(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let first = codings.next();
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    first.is_some_and(|coding| !is_chunked(coding)) || codings.next().is_some()
}

/// gRPC-Web is made for HTTP/1.1 and another media type.
fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let (kind, rest) = kind.split_at(kind.len().min("application/grpc".len()));
    kind.eq_ignore_ascii_case(b"application/grpc")
        && rest.first().is_none_or(|next| matches!(next, b'+' | b';' | b' '))
}

/// As gRPC says it: the exchange over HTTP went well, and the call has a status of its own.
fn refuse_grpc() -> Answer {
    if let Some(count) = GRPC.may_speak() {
        tracing::info!(
            count,
            "gRPC calls were refused: this edge speaks HTTP/1.1 to its upstream; serve them by HAProxy or nginx with an agent"
        );
    }
    let answer = with_type(StatusCode::OK, "application/grpc", "");
    let answer = and(answer, HeaderName::from_static("grpc-status"), GRPC_UNIMPLEMENTED);
    and(answer, HeaderName::from_static("grpc-message"), GRPC_REFUSED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &HeaderName, values: &[&'static str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn chunked_once_is_the_only_coding() {
        for (codings, other) in [
            (&[][..], false),
            (&["chunked"], false),
            (&["Chunked"], false),
            (&["gzip, chunked"], true),
            (&["gzip"], true),
            (&["chunked", "chunked"], true),
            (&["identity"], true),
        ] {
            let given = headers(&TRANSFER_ENCODING, codings);
            assert_eq!(has_other_coding(&given), other, "{codings:?}");
        }
    }

    #[test]
    fn grpc_is_told_from_grpc_web() {
        for (kind, grpc) in [
            ("application/grpc", true),
            ("application/GRPC+proto", true),
            ("application/grpc; x=y", true),
            ("application/grpc-web", false),
            ("application/grpc-web+proto", false),
            ("application/json", false),
            ("a", false),
        ] {
            assert_eq!(is_grpc(&headers(&CONTENT_TYPE, &[kind])), grpc, "{kind}");
        }
    }
}
