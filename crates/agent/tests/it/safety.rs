//! Nothing wrong is served, and nothing is taken away because the control plane is wrong.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use holdfast_agent::{Bundles, Result, Target as _};
use holdfast_model::Hostname;
use holdfast_store::{Bundle, Change, Revision};
use holdfast_testkit::{Haproxy, eventually};
use tokio::sync::{Notify, mpsc};

use crate::kit::{Lie, Memory, Proxied, pem};

async fn refused(edge: &Proxied, host: &str, code: &str, words: &str) {
    let refusal = |memory: &Memory| memory.observed(host)?.error;
    let note = edge.memory.until(&format!("{host} to be refused"), refusal).await;
    assert!(note.code == code && note.detail.contains(words), "{note}");
}

#[tokio::test]
async fn bad_certificates_are_refused_and_told_of() {
    let edge = Proxied::new().await;
    let _running = edge.run();
    let before = edge.served("swapped.test").await;
    // A key of another.
    let mut swapped = edge.authority.issue("swapped.test");
    swapped.key = edge.authority.issue("other.test").key;
    edge.memory.deploy(&swapped);
    // A certificate of another name.
    let mut foreign = edge.authority.issue("victim.test");
    foreign.name = crate::kit::name("foreign.test");
    edge.memory.deploy(&foreign);
    edge.memory.deploy(&edge.authority.issue_expired("expired.test"));
    // Not the one that was announced.
    let mut other = edge.authority.issue("announced.test");
    other.summary.sha256 = "0".repeat(64);
    edge.memory.deploy(&other);
    let good = edge.served("good.test").await;
    let unusable = "edge-certificate-unusable";
    refused(&edge, "swapped.test", unusable, "swapped.test").await;
    refused(&edge, "foreign.test", unusable, "foreign.test").await;
    refused(&edge, "expired.test", unusable, "expired at").await;
    refused(&edge, "announced.test", unusable, "not the one that was announced").await;
    assert_eq!((edge.visit("swapped.test").await, edge.visit("good.test").await), (before, good));
    edge.visitor().refusal("foreign.test").await;
    assert!(
        !edge.read_list().contains("foreign.test") && !edge.read_list().contains("expired.test")
    );
    let mended = edge.served("expired.test").await;
    assert_eq!(edge.visit("expired.test").await, mended);
}

/// A certificate that we find nothing wrong with, and HAProxy does: the second of its chain is none.
fn indigestible(edge: &Proxied, host: &str) -> Bundle {
    let mut bundle = edge.authority.issue(host);
    bundle.chain_pem += "-----BEGIN CERTIFICATE-----\nbm9uZQ==\n-----END CERTIFICATE-----\n";
    bundle
}

#[tokio::test]
async fn what_haproxy_refuses_does_not_stay_where_it_would_start_from() {
    let mut edge = Proxied::new().await;
    let running = edge.run();
    let before = edge.served("renewed.test").await;
    for host in ["renewed.test", "new.test"] {
        edge.memory.deploy(&indigestible(&edge, host));
    }
    for host in ["renewed.test", "new.test"] {
        refused(&edge, host, "edge-proxy-refused", "ssl cert").await;
    }
    assert!(!edge.read_list().contains("new.test"));
    let kept = std::fs::read_to_string(edge.file("renewed.test")).unwrap();
    assert!(!kept.contains("bm9uZQ=="), "{kept}");
    let good = edge.served("good.test").await;
    running.stop().await;
    // As an agent leaves them that is killed before HAProxy was told.
    for host in ["renewed.test", "killed.test"] {
        std::fs::write(edge.file(host), pem(&indigestible(&edge, host))).unwrap();
    }
    edge.target().inventory().await.unwrap();
    let list = edge.read_list();
    assert!(["renewed.test", "killed.test", "new.test"].iter().all(|host| !list.contains(host)));
    assert_eq!(edge.visit("renewed.test").await, before);
    edge.haproxy.restart().await.unwrap();
    assert_eq!(edge.visit("good.test").await, good);
}

/// Gives the certificate of one name only when it is said so.
struct Late {
    memory: Arc<Memory>,
    name: Hostname,
    come: Notify,
}

#[async_trait]
impl Bundles for Late {
    async fn bundle(&self, change: &Change) -> Result<Option<Bundle>> {
        if change.name == self.name {
            self.come.notified().await;
        }
        Bundles::bundle(&*self.memory, change).await
    }
}

