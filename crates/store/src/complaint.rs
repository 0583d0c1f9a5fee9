//! Codes of edges that the control plane acts on.

/// The code of an edge that cannot load a certificate: what is stored of it may be damaged.
pub const UNUSABLE: &str = "edge-certificate-unusable";

/// The code of an edge whose proxy answers nobody: what was seen there before is not served any more.
pub const PROXY_DOWN: &str = "edge-proxy-down";
