//! What is taken for a certificate and its key, and what is said of the rest.

use holdfast_acme::certificate::{BadCertificate, Pair, check_pair, facts};
use holdfast_model::{Hostname, Timestamp};
use holdfast_store::Secret;
use proptest::prelude::*;
use rcgen::KeyPair;

use crate::paper::{Authority, NOW};

const DAY: i64 = 24 * 3600;

fn check_at(name: &str, chain: &str, key: &str, at: i64) -> Result<Pair, BadCertificate> {
    let name = Hostname::parse(name).unwrap();
    check_pair(&name, chain, &Secret::from(key.to_owned()), Timestamp::from_seconds(at))
}

fn check(name: &str, chain: &str, key: &str) -> Result<Pair, BadCertificate> {
    check_at(name, chain, key, NOW)
}

/// The refusal, which must name these things.
fn refused(result: Result<Pair, BadCertificate>, words: &[&str]) -> BadCertificate {
    let error = result.unwrap_err();
    for word in words {
        assert!(error.to_string().contains(word), "no `{word}` in: {error}");
    }
    error
}

#[test]
fn what_fits_is_taken_and_put_out_clean() {
    let (authority, key) = (Authority::new(), KeyPair::generate().unwrap());
    let chain = authority.chain(&["shop.example.com"], &key);
    let untidy = format!("subject=shop\r\n\n{}\n\n  \n", chain.replace('\n', "\r\n"));
    let pair = check("shop.example.com", &untidy, &key.serialize_pem()).unwrap();
    assert_eq!(pair.chain_pem, chain.replace("\r\n", "\n"));
    let again = check("shop.example.com", &pair.chain_pem, &exposed(&pair.key)).unwrap();
    assert_eq!(again.chain_pem, pair.chain_pem);
    let with_root = chain + &authority.root.pem();
    check("shop.example.com", &with_root, &key.serialize_pem()).unwrap();
}

fn exposed(key: &Secret) -> String {
    String::from_utf8(key.expose().to_vec()).unwrap()
}

#[test]
fn every_form_of_key_becomes_pkcs8() {
    let authority = Authority::new();
    let forms = [
        (include_str!("keys/p256.sec1.pem"), include_str!("keys/p256.pkcs8.pem")),
        (include_str!("keys/params.sec1.pem"), include_str!("keys/params.pkcs8.pem")),
        (include_str!("keys/p384.sec1.pem"), include_str!("keys/p384.pkcs8.pem")),
        (include_str!("keys/rsa.pkcs1.pem"), include_str!("keys/rsa.pkcs8.pem")),
        (include_str!("keys/ed25519.pkcs8.pem"), include_str!("keys/ed25519.pkcs8.pem")),
    ];
    for (given, pkcs8) in forms {
        let chain = authority.chain(&["shop.example.com"], &KeyPair::from_pem(pkcs8).unwrap());
        for key in [given, pkcs8] {
            let pair = check("shop.example.com", &chain, key).unwrap();
            let normal = exposed(&pair.key);
            assert!(normal.starts_with("-----BEGIN PRIVATE KEY-----\n"), "{normal}");
            // Whatever came in, other programs can use what comes out.
            let read = KeyPair::from_pem(&normal).unwrap();
            assert_eq!(read.public_key_raw(), KeyPair::from_pem(pkcs8).unwrap().public_key_raw());
        }
    }
}

#[test]
fn names_are_covered_exactly_or_by_a_wildcard_of_one_label() {
    let (authority, key) = (Authority::new(), KeyPair::generate().unwrap());
    let cases = [
        (vec!["shop.example.com"], "shop.example.com", true),
        (vec!["www.example.com", "shop.example.com"], "shop.example.com", true),
        (vec!["*.example.com"], "shop.example.com", true),
        (vec!["*.example.com"], "a.shop.example.com", false),
        (vec!["*.example.com"], "example.com", false),
        (vec!["*.shop.example.com"], "shop.example.com", false),
        (vec!["example.com"], "shop.example.com", false),
        (vec!["shop.example.com.evil.net"], "shop.example.com", false),
        (vec!["xn--bcher-kva.example"], "bücher.example", true),
        (vec!["127.0.0.1"], "shop.example.com", false),
    ];
    for (covered, name, fits) in cases {
        let result = check(name, &authority.chain(&covered, &key), &key.serialize_pem());
        assert_eq!(result.is_ok(), fits, "{covered:?} {name}: {result:?}");
    }
    let other =
        check("a.example.net", &authority.chain(&["b.example.net"], &key), &key.serialize_pem());
    refused(other, &["a.example.net", "`b.example.net`", "subject alternative names"]);
    let many = ["a1.test", "a2.test", "a3.test", "a4.test", "a5.test", "a6.test", "a7.test"];
    refused(
        check("b.test", &authority.chain(&many, &key), &key.serialize_pem()),
        &["`a5.test`", "2 more"],
    );
}

