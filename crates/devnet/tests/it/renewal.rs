//! Renewal information and `replaces` by instant-acme (RFC 9773).

use http::Method;
use instant_acme::{CertificateIdentifier, NewOrder, OrderStatus};
use time::format_description::well_known::Rfc3339;
use x509_parser::extensions::ParsedExtension;

use crate::world::{Issued, World, identifiers, kind, problem};

pub(crate) fn id(issued: &Issued) -> CertificateIdentifier<'static> {
    let leaf = issued.leaf();
    let (_, parsed) = x509_parser::parse_x509_certificate(&leaf).unwrap();
    let authority = parsed.iter_extensions().find_map(|one| match one.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(one) => {
            one.key_identifier.as_ref().map(|id| id.0.to_vec())
        }
        _ => None,
    });
    let serial = parsed.tbs_certificate.raw_serial().to_vec();
    CertificateIdentifier::new(authority.unwrap().as_slice().into(), serial.as_slice().into())
        .into_owned()
}

#[tokio::test]
async fn the_window_is_suggested_and_can_be_set() {
    let world = World::start().await;
    let account = world.account().await;
    let issued = world.issue(&account, &["a.test"]).await.unwrap();
    let id = id(&issued);
    let (info, retry_after) = account.renewal_info(&id).await.unwrap();
    let leaf = issued.leaf();
    let (_, parsed) = x509_parser::parse_x509_certificate(&leaf).unwrap();
    let begins = parsed.validity().not_before.to_datetime();
    assert_eq!((info.suggested_window.start - begins).whole_days(), 59);
    assert_eq!((info.suggested_window.end - begins).whole_days(), 60);
    assert!((21_500..=21_600).contains(&retry_after.as_secs()), "{retry_after:?}");
    let window = r#"{"start":"2020-01-01T00:00:00Z","end":"2020-01-02T00:00:00Z","explanation_url":"https://why.test","retry_after":60}"#;
    for target in [id.to_string(), "a.test".to_owned(), "*".to_owned()] {
        world.control(Method::PUT, &format!("/dev/ari/{target}"), window).await;
        let (info, retry_after) = account.renewal_info(&id).await.unwrap();
        assert_eq!(info.suggested_window.start.format(&Rfc3339).unwrap(), "2020-01-01T00:00:00Z");
        assert_eq!(info.explanation_url.as_deref(), Some("https://why.test"));
        assert!((55..=60).contains(&retry_after.as_secs()), "{retry_after:?}");
        assert!(world.json("/dev/ari").await[&target]["end"].is_string());
        world.control(Method::DELETE, &format!("/dev/ari/{target}"), "").await;
        let (info, _) = account.renewal_info(&id).await.unwrap();
        assert!(info.suggested_window.start > begins);
    }
    let unknown = CertificateIdentifier { serial: "AAAA".into(), ..id };
    let unknown = world.send(Method::GET, &format!("/acme/renewal-info/{unknown}"), "").await;
    assert_eq!(unknown.status(), 404);
}

#[tokio::test]
async fn a_certificate_is_replaced_once() {
    let world = World::start().await;
    let account = world.account().await;
    let issued = world.issue(&account, &["a.test"]).await.unwrap();
    let id = id(&issued);
    let names = identifiers(&["a.test", "b.test"]);
    let mut order = account.new_order(&NewOrder::new(&names).replaces(id.clone())).await.unwrap();
    assert_eq!(order.state().status, OrderStatus::Pending);
    let again = problem(account.new_order(&NewOrder::new(&names).replaces(id.clone())).await);
    assert_eq!((kind(&again), again.status), ("alreadyReplaced", Some(409)));
    // An order that failed has replaced nothing.
    let mut authorizations = order.authorizations();
    authorizations.next().await.unwrap().unwrap().deactivate().await.unwrap();
    let mut order = account.new_order(&NewOrder::new(&names).replaces(id.clone())).await.unwrap();
    world.prove(&mut order).await.unwrap();
    let again = problem(account.new_order(&NewOrder::new(&names).replaces(id)).await);
    assert_eq!(kind(&again), "alreadyReplaced");
    let certificates = world.json("/dev/certificates").await;
    let replaced_by = certificates[0]["replaced_by"].as_str().unwrap();
    assert!(order.url().ends_with(replaced_by));
}

#[tokio::test]
async fn what_is_replaced_must_be_ones_own_and_share_a_name() {
    let world = World::start().await;
    let account = world.account().await;
    let issued = world.issue(&account, &["a.test"]).await.unwrap();
    let id = id(&issued);
    let names = identifiers(&["a.test"]);
    let other = world.account().await;
    let foreign = problem(other.new_order(&NewOrder::new(&names).replaces(id.clone())).await);
    assert_eq!((kind(&foreign), foreign.status), ("unauthorized", Some(403)));
    let others = identifiers(&["b.test"]);
    let strange = problem(account.new_order(&NewOrder::new(&others).replaces(id.clone())).await);
    assert_eq!((kind(&strange), strange.status), ("malformed", Some(400)));
    let unknown = CertificateIdentifier { serial: "AAAA".into(), ..id };
    let unknown = problem(account.new_order(&NewOrder::new(&names).replaces(unknown)).await);
    assert_eq!((kind(&unknown), unknown.status), ("malformed", Some(404)));
}
