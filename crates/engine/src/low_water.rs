//! From where on a look for due domains begins in each lane.
//!
//! PostgreSQL keeps what is gone from an index for as long as any snapshot may see it. A claim moves `due_at`, so while a dump runs,
//! all that was ever claimed since its beginning lies before what is due, and each look would pass it. What was found and taken
//! up to a moment need not be looked for again: the next look begins a little before it. Rows that appear below (a transaction that
//! committed late, a claim that was rolled back, a release that knows more states) are found by a look from the beginning,
//! which is due every minute and whenever the database's clock was set back.

use std::time::Duration;

use holdfast_model::Timestamp;
use holdfast_store::{Lane, WorkBatch};
use tokio::time::Instant;

/// How often a look begins at the beginning.
const WHOLE: Duration = Duration::from_secs(60);

/// How far before the last look the next begins. A step's next look is set by the engine's clock before its commit, which may be
/// long on its way on a busy machine; but hardly for longer than a claim lasts without renewal.
const MARGIN: Duration = Duration::from_secs(30);

/// The clock of the database and ours may part by so much between two looks before it counts as set back.
const SLACK: Duration = Duration::from_secs(1);

type Marks = [Option<Timestamp>; Lane::ALL.len()];

/// The marks of one engine.
#[derive(Debug, Default)]
pub(crate) struct LowWater {
    marks: Marks,
    /// When the last look from the beginning was made; none while the next is to be one.
    whole_at: Option<Instant>,
    /// The database's clock at the last look, and ours when its answer was there.
    last: Option<(Timestamp, Instant)>,
}

impl LowWater {
    /// Where the look of this moment begins in each lane; none is the beginning.
    pub(crate) fn begin(&self, at: Instant) -> Marks {
        if self.is_whole(at) { Marks::default() } else { self.marks }
    }

    fn is_whole(&self, at: Instant) -> bool {
        self.whole_at.is_none_or(|whole| at.saturating_duration_since(whole) >= WHOLE)
    }

    /// A look that began and was answered at these moments found this; `all` is true where it left nothing due in any lane.
    pub(crate) fn looked(
        &mut self,
        began: Instant,
        answered: Instant,
        batch: &WorkBatch,
        all: bool,
    ) {
        if self.is_whole(began) {
            (self.marks, self.whole_at) = (Marks::default(), Some(began));
        }
        // At least so much has passed between the two moments at which the database read its clock.
        let set_back = self.last.is_some_and(|(then, when)| {
            batch.now.plus(SLACK) < then.plus(began.saturating_duration_since(when))
        });
        self.last = Some((batch.now, answered));
        if set_back {
            (self.marks, self.whole_at) = (Marks::default(), None);
            return;
        }
        for (mark, taken_to) in self.marks.iter_mut().zip(batch.taken_to) {
            // Of a lane that may hold more, what was due before the last that was taken is taken.
            let done = if all { Some(batch.now) } else { taken_to };
            *mark = (*mark).max(done.map(|done| done.minus(MARGIN)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL_TAKEN: bool = true;

    fn second(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(1_800_000_000 + seconds)
    }

    fn found(now: i64, taken_to: Marks) -> WorkBatch {
        WorkBatch { now: second(now), work: Vec::new(), next_due_at: None, taken_to }
    }

    /// A look that was answered at once.
    fn look(marks: &mut LowWater, at: Instant, batch: &WorkBatch, all: bool) {
        marks.looked(at, at, batch, all);
    }

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn what_was_taken_is_not_looked_for_again() {
        let (start, mut marks) = (Instant::now(), LowWater::default());
        assert_eq!(marks.begin(start), [None; 5]);
        look(&mut marks, start, &found(0, [None; 5]), ALL_TAKEN);
        assert_eq!(marks.begin(after(start, 1)), [Some(second(-30)); 5]);
        look(&mut marks, after(start, 10), &found(10, [None; 5]), ALL_TAKEN);
        assert_eq!(marks.begin(after(start, 11)), [Some(second(-20)); 5]);
    }

    /// A flood: every look takes what there is room for, and leaves more.
    #[test]
    fn a_lane_that_holds_more_is_marked_where_it_was_left() {
        let (start, mut marks) = (Instant::now(), LowWater::default());
        let flood = [None, Some(second(-300)), None, None, None];
        look(&mut marks, start, &found(0, flood), !ALL_TAKEN);
        let begin = marks.begin(after(start, 1));
        assert_eq!(begin, [None, Some(second(-330)), None, None, None]);
        // A mark never falls but by a look from the beginning.
        let late = [None, Some(second(-900)), None, None, None];
        look(&mut marks, after(start, 1), &found(1, late), !ALL_TAKEN);
        assert_eq!(marks.begin(after(start, 2)), begin);
    }

    #[test]
    fn every_minute_a_look_begins_at_the_beginning() {
        let (start, mut marks) = (Instant::now(), LowWater::default());
        look(&mut marks, start, &found(0, [None; 5]), ALL_TAKEN);
        for seconds in (1..60).step_by(5) {
            let at = after(start, seconds);
            assert_ne!(marks.begin(at), [None; 5], "{seconds}");
            look(&mut marks, at, &found(seconds.cast_signed(), [None; 5]), ALL_TAKEN);
        }
        assert_eq!(marks.begin(after(start, 60)), [None; 5]);
        // It counts once it was made, not once it was meant to be.
        assert_eq!(marks.begin(after(start, 61)), [None; 5]);
        let left = [Some(second(3)), None, None, None, None];
        look(&mut marks, after(start, 61), &found(61, left), !ALL_TAKEN);
        assert_eq!(marks.begin(after(start, 62)), [Some(second(-27)), None, None, None, None]);
    }

    /// The clock was an hour ahead, and is right again: what is due by the right clock lies below the marks.
    #[test]
    fn marks_do_not_outlive_a_clock_that_was_set_back() {
        let (start, mut marks) = (Instant::now(), LowWater::default());
        look(&mut marks, start, &found(3_600, [None; 5]), ALL_TAKEN);
        look(&mut marks, after(start, 10), &found(10, [None; 5]), ALL_TAKEN);
        assert_eq!(marks.begin(after(start, 11)), [None; 5]);
    }

    /// Also where it was set back by less than has passed since the last look.
    #[test]
    fn a_small_step_back_is_noticed() {
        let (start, mut marks) = (Instant::now(), LowWater::default());
        look(&mut marks, start, &found(0, [None; 5]), ALL_TAKEN);
        look(&mut marks, after(start, 10), &found(2, [None; 5]), ALL_TAKEN);
        assert_eq!(marks.begin(after(start, 11)), [None; 5]);
        look(&mut marks, after(start, 20), &found(12, [None; 5]), ALL_TAKEN);
        assert_eq!(marks.begin(after(start, 21)), [Some(second(-18)); 5]);
    }

    /// The longest look is one from the beginning while a snapshot is held: it must not lead to the next.
    #[test]
    fn an_answer_that_took_long_is_no_step_back() {
        let (start, mut marks) = (Instant::now(), LowWater::default());
        marks.looked(start, after(start, 9), &found(9, [None; 5]), ALL_TAKEN);
        look(&mut marks, after(start, 10), &found(10, [None; 5]), ALL_TAKEN);
        assert_eq!(marks.begin(after(start, 11)), [Some(second(-20)); 5]);
    }
}
