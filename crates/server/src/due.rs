//! From where on a look for due domains begins, as the engine's own looks do: PostgreSQL keeps what is gone from an index for as long as
//! any snapshot may see it, and a look from the beginning passes all of it.

use std::time::Duration;

use holdfast_model::Timestamp;
use tokio::time::Instant;

/// How often a look begins at the beginning.
const WHOLE: Duration = Duration::from_secs(60);

/// How far before what was found the next look begins: what commits late is due before it.
const MARGIN: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(crate) struct DueMark {
    from: Option<Timestamp>,
    whole_at: Option<Instant>,
    now: Option<Timestamp>,
}

impl DueMark {
    /// Where the look of this moment begins; none is the beginning.
    pub(crate) fn begin(&self, at: Instant) -> Option<Timestamp> {
        self.from.filter(|_| !self.is_whole(at))
    }

    fn is_whole(&self, at: Instant) -> bool {
        self.whole_at.is_none_or(|whole| at.saturating_duration_since(whole) >= WHOLE)
    }

    /// A look that began at this moment found this to be due first, by the store's clock.
    pub(crate) fn looked(&mut self, began: Instant, now: Timestamp, first: Option<Timestamp>) {
        if self.is_whole(began) {
            self.whole_at = Some(began);
        }
        self.from = Some(first.map_or(now, |due| due.min(now)).minus(MARGIN));
        // The clock was set back: what is due by it may lie before.
        if self.now.is_some_and(|before| now < before) {
            self.whole_at = None;
        }
        self.now = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(1_800_000_000 + seconds)
    }

    fn look(mark: &mut DueMark, at: Instant, now: i64, first: Option<i64>) {
        mark.looked(at, second(now), first.map(second));
    }

    #[test]
    fn a_look_begins_before_what_was_due_first() {
        let (start, mut mark) = (Instant::now(), DueMark::default());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(mark.begin(start), None);
        look(&mut mark, start, 0, None);
        assert_eq!(mark.begin(after(5)), Some(second(-30)));
        // What is overdue is found again, and what is due later holds nothing back.
        look(&mut mark, after(5), 5, Some(-10));
        assert_eq!(mark.begin(after(10)), Some(second(-40)));
        look(&mut mark, after(10), 10, Some(3_600));
        assert_eq!(mark.begin(after(15)), Some(second(-20)));
        assert_eq!(mark.begin(after(60)), None, "every minute from the beginning");
    }

    #[test]
    fn a_clock_that_was_set_back_is_looked_from_the_beginning() {
        let (start, mut mark) = (Instant::now(), DueMark::default());
        let after = |seconds| start + Duration::from_secs(seconds);
        look(&mut mark, start, 3_600, None);
        look(&mut mark, after(5), 5, None);
        assert_eq!(mark.begin(after(10)), None);
        look(&mut mark, after(10), 10, None);
        assert_eq!(mark.begin(after(15)), Some(second(-20)));
    }
}
