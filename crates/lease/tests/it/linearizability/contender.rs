//! One of many processes that ask a store for the same leases, at random, and write down what it answers.

use std::time::Duration;

use holdfast_lease::clock::{BootClock, Clock as _, Moment};
use holdfast_lease::identity::{Name, Priority, Term};
use holdfast_lease::request::{
    Acquire, Acquired, Ask, At, Force, Release, Renew, Renewal, Renewed,
};
use holdfast_lease::row::{StoreTime, Version};
use holdfast_lease::{Store, StoreError};

use super::history::{Answer, Asked, Op, Shown, holder, incarnation};

pub(super) const LEASES: usize = 3;

/// How long a request is good for, by the store's clock.
const GOOD_FOR: Duration = Duration::from_millis(50);

/// A small generator: splitmix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn micros(&mut self, most: u64) -> i64 {
        i64::try_from(self.roll(most)).unwrap()
    }
}

pub(super) struct Contender {
    store: Box<dyn Store>,
    who: u32,
    others: u32,
    dice: Dice,
    /// The last row seen of each lease.
    seen: [Option<Shown>; LEASES],
    /// The store's time, and when it was told.
    clock: Option<(i64, Moment)>,
}

impl Contender {
    pub(super) fn new(store: Box<dyn Store>, who: u32, others: u32) -> Self {
        let dice = Dice(u64::from(who) * 1_000 + 7);
        Self { store, who, others, dice, seen: [None; LEASES], clock: None }
    }

    /// Connects, so that the first request is no slower than others.
    pub(super) async fn connect(&mut self) -> Result<(), StoreError> {
        let told = self.store.look(&[]).await?;
        self.clock = Some((told.at.as_micros(), BootClock.now()));
        Ok(())
    }

    /// Thinks for a moment: histories in which every request overlaps every other say little.
    pub(super) async fn think(&mut self) {
        tokio::time::sleep(Duration::from_micros(self.dice.roll(4_000))).await;
    }

    /// One operation, and what became of it.
    pub(super) async fn act(&mut self) -> Op {
        let lease = usize::try_from(self.dice.roll(LEASES as u64)).unwrap();
        let asked = self.wish(lease);
        let patience = (self.dice.roll(40) == 0).then(|| self.dice.roll(3_000));
        let begun = BootClock.now();
        let not_after = self.clock.map_or(i64::MAX / 4, |(at, told)| {
            at + i64::try_from((begun.since(told) + GOOD_FOR).as_micros()).unwrap()
        });
        let asking = self.ask(lease, &asked, not_after);
        let limit = Duration::from_micros(patience.unwrap_or(60_000_000));
        let answer = tokio::time::timeout(limit, asking).await;
        let ended = BootClock.now();
        let (at, answer) = match answer {
            Ok(Ok(At { at, answer })) => (at.as_micros(), answer),
            Ok(Err(_)) | Err(_) => {
                self.store.disconnect();
                (0, Answer::Unknown)
            }
        };
        self.note(lease, at, &answer, ended);
        let (begun, ended) = (begun.as_nanos(), ended.as_nanos());
        Op { who: self.who, lease, begun, ended, asked, not_after, answer, at }
    }

    fn note(&mut self, lease: usize, at: i64, answer: &Answer, now: Moment) {
        if *answer != Answer::Unknown {
            self.clock = Some((at, now));
        }
        match answer {
            Answer::Seen(shown) | Answer::Refused(shown) | Answer::Gone(shown) => {
                self.seen[lease] = *shown;
            }
            Answer::Granted(shown) => self.seen[lease] = Some(*shown),
            _ => {}
        }
    }

