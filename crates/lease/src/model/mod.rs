//! The protocol under a model checker: every order of events within small bounds.
//!
//! Time is counted in ticks. Anything may be late: a process wakes up whenever it likes after its time, a message arrives
//! whenever it likes, is lost, or is answered twice; a process may crash, its clock may fall behind by the declared drift, and
//! the session of its beacon may end, alone or with the server. Bounds are printed with the size of the space.

mod exploration;
mod serving;
mod spaces;
mod world;

use std::time::Duration;

use crate::identity::Name;
use crate::options::Timing;
use crate::protocol::bug::Bug;

const TICK: Duration = Duration::from_secs(1);

/// How far the model goes.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    processes: usize,
    ticks: u32,
    /// Terms, and with them changes of owner.
    terms: i64,
    /// Messages on their way at once.
    messages: usize,
    crashes: u8,
    losses: u8,
    doubles: u8,
    /// Ticks by which a clock may fall behind.
    lags: u8,
    step_downs: u8,
    /// How often the store's clock may be set back, by far more than a lease.
    set_backs: u8,
    /// Leases are held with beacons, whose sessions may end this often, and the server be restarted this often.
    beacon: bool,
    cuts: u8,
    restarts: u8,
}

#[derive(Clone, Debug)]
struct LeaseModel {
    bounds: Bounds,
    bug: Option<Bug>,
    name: Name,
}

/// A lease of two ticks, one of them margin, and one more for each tick a clock may fall behind.
fn timing(lags: u8) -> Timing {
    Timing {
        ttl: TICK * (2 + u32::from(lags)),
        window: TICK,
        lead: Duration::ZERO,
        renew_every: TICK,
        request_timeout: TICK,
        retry: TICK,
        poll: TICK,
        reservation: TICK,
        courtesy: TICK,
        priority_step: TICK,
        beacon: TICK,
        drift_ppm: 0,
        margin: TICK,
    }
}
