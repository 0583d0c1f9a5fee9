//! What a custom domain is and how it moves.
//!
//! Everything here is pure: no I/O, no async, no clock. Time is an argument, randomness is derived from
//! the domain's id, and a decision is a function from data to data. The engine, the API, the documentation and the
//! tests all read the same table.

mod certificate;
mod clock;
mod decide;
mod domain;
mod explain;
mod hostname;
mod note;
mod outcome;
mod policy;
mod request;
mod state;
mod table;
mod time;
mod wait;

pub use certificate::CertificateSummary;
pub use clock::{AGES_DOUBTED, ClockSample, ClockStep, ClockWatch};
pub use decide::{Hop, Transition, decide};
pub use domain::{Domain, DomainId, Wanted};
pub use explain::{
    CaFacts, Check, EdgeFacts, EdgeTrouble, Explanation, Facts, Obstacle, QueueFacts, QueuePlace,
    WaitFacts, Who, explain,
};
pub use hostname::{Hostname, HostnameError};
pub use note::{Note, cleaned};
pub use outcome::{Outcome, OutcomeKind};
pub use policy::{Ladder, Limits, Outage, Policy, Renewal};
pub use request::{answers, asked};
pub use state::{Phase, State, UnknownState};
pub use table::{Row, Rule, TABLE, mermaid, rule};
pub use time::{Timestamp, TimestampError};
pub use wait::{WaitScope, url_in};