    fn wish(&mut self, lease: usize) -> Asked {
        let seen = self.seen[lease];
        let term = seen.map_or(0, |seen| seen.term);
        let ttl = 1_000 + self.dice.micros(40_000);
        let owns = seen.is_some_and(|seen| seen.owner == Some(self.who));
        let other = u32::try_from(self.dice.roll(u64::from(self.others))).unwrap();
        match self.dice.roll(100) {
            0..25 => Asked::Look,
            25..50 if owns => Asked::Renew { term, ttl },
            50..65 if owns => {
                let successor = (self.dice.roll(3) == 0).then(|| (other, self.dice.micros(20_000)));
                Asked::Release { term, successor }
            }
            90..93 => Asked::Renew { term, ttl },
            93..95 => Asked::Release { term, successor: None },
            95..99 => {
                let over = (self.dice.roll(2) == 0).then(|| self.priority());
                Asked::Ask { term, successor: self.who, over }
            }
            99 => Asked::Force,
            _ => {
                let unchanged = seen.filter(|_| self.dice.roll(12) == 0);
                let unchanged = unchanged.map(|seen| (seen.owner, seen.term, seen.beat));
                let above = if self.dice.roll(4) == 0 { term } else { 0 };
                Asked::Acquire { above, ttl, priority: self.priority(), unchanged }
            }
        }
    }

    fn priority(&mut self) -> i16 {
        i16::try_from(self.dice.roll(3)).unwrap()
    }

    async fn ask(
        &mut self,
        lease: usize,
        asked: &Asked,
        not_after: i64,
    ) -> Result<At<Answer>, StoreError> {
        let name = Name::new(format!("lease-{lease}")).unwrap();
        let (incarnation, not_after) = (incarnation(self.who), StoreTime::from_micros(not_after));
        let span = |micros: i64| Duration::from_micros(u64::try_from(micros).unwrap());
        Ok(match *asked {
            Asked::Look | Asked::Expire(_) => {
                let looked = self.store.look(&[name]).await?;
                looked.map(|looks| Answer::Seen(looks[0].0.as_ref().map(Shown::from)))
            }
            Asked::Acquire { above, ttl, priority, unchanged } => {
                let unchanged = unchanged.map(|(owner, term, beat)| Version {
                    incarnation: owner.map(super::history::incarnation),
                    term: Term::new(term),
                    beat,
                });
                let (holder, ttl, above) = (holder(self.who), span(ttl), Term::new(above));
                let (priority, beacon) = (Priority(priority), false);
                let request = Acquire {
                    name,
                    holder,
                    incarnation,
                    priority,
                    ttl,
                    above,
                    unchanged,
                    beacon,
                    not_after,
                };
                self.store.acquire(&request).await?.map(|answer| match answer {
                    Acquired::Granted(row) => Answer::Granted(Shown::from(&row)),
                    Acquired::Refused(row) => Answer::Refused(row.as_ref().map(Shown::from)),
                    Acquired::TooLate => Answer::TooLate,
                })
            }
            Asked::Renew { term, ttl } => {
                let leases = vec![Renewal { name, term: Term::new(term), ttl: span(ttl) }];
                let renewed =
                    self.store.renew(&Renew { incarnation, leases, beat: 0, not_after }).await?;
                renewed.map(|answers| match &answers[0] {
                    Renewed::Kept { step_down, successor } => Answer::Kept {
                        step_down: *step_down,
                        successor: successor.as_ref().map(super::history::number),
                    },
                    Renewed::Gone(row) => Answer::Gone(row.as_ref().map(Shown::from)),
                    Renewed::TooLate => Answer::TooLate,
                })
            }
            Asked::Release { term, successor } => {
                let term = Term::new(term);
                let successor = successor.map(|(heir, reserve)| (holder(heir), span(reserve)));
                let request = Release { name, incarnation, term, successor, not_after };
                self.store.release(&request).await?.map(Answer::Done)
            }
            Asked::Ask { term, successor, over } => {
                let (term, successor) = (Term::new(term), Some(holder(successor)));
                let request = Ask { name, term, successor, over: over.map(Priority), not_after };
                self.store.ask(&request).await?.map(Answer::Done)
            }
            Asked::Force => {
                let force = Force { name, note: "linearizability".to_owned() };
                let forced = self.store.force(&force).await?;
                forced.map(|term| Answer::Forced(term.map(Term::number)))
            }
        })
    }
}