#[tokio::test]
async fn what_haproxy_refuses_goes_from_the_disk_although_more_is_on_its_way() {
    let edge = Proxied::new().await;
    edge.memory.deploy(&indigestible(&edge, "bad.test"));
    for host in ["good.test", "late.test"] {
        edge.deploy(host);
    }
    let changes = ["bad.test", "good.test", "late.test"].map(|host| edge.memory.change(host));
    let (memory, name) = (edge.memory.clone(), changes[2].name.clone());
    let late = Arc::new(Late { memory, name, come: Notify::new() });
    let (ready, mut places) = mpsc::unbounded_channel();
    let target = edge.target();
    let meanwhile = async {
        assert_eq!(places.recv().await, Some(1));
        eventually(Duration::from_secs(30), "the refused file to go", async || {
            match std::fs::exists(edge.file("bad.test")).unwrap() {
                true => Err("it is there"),
                false => Ok(()),
            }
        })
        .await;
        late.come.notify_one();
    };
    let (applied, ()) = tokio::join!(target.apply(&changes, late.clone(), &ready), meanwhile);
    let results: Vec<_> = applied.unwrap().iter().map(Result::is_ok).collect();
    assert_eq!(results, [false, true, true]);
    assert_eq!(edge.visit("late.test").await, changes[2].certificate.as_ref().unwrap().1);
}

#[tokio::test]
async fn a_chain_too_large_for_haproxy_is_refused_before_it_does_harm() {
    let edge = Proxied::new().await;
    let _running = edge.run();
    let before = edge.served("large.test").await;
    edge.memory.deploy(&edge.authority.issue_large("large.test"));
    refused(&edge, "large.test", "payload-too-large", "raise tune.bufsize").await;
    assert_eq!(edge.visit("large.test").await, before);
    assert_eq!(edge.served("small.test").await, edge.visit("small.test").await);
}

/// Files that HAProxy does not have yet: what is wrong with some of them is no matter of the others.
#[tokio::test]
async fn among_files_too_large_for_haproxy_the_others_are_loaded() {
    let edge = Proxied::new().await;
    let (large, good) = (["a.test", "c.test", "e.test"], ["b.test", "d.test", "f.test", "g.test"]);
    for host in large {
        std::fs::write(edge.file(host), pem(&edge.authority.issue_large(host))).unwrap();
    }
    let issued = good.map(|host| (host, edge.authority.issue(host)));
    for (host, bundle) in &issued {
        std::fs::write(edge.file(host), pem(bundle)).unwrap();
    }
    edge.own(&large);
    edge.own(&good);
    edge.target().inventory().await.unwrap();
    for (host, bundle) in &issued {
        assert_eq!(edge.visit(host).await, bundle.summary.sha256);
        assert!(std::fs::exists(edge.file(host)).unwrap() && edge.read_list().contains(host));
    }
}

#[tokio::test]
async fn a_chain_as_large_as_haproxy_was_made_for_is_served() {
    let haproxy = Haproxy::prepare().unwrap().with_global("tune.bufsize 65536");
    let edge = Proxied::with(haproxy).await;
    let mut settings = edge.settings();
    settings.bufsize = 65_536;
    let target = Arc::new(holdfast_agent::HaproxyTarget::new(settings).unwrap());
    let _running = crate::kit::Running::start(edge.memory.clone(), target, edge.config());
    let sha256 = edge.memory.deploy(&edge.authority.issue_large("large.test"));
    edge.memory.until_seen("large.test", Some(&sha256)).await;
}

/// So many names that a listing without most of them is not believed.
const NAMES: usize = 24;

async fn full() -> (Proxied, Vec<(String, String)>) {
    let edge = Proxied::new().await;
    let running = edge.run();
    let served: Vec<_> = (0..NAMES)
        .map(|n| format!("n{n}.test"))
        .map(|host| (host.clone(), edge.deploy(&host)))
        .collect();
    for (host, sha256) in &served {
        edge.memory.until_seen(host, Some(sha256)).await;
    }
    let all = |memory: &Memory| (memory.acknowledged() == memory.at()).then_some(());
    edge.memory.until("everything to be reported", all).await;
    running.stop().await;
    (edge, served)
}

async fn all_served(edge: &Proxied, served: &[(String, String)]) {
    for (host, sha256) in served {
        assert_eq!(edge.visit(host).await, *sha256, "{host}");
    }
}

async fn complained_of(edge: &Proxied, lie: Lie, code: &str) {
    let complaint = |memory: &Memory| memory.complaint().filter(|note| note.code == code);
    edge.memory.until(&format!("{lie:?} to be complained of"), complaint).await;
}

#[tokio::test]
async fn a_control_plane_that_lists_little_or_nothing_takes_nothing_away() {
    let (edge, served) = full().await;
    for (lie, code) in [
        (Lie::Empty, "listing-shrank"),
        (Lie::Only(NAMES / 3), "listing-shrank"),
        (Lie::Broken, "edge-control-plane-nonsense"),
        (Lie::Back, "edge-revision-went-back"),
    ] {
        edge.memory.lie(Some(lie));
        let running = edge.run();
        complained_of(&edge, lie, code).await;
        all_served(&edge, &served).await;
        running.stop().await;
    }
    // One at a time names do go.
    edge.memory.lie(Some(Lie::Empty));
    let running = edge.run();
    edge.memory.withdraw("n3.test");
    edge.memory.until_seen("n3.test", None).await;
    edge.visitor().refusal("n3.test").await;
    assert_eq!(edge.visit("n4.test").await, served[4].1);
    running.stop().await;
    // And all of them once a person says so.
    let confirm = edge.haproxy.scratch().write("remove-unlisted", "").unwrap();
    let _running = edge.run();
    eventually(Duration::from_secs(60), "all to be gone", async || {
        let list = edge.read_list();
        if list.lines().count() == 1 && !confirm.exists() { Ok(()) } else { Err(list) }
    })
    .await;
}

