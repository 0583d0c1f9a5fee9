//! How many requests a certificate costs: as many as the protocol has, and not one to be told again what was just read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use holdfast_acme::{KeyType, OrderStatus, key_and_csr};
use metrics::{
    Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

use crate::kit::{Net, name, prove};

type Counts = Arc<Mutex<BTreeMap<String, u64>>>;

#[derive(Default)]
struct Ledger(Counts);

struct Entry(Counts, String);

impl CounterFn for Entry {
    fn increment(&self, value: u64) {
        *self.0.lock().unwrap().entry(self.1.clone()).or_default() += value;
    }

    fn absolute(&self, value: u64) {
        self.0.lock().unwrap().insert(self.1.clone(), value);
    }
}

impl Recorder for Ledger {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        assert_eq!(key.name(), "holdfast_acme_requests_total");
        let label = |wanted| key.labels().find(|label| label.key() == wanted).unwrap().value();
        assert_eq!(label("result"), "ok");
        Counter::from_arc(Arc::new(Entry(self.0.clone(), label("request").to_owned())))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// As the engine walks.
async fn walk(net: &Net, host: &str, ca: &holdfast_acme::Ca) {
    let url = ca.new_order(&name(host), None).await.unwrap().url;
    prove(ca, &net.answers, &url).await;
    let (_, csr) = key_and_csr(&name(host), KeyType::EcdsaP256).unwrap();
    assert_eq!(ca.order(&url).await.unwrap(), OrderStatus::Ready);
    assert_eq!(ca.finalize(&url, &csr).await.unwrap(), OrderStatus::Valid);
    ca.certificate(&url).await.unwrap();
}

#[test]
fn a_certificate_costs_seven_requests() {
    let ledger = Ledger::default();
    metrics::with_local_recorder(&ledger, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let net = Net::start().await;
            let ca = net.ca();
            ca.account().await.unwrap();
            for number in 0..5 {
                walk(&net, &format!("n{number}.shop.test"), &ca).await;
            }
        });
    });
    let mut counts = ledger.0.lock().unwrap().clone();
    // One to see the challenge, and then until the CA has looked.
    assert!(counts.remove("authorization").unwrap() >= 10);
    // The first at most: each answer brings the next.
    assert!(counts.remove("nonce").unwrap_or_default() <= 1);
    let expected = [
        ("certificate", 5),
        ("challenge", 5),
        ("directory", 1),
        ("finalize", 5),
        ("new-account", 1),
        ("new-order", 5),
        ("order", 5),
    ];
    let expected: BTreeMap<String, u64> =
        expected.into_iter().map(|(kind, count)| (kind.to_owned(), count)).collect();
    assert_eq!(counts, expected);
}
