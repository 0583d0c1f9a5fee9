//! What is issued: names, keys, chain, and the CSRs that are refused.

use instant_acme::NewOrder;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

use crate::world::{RETRIES, World, csr, identifiers, kind, problem};

#[tokio::test]
async fn certificates_say_plainly_what_they_are() {
    let world = World::start().await;
    let issued = world.issue(&world.account().await, &["plain.test"]).await.unwrap();
    assert_eq!(issued.chain.matches("BEGIN CERTIFICATE").count(), 2);
    world.verify(&issued.chain, "plain.test").unwrap();
    let leaf = issued.leaf();
    let (_, parsed) = x509_parser::parse_x509_certificate(&leaf).unwrap();
    for name in [parsed.subject(), parsed.issuer()] {
        assert!(name.to_string().contains("Holdfast DEVELOPMENT CA – do not trust"), "{name}");
    }
    let root = x509_parser::pem::parse_x509_pem(world.net.root_pem().as_bytes()).unwrap().1;
    let root = root.parse_x509().unwrap();
    assert!(root.subject().to_string().contains("do not trust"));
    let own = x509_parser::pem::Pem::iter_from_buffer(issued.chain.as_bytes());
    assert_eq!(own.count(), 2);
    assert_eq!(parsed.public_key().subject_public_key.data, issued.key.public_key_raw());
}

#[tokio::test]
async fn a_name_longer_than_a_common_name_is_certified_too() {
    let world = World::start().await;
    let name = format!("{}.{}.test", "a".repeat(60), "b".repeat(60));
    let issued = world.issue(&world.account().await, &[&name]).await.unwrap();
    world.verify(&issued.chain, &name).unwrap();
}

#[tokio::test]
async fn other_key_types_are_certified() {
    let world = World::start().await;
    let account = world.account().await;
    let names = identifiers(&["p384.test"]);
    let mut order = account.new_order(&NewOrder::new(&names)).await.unwrap();
    world.prove(&mut order).await.unwrap();
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    order.finalize_csr(&csr(&["p384.test"], &key)).await.unwrap();
    let chain = order.poll_certificate(&RETRIES).await.unwrap();
    world.verify(&chain, "p384.test").unwrap();
}

#[tokio::test]
async fn a_bad_csr_is_refused_and_the_order_stays_ready() {
    let world = World::start().await;
    let (account, credentials) = world.account_with_credentials().await;
    let names = identifiers(&["a.test", "b.test"]);
    let mut order = account.new_order(&NewOrder::new(&names)).await.unwrap();
    world.prove(&mut order).await.unwrap();
    let key = KeyPair::generate().unwrap();
    let good = csr(&["a.test", "b.test"], &key);
    let mut tampered = good.clone();
    *tampered.last_mut().unwrap() ^= 1;
    let account_key = KeyPair::try_from(credentials.private_key().secret_pkcs8_der()).unwrap();
    let cases = [
        ("fewer names", csr(&["a.test"], &key)),
        ("more names", csr(&["a.test", "b.test", "c.test"], &key)),
        ("other names", csr(&["a.test", "c.test"], &key)),
        ("an address", with_address(&key)),
        ("another common name", with_common_name("c.test", &key)),
        ("a broken signature", tampered),
        ("something after it", [good.as_slice(), &[0]].concat()),
        ("no CSR at all", vec![1, 2, 3]),
        ("the account's key", csr(&["a.test", "b.test"], &account_key)),
        (
            "an Ed25519 key",
            csr(&["a.test", "b.test"], &KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap()),
        ),
    ];
    let count = cases.len();
    for (what, request) in cases {
        let refused = problem(order.finalize_csr(&request).await);
        assert_eq!(kind(&refused), "badCSR", "{what}: {refused}");
    }
    order.finalize_csr(&with_common_name("a.test", &key)).await.unwrap();
    let orders = world.json("/dev/orders").await;
    assert_eq!(
        (&orders[0]["finalized"], &orders[0]["finalize_refused"]),
        (&1.into(), &count.into())
    );
}

fn params() -> CertificateParams {
    let mut params =
        CertificateParams::new(vec!["a.test".to_owned(), "b.test".to_owned()]).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params
}

fn with_common_name(name: &str, key: &KeyPair) -> Vec<u8> {
    let mut params = params();
    params.distinguished_name.push(DnType::CommonName, name);
    params.serialize_request(key).unwrap().der().to_vec()
}

fn with_address(key: &KeyPair) -> Vec<u8> {
    let mut params = params();
    params.subject_alt_names.push(SanType::IpAddress("127.0.0.1".parse().unwrap()));
    params.serialize_request(key).unwrap().der().to_vec()
}
