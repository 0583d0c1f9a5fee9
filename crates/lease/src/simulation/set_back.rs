//! One story by itself: the owner dies, the store's clock is set back, and it must be followed all the same, not after the hour
//! that its row now seems to last.

use super::Micros;
use super::plan::{Plan, SECOND, micros};
use super::world::World;
use crate::protocol::bug::Bug;

/// How many stories `./dev test` tells.
const STORIES: u64 = 3_000;

impl World {
    /// How long after its death the owner was followed.
    fn followed_after_a_step_back(&mut self) -> Result<Micros, String> {
        self.calm = true;
        for index in 0..self.processes.len() {
            self.contend(index)?;
        }
        let name = self.names[0].clone();
        let dies = self.dice.between(8 * SECOND, 20 * SECOND);
        self.run_until(dies)?;
        let leads = |world: &Self| {
            world.processes.iter().position(|process| process.believes(&name, world.now).is_some())
        };
        let owner = leads(self).ok_or("I9: nobody leads at first")?;
        self.processes[owner].alive = false;
        // Long after its row has expired there would be nothing to tell.
        let steps = dies + self.dice.roll(micros(self.plan.timing.ttl));
        self.run_until(steps)?;
        let far = self.dice.between(10 * SECOND, 3_600 * SECOND);
        self.store.clock.step -= i64::try_from(far).unwrap_or_default();
        let bound = self.plan.followed_within(dies);
        while leads(self).is_none() {
            if self.now - dies > bound {
                return Err(format!("I9: a clock set back: not followed within {bound} µs"));
            }
            self.run_until(self.now + 1_000)?;
        }
        Ok(self.now - dies)
    }
}

fn story(seed: u64, bug: Option<Bug>) -> Result<Micros, String> {
    let drawn = Plan::draw(seed, bug);
    let (weak, wild, beacon, ranked, twins) = (false, true, false, false, false);
    let plan = Plan { names: 1, weak, wild, beacon, ranked, twins, ..drawn };
    let told = World::new(plan.clone(), false).followed_after_a_step_back();
    told.map_err(|why| {
        let mut world = World::new(plan, bug.is_none());
        world.followed_after_a_step_back().err();
        format!("{}\nstory {seed}: {why}", world.trace().join("\n"))
    })
}

#[test]
fn an_owner_within_a_lease_and_a_poll_though_the_clock_is_set_back() {
    let mut took: Vec<Micros> = (0..STORIES).map(|seed| story(seed, None).unwrap()).collect();
    took.sort_unstable();
    let (half, most) = (took[took.len() / 2], took[took.len() - 1]);
    println!("leases of 3 s, polls of 0.2 s: followed after {half} µs, {most} µs at most");
}

#[test]
fn a_step_back_that_nobody_notices_is_caught() {
    let caught = |seed: u64| story(seed, Some(Bug::SetBackUnnoticed)).err();
    let why = (0..STORIES).find_map(caught).unwrap();
    assert!(why.contains(": I9:"), "{why}");
}
