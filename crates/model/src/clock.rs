//! Does a wall clock step? Its answers are compared with a clock that never does: the boot clock of
//! whoever asks.
//!
//! Also what is done about it: which moments were stored before the clock jumped ahead, and what
//! must wait until it has settled.

use std::time::Duration;

use crate::Timestamp;

/// What no network time service corrects in one go without stepping.
const STEP: i64 = 1_500_000;
/// How far two clocks in good order drift apart, in millionths.
const DRIFT: i64 = 1_000;
/// An answer that took longer says little; a sharper one from before is better to compare with.
const SHARP: i64 = 500_000;
/// For so long after a step nothing is done that could not be undone.
const UNSETTLED: Duration = Duration::from_secs(60);
/// For so long after the last step people are told of it.
const TOLD: Duration = Duration::from_secs(10 * 60);
/// A clock that steps again and again is waited for no longer than this: work cannot stop for ever.
const RESTLESS: Duration = Duration::from_secs(10 * 60);
/// A step is forgotten after so long: by then what was stored before it has been stored again.
const REMEMBERED: Duration = Duration::from_secs(7 * 24 * 3600);
/// Nothing is deleted that is younger than some hours, so shorter jumps do no harm once signs of life are renewed.
const FAR: Duration = Duration::from_secs(3600);
/// An error of the clock that lasts longer than this is taken for the truth by who deletes by age.
pub const AGES_DOUBTED: Duration = Duration::from_secs(24 * 3600);
/// Only the latest steps are remembered.
const STEPS: usize = 32;

/// An answer of the wall clock, and the boot clock before and after it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockSample {
    /// The boot clock before.
    pub asked: Duration,
    /// The boot clock after.
    pub answered: Duration,
    /// What the wall clock said in between.
    pub said: Timestamp,
}

/// A step of the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockStep {
    /// Did it go ahead? Else it went back.
    pub ahead: bool,
    /// By how much.
    pub by: Duration,
    /// What it should have said.
    pub from: Timestamp,
    /// What it said.
    pub to: Timestamp,
    /// When it was noticed, by the boot clock.
    pub noticed: Duration,
}

/// A step ahead that has not been taken back: what was stored in a stretch of time before it is
/// that much younger than it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Jump {
    /// What was stored until then was stored by a clock that was right; none for a jump of a clock
    /// that had not been set back before.
    since: Option<Timestamp>,
    from: Timestamp,
    to: Timestamp,
    by: Duration,
    noticed: Duration,
}

/// Notices the steps of a wall clock.
#[derive(Debug, Clone, Default)]
pub struct ClockWatch {
    last: Option<ClockSample>,
    /// The latest step.
    step: Option<ClockStep>,
    /// When the clock became restless: its first step after a quiet time.
    restless_since: Option<Duration>,
    /// Steps ahead that were not taken back since, oldest first.
    jumps: Vec<Jump>,
    /// Steps back that took no jump back and were not made up for since, oldest first.
    setbacks: Vec<ClockStep>,
}

impl ClockSample {
    /// Between which bounds the wall clock is ahead of the boot clock, in microseconds.
    fn offset(&self) -> (i64, i64) {
        let micros = |span: Duration| i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        let said = self.said.as_micros();
        (said.saturating_sub(micros(self.answered)), said.saturating_sub(micros(self.asked)))
    }

    fn width(&self) -> i64 {
        let (least, most) = self.offset();
        most.saturating_sub(least)
    }
}

impl ClockWatch {
    /// The clock answered. Gives the step that this shows, if it shows one.
    pub fn notice(&mut self, sample: ClockSample) -> Option<ClockStep> {
        let Some(last) = self.last else {
            self.last = Some(sample);
            return None;
        };
        // Answers to several askers may come out of order; an older one says nothing new.
        if sample.answered <= last.answered {
            return None;
        }
        let step = step_between(&last, &sample);
        if step.is_some() || sample.width() <= SHARP.max(last.width()) {
            self.last = Some(sample);
        }
        if let Some(step) = step {
            self.remember(step);
        }
        step
    }

    fn remember(&mut self, step: ClockStep) {
        let quiet = |before: ClockStep| step.noticed.saturating_sub(before.noticed) >= TOLD;
        if self.step.is_none_or(quiet) {
            self.restless_since = Some(step.noticed);
        }
        self.step = Some(step);
        let recent = |noticed: Duration| step.noticed.saturating_sub(noticed) < REMEMBERED;
        self.jumps.retain(|jump| recent(jump.noticed));
        self.setbacks.retain(|setback| recent(setback.noticed));
        if step.ahead {
            self.went_ahead(step);
        } else {
            self.went_back(step);
        }
        let extra = |len: usize| len.saturating_sub(STEPS);
        self.jumps.drain(..extra(self.jumps.len()));
        self.setbacks.drain(..extra(self.setbacks.len()));
    }

