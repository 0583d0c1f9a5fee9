//! What the world's DNS says of a name, and whether that points the name at us.
//!
//! Looking and judging are apart. [`Resolver::look`] asks (A and AAAA, each CNAME followed by hand so that
//! loops have a name, then HTTP where DNS alone does not settle it) and writes down what was [`Seen`];
//! [`judge()`] decides from that alone and is pure. A name counts as pointed at us in three ways: its CNAMEs reach one
//! of our targets; all its addresses are ours, or those our target has now; or a request to it reaches us.
//! Nothing is remembered between two looks: a customer may have changed a record a second ago.
//! A [glance](Resolver::glance) is a short look, so that names whose DNS is silent keep nobody waiting; it blames nobody for silence.
//! What happens to a domain as a result is not known here.

mod detail;
mod exchange;
mod expectation;
mod finding;
mod glance;
mod judge;
mod proof;
mod question;
mod reply;
mod resolver;
mod seen;
mod servers;
mod verdict;
mod walk;

pub use self::expectation::{Expectation, HttpProof};
pub use self::finding::Finding;
pub use self::glance::{Glance, Turn};
pub use self::judge::judge;
pub use self::resolver::{Error, Limits, Resolver};
pub use self::seen::{End, HttpAnswer, HttpReply, Seen, Walk};
pub use self::verdict::{Cause, Verdict, Via};
