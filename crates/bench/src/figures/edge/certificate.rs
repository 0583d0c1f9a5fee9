//! Certificates to be put on an edge, and an edge that has them already.

use anyhow::{Context as _, Result};
use holdfast_testkit::Haproxy;
use rcgen::generate_simple_self_signed;
use uuid::Uuid;

/// A certificate with its key.
pub(super) struct Certificate {
    pub(super) name: String,
    pub(super) domain: Uuid,
    pub(super) chain: String,
    pub(super) key: String,
    pub(super) sha256: String,
}

impl Certificate {
    pub(super) fn new(name: &str) -> Result<Self> {
        let made = generate_simple_self_signed([name.to_owned()])?;
        Ok(Self {
            name: name.to_owned(),
            // The same for a renewal.
            domain: domain(name)?,
            chain: made.cert.pem(),
            key: made.signing_key.serialize_pem(),
            sha256: holdfast_agent::fingerprint(made.cert.der()),
        })
    }

    pub(super) fn pem(&self) -> String {
        let lines = self.chain.lines().chain(self.key.lines()).map(str::trim_end);
        lines.filter(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect()
    }
}

/// An id that follows from the name.
fn domain(name: &str) -> Result<Uuid> {
    let digest = holdfast_agent::fingerprint(name.as_bytes());
    Ok(Uuid::parse_str(digest.get(..32).context("a short digest")?)?)
}

/// Lays certificates out as the agent does.
pub(super) fn lay_out(haproxy: &Haproxy, certificates: &[Certificate]) -> Result<()> {
    let directory = haproxy.certificates();
    std::fs::create_dir_all(&directory)?;
    let default = Certificate::new("holdfast.invalid")?;
    haproxy.scratch().write("certs/_default.pem", default.pem())?;
    let mut list = format!("{}/_default.pem !*\n", directory.display());
    let mut sorted: Vec<_> = certificates.iter().collect();
    sorted.sort_by(|one, other| one.name.cmp(&other.name));
    for certificate in sorted {
        let name = &certificate.name;
        haproxy.scratch().write(&format!("certs/{name}.pem"), certificate.pem())?;
        list += &format!("{}/{name}.pem {name}\n", directory.display());
    }
    haproxy.scratch().write("crt-list", list)?;
    Ok(())
}
