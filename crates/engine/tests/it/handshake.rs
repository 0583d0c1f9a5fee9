//! An edge without plain HTTP: control is proved in the handshake itself.

use holdfast_model::State;

use crate::kit::{Setup, World};

#[tokio::test]
async fn a_certificate_by_tls_alpn_alone() {
    let world = World::start(Setup { plain: false, ..Setup::default() }).await;
    let id = world.add("shop.test").await;
    let domain = world.reaches(id, State::Active).await;
    assert_eq!(domain.last_error, None, "the first proof was the right one");
}
