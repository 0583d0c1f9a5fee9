//! What the built-in edge is told, and the bounds it keeps.

use std::net::SocketAddr;
use std::time::Duration;

use http::Uri;

/// What the built-in edge is told.
#[derive(Debug, Clone)]
pub struct EdgeConfig {
    /// Where HTTP is answered; nowhere if none.
    pub http: Option<SocketAddr>,
    /// Where HTTPS is answered.
    pub https: SocketAddr,
    /// The edge's name, unique among edges.
    pub name: String,
    /// Which domains it serves.
    pub group: String,
    /// Who answers requests, as `http://HOST:PORT`; without one a page of our own does.
    pub upstream: Option<Uri>,
    /// The port visitors use for HTTPS, which redirects lead to; zero is the one that is listened on.
    pub https_port_shown: u16,
    /// How many certificates are kept in memory.
    pub cache_entries: usize,
    /// The bounds.
    pub limits: EdgeLimits,
}

impl EdgeConfig {
    /// An edge on these addresses, with everything else as it usually is.
    #[must_use]
    pub fn new(name: &str, group: &str, http: Option<SocketAddr>, https: SocketAddr) -> Self {
        Self {
            http,
            https,
            name: name.to_owned(),
            group: group.to_owned(),
            upstream: None,
            https_port_shown: 0,
            cache_entries: 4_096,
            limits: EdgeLimits::default(),
        }
    }
}

/// What visitors, and the upstream, may take.
#[derive(Debug, Clone)]
pub struct EdgeLimits {
    /// Connections at once, on each of the two ports.
    pub connections: usize,
    /// Handshakes pending at once; beyond it the oldest gives way.
    pub handshakes: usize,
    /// For a handshake, from the connection to its end.
    pub handshake: Duration,
    /// For the head of a request; also how long an HTTP/1 connection may rest between requests.
    pub head: Duration,
    /// How long an HTTP/2 connection may rest between requests.
    pub idle: Duration,
    /// How long a request or an answer may stand still.
    pub stall: Duration,
    /// How long a tunnel (WebSocket) may be silent.
    pub tunnel: Duration,
    /// Bytes of a request's head, as HTTP/1.1 writes it.
    pub head_bytes: usize,
    /// Header fields of a request, or of an answer of the upstream. Over HTTP/2 the host counts as one, and all cookies
    /// together as one, as they would over HTTP/1.1.
    pub head_fields: usize,
    /// For the upstream to begin its answer, counted from the last byte it was sent.
    pub upstream: Duration,
    /// How long a connection to the upstream may rest and be used again.
    pub upstream_idle: Duration,
    /// For the store to give a certificate.
    pub lookup: Duration,
    /// How long a certificate is served before it is looked up again, in case a change went unheard.
    pub recheck: Duration,
    /// How long it is remembered that a name is unknown.
    pub unknown: Duration,
    /// How long requests under way may take when the edge is stopped.
    pub drain: Duration,
}

impl Default for EdgeLimits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            handshakes: 1_024,
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(30),
            idle: Duration::from_secs(60),
            stall: Duration::from_secs(300),
            tunnel: Duration::from_secs(3_600),
            head_bytes: 32 * 1024,
            head_fields: 256,
            upstream: Duration::from_secs(60),
            upstream_idle: Duration::from_secs(1),
            lookup: Duration::from_secs(5),
            recheck: Duration::from_secs(300),
            unknown: Duration::from_secs(3),
            drain: Duration::from_secs(10),
        }
    }
}