/// Listings are right, and polls are not: each says that every name is gone, at a revision where that cannot be.
#[tokio::test]
async fn a_poll_that_cannot_be_true_takes_nothing_away() {
    let (edge, served) = full().await;
    let _running = edge.run();
    let at = edge.memory.at();
    let after = |count| Revision { number: at.number + count, ..at };
    for (up_to, gone, code) in [
        (after(-1), after(-1), "edge-revision-went-back"),
        // What was heard of already.
        (after(1), at, "edge-control-plane-nonsense"),
        // What is later than the answer itself.
        (after(1), after(2), "edge-control-plane-nonsense"),
    ] {
        let lie = Lie::Poll { up_to, gone: Some(gone) };
        edge.memory.lie(Some(lie));
        complained_of(&edge, lie, code).await;
        all_served(&edge, &served).await;
        edge.memory.lie(None);
        let content = |memory: &Memory| memory.complaint().is_none().then_some(());
        edge.memory.until("the complaint to end", content).await;
    }
    edge.served("new.test").await;
    all_served(&edge, &served).await;
}

#[tokio::test]
async fn a_control_plane_that_is_away_takes_nothing_away() {
    let (edge, served) = full().await;
    edge.memory.down.store(true, std::sync::atomic::Ordering::Relaxed);
    let running = edge.run();
    all_served(&edge, &served).await;
    edge.memory.down.store(false, std::sync::atomic::Ordering::Relaxed);
    edge.served("new.test").await;
    all_served(&edge, &served).await;
    running.stop().await;
}

#[tokio::test]
async fn a_few_names_that_are_not_listed_any_more_go() {
    let (edge, served) = full().await;
    edge.memory.forget("n5.test");
    let running = edge.run();
    eventually(Duration::from_secs(60), "the name to go", async || {
        if edge.read_list().contains("n5.test") { Err("still there") } else { Ok(()) }
    })
    .await;
    eventually(Duration::from_secs(60), "nobody to get it", async || {
        edge.visitor().connect("n5.test").await.err().ok_or("still served")
    })
    .await;
    assert_eq!(edge.visit("n6.test").await, served[6].1);
    running.stop().await;
}

/// The backup does not know the edge either: it begins anew, and remembers by itself.
#[tokio::test]
async fn after_a_restore_an_edge_that_is_not_known_any_more_takes_nothing_away() {
    let edge = Proxied::new().await;
    let running = edge.run();
    let mut served = Vec::new();
    for host in ["old.test", "one.test", "two.test"] {
        served.push((host.to_owned(), edge.served(host).await));
    }
    running.stop().await;
    edge.memory.restore(1);
    edge.memory.forget_edge();
    let _running = edge.run();
    // The first may be found by the comparison, the second comes after what follows from that.
    edge.served("new.test").await;
    edge.served("newer.test").await;
    all_served(&edge, &served).await;
    // What the control plane does not know is listed.
    let unknown = ["one.test", "two.test"].map(str::to_owned).to_vec();
    edge.memory.until("the list", |memory| (memory.difference().0 == unknown).then_some(())).await;
    // What it does know again is told at once: of a long list the next names take their places.
    edge.deploy("one.test");
    let unknown = vec!["two.test".to_owned()];
    edge.memory.until("the rest", |memory| (memory.difference().0 == unknown).then_some(())).await;
}

/// The same backup once more, with another epoch. A name that was removed after the backup is listed, too.
#[tokio::test]
async fn after_a_second_restore_nothing_is_taken_away_either() {
    let edge = Proxied::new().await;
    let running = edge.run();
    let mut served = Vec::new();
    for host in ["old.test", "gone.test", "one.test"] {
        served.push((host.to_owned(), edge.served(host).await));
    }
    edge.memory.withdraw("gone.test");
    edge.memory.until_seen("gone.test", None).await;
    running.stop().await;
    edge.memory.restore(1);
    edge.deploy("gone.test");
    let running = edge.run();
    let told = (vec!["one.test".to_owned()], vec!["gone.test".to_owned()]);
    edge.memory.until("the lists", |memory| (memory.difference() == told).then_some(())).await;
    let two = edge.served("two.test").await;
    running.stop().await;
    edge.memory.restore(1);
    let _running = edge.run();
    let told = ["gone.test", "one.test", "two.test"].map(str::to_owned).to_vec();
    edge.memory.until("the lists", |memory| (memory.difference().0 == told).then_some(())).await;
    served.retain(|(host, _)| host != "gone.test");
    served.push(("two.test".to_owned(), two));
    all_served(&edge, &served).await;
}