    /// Makes up for earlier steps back first; only the rest is a jump.
    fn went_ahead(&mut self, step: ClockStep) {
        let ClockStep { from, to, noticed, .. } = step;
        let mut left = step.by;
        while !is_nothing(left)
            && let Some(setback) = self.setbacks.pop()
        {
            let by = left.min(setback.by);
            left -= by;
            self.jumps.push(Jump { since: Some(setback.to), from, to, by, noticed });
            let owed = setback.by - by;
            if !is_nothing(owed) {
                self.setbacks.push(ClockStep { by: owed, ..setback });
            }
        }
        if !is_nothing(left) {
            self.jumps.push(Jump { since: None, from, to, by: left, noticed });
        }
    }

    /// Takes the latest jumps back first; only the rest is a setback.
    fn went_back(&mut self, step: ClockStep) {
        let mut left = step.by;
        while !is_nothing(left)
            && let Some(jump) = self.jumps.pop()
        {
            let by = left.min(jump.by);
            left -= by;
            let stands = jump.by - by;
            if !is_nothing(stands) {
                self.jumps.push(Jump { by: stands, to: jump.to.minus(by), ..jump });
            }
        }
        if !is_nothing(left) {
            self.setbacks.push(ClockStep { by: left, ..step });
        }
    }

    /// What the clock says now, by its last answer.
    #[must_use]
    pub fn now(&self, boot: Duration) -> Option<Timestamp> {
        let last = self.last?;
        Some(last.said.plus(boot.saturating_sub(last.answered)))
    }

    /// The latest step, as long as people are to be told of it.
    #[must_use]
    pub fn recent_step(&self, boot: Duration) -> Option<ClockStep> {
        self.step.filter(|step| boot.saturating_sub(step.noticed) < TOLD)
    }

    /// Did the clock step so lately that it may step back at any moment? Not for ever: a clock that
    /// never rests is taken as it is.
    #[must_use]
    pub fn is_unsettled(&self, boot: Duration) -> bool {
        let within = |from: Duration, span: Duration| boot.saturating_sub(from) < span;
        self.step.is_some_and(|step| within(step.noticed, UNSETTLED))
            && self.restless_since.is_some_and(|since| within(since, RESTLESS))
    }

    /// A moment that was stored, as the clock of now would have told it: what was stored before the
    /// clock jumped ahead was not that long ago, and nothing was stored in the future.
    #[must_use]
    pub fn retold(&self, at: Timestamp, now: Timestamp) -> Timestamp {
        let later = |at: Timestamp, jump: &Jump| {
            let stored_before = at <= jump.from && jump.since.is_none_or(|since| at > since);
            if stored_before { at.plus(jump.by) } else { at }
        };
        self.jumps.iter().fold(at, later).min(now)
    }

    /// Has the clock lately jumped so far ahead that what was stored before looks far older than it is? What lasts a day is believed.
    #[must_use]
    pub fn are_ages_doubtful(&self, boot: Duration) -> bool {
        self.ages_doubted_for(boot).is_some()
    }

    /// How long ages are doubted at most, if they are: until a day after the last jump.
    #[must_use]
    pub fn ages_doubted_for(&self, boot: Duration) -> Option<Duration> {
        let left = |jump: &Jump| AGES_DOUBTED.saturating_sub(boot.saturating_sub(jump.noticed));
        let lately = |jump: &&Jump| jump.since.is_none() && !left(jump).is_zero();
        let jumps = || self.jumps.iter().filter(lately);
        let far = jumps().map(|jump| jump.by).sum::<Duration>() >= FAR;
        jumps().map(left).max().filter(|_| far)
    }

    /// Did the clock jump ahead before a moment that is told by the clock of now?
    #[must_use]
    pub fn jumped_before(&self, at: Timestamp) -> bool {
        self.jumps.iter().any(|jump| jump.since.is_none() && jump.to <= at)
    }
}

/// What is left of a step when another took it back: the sizes of steps are not exact.
fn is_nothing(left: Duration) -> bool {
    left < Duration::from_micros(STEP.unsigned_abs())
}

