//! How large a request's head may be, the same for both versions of HTTP.
//!
//! HTTP/1.1 heads are measured while they are read. HTTP/2 counts otherwise (RFC 9113, 6.5.2), so there its own bound is a
//! little wider and the head is measured here.

use http::header::{COOKIE, HOST};
use http::{Request, Version};

use super::EdgeLimits;

/// What HTTP/2 counts for each field beside name and value.
const OVERHEAD: usize = 32;

/// Request line, host and the fields that HTTP/2 has instead of them.
const FIRST_FIELDS: usize = 4;

/// The bound HTTP/2 is given, which no head within the limits passes.
pub(super) const fn list_size(limits: &EdgeLimits) -> usize {
    limits.head_bytes + OVERHEAD * (limits.head_fields + FIRST_FIELDS)
}

/// Is the head of a request over HTTP/2 larger than one over HTTP/1.1 could be?
pub(super) fn is_too_large<B>(request: &Request<B>, limits: &EdgeLimits) -> bool {
    let headers = request.headers();
    if request.version() != Version::HTTP_2 {
        return false;
    }
    let cookies = headers.get_all(COOKIE).iter().count();
    let host = usize::from(!headers.contains_key(HOST));
    let fields = headers.len() - cookies.saturating_sub(1) + host;
    fields > limits.head_fields || as_written(request) > limits.head_bytes
}

/// The length of the head as HTTP/1.1 writes it.
fn as_written<B>(request: &Request<B>) -> usize {
    let uri = request.uri();
    let path = uri.path_and_query().map_or(1, |path| path.as_str().len());
    let line = request.method().as_str().len() + path + "  HTTP/1.1\r\n".len();
    let host = uri.authority().map_or(0, |host| host.as_str().len() + "host: \r\n".len());
    let fields = request.headers().iter();
    line + host + fields.map(|(name, value)| name.as_str().len() + value.len() + 4).sum::<usize>()
}
