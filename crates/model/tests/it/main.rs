//! The state machine from outside: the table's snapshot, the drawing in the docs, and what must hold of
//! every decision.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may stop, and one of them rewrites the docs"
)]

mod explain;
mod kit;
mod machine;
mod renewal;
mod situation;
mod table;
