//! Moving in where a file serves several names, or a name that is served from ours: it gives way, and no visitor notices.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use holdfast_agent::Target as _;
use holdfast_model::Note;
use holdfast_store::{Adoption, Bundle};
use holdfast_testkit::{Haproxy, eventually};
use tokio::sync::mpsc;

use crate::kit::{Authority, Host, LIMIT, Load, Memory, Proxied, Visitor, name, pem};

const BOTH: [&str; 2] = ["shop.test", "www.shop.test"];

/// Where the operator has put the file.
#[derive(Clone, Copy)]
enum Place {
    /// On a list; its names are those of the certificate.
    List,
    /// On a list, for these names.
    Filtered,
    /// In a directory that HAProxy loads whole.
    Directory,
    /// On a list, with options of its own.
    Optional,
    /// On a list, before all others.
    First,
    /// On a list by the end of its path, as with `crt-base`.
    Relative,
}

/// A HAProxy that serves both names from one file of its operator's, and that file and certificate.
async fn foreign(place: Place) -> (Proxied, PathBuf, Bundle) {
    let (mut haproxy, authority) = (Haproxy::prepare().unwrap(), Authority::new());
    std::fs::create_dir(haproxy.path().join("foreign")).unwrap();
    let bundle = authority.issue_for(&BOTH);
    // What stands first is HAProxy's default, which nobody can take away.
    let default = pem(&authority.issue("default.test"));
    let default = haproxy.scratch().write("default.pem", default).unwrap();
    let file = haproxy.scratch().write("foreign/both.pem", pem(&bundle)).unwrap();
    let line = match place {
        Place::List => format!("{}\n", file.display()),
        Place::Filtered => format!("{} {}\n", file.display(), BOTH.join(" ")),
        Place::Directory => String::new(),
        Place::Optional => format!("{} [ssl-min-ver TLSv1.2]\n", file.display()),
        Place::First => String::new(),
        Place::Relative => "foreign/both.pem\n".to_owned(),
    };
    let mut list = format!("{} !*\n{line}# mine\n", default.display());
    if matches!(place, Place::First) {
        list = format!("{}\n# mine\n", file.display());
    }
    let list = haproxy.scratch().write("foreign-list", list).unwrap();
    haproxy = haproxy.with_list(&list);
    if matches!(place, Place::Directory) {
        let directory = haproxy.path().join("foreign");
        haproxy = haproxy.with_directory(&directory);
    }
    if matches!(place, Place::Relative) {
        let base = format!("crt-base {}", haproxy.path().display());
        haproxy = haproxy.with_global(&base);
    }
    let mut edge = Proxied::with(haproxy).await;
    edge.authority = Arc::new(authority);
    (edge, file, bundle)
}

fn foreign_list(edge: &Proxied) -> String {
    std::fs::read_to_string(edge.haproxy.path().join("foreign-list")).unwrap()
}

/// Both domains have the certificate that is served, as an import brings it in.
fn import(edge: &Proxied, bundle: &Bundle) {
    for host in BOTH {
        edge.memory.deploy(&Bundle { name: name(host), ..bundle.clone() });
    }
}

async fn adopt(edge: &Proxied, file: &Path, hosts: &[&str]) -> Vec<Option<Note>> {
    let before = edge.memory.adopted().len();
    for host in hosts {
        edge.memory.adopt(&file.display().to_string(), host);
    }
    let all = |memory: &Memory| {
        Some(memory.adopted().split_off(before)).filter(|told| told.len() >= hosts.len())
    };
    let told = edge.memory.until("it to be told", all).await;
    told.into_iter().map(|one| one.error).collect()
}

/// Imported, taken over and renewed under load; HAProxy's next start has ours alone.
async fn moves_in(place: Place) -> (Proxied, PathBuf) {
    let (mut edge, file, bundle) = foreign(place).await;
    let load = Load::start(&edge);
    for host in BOTH {
        load.serves(host, Host::Any);
    }
    let running = edge.run();
    import(&edge, &bundle);
    for host in BOTH {
        edge.memory.until_seen(host, Some(&bundle.summary.sha256)).await;
    }
    assert_eq!(adopt(&edge, &file, &BOTH).await, [None, None]);
    for host in BOTH {
        let renewed = edge.served(host).await;
        load.serves(host, Host::Only(renewed));
    }
    let gone = |memory: &Memory| memory.strangers().is_empty().then_some(());
    edge.memory.until("no stranger to be left", gone).await;
    load.one_more_round().await;
    load.stop().await;
    let loaded = edge.haproxy.ask("show ssl cert").await.unwrap();
    assert!(!loaded.contains("both.pem"), "{loaded}");
    running.stop().await;
    let served = [edge.visit(BOTH[0]).await, edge.visit(BOTH[1]).await];
    assert_ne!(served[0], served[1]);
    edge.haproxy.restart().await.unwrap();
    assert_eq!([edge.visit(BOTH[0]).await, edge.visit(BOTH[1]).await], served);
    assert!(foreign_list(&edge).contains("# mine") && !foreign_list(&edge).contains("both.pem"));
    (edge, file)
}

