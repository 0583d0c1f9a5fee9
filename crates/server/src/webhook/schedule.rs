//! When a message that did not arrive is tried again. Pure.

use std::time::Duration;

use holdfast_store::Then;
use uuid::Uuid;

/// How long between tries, and how long at all.
#[derive(Debug, Clone)]
pub(super) struct Schedule {
    /// The waits; the last repeats.
    pub(super) ladder: Vec<Duration>,
    /// Given up when this old.
    pub(super) longest: Duration,
}

/// A receiver may ask for a pause, within reason.
const LONGEST_PAUSE: Duration = Duration::from_secs(6 * 3600);

impl Default for Schedule {
    fn default() -> Self {
        let minutes = |n: u64| Duration::from_secs(60 * n);
        let ladder = vec![
            Duration::from_secs(5),
            Duration::from_secs(30),
            minutes(2),
            minutes(10),
            minutes(30),
            minutes(60),
            minutes(120),
            minutes(240),
            minutes(360),
        ];
        Self { ladder, longest: Duration::from_secs(3 * 24 * 3600) }
    }
}

impl Schedule {
    /// What becomes of a message after try number `attempt` failed, `age` after it was put down.
    pub(super) fn after(
        &self,
        id: Uuid,
        attempt: u32,
        age: Duration,
        asked: Option<Duration>,
    ) -> Then {
        let rung = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
        let wait = self.ladder.get(rung).or(self.ladder.last()).copied().unwrap_or(LONGEST_PAUSE);
        let wait = jittered(wait, id, attempt).max(asked.unwrap_or_default().min(LONGEST_PAUSE));
        // Age is told by a wall clock; one that jumped ahead must not lose a message that was
        // hardly tried.
        let tried = rung.saturating_add(1) >= self.ladder.len();
        if tried && age + wait > self.longest { Then::GivenUp } else { Then::Again(wait) }
    }
}

/// Up to a fifth more, so that what failed together is not tried together. From the message itself: random enough, and the same in a test.
fn jittered(wait: Duration, id: Uuid, attempt: u32) -> Duration {
    let mixed = (id.as_u128() ^ u128::from(attempt))
        .wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    let percent = u32::try_from((mixed >> 96) % 21).unwrap_or(0);
    wait + wait / 100 * percent
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_tried_for_three_days_ever_more_slowly(seed in any::<u128>()) {
            let (schedule, id) = (Schedule::default(), Uuid::from_u128(seed));
            let (mut age, mut tries) = (Duration::ZERO, 1);
            while let Then::Again(wait) = schedule.after(id, tries, age, None) {
                let least = schedule.ladder.get(tries as usize - 1).or(schedule.ladder.last()).unwrap();
                prop_assert!(wait >= *least && wait <= *least * 6 / 5);
                age += wait;
                tries += 1;
                prop_assert!(age <= schedule.longest);
            }
            prop_assert!((15..=25).contains(&tries), "{tries} tries");
        }

        /// A clock that jumped ahead makes every message old.
        #[test]
        fn no_message_is_given_up_for_its_age_alone(seed in any::<u128>(), attempt in 1_u32..9) {
            let (schedule, month) = (Schedule::default(), Duration::from_secs(30 * 86_400));
            let then = schedule.after(Uuid::from_u128(seed), attempt, month, None);
            prop_assert!(matches!(then, Then::Again(_)), "{then:?}");
        }

        #[test]
        fn a_pause_is_granted_within_reason(seconds in 0_u64..1_000_000) {
            let asked = Duration::from_secs(seconds);
            let then = Schedule::default().after(Uuid::nil(), 1, Duration::ZERO, Some(asked));
            let Then::Again(wait) = then else { panic!("{then:?}") };
            prop_assert!(wait >= asked.min(LONGEST_PAUSE) && wait <= LONGEST_PAUSE);
        }
    }
}
