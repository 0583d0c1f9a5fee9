//! Explanations: one cause, one fix, who must act; also when nobody else answers.

use std::time::Duration;

use holdfast_dns::End;
use holdfast_model::{Note, Outcome, WaitScope};
use serde_json::{Value, json};

use crate::kit::{DIRECTORY, Kit, LIMITS};
use crate::work::{account, queued, refused};

async fn explain(kit: &Kit) -> Value {
    kit.get("/v1/domains/shop.example.com/explain").await.expect(200)
}

fn check<'a>(why: &'a Value, name: &str) -> &'a Value {
    let mut checks = why["checks"].as_array().unwrap().iter();
    checks.find(|check| check["name"] == name).unwrap_or_else(|| panic!("no check {name}: {why}"))
}

#[tokio::test]
async fn a_missing_name_is_the_customers_to_mend() {
    let kit = Kit::new().await;
    not_pointed(&kit).await;
    kit.world.say(End::NxDomain);
    let why = explain(&kit).await;
    assert_eq!((&why["cause"], &why["who"]), (&json!("dns-nxdomain"), &json!("customer")));
    assert!(
        why["fix"].as_str().unwrap().contains("`shop.example.com CNAME edge.example.net`"),
        "{why}"
    );
    assert!(why["next_attempt_at"].is_string());
    let dns = check(&why, "dns");
    assert_eq!(dns["ok"], false);
    assert!(
        !dns["seen"].as_str().unwrap().is_empty() && !dns["expected"].as_str().unwrap().is_empty()
    );
}

/// Brings the one domain to where DNS was found wrong.
async fn not_pointed(kit: &Kit) {
    kit.add("shop.example.com").await;
    kit.work(Outcome::Accepted, Default::default()).await;
    let note = Note::new("dns-nxdomain", "shop.example.com does not exist");
    kit.work(Outcome::DnsNotPointed { note }, Default::default()).await;
}

#[tokio::test]
async fn dns_that_was_mended_blames_nobody() {
    let kit = Kit::new().await;
    not_pointed(&kit).await;
    let why = explain(&kit).await;
    assert_eq!((&why["cause"], &why["who"]), (&json!("dns-mended"), &json!("holdfast")), "{why}");
    let fix = why["fix"].as_str().unwrap();
    assert!(fix.contains("holdfast domain retry shop.example.com"), "{why}");
    assert!(fix.contains(why["next_attempt_at"].as_str().unwrap()), "{why}");
    assert_eq!(check(&why, "dns")["ok"], true);
}

#[tokio::test]
async fn dns_that_cannot_be_asked_is_not_the_customers() {
    let kit = Kit::new().await;
    not_pointed(&kit).await;
    kit.world.say(End::ResolverUnreachable);
    let why = explain(&kit).await;
    assert_eq!(
        (&why["cause"], &why["who"]),
        (&json!("dns-resolver-unreachable"), &json!("operator")),
        "{why}"
    );
}

#[tokio::test]
async fn nothing_is_claimed_of_serving_where_others_serve() {
    let kit = Kit::with(|settings| settings.edges_in_use = false).await;
    kit.add("shop.example.com").await;
    kit.work(Outcome::Imported, Default::default()).await;
    kit.work(Outcome::DeploymentSeen, Default::default()).await;
    let why = explain(&kit).await;
    assert_eq!((&why["cause"], &why["who"]), (&json!("active"), &json!("nobody")), "{why}");
    let summary = why["summary"].as_str().unwrap();
    assert!(summary.contains("stored") && !summary.contains("is served"), "{why}");
}

/// Neither the first, short look nor the one of `explain` waits for as long as a name may take.
#[tokio::test]
async fn nobody_is_blamed_for_our_impatience() {
    let kit = Kit::new().await;
    kit.add("shop.example.com").await;
    kit.work(Outcome::Accepted, Default::default()).await;
    let note = Note::new(Note::DNS_SILENT, "there was no whole answer at once");
    kit.work(Outcome::DnsSilent { note }, Default::default()).await;
    kit.world.fall_silent();
    let why = explain(&kit).await;
    assert_eq!((&why["cause"], &why["who"]), (&json!("dns-silent"), &json!("holdfast")), "{why}");
    assert!(check(&why, "dns")["seen"].as_str().unwrap().contains("no answer within"), "{why}");
}