#[tokio::test]
async fn a_file_of_several_names_gives_way_to_a_file_each() {
    let (_edge, file) = moves_in(Place::List).await;
    assert!(file.exists());
}

#[tokio::test]
async fn so_does_one_that_is_listed_for_its_names() {
    let (_edge, file) = moves_in(Place::Filtered).await;
    assert!(file.exists());
}

#[tokio::test]
async fn so_does_one_in_a_directory_and_is_kept_elsewhere() {
    let (edge, file) = moves_in(Place::Directory).await;
    assert!(!file.exists());
    assert!(edge.haproxy.path().join("replaced/both.pem").exists());
}

#[tokio::test]
async fn so_does_one_that_is_listed_by_the_end_of_its_path() {
    let (_edge, file) = moves_in(Place::Relative).await;
    assert!(file.exists());
}

/// It is told why, and everything stays as it is.
async fn stays(edge: &Proxied, file: &Path, bundle: &Bundle, why: &str) {
    let (before, list) = (edge.haproxy.ask("show ssl cert").await.unwrap(), foreign_list(edge));
    for note in adopt(edge, file, &BOTH).await {
        let note = note.unwrap();
        assert!(note.code == "edge-not-adoptable" && note.detail.contains(why), "{note}");
    }
    for host in BOTH {
        assert_eq!(edge.visit(host).await, bundle.summary.sha256);
    }
    assert_eq!(edge.haproxy.ask("show ssl cert").await.unwrap(), before);
    assert_eq!(foreign_list(edge), list);
}

#[tokio::test]
async fn one_with_options_of_its_own_stays() {
    let (edge, file, bundle) = foreign(Place::Optional).await;
    let _running = edge.run();
    import(&edge, &bundle);
    stays(&edge, &file, &bundle, "options of its own").await;
}

#[tokio::test]
async fn one_on_another_list_as_well_stays() {
    let (haproxy, authority) = (Haproxy::prepare().unwrap(), Authority::new());
    let bundle = authority.issue_for(&BOTH);
    let file = haproxy.scratch().write("both.pem", pem(&bundle)).unwrap();
    let write =
        |list: &str| haproxy.scratch().write(list, format!("{}\n", file.display())).unwrap();
    let (public, internal) = (write("foreign-list"), write("internal-list"));
    let (haproxy, _) = haproxy.with_list(&public).with_internal(&internal).unwrap();
    let mut edge = Proxied::with(haproxy).await;
    edge.authority = Arc::new(authority);
    let _running = edge.run();
    import(&edge, &bundle);
    stays(&edge, &file, &bundle, "several lists").await;
}

#[tokio::test]
async fn one_on_the_bind_line_alone_stays() {
    let (haproxy, authority) = (Haproxy::prepare().unwrap(), Authority::new());
    let bundle = authority.issue_for(&BOTH);
    let file = haproxy.scratch().write("both.pem", pem(&bundle)).unwrap();
    haproxy.scratch().write("foreign-list", "").unwrap();
    let mut edge = Proxied::with(haproxy.with_directory(&file)).await;
    edge.authority = Arc::new(authority);
    let _running = edge.run();
    import(&edge, &bundle);
    stays(&edge, &file, &bundle, "on the bind line itself").await;
}

/// It stands on the bind line too: HAProxy does not let go of it, and it is a stranger like any other again.
#[tokio::test]
async fn one_on_the_bind_line_as_well_is_given_up() {
    let (haproxy, authority) = (Haproxy::prepare().unwrap(), Authority::new());
    let bundle = authority.issue_for(&BOTH);
    let file = haproxy.scratch().write("both.pem", pem(&bundle)).unwrap();
    let list = format!("{}\n", file.display());
    let list = haproxy.scratch().write("foreign-list", list).unwrap();
    // What stands first is HAProxy's default.
    let default = pem(&authority.issue("default.test"));
    let default = haproxy.scratch().write("default.pem", default).unwrap();
    let haproxy = haproxy.with_directory(&default).with_directory(&file).with_list(&list);
    let mut edge = Proxied::with(haproxy).await;
    edge.authority = Arc::new(authority);
    let running = edge.run();
    import(&edge, &bundle);
    assert_eq!(adopt(&edge, &file, &BOTH).await, [None, None]);
    let kept = edge.haproxy.path().join("replacing");
    eventually(LIMIT, "it to be given up", async || {
        let is_listed = foreign_list(&edge).contains("both.pem");
        match std::fs::read_to_string(&kept).unwrap() {
            kept if kept.is_empty() && !is_listed => Ok(()),
            kept => Err(kept),
        }
    })
    .await;
    running.stop().await;
    for host in BOTH {
        assert_eq!(edge.visit(host).await, bundle.summary.sha256);
    }
}