#[test]
fn the_time_must_be_right() {
    let (authority, key) = (Authority::new(), KeyPair::generate().unwrap());
    let (chain, key) = (authority.chain(&["shop.example.com"], &key), key.serialize_pem());
    for at in [NOW - DAY - 299, NOW - DAY, NOW, NOW + 89 * DAY - 1] {
        check_at("shop.example.com", &chain, &key, at).unwrap();
    }
    let early = check_at("shop.example.com", &chain, &key, NOW - DAY - 301);
    refused(early, &["valid only from 2025-06-14", "import it then"]);
    let late = check_at("shop.example.com", &chain, &key, NOW + 89 * DAY);
    refused(late, &["expired at 2025-09-12", "give one that is valid"]);
}

#[test]
fn each_link_must_hold() {
    let (authority, other, key) =
        (Authority::new(), Authority::new(), KeyPair::generate().unwrap());
    let leaf = authority.leaf(&["shop.example.com"], &key);
    let key_pem = key.serialize_pem();
    let forged = check("shop.example.com", &(leaf.clone() + &other.intermediate.pem()), &key_pem);
    refused(forged, &["certificate 1", "signature does not fit"]);
    let skipped = check("shop.example.com", &(leaf.clone() + &authority.root.pem()), &key_pem);
    refused(skipped, &["certificate 1", "Paper root", "its issuer is `CN=Paper intermediate"]);
    let doubled = check("shop.example.com", &(leaf.clone() + &leaf), &key_pem);
    refused(doubled, &["order the chain leaf first"]);
    let upside_down = check("shop.example.com", &(authority.intermediate.pem() + &leaf), &key_pem);
    assert!(matches!(
        refused(upside_down, &["Paper intermediate", "put the leaf first"]),
        BadCertificate::LeafIsCa(_)
    ));
}

#[test]
fn the_key_must_be_the_leafs() {
    let (authority, key) = (Authority::new(), KeyPair::generate().unwrap());
    let chain = authority.chain(&["shop.example.com"], &key);
    let keys = [
        "keys/p256.pkcs8.pem",
        "keys/p384.sec1.pem",
        "keys/rsa.pkcs1.pem",
        "keys/ed25519.pkcs8.pem",
    ];
    let texts = [
        include_str!("keys/p256.pkcs8.pem"),
        include_str!("keys/p384.sec1.pem"),
        include_str!("keys/rsa.pkcs1.pem"),
        include_str!("keys/ed25519.pkcs8.pem"),
    ];
    for (file, text) in keys.iter().zip(texts) {
        let error = check("shop.example.com", &chain, text).unwrap_err();
        assert!(matches!(error, BadCertificate::KeyMismatch(_)), "{file}: {error}");
        refused(Err(error), &["`shop.example.com`", "its request was signed with"]);
    }
}

#[test]
fn what_is_no_key_is_refused_by_name() {
    let (authority, key) = (Authority::new(), KeyPair::generate().unwrap());
    let chain = authority.chain(&["shop.example.com"], &key);
    let huge = "x".repeat(20_000);
    let broken = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let cases: [(&str, &str); 9] = [
        ("", "there is no PEM block"),
        ("not a key", "there is no PEM block"),
        (include_str!("keys/encrypted.pkcs8.pem"), "is encrypted"),
        (include_str!("keys/encrypted.sec1.pem"), "is encrypted"),
        (include_str!("keys/p521.pkcs8.pem"), "ECDSA P-256 or P-384"),
        (include_str!("keys/rsa1024.pkcs1.pem"), "RSA from 2048 bits"),
        (&chain, "it is a `CERTIFICATE`"),
        (&huge, "more than 16384"),
        (broken, "cannot be used"),
    ];
    for (text, word) in cases {
        refused(check("shop.example.com", &chain, text), &[word]);
    }
}

