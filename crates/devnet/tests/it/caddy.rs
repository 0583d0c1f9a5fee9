//! Caddy, as Debian has it, obtains certificates by itself and serves them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use holdfast_testkit::eventually;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::process::Child;
use tokio_rustls::TlsConnector;

use crate::child::Bench;

async fn caddy(bench: &Bench, name: &str, challenge: &str) -> Child {
    let (http, tls) = (bench.http_port, bench.tls_port);
    let (directory, root) = (bench.world.net.directory_url(), bench.path("root.pem"));
    let (storage, root) = (bench.path("storage"), root.display());
    let storage = storage.display();
    let config = format!(
        "{{
            admin off
            storage file_system {storage}
            http_port {http}
            https_port {tls}
            default_bind 127.0.0.2
            email ops@shop.test
        }}
        {name} {{
            bind 127.0.0.2
            tls {{
                issuer acme {{
                    dir {directory}
                    trusted_roots {root}
                    {challenge}
                }}
            }}
            respond ok
        }}\n"
    );
    let path = bench.write("Caddyfile", &config);
    let mut command = bench.command("caddy");
    command.args(["run", "--adapter", "caddyfile", "--config", &path]);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    command.spawn().expect("caddy is installed")
}

/// Waits until a name is served with a certificate that leads to the CA's root.
async fn served(bench: &Bench, name: &str) {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(bench.world.net.root_pem().as_bytes()).unwrap();
    roots.add(root).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let address: SocketAddr = ([127, 0, 0, 2], bench.tls_port).into();
    eventually(
        Duration::from_secs(60),
        "caddy to serve the name",
        async || -> std::io::Result<()> {
            let stream = TcpStream::connect(address).await?;
            let name = ServerName::try_from(name.to_owned()).unwrap();
            connector.connect(name, stream).await.map(|_| ())
        },
    )
    .await;
}

#[tokio::test]
async fn by_http() {
    let name = "caddy-http.test";
    let bench = Bench::start(&[name]).await;
    let mut child = caddy(&bench, name, "disable_tlsalpn_challenge").await;
    served(&bench, name).await;
    bench.finalized_once(name).await;
    child.kill().await.unwrap();
}

#[tokio::test]
async fn by_tls_alpn() {
    let name = "caddy-tls.test";
    let bench = Bench::start(&[name]).await;
    let mut child = caddy(&bench, name, "disable_http_challenge").await;
    served(&bench, name).await;
    bench.finalized_once(name).await;
    child.kill().await.unwrap();
}