#[tokio::test]
async fn where_another_file_has_one_of_its_names_both_stay() {
    let (edge, file, bundle) = foreign(Place::List).await;
    let other = edge.authority.issue(BOTH[0]);
    let second = edge.haproxy.scratch().write("second.pem", pem(&other)).unwrap();
    edge.load_by_hand(&second.display().to_string(), &other).await;
    let _running = edge.run();
    import(&edge, &bundle);
    stays(&edge, &file, &bundle, "second.pem is served for shop.test too").await;
    let note = adopt(&edge, &second, &BOTH[..1]).await.remove(0).unwrap();
    assert!(note.detail.contains("both.pem is served for shop.test too"), "{note}");
}

/// HAProxy does not let go of its default while it runs: that is told, and its next start is without it.
#[tokio::test]
async fn the_default_goes_when_haproxy_is_restarted() {
    let (mut edge, file, bundle) = foreign(Place::First).await;
    let _running = edge.run();
    import(&edge, &bundle);
    assert_eq!(adopt(&edge, &file, &BOTH).await, [None, None]);
    let renewed = BOTH.map(|host| edge.deploy(host));
    for host in BOTH {
        let shadowed = |memory: &Memory| memory.observed(host)?.error;
        let note = edge.memory.until("the refusal", shadowed).await;
        assert!(note.code == "edge-shadowed" && note.detail.contains("both.pem"), "{note}");
        assert_eq!(edge.visit(host).await, bundle.summary.sha256);
    }
    assert!(!foreign_list(&edge).contains("both.pem"));
    edge.haproxy.restart().await.unwrap();
    for (host, sha256) in BOTH.iter().zip(&renewed) {
        edge.memory.until_seen(host, Some(sha256)).await;
    }
}

/// A process that read the lists before the file was taken off them takes over: what was said of it still holds.
#[tokio::test]
async fn one_that_a_reload_brings_back_goes_again() {
    let (mut edge, file, bundle) = foreign(Place::List).await;
    let list = foreign_list(&edge);
    let _running = edge.run();
    import(&edge, &bundle);
    assert_eq!(adopt(&edge, &file, &BOTH).await, [None, None]);
    let renewed = [edge.served(BOTH[0]).await, edge.served(BOTH[1]).await];
    edge.haproxy.scratch().write("foreign-list", list).unwrap();
    edge.haproxy.restart().await.unwrap();
    eventually(LIMIT, "ours to be served", async || {
        let seen = [edge.visit(BOTH[0]).await, edge.visit(BOTH[1]).await];
        let is_listed = foreign_list(&edge).contains("both.pem");
        if seen == renewed && !is_listed { Ok(()) } else { Err(seen.join(" ")) }
    })
    .await;
}

/// The agent ends after each step; whoever comes next goes on.
#[tokio::test]
async fn given_up_on_in_between_it_is_gone_on_with() {
    let (mut edge, file, bundle) = foreign(Place::Filtered).await;
    import(&edge, &bundle);
    let renewed = BOTH.map(|host| edge.deploy(host));
    let file = file.display().to_string();
    let adoptions = BOTH.map(|host| Adoption { file: file.clone(), name: name(host) });
    assert_eq!(edge.target().adopt(&adoptions).await.unwrap(), [Ok(()), Ok(())]);
    // One name has a file of ours: the other is served as before, and so is this one.
    let (ready, mut places) = mpsc::unbounded_channel();
    let change = edge.memory.change(BOTH[0]);
    let applied = edge.target().apply(&[change], edge.memory.clone(), &ready).await.unwrap();
    assert_eq!(applied[0].as_ref().unwrap_err().code, "edge-shadowed");
    assert!(places.try_recv().is_err());
    for host in BOTH {
        assert_eq!(edge.visit(host).await, bundle.summary.sha256);
    }
    // Whatever HAProxy has first after a restart, nothing is lost.
    edge.haproxy.restart().await.unwrap();
    for host in BOTH {
        edge.visit(host).await;
    }
    let _running = edge.run();
    for (host, sha256) in BOTH.iter().zip(&renewed) {
        edge.memory.until_seen(host, Some(sha256)).await;
    }
    assert!(!foreign_list(&edge).contains("both.pem"));
    for host in BOTH {
        edge.memory.withdraw(host);
        edge.memory.until_seen(host, None).await;
        edge.visitor().refusal(host).await;
    }
}

