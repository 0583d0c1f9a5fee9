//! Going back to the certificate before: visitors see it, and it stays.

use holdfast_testkit::eventually;

use crate::kit::{SOON, Up, text};

#[tokio::test]
async fn visitors_get_the_certificate_before() {
    let up = Up::start().await;
    let newest = || {
        let shown = up.json(["domain", "show", "shop.test"]);
        text(&shown, "/certificate/sha256").to_owned()
    };
    let served = async |sha256: &str| {
        eventually(SOON, "that one served and Active", async || {
            let shown = up.json(["domain", "show", "shop.test"]);
            let seen = shown.pointer("/serving/sha256").and_then(|seen| seen.as_str());
            let is_so = seen == Some(sha256) && text(&shown, "/state") == "Active";
            if is_so { Ok(()) } else { Err(shown) }
        })
        .await;
    };
    up.run(["domain", "add", "shop.test", "--wait"]).done();
    let first = newest();
    up.run(["domain", "rollback", "shop.test"]).refused(1, &["No earlier certificate", "renew"]);
    up.run(["domain", "renew", "shop.test", "--wait"]).done();
    let second = newest();
    assert_ne!(first, second);
    served(&second).await;

    up.run(["domain", "rollback", "shop.test", "--wait"]).done();
    assert_eq!(newest(), first);
    served(&first).await;
    up.visit("shop.test").done();
    let history = up.run(["domain", "history", "shop.test"]).done().stdout;
    assert!(history.contains("rolled-back"), "{history}");

    up.run(["domain", "rollback", "shop.test", "--to", &second]).done();
    served(&second).await;
    up.run(["domain", "renew", "shop.test", "--wait"]).done();
    assert!(newest() != first && newest() != second);
}
