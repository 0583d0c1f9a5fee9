//! A record that appears is noticed; a person's retry works at once; a takeover goes on where the other stopped.

use holdfast_model::{State, Wanted};

use crate::kit::{Setup, World, actor, patient};

#[tokio::test]
async fn a_record_that_appears_is_noticed_by_itself() {
    let world = World::start(Setup::default()).await;
    world.devnet.zone().set("shop.test", "NONE", "-").unwrap();
    let id = world.add("shop.test").await;
    let domain = world.reaches(id, State::DnsVerificationFailed).await;
    assert_eq!(domain.last_error.unwrap().code, "dns-nxdomain");
    world.devnet.zone().clear("shop.test").unwrap();
    world.reaches(id, State::Active).await;
}

#[tokio::test]
async fn a_persons_retry_does_not_wait() {
    let world = World::start(Setup { policy: patient(), ..Setup::default() }).await;
    world.devnet.faults().set("reject-identifier", "shop.test", None).unwrap();
    let id = world.add("shop.test").await;
    world.reaches(id, State::Failed).await;
    world.devnet.faults().clear_all();
    world.store.want(id, Wanted::Retry, &actor()).await.unwrap();
    world.reaches(id, State::Active).await;
}
