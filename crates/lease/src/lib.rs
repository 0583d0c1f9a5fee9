#![doc = include_str!("../README.md")]

pub mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod elector;
pub mod error;
pub mod event;
pub mod fence;
pub mod identity;
#[cfg(test)]
mod model;
pub mod options;
pub mod protocol;
pub mod request;
pub mod row;
pub mod rules;
#[cfg(feature = "postgres")]
pub mod session;
#[cfg(test)]
mod simulation;
pub mod store;

pub use self::elector::{Elector, Events, FullyGuarded, Health, Leadership, Standing, Work};
pub use self::error::{Error, StoreError};
pub use self::event::{Event, Happening, Loss};
pub use self::fence::Token;
pub use self::identity::{Holder, Incarnation, Name, Priority, Term};
pub use self::options::Options;
pub use self::protocol::{Failback, Wish};
pub use self::store::Store;
