//! Webhooks: the event log read for each of them, messages put down, and sent by whichever replica claims them.
//!
//! Every replica that works runs one [`Courier`]. They need no leader: the cursor of a webhook moves by compare-and-swap together with
//! the messages it put down, and a message is claimed like work. A courier that dies leaves claims that lapse; another sends again.

mod courier;
mod message;
mod schedule;
mod secret;
mod signature;

pub use self::courier::{Courier, CourierConfig};
pub(crate) use self::message::{KINDS, ping};
pub(crate) use self::secret::{mint, parse};
