//! A deterministic world around the real protocol: processes, a network, a store and their clocks, all drawn from one seed.
//!
//! Everything that can go wrong does: crashes, pauses of a process or of its driver alone, partitions each way, lost, late and
//! doubled messages, slow commits, store restarts, drift, steps of the store's clock, forced releases, lost rows, two
//! processes of one name, work that does not stop, beacons whose sessions end. After a while the faults end, and an owner must be found in time.
//! Nothing here knows tokio or a real store.

mod checker;
mod clock;
mod driver;
mod fault;
mod happen;
mod network;
mod plan;
mod process;
mod seeds;
mod session;
mod set_back;
mod store;
mod work;
mod world;

pub(crate) use self::plan::Plan;
pub(crate) use self::world::World;

/// True time of the simulated world, in microseconds.
pub(crate) type Micros = u64;

/// A small generator of random numbers: splitmix64.
#[derive(Clone, Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides.max(1)
    }

    /// True once in so many times.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.roll(times) == 0
    }

    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.roll(high.saturating_sub(low) + 1)
    }
}