/// Killed when HAProxy had let go of it, and the list on disk still had it.
#[tokio::test]
async fn what_haproxy_let_go_of_is_taken_off_the_list_at_the_next_start() {
    let (edge, file, _) = foreign(Place::Filtered).await;
    let (file, list) = (file.display().to_string(), edge.haproxy.path().join("foreign-list"));
    for command in
        [format!("del ssl crt-list {} {file}", list.display()), format!("del ssl cert {file}")]
    {
        edge.haproxy.ask(&command).await.unwrap();
    }
    let replacing = edge.haproxy.scratch().write("replacing", format!("{file}\n")).unwrap();
    edge.target().inventory().await.unwrap();
    assert!(foreign_list(&edge).contains("# mine") && !foreign_list(&edge).contains("both.pem"));
    assert_eq!(std::fs::read_to_string(replacing).unwrap(), "");
}

#[tokio::test]
async fn a_file_with_a_name_that_is_none_of_ours_stays() {
    let (edge, file, bundle) = foreign(Place::List).await;
    let _running = edge.run();
    edge.memory.deploy(&bundle);
    let told = adopt(&edge, &file, &BOTH[..1]).await;
    let note = told[0].as_ref().unwrap();
    assert!(note.code == "edge-not-adoptable" && note.detail.contains(BOTH[1]), "{note}");
    assert_eq!(edge.visit(BOTH[1]).await, bundle.summary.sha256);
    assert!(foreign_list(&edge).contains("both.pem"));
}

/// Somebody adds a file for a name that is served from ours; then that file is to be taken over.
#[tokio::test]
async fn where_we_have_a_file_already_the_other_gives_way() {
    let mut edge = Proxied::new().await;
    let running = edge.run();
    let ours = edge.served("two.test").await;
    let theirs = edge.authority.issue("two.test");
    let added = edge.haproxy.scratch().write("two.pem", pem(&theirs)).unwrap();
    running.stop().await;
    edge.load_by_hand(&added.display().to_string(), &theirs).await;
    let running = edge.run();
    let told = |memory: &Memory| memory.strangers().into_iter().find(|one| one.shadows);
    edge.memory.until("the stranger to be told of", told).await;
    assert_eq!(adopt(&edge, &added, &["two.test"]).await, [None]);
    let gone = |memory: &Memory| memory.strangers().is_empty().then_some(());
    edge.memory.until("no stranger to be left", gone).await;
    assert_eq!(edge.visit("two.test").await, ours);
    assert!(Path::new(&edge.file("two.test")).exists() && added.exists());
    let renewed = edge.served("two.test").await;
    assert_eq!(edge.visit("two.test").await, renewed);
    edge.memory.withdraw("two.test");
    edge.memory.until_seen("two.test", None).await;
    running.stop().await;
    // Nothing of it comes back.
    edge.haproxy.restart().await.unwrap();
    let _running = edge.run();
    edge.served("another.test").await;
    edge.visitor().refusal("two.test").await;
}

/// The name is served from ours, and on another bind from a file of its operator's.
#[tokio::test]
async fn a_file_of_another_bind_is_left_alone() {
    let (haproxy, authority) = (Haproxy::prepare().unwrap(), Authority::new());
    let theirs = authority.issue("two.test");
    let file = haproxy.scratch().write("internal.pem", pem(&theirs)).unwrap();
    let list = haproxy.scratch().write("internal-list", format!("{}\n", file.display())).unwrap();
    let (haproxy, internal) = haproxy.with_internal(&list).unwrap();
    let mut edge = Proxied::with(haproxy).await;
    edge.authority = Arc::new(authority);
    let ours = edge.authority.issue("two.test");
    std::fs::write(edge.file("two.test"), pem(&ours)).unwrap();
    edge.own(&["two.test"]);
    let _running = edge.run();
    edge.memory.deploy(&ours);
    edge.memory.until_seen("two.test", Some(&ours.summary.sha256)).await;
    let told = adopt(&edge, &file, &["two.test"]).await;
    let note = told[0].as_ref().unwrap();
    assert!(note.detail.contains("another bind"), "{note}");
    assert_eq!(edge.visit("two.test").await, ours.summary.sha256);
    let visitor = Visitor::new(&edge.authority, internal).never_resuming();
    assert_eq!(visitor.visit("two.test").await.unwrap().sha256, theirs.summary.sha256);
}