#[test]
fn what_is_no_chain_is_refused_by_name() {
    let (authority, key) = (Authority::new(), KeyPair::generate().unwrap());
    let key = key.serialize_pem();
    let huge = "x".repeat(70_000);
    let long = authority.root.pem().repeat(11);
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let unended = "-----BEGIN CERTIFICATE-----\nAAAA\n";
    let cases: [(&str, &str); 7] = [
        ("", "holds no certificate"),
        ("hello", "holds no certificate"),
        (&key, "holds a `PRIVATE KEY`"),
        (&huge, "more than 65536"),
        (&long, "more than 10 certificates"),
        (broken, "certificate 1 of the chain cannot be read"),
        (unended, "not valid PEM"),
    ];
    for (text, word) in cases {
        refused(check("shop.example.com", text, &key), &[word]);
        assert!(facts(text, "imported").unwrap_err().to_string().contains(word), "{word}");
    }
}

#[test]
fn the_facts_are_those_of_the_leaf() {
    let (authority, key) = (Authority::new(), KeyPair::generate().unwrap());
    let facts =
        facts(&authority.chain(&["shop.example.com"], &key), "https://ca.example/dir").unwrap();
    assert_eq!(facts.issuer, "Paper intermediate");
    assert_eq!(facts.directory, "https://ca.example/dir");
    assert_eq!(facts.not_before, Timestamp::from_seconds(NOW - DAY));
    assert_eq!(facts.not_after, Timestamp::from_seconds(NOW + 89 * DAY));
    assert_eq!(facts.sha256.len(), 64);
    assert!(
        facts.serial.chars().all(|letter| letter.is_ascii_hexdigit() && !letter.is_uppercase())
    );
}

/// It goes into the database, into log lines and before people.
#[test]
fn the_name_of_an_issuer_is_kept_without_what_controls() {
    use rcgen::DnType::{CommonName, OrganizationName};
    let key = KeyPair::generate().unwrap();
    let issuer = |kind, name: &str| {
        let chain = Authority::named(kind, name).chain(&["shop.example.com"], &key);
        facts(&chain, "https://ca.example/dir").unwrap().issuer
    };
    let bad = "Lying\0 CA\r\n2026 INFO all is well\u{1b}[2K";
    let clean = "Lying  CA  2026 INFO all is well [2K";
    assert_eq!(issuer(CommonName, bad), clean);
    assert_eq!(issuer(OrganizationName, bad), format!("O={clean}"));
    let long = issuer(CommonName, &"\u{e9}".repeat(5_000));
    assert!(long.len() < 600, "{} bytes are kept", long.len());
}

#[test]
fn no_error_shows_the_key() {
    let (authority, key) = (Authority::new(), KeyPair::generate().unwrap());
    let secret = key.serialize_pem();
    let inner = secret.lines().nth(1).unwrap().to_owned();
    let chain = authority.chain(&["other.example.com"], &key);
    for result in
        [check("shop.example.com", &chain, &secret), check("shop.example.com", &secret, &secret)]
    {
        let error = result.unwrap_err();
        assert!(!format!("{error} {error:?}").contains(&inner));
    }
    let fits = check("other.example.com", &chain, &secret).unwrap();
    assert!(!format!("{fits:?}").contains(&inner));
}

proptest! {
    #[test]
    fn any_text_may_be_given(text in any::<String>(), key in proptest::collection::vec(any::<u8>(), 0..400)) {
        let name = Hostname::parse("shop.example.com").unwrap();
        let now = Timestamp::from_seconds(NOW);
        prop_assert!(check_pair(&name, &text, &Secret::new(key), now).is_err());
        prop_assert!(facts(&text, "imported").is_err());
    }

    #[test]
    fn any_pem_may_be_given(
        label in "(CERTIFICATE|PRIVATE KEY|EC PRIVATE KEY|RSA PRIVATE KEY|[A-Z ]{0,9})",
        body in "[A-Za-z0-9+/=\r\n -]{0,200}",
        end in any::<bool>(),
    ) {
        let text = format!("-----BEGIN {label}-----\n{body}\n{}", if end { format!("-----END {label}-----\n") } else { String::new() });
        prop_assert!(check("shop.example.com", &text, &text).is_err());
    }

    #[test]
    fn any_byte_may_be_wrong(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let pem = include_str!("keys/p256.pkcs8.pem");
        let chain = Authority::new().chain(&["shop.example.com"], &KeyPair::from_pem(pem).unwrap());
        let spoiled = |text: &str| {
            let mut bytes = text.as_bytes().to_vec();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            String::from_utf8_lossy(&bytes).into_owned()
        };
        // Either it does no harm, or it is refused: it never panics.
        check("shop.example.com", &spoiled(&chain), pem).ok();
        check("shop.example.com", &chain, &spoiled(pem)).ok();
    }
}
