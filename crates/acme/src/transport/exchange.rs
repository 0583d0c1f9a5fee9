//! What a call of instant-acme is about, and what came back beside its answer.
//!
//! instant-acme builds its requests itself and drops Retry-After: the task that calls it carries the label in and
//! the header out.

use std::cell::Cell;
use std::time::Duration;

use holdfast_gateway::point::Point;

struct Exchange {
    at: Point,
    retry_after: Cell<Option<Duration>>,
}

tokio::task_local! {
    static EXCHANGE: Exchange;
}

/// Runs a call whose requests are of one kind; gives its Retry-After too.
pub(crate) async fn during<T>(at: Point, call: impl Future<Output = T>) -> (T, Option<Duration>) {
    let exchange = Exchange { at, retry_after: Cell::new(None) };
    let labelled = async {
        let result = call.await;
        (result, EXCHANGE.with(|exchange| exchange.retry_after.get()))
    };
    EXCHANGE.scope(exchange, labelled).await
}

/// What the running call is about.
pub(super) fn label() -> Option<Point> {
    EXCHANGE.try_with(|exchange| exchange.at).ok()
}

/// Notes the Retry-After of the newest answer.
pub(super) fn note(retry_after: Option<Duration>) {
    // Without a label nobody asks for it.
    EXCHANGE.try_with(|exchange| exchange.retry_after.set(retry_after)).ok();
}