/// The step between two answers, if their bounds leave no other explanation.
fn step_between(last: &ClockSample, sample: &ClockSample) -> Option<ClockStep> {
    let ((least, most), (new_least, new_most)) = (last.offset(), sample.offset());
    let elapsed = sample.answered.saturating_sub(last.asked).as_micros();
    let slack = STEP.saturating_add(i64::try_from(elapsed).unwrap_or(i64::MAX) / 1_000_000 * DRIFT);
    let ahead = new_least.saturating_sub(most);
    let back = least.saturating_sub(new_most);
    let (is_ahead, certain) = match (ahead > slack, back > slack) {
        (true, _) => (true, ahead),
        (_, true) => (false, back),
        _ => return None,
    };
    // The middle of what is possible.
    let doubt = last.width().saturating_add(sample.width()) / 2;
    let by = u64::try_from(certain.saturating_add(doubt)).unwrap_or(0);
    let by = Duration::from_micros(by);
    let from = if is_ahead { sample.said.minus(by) } else { sample.said.plus(by) };
    Some(ClockStep { ahead: is_ahead, by, from, to: sample.said, noticed: sample.answered })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: u64 = 24 * 3600;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_seconds(1_800_000_000).plus(Duration::from_secs(seconds))
    }

    /// Asked at this second, answered at once by a clock that is wrong by `error` seconds.
    fn sample(second: u64, error: i64) -> ClockSample {
        let boot = Duration::from_secs(second);
        let said = Timestamp::from_micros(at(second).as_micros() + error * 1_000_000);
        ClockSample { asked: boot, answered: boot + Duration::from_millis(1), said }
    }

    #[test]
    fn a_step_is_noticed_with_its_size_and_where_it_came_from() {
        let mut watch = ClockWatch::default();
        assert_eq!(watch.notice(sample(0, 0)), None);
        assert_eq!(watch.notice(sample(10, 0)), None);
        let step = watch.notice(sample(20, 7_200)).unwrap();
        assert!(step.ahead && step.by.as_secs() == 7_200, "{step:?}");
        assert!(watch.is_unsettled(Duration::from_secs(50)));
        assert!(!watch.is_unsettled(Duration::from_secs(90)));
        let back = watch.notice(sample(100, 0)).unwrap();
        assert!(!back.ahead && back.by.as_secs() == 7_200, "{back:?}");
        assert_eq!(watch.recent_step(Duration::from_secs(200)), Some(back));
        assert_eq!(watch.recent_step(Duration::from_secs(701)), None);
    }

    #[test]
    fn what_was_stored_before_a_jump_was_not_that_long_ago() {
        let mut watch = ClockWatch::default();
        watch.notice(sample(0, 0));
        let month = 30 * i64::try_from(DAY).unwrap();
        watch.notice(sample(60, month));
        let now = watch.now(Duration::from_secs(70)).unwrap();
        let ago = now.since(watch.retold(at(10), now));
        assert!((58..=62).contains(&ago.as_secs()), "{ago:?}");
        // Since the jump everything is told by the clock of now.
        let since = now.minus(Duration::from_secs(5));
        assert_eq!(watch.retold(since, now), since);
        assert!(watch.jumped_before(since));
        // Taken back, it counts no more; what it left in the future is now.
        watch.notice(sample(80, 0));
        let now = watch.now(Duration::from_secs(90)).unwrap();
        assert_eq!(watch.retold(at(10), now), at(10));
        assert_eq!(watch.retold(since, now), now);
        assert!(!watch.jumped_before(now));
    }

    /// A watch that saw the clock wrong by these seconds, each for a minute.
    fn watch(errors: &[i64]) -> ClockWatch {
        let mut watch = ClockWatch::default();
        for (second, error) in (0..).step_by(60).zip(errors) {
            watch.notice(sample(second, *error));
        }
        watch
    }

    #[test]
    fn a_step_that_is_made_up_for_is_no_jump() {
        // Back for an hour longer than the step was large, and right again.
        let mut watch = watch(&[0, -7_200]);
        watch.notice(sample(10_800, -7_200));
        watch.notice(sample(10_860, 0));
        let now = at(10_870);
        assert!(!watch.jumped_before(now));
        assert_eq!(
            watch.retold(at(0).minus(Duration::from_secs(9_000)), now),
            at(0).minus(Duration::from_secs(9_000))
        );
        // Stored while the clock was two hours back.
        let stored = at(3_600).minus(Duration::from_secs(7_200));
        let told = watch.retold(stored, now);
        assert!(
            at(3_600).since(told).max(told.since(at(3_600))) <= Duration::from_secs(1),
            "{told}"
        );
    }

    #[test]
    fn ages_are_doubted_for_a_day_or_until_a_large_jump_is_taken_back() {
        let boot = Duration::from_secs;
        let (mut ahead, small, back) =
            (watch(&[0, 7_200]), watch(&[0, 60]), watch(&[0, -7_200, 0]));
        assert!(ahead.are_ages_doubtful(boot(60)) && ahead.are_ages_doubtful(boot(86_000)));
        assert!(!ahead.are_ages_doubtful(boot(86_500)), "what lasts a day is believed");
        assert!(!small.are_ages_doubtful(boot(61)));
        assert!(!back.are_ages_doubtful(boot(121)), "it was only set right");
        assert_eq!(ahead.ages_doubted_for(boot(60)).unwrap().as_secs(), DAY);
        assert_eq!(ahead.ages_doubted_for(boot(86_000)).unwrap().as_secs(), DAY - 85_940);
        ahead.notice(sample(120, 0));
        assert!(!ahead.are_ages_doubtful(boot(121)));
        // Many small jumps are a large one.
        let creeping: Vec<i64> = (0..33).map(|minute| minute * 120).collect();
        assert!(watch(&creeping).are_ages_doubtful(boot(33 * 60)));
    }

    #[test]
    fn a_jump_that_is_taken_back_however_late_counts_no_more() {
        let mut watch = watch(&[0, 7_200]);
        watch.notice(sample(90_000, 7_200));
        assert!(watch.jumped_before(at(90_000).plus(Duration::from_secs(7_200))));
        watch.notice(sample(90_060, 0));
        assert!(!watch.jumped_before(at(90_070)));
        assert_eq!(watch.retold(at(0), at(90_070)), at(0));
    }

    #[test]
    fn half_of_a_jump_that_is_taken_back_leaves_the_other_half() {
        let watch = watch(&[0, 7_200, 3_600]);
        let now = at(130).plus(Duration::from_secs(3_600));
        let ago = now.since(watch.retold(at(10), now));
        assert!((118..=122).contains(&ago.as_secs()), "{ago:?}");
    }

    #[test]
    fn a_clock_that_never_rests_is_not_waited_for_for_ever() {
        let errors: Vec<i64> = (0..30).map(|n| n % 2 * 100).collect();
        let watch = watch(&errors);
        assert!(!watch.is_unsettled(Duration::from_secs(29 * 60 + 1)));
        assert!(watch.jumps.len() <= STEPS && watch.setbacks.len() <= STEPS);
    }

    proptest! {
        /// Slow answers, and a clock that is slewed as hard as time services slew, are no step.
        #[test]
        fn a_clock_in_good_order_never_steps(
            asks in prop::collection::vec((1_u64..60_000, 0_u64..20_000, 0_f64..1.0), 2..60),
            drift in -500_i64..500,
        ) {
            let (mut watch, mut boot) = (ClockWatch::default(), 1_000_u64);
            for (pause, took, when) in asks {
                boot += pause;
                #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a moment within the answer")]
                let moment = boot + (took as f64 * when) as u64;
                let wall = i64::try_from(moment * 1_000).unwrap();
                let said = Timestamp::from_micros(1_800_000_000_000_000 + wall + wall / 1_000_000 * drift);
                let (asked, answered) = (Duration::from_millis(boot), Duration::from_millis(boot + took));
                prop_assert_eq!(watch.notice(ClockSample { asked, answered, said }), None);
                boot += took;
            }
        }

        /// Every step of more than two seconds is noticed at the first prompt answer.
        #[test]
        fn every_step_is_noticed(error in -100_000_000_i64..100_000_000, pause in 1_u64..600) {
            prop_assume!(error.abs() > 2);
            let mut watch = ClockWatch::default();
            watch.notice(sample(0, 0));
            let step = watch.notice(sample(pause, error)).unwrap();
            prop_assert_eq!(step.ahead, error > 0);
            prop_assert!(step.by.as_secs().abs_diff(error.unsigned_abs()) <= 1);
        }

        #[test]
        fn nothing_was_stored_in_the_future(
            errors in prop::collection::vec(-10_000_000_i64..10_000_000, 0..8), stored in 0_i64..4_000_000_000,
        ) {
            let mut watch = ClockWatch::default();
            for (second, error) in (0..).step_by(10).zip(errors) {
                watch.notice(sample(second, error));
            }
            let (stored, now) = (Timestamp::from_seconds(stored), at(100));
            prop_assert!(watch.retold(stored, now) <= now);
        }
    }
}
