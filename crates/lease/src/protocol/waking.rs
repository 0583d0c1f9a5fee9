//! Being woken: who follows asks for the lease at once, and no news is lost to an answer that is older than it.

use crate::clock::Moment;
use crate::identity::Name;
use crate::protocol::input::Request;
use crate::protocol::lease::{Lease, Next, Phase};
use crate::protocol::state::State;

impl State {
    /// The store says that something happened to a lease; none: anything may have been missed.
    pub(crate) fn woken(&mut self, name: Option<&Name>, now: Moment) {
        if let Some(flight) = &mut self.in_flight {
            flight.news |= name.is_none_or(|name| flight.request.is_about(name));
        }
        let lit = self.lit;
        match name {
            None => self.leases.values_mut().for_each(|lease| rouse(lease, now)),
            Some(name) => {
                let Some(lease) = self.leases.get_mut(name) else { return };
                rouse(lease, now);
                renew(lease, now);
                if lit || !lease.beacon {
                    reach_out(lease, now);
                }
            }
        }
    }

    /// An answer came to a request during which there was news of what it was about: the answer may be older than the news.
    pub(crate) fn overtaken(&mut self, names: &[Name], now: Moment) {
        for name in names {
            if let Some(lease) = self.leases.get_mut(name) {
                rouse(lease, now);
                renew(lease, now);
            }
        }
    }
}

fn rouse(lease: &mut Lease, now: Moment) {
    if let Phase::Following(following) = &mut lease.phase
        && following.next == Next::Look
    {
        following.due = now;
    }
}

/// Someone may have asked for it: the answer to a renewal says so.
fn renew(lease: &mut Lease, now: Moment) {
    if let Phase::Holding(held) = &mut lease.phase {
        held.renew_at = held.renew_at.min(now);
    }
}

/// What is told of by name was let go of, most often: who would not let others go first asks for it without looking again. Where it
/// is not free the store refuses, and shows the row.
fn reach_out(lease: &mut Lease, now: Moment) {
    if let Phase::Following(following) = &mut lease.phase
        && following.next == Next::Look
        && following.ready
    {
        following.next = Next::Acquire { unchanged: None };
        following.due = following.not_before.max(now);
    }
}

impl Request {
    fn is_about(&self, name: &Name) -> bool {
        match self {
            Self::Look(names) => names.contains(name),
            Self::Renew(renew) => renew.leases.iter().any(|lease| lease.name == *name),
            one => one.names() == [name],
        }
    }

    /// The leases it is about.
    pub(super) fn names(&self) -> Vec<&Name> {
        match self {
            Self::Look(names) => names.iter().collect(),
            Self::Acquire(acquire) => vec![&acquire.name],
            Self::Renew(renew) => renew.leases.iter().map(|lease| &lease.name).collect(),
            Self::Release(release) => vec![&release.name],
            Self::Ask(ask) => vec![&ask.name],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;
    use crate::identity::{Holder, Incarnation, Priority, Term};
    use crate::options::Options;
    use crate::protocol::{Action, Input, Reply, RequestId, Wish, step};
    use crate::request::{Acquired, At, Renewed};
    use crate::row::{Owner, Row, StoreTime};

    const AT: StoreTime = StoreTime::from_micros(1_000_000);

    fn name() -> Name {
        Name::new("sweep").unwrap()
    }

    /// A process that contends for one lease, and the last request it sent.
    struct Scene {
        state: State,
        sent: Option<(RequestId, Request)>,
    }

    impl Scene {
        fn start() -> Self {
            let timing = Options::default().timing().unwrap();
            let (ann, own) = (Holder::new("ann").unwrap(), Incarnation::random());
            let mut scene = Self { state: State::new(ann, own, timing, 0), sent: None };
            let (name, wish) = (name(), Wish::default());
            scene.step(Input::Contend { name, wish, beacon: false });
            scene
        }

        /// What it sends in answer to this; nothing has to wait.
        fn step(&mut self, input: Input) -> Option<&Request> {
            let now = Moment::from_nanos(1_000_000_000);
            let actions = step(&mut self.state, input, now);
            self.sent = actions.into_iter().find_map(|action| match action {
                Action::Send(id, request) => Some((id, request)),
                _ => None,
            });
            self.sent.as_ref().map(|(_, request)| request)
        }

        fn woken(&mut self) -> Option<&Request> {
            self.step(Input::Woken(Some(name())))
        }

        fn row(&self, own: bool, priority: i16) -> Row {
            let other = Incarnation::from_uuid(Uuid::from_u128(7));
            let incarnation = if own { self.state.incarnation } else { other };
            Row {
                owner: Some(Owner { holder: Holder::new("bob").unwrap(), incarnation }),
                term: Term::new(1),
                beat: 0,
                ttl: Duration::from_secs(30),
                expires_at: AT.plus(Duration::from_secs(20)),
                since: AT,
                priority: Priority(priority),
                step_down: false,
                successor: None,
                beacon: false,
            }
        }
    }

    fn looked(row: Row) -> Reply {
        Reply::Looked(At { at: AT, answer: vec![(Some(row), false)] })
    }

    #[test]
    fn who_is_told_of_a_release_asks_for_the_lease_without_looking() {
        let mut scene = Scene::start();
        let (look, _) = scene.sent.clone().unwrap();
        let seen = looked(scene.row(false, 0));
        assert_eq!(scene.step(Input::Answered(look, seen)), None);
        assert!(matches!(scene.woken(), Some(Request::Acquire(_))));
    }

    #[test]
    fn who_lets_others_go_first_looks() {
        let mut scene = Scene::start();
        let (look, _) = scene.sent.clone().unwrap();
        let seen = looked(scene.row(false, 1));
        assert_eq!(scene.step(Input::Answered(look, seen)), None);
        assert!(matches!(scene.woken(), Some(Request::Look(_))));
    }

    #[test]
    fn news_that_comes_before_an_older_answer_is_not_lost() {
        let mut scene = Scene::start();
        let (look, _) = scene.sent.clone().unwrap();
        let seen = looked(scene.row(false, 0));
        assert_eq!(scene.woken(), None, "one request at a time");
        assert!(matches!(scene.step(Input::Answered(look, seen)), Some(Request::Look(_))));
    }

    #[test]
    fn a_holder_asked_to_step_down_during_a_renewal_asks_again() {
        let mut scene = Scene::start();
        let (look, _) = scene.sent.clone().unwrap();
        let nothing = Reply::Looked(At { at: AT, answer: vec![(None, false)] });
        scene.step(Input::Answered(look, nothing));
        let (acquire, _) = scene.sent.clone().unwrap();
        let granted = Acquired::Granted(scene.row(true, 0));
        scene.step(Input::Answered(acquire, Reply::Acquired(At { at: AT, answer: granted })));
        assert!(matches!(scene.woken(), Some(Request::Renew(_))));
        let (renewal, _) = scene.sent.clone().unwrap();
        assert_eq!(scene.woken(), None, "one request at a time");
        let kept = vec![Renewed::Kept { step_down: false, successor: None }];
        let kept = Reply::Renewed(At { at: AT, answer: kept });
        assert!(matches!(scene.step(Input::Answered(renewal, kept)), Some(Request::Renew(_))));
    }
}
