//! Where challenges are answered, however many ask: the one place between whoever asks over HTTP or TLS and the database.
//!
//! Anybody may ask for any token under any name, so the database must be asked at a bounded rate; and the CA, which is one of those
//! who ask, must always be answered, at once after the answer was committed on whichever replica. Which names have an open challenge cannot be
//! known from memory: a notification may be late. So nobody is ever refused; those beyond the budget are answered *together*:
//!
//! - What has not the form of a token is unknown, without a question.
//! - A small budget of questions (a token bucket) is answered each by one indexed read. Ordinary CA traffic never leaves this path.
//! - Beyond it, whoever asks waits for a *round*: one read of all open challenges, which are few, since orders in flight are bounded. A
//!   round answers everybody who asked before it began. It was read after they asked, so it holds every answer committed before they
//!   asked, and is as good as a read of their own. Rounds follow one another at the database's pace: each is followed by three times the
//!   rest that it took. So an attack of any size costs the database a fourth of one connection's time, and an honest asker five
//!   such reads of waiting.
//! - Were there more open challenges than a round takes, those who are not in it ask by themselves, a few at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdfast_model::Hostname;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};

use crate::{ChallengeAnswer, ChallengeKind, Challenges, Error, OpenChallenge, Result};

/// Longest token taken: CAs send 43 characters.
const LONGEST: usize = 256;

/// Questions answered one by one in a row, and per second.
const BURST: f64 = 200.0;
const PER_SECOND: f64 = 100.0;

/// From the beginning of a round to that of the next, in times of what it took.
const PACE: u32 = 4;

/// And never more than this: a database that was slow once may be quick again.
const LONGEST_PACE: Duration = Duration::from_millis(500);

/// After a round whose reader went away.
const ABANDONED: Duration = Duration::from_millis(20);

/// Open challenges taken into one round.
const ROUND: u32 = 5_000;

/// Questions beyond an overfull round that are asked at once.
const ASIDE: usize = 2;

/// Answers challenges from the database, at a bounded rate.
pub struct ChallengeDesk {
    store: Arc<dyn Challenges>,
    bucket: Mutex<Bucket>,
    round: tokio::sync::Mutex<Round>,
    aside: Semaphore,
}

struct Bucket {
    left: f64,
    at: Instant,
}

/// All open challenges, as of a moment after `begun`; the next one does not begin before `next`.
struct Round {
    begun: Option<Instant>,
    next: Instant,
    answers: Option<Arc<Answers>>,
}

#[derive(Default)]
struct Answers {
    by_token: HashMap<String, ChallengeAnswer>,
    by_name: HashMap<Hostname, ChallengeAnswer>,
    /// There are more than these.
    partial: bool,
}

impl ChallengeDesk {
    /// Makes it. One for each process: the budget is its own.
    #[must_use]
    pub fn new(store: Arc<dyn Challenges>) -> Self {
        Self {
            store,
            bucket: Mutex::new(Bucket { left: BURST, at: Instant::now() }),
            round: tokio::sync::Mutex::new(Round {
                begun: None,
                next: Instant::now(),
                answers: None,
            }),
            aside: Semaphore::new(ASIDE),
        }
    }

    /// The answer to a CA's token.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn answer(&self, token: &str) -> Result<Option<ChallengeAnswer>> {
        if !is_token(token) {
            return Ok(None);
        }
        if self.may_ask() {
            return self.store.challenge_answer(token).await;
        }
        let answers = self.next_round().await?;
        match answers.by_token.get(token) {
            None if answers.partial => {
                let _turn = self.aside.acquire().await;
                self.store.challenge_answer(token).await
            }
            known => Ok(known.cloned()),
        }
    }

    /// The TLS-ALPN answer for a name.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn alpn_answer(&self, name: &Hostname) -> Result<Option<ChallengeAnswer>> {
        if self.may_ask() {
            return self.store.alpn_answer(name).await;
        }
        let answers = self.next_round().await?;
        match answers.by_name.get(name) {
            None if answers.partial => {
                let _turn = self.aside.acquire().await;
                self.store.alpn_answer(name).await
            }
            known => Ok(known.cloned()),
        }
    }

    /// Takes one question from the budget, if one is left.
    fn may_ask(&self) -> bool {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let refilled = now.duration_since(bucket.at).as_secs_f64() * PER_SECOND;
        bucket.left = (bucket.left + refilled).min(BURST);
        bucket.at = now;
        let may = bucket.left >= 1.0;
        if may {
            bucket.left -= 1.0;
        }
        may
    }

    /// Everything open, as of a moment after this call began. Whoever waits longest reads for all who wait; were it to be given
    /// up on half-way, the next one does.
    async fn next_round(&self) -> Result<Arc<Answers>> {
        let arrived = Instant::now();
        let mut round = self.round.lock().await;
        if round.begun.is_none_or(|begun| begun < arrived) {
            sleep_until(round.next).await;
            let begun = Instant::now();
            // Whoever reads may be gone before the answer: then the next one reads, but not at once.
            round.next = begun + ABANDONED;
            let open = self.store.open_challenges(ROUND).await;
            let next = begun + (begun.elapsed() * PACE).min(LONGEST_PACE);
            *round = Round { begun: Some(begun), next, answers: None };
            round.answers = Some(Arc::new(Answers::of(open?)));
            metrics::counter!("holdfast_challenge_rounds_total").increment(1);
        }
        // Those who waited for a round that failed are told so: each reading by itself would be the flood this holds back.
        round.answers.clone().ok_or(Error::RoundFailed)
    }
}

