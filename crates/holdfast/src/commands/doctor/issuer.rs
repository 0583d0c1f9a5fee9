//! With which roots is what the CA issues verified?

use holdfast_acme::certificate::Pin;
use holdfast_store::SharedStore;

use super::finding::Finding;
use crate::{config::Acme, wiring};

const WHAT: &str = "ca issuer";

pub(super) async fn look(store: &SharedStore, acme: &Acme) -> Option<Finding> {
    if let Some(path) = &acme.issuer_roots {
        let shown = path.display();
        return Some(Finding::good(WHAT, format!("what the CA issues is verified with {shown}")));
    }
    let limits = wiring::ca::limits(acme);
    let account = store.account(acme.directory.as_str(), limits).await.ok().flatten()?;
    let pin = account.pin?;
    if pin == Pin::KNOWN_ROOTS {
        let roots = "the system's roots and acme.root_certificate";
        return Some(Finding::good(WHAT, format!("what the CA issues is verified with {roots}")));
    }
    let name = Pin::parse(&pin).map_or(pin, |pin| pin.name().to_owned());
    Some(Finding::doubtful(
        WHAT,
        format!(
            "the roots of what the CA issues are not known: its first chain led to `{name}`, and no other is taken"
        ),
        "Name its root in acme.issuer_roots. If the CA has another root now, run: holdfast ca unpin --config FILE",
    ))
}
