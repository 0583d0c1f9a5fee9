//! From where on a look at an index by time begins.
//!
//! PostgreSQL keeps what is gone from an index for as long as any snapshot may see it. A claim moves `due_at`, a delivery that ends leaves
//! those that are open: so while a dump runs, all that was ever there since its beginning lies before what still is, and each look would
//! pass it. Below a mark a look has found nothing, or has taken all that it found: the next one begins a little before it. Rows that
//! appear below (a transaction that committed late, a claim that was rolled back, a release that knows more states) are found by a look
//! from the beginning, which is due every minute and whenever the database's clock was set back.

use std::time::Duration;

use holdfast_model::Timestamp;
use tokio::time::Instant;

/// How often a look begins at the beginning.
const WHOLE: Duration = Duration::from_secs(60);

/// How far before the last look the next begins. A step's next look is set by the engine's clock before its commit, which may be
/// long on its way on a busy machine; but hardly for longer than a claim lasts without renewal.
const MARGIN: Duration = Duration::from_secs(30);

/// The clock of the database and ours may part by so much between two looks before it counts as set back.
const SLACK: Duration = Duration::from_secs(1);

/// The marks of looks that are made together, one for each place.
#[derive(Debug)]
pub struct LowWater<const PLACES: usize> {
    marks: [Option<Timestamp>; PLACES],
    /// When the last look from the beginning began; none while the next is to be one. One that fails is not begun again at once: it
    /// takes the longest of all, and from the marks there is work to be found.
    whole_at: Option<Instant>,
    /// What appeared last while looks were under way that may not have seen it, and when.
    appeared: Option<(Instant, Timestamp)>,
    /// The database's clock at the last look, and ours when its answer was there.
    last: Option<(Timestamp, Instant)>,
}

impl<const PLACES: usize> Default for LowWater<PLACES> {
    fn default() -> Self {
        Self { marks: [None; PLACES], whole_at: None, appeared: None, last: None }
    }
}

impl<const PLACES: usize> LowWater<PLACES> {
    /// Where the look of this moment begins in each place; none is the beginning.
    #[must_use]
    pub fn begin(&mut self, at: Instant) -> [Option<Timestamp>; PLACES] {
        if self.whole_at.is_none_or(|whole| at.saturating_duration_since(whole) >= WHOLE) {
            self.whole_at = Some(at);
            return [None; PLACES];
        }
        self.marks
    }

    /// A look began and was answered at these moments, the store's clock was `now`, and what lay before `done` in each place needs no
    /// further look; none where that is not known.
    pub fn looked(
        &mut self,
        began: Instant,
        answered: Instant,
        now: Timestamp,
        done: [Option<Timestamp>; PLACES],
    ) {
        if self.whole_at == Some(began) {
            self.marks = [None; PLACES];
        }
        // At least so much has passed between the two moments at which the database read its clock, unless one look overtook the other.
        let set_back = self.last.is_some_and(|(then, when)| {
            began >= when && now.plus(SLACK) < then.plus(began.duration_since(when))
        });
        self.last = Some((now, answered));
        if set_back {
            (self.marks, self.whole_at) = ([None; PLACES], None);
            return;
        }
        for (mark, done) in self.marks.iter_mut().zip(done) {
            // What lies in the future is not done with: more may come before it.
            *mark = (*mark).max(done.map(|done| done.min(now).minus(MARGIN)));
        }
        // What appeared after it began it may not have seen.
        match self.appeared.take() {
            Some((when, at)) if when >= began => self.appeared(when, at),
            _ => {}
        }
    }