impl Answers {
    fn of(open: Vec<OpenChallenge>) -> Self {
        let partial = u32::try_from(open.len()).is_ok_and(|count| count >= ROUND);
        let mut answers = Self { partial, ..Self::default() };
        // Newest first: of several for one name the newest counts.
        for challenge in open {
            if challenge.answer.kind == ChallengeKind::TlsAlpn01 {
                let name = challenge.answer.name.clone();
                answers.by_name.entry(name).or_insert_with(|| challenge.answer.clone());
            }
            answers.by_token.insert(challenge.token, challenge.answer);
        }
        answers
    }
}

/// Could a CA have made it? Strangers ask for anything; the database need not hear of it.
#[must_use]
pub fn is_token(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=LONGEST).contains(&text.len()) && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use async_trait::async_trait;
    use tokio::task::JoinSet;

    use super::*;

    /// A database that counts how often it is asked, and takes its time.
    #[derive(Default)]
    struct Database {
        open: Mutex<Vec<OpenChallenge>>,
        reads: AtomicU32,
        fails: Mutex<bool>,
    }

    impl Database {
        fn open(&self, token: &str) {
            let challenge = OpenChallenge {
                token: token.to_owned(),
                answer: ChallengeAnswer {
                    name: Hostname::parse("shop.example.com").unwrap(),
                    kind: ChallengeKind::Http01,
                    key_authorization: format!("{token}.thumbprint"),
                },
            };
            self.open.lock().unwrap().push(challenge);
        }

        async fn read(&self) -> Result<Vec<OpenChallenge>> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            // The statement's snapshot; then the way back.
            let open = self.open.lock().unwrap().clone();
            tokio::time::sleep(Duration::from_millis(3)).await;
            if *self.fails.lock().unwrap() { Err(Error::HolderVanished) } else { Ok(open) }
        }
    }

    #[async_trait]
    impl Challenges for Database {
        async fn challenge_answer(&self, token: &str) -> Result<Option<ChallengeAnswer>> {
            let open = self.read().await?;
            Ok(open.into_iter().find(|open| open.token == token).map(|open| open.answer))
        }

        async fn alpn_answer(&self, _: &Hostname) -> Result<Option<ChallengeAnswer>> {
            self.read().await.map(|_| None)
        }

        async fn open_challenges(&self, _: u32) -> Result<Vec<OpenChallenge>> {
            self.read().await
        }
    }

    fn desk() -> (Arc<Database>, Arc<ChallengeDesk>) {
        let database = Arc::new(Database::default());
        (database.clone(), Arc::new(ChallengeDesk::new(database)))
    }

    /// Two thousand questions a second for `seconds`, none of which has an answer.
    fn attack(desk: &Arc<ChallengeDesk>, seconds: u32) -> JoinSet<()> {
        let mut attack = JoinSet::new();
        for n in 0..seconds * 2_000 {
            let desk = desk.clone();
            attack.spawn(async move {
                tokio::time::sleep(Duration::from_micros(500) * n).await;
                let _ = desk.answer(&format!("garbage{n}")).await;
            });
        }
        attack
    }

    #[tokio::test(start_paused = true)]
    async fn under_attack_every_answer_is_given_at_once_after_its_commit() {
        let (database, desk) = desk();
        let attack = attack(&desk, 10);
        for n in 0..100 {
            tokio::time::sleep(Duration::from_millis(97)).await;
            let token = format!("real{n}");
            database.open(&token);
            let answer =
                desk.answer(&token).await.unwrap().expect("committed before it was asked for");
            assert_eq!(answer.key_authorization, format!("{token}.thumbprint"));
        }
        attack.join_all().await;
        // The burst, the refill, and a round per four reads of 3 ms.
        let reads = database.reads.load(Ordering::Relaxed);
        assert!(reads < 200 + 1_100 + 10_000 / 12, "{reads} reads of 20,000 questions");
    }

    #[tokio::test(start_paused = true)]
    async fn ordinary_traffic_is_one_read_each() {
        let (database, desk) = desk();
        database.open("real");
        for _ in 0..50 {
            assert!(desk.answer("real").await.unwrap().is_some());
        }
        assert_eq!(database.reads.load(Ordering::Relaxed), 50);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_token_is_never_asked_for() {
        let (database, desk) = desk();
        for bad in ["", "a/b", "a.b", "a b", "ü", "a\0", &"a".repeat(257)] {
            assert!(desk.answer(bad).await.unwrap().is_none(), "{bad:?}");
        }
        assert_eq!(database.reads.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_database_that_fails_is_asked_no_more_often() {
        let (database, desk) = desk();
        *database.fails.lock().unwrap() = true;
        attack(&desk, 2).join_all().await;
        let reads = database.reads.load(Ordering::Relaxed);
        assert!(reads < 200 + 300 + 2_000 / 12 + 60, "{reads} reads");
        *database.fails.lock().unwrap() = false;
        database.open("real");
        assert!(desk.answer("real").await.unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_holds_nobody_up() {
        let (database, desk) = desk();
        while desk.may_ask() {}
        database.open("real");
        let given_up = tokio::time::timeout(Duration::from_millis(1), desk.answer("real"));
        assert!(given_up.await.is_err());
        assert!(desk.answer("real").await.unwrap().is_some());
    }
}
