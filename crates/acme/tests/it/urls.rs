//! URLs that a CA gives: one that leads elsewhere is neither stored nor asked, and costs what it was about.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use holdfast_acme::{Ca, CaConfig, Class, Error, OrderStatus, Proof};
use holdfast_devnet::{Devnet, DevnetConfig};
use holdfast_gateway::client::{Client, ClientConfig};
use holdfast_store::Accounts;
use holdfast_testkit::{Endpoint, Lie, LyingCa};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::answers::Answers;
use crate::kit::{config, issue, name, prove};

/// A CA behind a proxy that lies.
struct Lied {
    lying: LyingCa,
    _devnet: Devnet,
    answers: Answers,
    store: Arc<dyn Accounts>,
    trap: Trap,
}

impl Lied {
    async fn start() -> Self {
        let (lying, answers) = (LyingCa::start().await.unwrap(), Answers::start().await);
        let config = DevnetConfig {
            http_port: answers.port(),
            base: Some(lying.base()),
            ..DevnetConfig::default()
        };
        let devnet = Devnet::start(config).await.unwrap();
        lying.stand_before(devnet.ca_address(), devnet.root_pem()).unwrap();
        let (store, trap) = (crate::store::open().await, Trap::start().await);
        Self { lying, _devnet: devnet, answers, store, trap }
    }

    fn config(&self) -> CaConfig {
        config(self.lying.url("/directory"), self.lying.tls_root_pem())
    }

    fn ca(&self) -> Ca {
        Ca::new(self.config(), self.store.clone()).unwrap()
    }

    async fn account_url(&self, ca: &Ca) -> Option<String> {
        self.store.account(ca.directory(), ca.limits()).await.unwrap().unwrap().url
    }

    /// What the CA itself says of its orders or accounts.
    async fn listed(&self, what: &str) -> Vec<Value> {
        let roots = Some(self.lying.tls_root_pem().as_bytes().to_vec());
        let client =
            Client::new(ClientConfig { extra_roots_pem: roots, ..ClientConfig::default() });
        let request = http::Request::get(self.lying.url(&format!("/dev/{what}")));
        let answer = client.unwrap().send(request.body(bytes::Bytes::new()).unwrap()).await;
        serde_json::from_slice(answer.unwrap().body()).unwrap()
    }

    /// URLs that no CA may give, two of them of a port of this machine at which somebody counts connections.
    fn wrong(&self) -> Vec<String> {
        let port = self.trap.port;
        vec![
            format!("http://127.0.0.1:{port}/order"),
            format!("https://127.0.0.1:{port}/order"),
            "http://ca.example.com/order".to_owned(),
            "https://ca.example.com/order".to_owned(),
            "file:///etc/passwd".to_owned(),
            "/acme/order/1".to_owned(),
            self.lying.url("/acme/order/1").replace("https://", "https://user@"),
        ]
    }
}

/// A port that nobody has business at.
struct Trap {
    port: u16,
    reached: Arc<AtomicUsize>,
}

impl Trap {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let reached = Arc::new(AtomicUsize::new(0));
        let count = reached.clone();
        tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { port, reached }
    }

    fn reached(&self) -> usize {
        self.reached.load(Ordering::SeqCst)
    }
}

fn is_gone(error: &Error) {
    let class = error.class();
    assert!(matches!(&class, Class::OrderGone(note) if note.code == "acme-bad-url"), "{class:?}");
}

fn is_trouble(error: &Error) {
    let class = error.class();
    assert!(matches!(&class, Class::Trouble(note) if note.code == "acme-bad-url"), "{class:?}");
}

#[tokio::test]
async fn the_url_of_an_order_is_checked_before_it_is_stored_and_before_it_is_asked() {
    let lied = Lied::start().await;
    let ca = lied.ca();
    for (at, wrong) in lied.wrong().iter().enumerate() {
        lied.lying.tell(Lie::about(Endpoint::NewOrder).nth(1).header("location", wrong));
        let host = name(&format!("n{at}.shop.test"));
        is_trouble(&ca.new_order(&host, None).await.unwrap_err());
        lied.lying.be_honest();
        // As an earlier release has stored it.
        is_gone(&ca.proof(wrong).await.unwrap_err());
        is_gone(&ca.finalize(wrong, b"").await.unwrap_err());
        issue(&ca, &lied.answers, host.as_str()).await;
    }
    assert_eq!(lied.trap.reached(), 0);
}