#[tokio::test]
async fn the_queue_at_the_ca_is_told_with_the_place() {
    let kit = Kit::new().await;
    kit.add("shop.example.com").await;
    let account = account(&kit).await;
    queued(&kit).await;
    let wait = Duration::from_secs(600);
    kit.store.pause_account(account.id, wait, "acme-rate-limited: too many orders").await.unwrap();
    let paused = kit.store.account(DIRECTORY, LIMITS).await.unwrap().unwrap();
    let until = paused.paused_until.unwrap();
    let why = explain(&kit).await;
    assert_eq!(
        (&why["who"], &why["next_attempt_at"]),
        (&json!("ca"), &json!(until.to_string())),
        "{why}"
    );
    assert!(why["summary"].as_str().unwrap().contains("place 1"), "{why}");
    let ca = check(&why, "ca");
    assert!(ca["ok"] == false && ca["seen"].as_str().unwrap().contains("too many orders"), "{ca}");
}

#[tokio::test]
async fn a_name_that_the_ca_has_paused_is_told_with_the_address_that_ends_it() {
    let kit = Kit::new().await;
    kit.add("shop.example.com").await;
    let words =
        "Your account is temporarily prevented. Please visit: https://ca.test/unpause?jwt=a.b";
    refused(&kit, WaitScope::PausedName, words).await;
    let why = explain(&kit).await;
    assert_eq!((&why["who"], &why["cause"]), (&json!("operator"), &json!("ca-paused-name")));
    assert!(why["fix"].as_str().unwrap().contains("at https://ca.test/unpause?jwt=a.b,"), "{why}");
    let account = account(&kit).await.id;
    let wait = &kit.store.waits(account, WaitScope::PausedName, 1).await.unwrap()[0];
    assert_eq!(why["next_attempt_at"], wait.until.to_string());
    let ca = check(&why, "ca");
    assert!(ca["ok"] == false && ca["seen"].as_str().unwrap().contains(words), "{ca}");
    let alerts = kit.get("/v1/alerts").await.expect(200);
    assert_eq!(alerts["items"][0]["code"], "ca-name-paused", "{alerts}");
    assert_eq!(alerts["items"][0]["domains"], json!(["shop.example.com"]));
}

#[tokio::test]
async fn a_ca_that_fails_is_told_with_since_when_and_who_says_so() {
    let kit = Kit::new().await;
    kit.add("shop.example.com").await;
    let account = account(&kit).await;
    queued(&kit).await;
    let failure = "ca-not-acme: replica `one` says: it said 404 Not Found, with a web page";
    kit.store.note_failure(account.id, "one", failure, Duration::from_secs(60)).await.unwrap();
    let why = explain(&kit).await;
    assert_eq!((&why["cause"], &why["who"]), (&json!("ca-not-acme"), &json!("ca")), "{why}");
    let noted = kit.store.account(DIRECTORY, LIMITS).await.unwrap().unwrap();
    let (since, again) = (noted.failing_since.unwrap(), noted.asked_again_at.unwrap());
    assert_eq!(why["next_attempt_at"], json!(again.to_string()), "{why}");
    let summary = why["summary"].as_str().unwrap();
    assert!(summary.contains(&since.to_string()) && summary.contains("replica `one`"), "{why}");
    let ca = check(&why, "ca");
    assert!(ca["ok"] == false && ca["seen"].as_str().unwrap().contains("404 Not Found"), "{ca}");
    kit.store.end_failure(account.id, "one").await.unwrap();
    assert_eq!(check(&explain(&kit).await, "ca")["ok"], true);
}

#[tokio::test]
async fn silence_of_dns_is_said_and_not_blamed() {
    let kit = Kit::new().await;
    kit.add("shop.example.com").await;
    kit.world.fall_silent();
    let began = tokio::time::Instant::now();
    let why = explain(&kit).await;
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(why["cause"], "in-progress");
    assert!(check(&why, "dns")["seen"].as_str().unwrap().starts_with("nothing: no answer within"));
}

#[tokio::test]
async fn every_explanation_has_all_its_parts() {
    let kit = Kit::new().await;
    kit.add("shop.example.com").await;
    let why = explain(&kit).await;
    for field in ["summary", "cause", "fix", "who"] {
        assert!(!why[field].as_str().unwrap().is_empty(), "{field}: {why}");
    }
    assert_eq!(check(&why, "dns")["ok"], true);
    assert_eq!(check(&why, "edge")["ok"], false, "no edge is live");
}

#[tokio::test]
async fn a_name_that_reaches_us_over_http_can_prove_it() {
    let kit = Kit::with(|settings| settings.http_proof_port = Some(80)).await;
    kit.add("shop.example.com").await;
    explain(&kit).await;
    let proof = kit.world.asked().proof.expect("HTTP counts too");
    let answer = kit.get(&format!("/.well-known/holdfast/{}", proof.nonce)).await;
    assert_eq!((answer.text(), proof.port), (proof.answer, 80));
}
