//! A development network with a web server at its edge, and the steps of an order.

use std::net::Ipv4Addr;
use std::time::Duration;

use bytes::Bytes;
use holdfast_devnet::{Devnet, DevnetConfig};
use holdfast_gateway::client::Client;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use instant_acme::{
    Account, AccountCredentials, ChallengeType, Error, Identifier, NewAccount, NewOrder, Order,
    OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use serde_json::Value;

use crate::client::{Acme, http};
use crate::web::Web;

/// Asks often: nothing here takes long.
pub(crate) const RETRIES: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(5))
    .backoff(1.2)
    .timeout(Duration::from_secs(20));

pub(crate) struct World {
    pub(crate) net: Devnet,
    pub(crate) web: Web,
    pub(crate) http: Client,
}

impl World {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut DevnetConfig)) -> Self {
        let web = Web::default();
        let http_port = web.listen(Ipv4Addr::LOCALHOST.into(), 0).await;
        let mut config = DevnetConfig { http_port, ..DevnetConfig::default() };
        change(&mut config);
        let net = Devnet::start(config).await.unwrap();
        let http = http(net.root_pem());
        Self { net, web, http }
    }

    /// A new account.
    pub(crate) async fn account(&self) -> Account {
        self.account_with_credentials().await.0
    }

    pub(crate) async fn account_with_credentials(&self) -> (Account, AccountCredentials) {
        let new = NewAccount {
            contact: &["mailto:ops@shop.test"],
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        self.builder().create(&new, self.net.directory_url(), None).await.unwrap()
    }

    pub(crate) fn builder(&self) -> instant_acme::AccountBuilder {
        Account::builder_with_http(Box::new(Acme(self.http.clone())))
    }

    /// Sends a plain request to the CA.
    pub(crate) async fn send(&self, method: Method, path: &str, body: &str) -> Response<Bytes> {
        let body = Bytes::copy_from_slice(body.as_bytes());
        let request = Request::builder().method(method).uri(self.net.url(path)).body(body).unwrap();
        self.http.send(request).await.unwrap()
    }

    /// Reads JSON from the CA.
    pub(crate) async fn json(&self, path: &str) -> Value {
        let answer = self.send(Method::GET, path, "").await;
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        serde_json::from_slice(answer.body()).unwrap()
    }

    /// Sends a control request that must work.
    pub(crate) async fn control(&self, method: Method, path: &str, body: &str) {
        let answer = self.send(method, path, body).await;
        assert_eq!(answer.status(), StatusCode::NO_CONTENT, "{path} {:?}", answer.body());
    }

    /// Proves every name of an order over HTTP, and waits until it is ready.
    pub(crate) async fn prove(&self, order: &mut Order) -> Result<OrderStatus, Error> {
        prove(order, &self.web).await
    }

    /// Orders and gets a certificate for names, over HTTP.
    pub(crate) async fn issue(&self, account: &Account, names: &[&str]) -> Result<Issued, Error> {
        issue(account, &self.web, names).await
    }

    /// The same with an order that says more than its names.
    pub(crate) async fn issue_order(
        &self,
        account: &Account,
        new: &NewOrder<'_>,
        names: &[&str],
    ) -> Result<Issued, Error> {
        issue_order(account, &self.web, new, names).await
    }

    /// Checks that a chain leads to the CA's root and serves a name.
    pub(crate) fn verify(&self, chain_pem: &str, name: &str) -> Result<(), rustls::Error> {
        verify(self.net.root_pem(), chain_pem, name)
    }
}

async fn prove(order: &mut Order, web: &Web) -> Result<OrderStatus, Error> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        let Some(mut challenge) = authorization.challenge(ChallengeType::Http01) else {
            return Err(Error::Str("no http-01 challenge"));
        };
        web.challenge(&challenge.token, challenge.key_authorization().as_str());
        challenge.set_ready().await?;
    }
    order.poll_ready(&RETRIES).await
}

/// Orders and gets a certificate for names, over HTTP.
pub(crate) async fn issue(account: &Account, web: &Web, names: &[&str]) -> Result<Issued, Error> {
    issue_order(account, web, &NewOrder::new(&identifiers(names)), names).await
}

async fn issue_order(
    account: &Account,
    web: &Web,
    new: &NewOrder<'_>,
    names: &[&str],
) -> Result<Issued, Error> {
    let mut order = account.new_order(new).await?;
    prove(&mut order, web).await?;
    let key = KeyPair::generate().unwrap();
    order.finalize_csr(&csr(names, &key)).await?;
    let chain = order.poll_certificate(&RETRIES).await?;
    Ok(Issued { chain, key, order_url: order.url().to_owned() })
}

/// A certificate in hand.
pub(crate) struct Issued {
    pub(crate) chain: String,
    pub(crate) key: KeyPair,
    pub(crate) order_url: String,
}

impl Issued {
    pub(crate) fn leaf(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.chain.as_bytes()).unwrap()
    }
}

pub(crate) fn identifiers(names: &[&str]) -> Vec<Identifier> {
    names.iter().map(|name| Identifier::Dns((*name).to_owned())).collect()
}

pub(crate) fn csr(names: &[&str], key: &KeyPair) -> Vec<u8> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.serialize_request(key).unwrap().der().to_vec()
}

pub(crate) fn verify(root_pem: &str, chain_pem: &str, name: &str) -> Result<(), rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(root_pem.as_bytes()).unwrap()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(chain_pem.as_bytes()).collect::<Result<_, _>>().unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    verifier.verify_server_cert(&chain[0], &chain[1..], &name, &[], UnixTime::now()).map(|_| ())
}

/// The problem that a CA's refusal is.
pub(crate) fn problem<T>(result: Result<T, Error>) -> instant_acme::Problem {
    match result {
        Err(Error::Api(problem)) => problem,
        Err(other) => panic!("not a problem of the CA: {other}"),
        Ok(_) => panic!("it was not refused"),
    }
}

/// The last part of a problem's type.
pub(crate) fn kind(problem: &instant_acme::Problem) -> &str {
    let kind = problem.r#type.as_deref().unwrap_or_default();
    kind.strip_prefix("urn:ietf:params:acme:error:").unwrap_or(kind)
}

/// A header's text.
pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
}