#[tokio::test]
async fn every_url_in_an_order_is_checked_before_it_is_asked() {
    let lied = Lied::start().await;
    let ca = lied.ca();
    for (at, wrong) in lied.wrong().into_iter().enumerate() {
        let url = ca.new_order(&name(&format!("m{at}.shop.test")), None).await.unwrap().url;
        let again = |endpoint| Lie::about(endpoint).member("authorizations", json!([wrong]));
        lied.lying.tell(again(Endpoint::Order));
        is_gone(&lied.ca().proof(&url).await.unwrap_err());
        lied.lying.be_honest();

        let text = wrong.clone();
        lied.lying.tell(Lie::about(Endpoint::Authorization).edit_json(move |authorization| {
            for challenge in authorization["challenges"].as_array_mut().unwrap() {
                challenge["url"] = text.clone().into();
            }
        }));
        is_gone(&lied.ca().proof(&url).await.unwrap_err());
        lied.lying.be_honest();

        prove(&ca, &lied.answers, &url).await;
        let (_, csr) =
            holdfast_acme::key_and_csr(&name(&format!("m{at}.shop.test")), ca.key_type()).unwrap();
        lied.lying.tell(Lie::about(Endpoint::Order).member("finalize", wrong.as_str()));
        is_gone(&lied.ca().finalize(&url, &csr).await.unwrap_err());
        lied.lying.be_honest();

        assert_eq!(ca.finalize(&url, &csr).await.unwrap(), OrderStatus::Valid);
        lied.lying.tell(Lie::about(Endpoint::Order).member("certificate", wrong.as_str()));
        // It was finalized: another order would be a second certificate, and this may pass.
        is_trouble(&lied.ca().certificate(&url).await.unwrap_err());
        lied.lying.be_honest();
        lied.ca().certificate(&url).await.unwrap();
    }
    assert_eq!(lied.trap.reached(), 0);
}

#[tokio::test]
async fn a_stored_challenge_that_leads_elsewhere_spends_its_order_alone() {
    let lied = Lied::start().await;
    let ca = lied.ca();
    let url = ca.new_order(&name("shop.test"), None).await.unwrap().url;
    let Proof::Needed(challenge) = ca.proof(&url).await.unwrap() else { panic!("no proof") };
    for wrong in lied.wrong() {
        let mut stored = challenge.clone();
        stored.url = wrong.clone();
        is_gone(&ca.accept(&stored).await.unwrap_err());
        let mut stored = challenge.clone();
        stored.authorization_url = wrong;
        is_gone(&ca.verdict(&stored).await.unwrap_err());
    }
    assert_eq!(lied.trap.reached(), 0);
}

#[tokio::test]
async fn a_wrong_url_of_the_account_is_not_kept() {
    let lied = Lied::start().await;
    for wrong in lied.wrong() {
        lied.lying.tell(Lie::about(Endpoint::NewAccount).header("location", &wrong));
        let ca = lied.ca();
        is_trouble(&ca.account().await.unwrap_err());
        assert_eq!(lied.account_url(&ca).await, None, "{wrong}");
        lied.lying.be_honest();
    }
    let ca = lied.ca();
    issue(&ca, &lied.answers, "shop.test").await;
    let url = lied.account_url(&ca).await.unwrap();
    // As an earlier release has stored it; and one of the CA's that is none of ours.
    let mut wrong = lied.wrong();
    wrong.push(lied.lying.url("/acme/account/another"));
    for (at, wrong) in wrong.iter().enumerate() {
        let id = ca.account().await.unwrap();
        lied.store.account_registered(id, wrong, None).await.unwrap();
        let ca = lied.ca();
        issue(&ca, &lied.answers, &format!("k{at}.shop.test")).await;
        assert_eq!(lied.account_url(&ca).await.as_ref(), Some(&url), "{wrong}");
    }
    assert_eq!((lied.listed("accounts").await.len(), lied.trap.reached()), (1, 0));
}

/// A CA may call it unauthorized too: then it is asked which account the key belongs to.
#[tokio::test]
async fn an_account_that_the_ca_knows_by_another_url_goes_on_by_that() {
    let lied = Lied::start().await;
    let ca = lied.ca();
    let id = ca.account().await.unwrap();
    let url = lied.account_url(&ca).await.unwrap();
    let other = lied.lying.url("/acme/account/another");
    for round in 0..2 {
        lied.store.account_registered(id, &other, None).await.unwrap();
        let lie = Lie::about(Endpoint::NewOrder).nth(1);
        lied.lying.tell(lie.problem(403, "unauthorized", "not your account"));
        let ca = lied.ca();
        match round {
            0 => drop(ca.new_order(&name("shop.test"), None).await.unwrap()),
            _ => assert_eq!(ca.standing().await.unwrap(), holdfast_acme::Standing::Usable),
        }
        assert_eq!(lied.account_url(&ca).await.as_ref(), Some(&url));
        lied.lying.be_honest();
    }
}

#[tokio::test]
async fn a_directory_that_was_wrong_once_is_read_again_at_once() {
    let lied = Lied::start().await;
    let refused = format!("https://127.0.0.1:{}/order", holdfast_testkit::free_port().unwrap());
    for wrong in [lied.lying.url("/elsewhere"), refused] {
        lied.lying.tell(Lie::about(Endpoint::Directory).times(1).member("newOrder", wrong));
        let ca = lied.ca();
        ca.new_order(&name("shop.test"), None).await.unwrap();
        lied.lying.be_honest();
    }
}