    /// Something is there now that may lie below the marks.
    pub(crate) fn appeared(&mut self, when: Instant, at: Timestamp) {
        for mark in &mut self.marks {
            *mark = mark.map(|mark| mark.min(at));
        }
        let before = self.appeared.map_or(at, |(_, before)| before);
        self.appeared = Some((when, at.min(before)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(1_800_000_000 + seconds)
    }

    type Marks = LowWater<2>;

    /// A look that was answered at once and left nothing due.
    fn look(marks: &mut Marks, at: Instant, now: i64) {
        look_and_leave(marks, at, now, [Some(now); 2]);
    }

    /// A look that was answered at once.
    fn look_and_leave(marks: &mut Marks, at: Instant, now: i64, done: [Option<i64>; 2]) {
        let _ = marks.begin(at);
        marks.looked(at, at, second(now), done.map(|done| done.map(second)));
    }

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn what_was_taken_is_not_looked_for_again() {
        let (start, mut marks) = (Instant::now(), Marks::default());
        assert_eq!(marks.begin(start), [None; 2]);
        look(&mut marks, start, 0);
        assert_eq!(marks.begin(after(start, 1)), [Some(second(-30)); 2]);
        look(&mut marks, after(start, 10), 10);
        assert_eq!(marks.begin(after(start, 11)), [Some(second(-20)); 2]);
    }

    /// A flood: every look takes what there is room for, and leaves more.
    #[test]
    fn a_lane_that_holds_more_is_marked_where_it_was_left() {
        let (start, mut marks) = (Instant::now(), Marks::default());
        look_and_leave(&mut marks, start, 0, [None, Some(-300)]);
        let begin = marks.begin(after(start, 1));
        assert_eq!(begin, [None, Some(second(-330))]);
        // A mark never falls but by a look from the beginning, or for what is known to lie below.
        look_and_leave(&mut marks, after(start, 1), 1, [None, Some(-900)]);
        assert_eq!(marks.begin(after(start, 2)), begin);
        marks.appeared(after(start, 2), second(-600));
        assert_eq!(marks.begin(after(start, 2)), [None, Some(second(-600))]);
    }

    #[test]
    fn every_minute_a_look_begins_at_the_beginning() {
        let (start, mut marks) = (Instant::now(), Marks::default());
        look(&mut marks, start, 0);
        for seconds in (1..60).step_by(5) {
            let at = after(start, seconds);
            assert_ne!(marks.begin(at), [None; 2], "{seconds}");
            look(&mut marks, at, seconds.cast_signed());
        }
        look_and_leave(&mut marks, after(start, 60), 60, [Some(3), None]);
        assert_eq!(marks.begin(after(start, 61)), [Some(second(-27)), None]);
    }

    /// While a snapshot is held for very long, a look from the beginning may never end: what comes in is found all the same.
    #[test]
    fn a_look_from_the_beginning_that_fails_is_not_begun_again_at_once() {
        let (start, mut marks) = (Instant::now(), Marks::default());
        look(&mut marks, start, 0);
        look(&mut marks, after(start, 59), 59);
        assert_eq!(marks.begin(after(start, 60)), [None; 2]);
        assert_eq!(marks.begin(after(start, 75)), [Some(second(29)); 2]);
        assert_eq!(marks.begin(after(start, 120)), [None; 2]);
    }

    /// A look that was answered with what was there before must not pass over what came meanwhile.
    #[test]
    fn what_appears_during_a_look_is_found_by_the_next() {
        let (start, mut marks) = (Instant::now(), Marks::default());
        look(&mut marks, start, 0);
        let (began, answered) = (after(start, 10), after(start, 12));
        let _ = marks.begin(began);
        marks.appeared(after(start, 11), second(-600));
        marks.looked(began, answered, second(11), [Some(second(11)); 2]);
        assert_eq!(marks.begin(after(start, 13)), [Some(second(-600)); 2]);
        look(&mut marks, after(start, 14), 14);
        assert_eq!(marks.begin(after(start, 15)), [Some(second(-16)); 2]);
    }

    #[test]
    fn a_look_that_overtook_another_is_no_step_back() {
        let (start, mut marks) = (Instant::now(), Marks::default());
        look(&mut marks, start, 0);
        let (slow, quick) = (after(start, 10), after(start, 14));
        let _ = (marks.begin(slow), marks.begin(quick));
        marks.looked(quick, quick, second(14), [Some(second(14)); 2]);
        marks.looked(slow, after(start, 15), second(10), [Some(second(10)); 2]);
        assert_eq!(marks.begin(after(start, 16)), [Some(second(-16)); 2]);
    }

    /// The clock was an hour ahead, and is right again: what is due by the right clock lies below the marks.
    #[test]
    fn marks_do_not_outlive_a_clock_that_was_set_back() {
        let (start, mut marks) = (Instant::now(), Marks::default());
        look(&mut marks, start, 3_600);
        look(&mut marks, after(start, 10), 10);
        assert_eq!(marks.begin(after(start, 11)), [None; 2]);
    }

    /// Also where it was set back by less than has passed since the last look.
    #[test]
    fn a_small_step_back_is_noticed() {
        let (start, mut marks) = (Instant::now(), Marks::default());
        look(&mut marks, start, 0);
        look(&mut marks, after(start, 10), 2);
        assert_eq!(marks.begin(after(start, 11)), [None; 2]);
        look(&mut marks, after(start, 20), 12);
        assert_eq!(marks.begin(after(start, 21)), [Some(second(-18)); 2]);
    }

    /// The longest look is one from the beginning while a snapshot is held: it must not lead to the next.
    #[test]
    fn an_answer_that_took_long_is_no_step_back() {
        let (start, mut marks) = (Instant::now(), Marks::default());
        let _ = marks.begin(start);
        marks.looked(start, after(start, 9), second(9), [Some(second(9)); 2]);
        look(&mut marks, after(start, 10), 10);
        assert_eq!(marks.begin(after(start, 11)), [Some(second(-20)); 2]);
    }

    /// A row that is due later does not keep those that come before it from being found.
    #[test]
    fn what_lies_in_the_future_is_no_mark() {
        let (start, mut marks) = (Instant::now(), Marks::default());
        look_and_leave(&mut marks, start, 0, [Some(3_600), None]);
        assert_eq!(marks.begin(after(start, 1)), [Some(second(-30)), None]);
    }
}
