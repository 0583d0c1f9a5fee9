//! A client certificate that stands for an edge's token.

use std::process::Command;
use std::time::Duration;

use holdfast_gateway::listener::{TlsListener, server_config};
use holdfast_server::{Door, serve};
use holdfast_testkit::{Pki, Scratch};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, SanType,
};
use tokio::net::TcpListener;

use crate::kit::Kit;

/// An authority for clients.
pub(crate) struct Clients {
    authority: CertifiedIssuer<'static, KeyPair>,
    files: Scratch,
}

impl Clients {
    pub(crate) fn new() -> Self {
        let mut authority = CertificateParams::new([]).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "Clients");
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap());
        Self { authority: authority.unwrap(), files: Scratch::new().unwrap() }
    }

    /// The authority's own certificate.
    pub(crate) fn pem(&self) -> String {
        self.authority.pem()
    }

    /// A file with the root of a server.
    pub(crate) fn root(&self, pki: &Pki) -> String {
        self.files.write("root.pem", &pki.root_pem).unwrap().display().to_string()
    }

    /// Files of a client with this common name, or this URI.
    pub(crate) fn client(&self, common_name: &str, uri: Option<&str>) -> [String; 2] {
        let mut client = CertificateParams::new([]).unwrap();
        client.distinguished_name.push(DnType::CommonName, common_name);
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        client.subject_alt_names =
            uri.into_iter().map(|uri| SanType::URI(uri.try_into().unwrap())).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = client.signed_by(&key, &self.authority).unwrap();
        let write = |end: &str, pem: String| {
            let name = format!("{}.{end}", common_name.replace(':', "-"));
            self.files.write(&name, pem).unwrap().display().to_string()
        };
        [write("pem", certificate.pem()), write("key", key.serialize_pem())]
    }
}

/// What curl is answered, and the status; `sent` is a method and a body, where there is any.
pub(crate) async fn ask(url: String, root: String, client: [String; 2], sent: &[&str]) -> String {
    let [certificate, key] = client;
    let json = "Content-Type: application/json";
    let sent = match sent {
        [method, body] => vec!["--request", method, "--data", body, "--header", json],
        _ => Vec::new(),
    };
    let sent: Vec<_> = sent.into_iter().map(str::to_owned).collect();
    let asked = tokio::task::spawn_blocking(move || {
        Command::new("curl")
            .args(["--silent", "--write-out", " %{http_code}", "--cacert", &root])
            .args(["--cert", &certificate, "--key", &key, &url])
            .args(sent)
            .output()
    });
    String::from_utf8(asked.await.unwrap().unwrap().stdout).unwrap()
}

#[tokio::test]
async fn an_edges_certificate_stands_for_its_token_until_that_is_revoked() {
    let kit = Kit::new().await;
    crate::feed::register(&kit).await;
    let (pki, clients) = (Pki::new().unwrap(), Clients::new());
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = tcp.local_addr().unwrap().port();
    let authority = clients.pem();
    let config =
        server_config(pki.chain_pem.as_bytes(), pki.key_pem.as_bytes(), Some(authority.as_bytes()));
    let door = Door::from(TlsListener::new(tcp, config.unwrap()));
    tokio::spawn(serve(door, kit.router.clone(), kit.shutdown.clone(), Duration::ZERO));
    let root = clients.root(&pki);
    let url = |path: &str| format!("https://localhost:{port}/v1/{path}");
    let seen = async |path: &str, client| ask(url(path), root.clone(), client, &[]).await;

    let own = clients.client("edge:edge-1", None);
    let named = clients.client("fra", Some("urn:holdfast:edge:edge-1"));
    let other = clients.client("edge:edge-2", None);
    let nobody = clients.client("somebody", None);
    assert!(seen("edges/edge-1/desired", own.clone()).await.ends_with(" 200"));
    assert!(seen("edges/edge-1/desired", named).await.ends_with(" 200"));
    assert!(seen("domains", own.clone()).await.ends_with(" 403"), "no more than the token may");
    let unknown = seen("edges/edge-2/desired", other).await;
    assert!(unknown.ends_with(" 401") && unknown.contains("edge-2"), "{unknown}");
    assert!(seen("edges/edge-1/desired", nobody).await.ends_with(" 401"));

    let tokens = kit.store.tokens().await.unwrap();
    let token = tokens.iter().find(|token| token.edge.as_deref() == Some("edge-1")).unwrap();
    kit.store.revoke_token(token.id).await.unwrap();
    assert!(seen("edges/edge-1/desired", own).await.ends_with(" 401"));
}
