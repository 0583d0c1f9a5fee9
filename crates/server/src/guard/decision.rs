//! What becomes of a request. Pure: the answer follows from what is known at one moment.

use holdfast_cluster::Master;

use super::{Pass, Writes};

/// What is known.
#[derive(Debug, Clone)]
pub(super) struct Question<'a> {
    pub(super) writes: Writes,
    /// Is it a write?
    pub(super) guarded: bool,
    /// Proof that another replica passed it on.
    pub(super) pass: Option<Pass>,
    /// The term of our own leadership.
    pub(super) term: Option<u64>,
    /// Who we are.
    pub(super) instance: &'a str,
    /// Who leads, as last seen.
    pub(super) master: Option<Master>,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// Nothing guards it.
    Take,
    /// It is a guarded write, and we lead in this term.
    TakeAsLeader {
        term: u64,
    },
    Forward(Master),
    Redirect(Master),
    Reject(Master),
    NoLeader,
    /// Passed on to us as the leader of a term that we do not lead in.
    Stale,
}

impl Decision {
    /// Its name in the metrics; none for what is not guarded.
    pub(super) fn outcome(&self) -> Option<&'static str> {
        match self {
            Self::Take => None,
            Self::TakeAsLeader { .. } => Some("taken"),
            Self::Forward(_) => Some("forwarded"),
            Self::Redirect(_) => Some("redirected"),
            Self::Reject(_) => Some("rejected"),
            Self::NoLeader => Some("no-leader"),
            Self::Stale => Some("stale"),
        }
    }
}

/// Decides.
pub(super) fn decide(question: &Question<'_>) -> Decision {
    if !question.guarded {
        return Decision::Take;
    }
    // Whoever passed it on meant the leader of that term, whatever this replica would do by itself. It is never passed on again.
    if let Some(pass) = question.pass {
        let meant = pass.hop == 1 && question.term == Some(pass.term);
        return if meant { Decision::TakeAsLeader { term: pass.term } } else { Decision::Stale };
    }
    match (question.writes, question.term, &question.master) {
        (Writes::Any, ..) => Decision::Take,
        (_, Some(term), _) => Decision::TakeAsLeader { term },
        // What was last seen may still be ourselves, whose time has run out.
        (_, None, Some(master)) if master.instance_id == question.instance => Decision::NoLeader,
        (_, None, None) => Decision::NoLeader,
        (Writes::Forward, None, Some(master)) => Decision::Forward(master.clone()),
        (Writes::Redirect, None, Some(master)) => Decision::Redirect(master.clone()),
        (Writes::Reject, None, Some(master)) => Decision::Reject(master.clone()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn master(instance: &str, term: u64) -> Master {
        Master { instance_id: instance.into(), url: format!("https://{instance}"), term }
    }

    #[track_caller]
    fn check(
        writes: Writes,
        term: Option<u64>,
        leads: Option<&str>,
        pass: Option<(u64, u8)>,
        expected: &str,
    ) {
        let question = Question {
            writes,
            guarded: true,
            pass: pass.map(|(term, hop)| Pass { term, hop }),
            term,
            instance: "me",
            master: leads.map(|who| master(who, 7)),
        };
        assert_eq!(decide(&question).outcome().unwrap_or("unguarded"), expected, "{question:?}");
    }

    #[test]
    fn the_table() {
        use Writes::{Any, Forward, Redirect, Reject};
        // A write, by mode: at the leader; at a follower; without a leader; where we were the leader until just now.
        for (writes, at_leader, at_follower, alone) in [
            (Any, "unguarded", "unguarded", "unguarded"),
            (Forward, "taken", "forwarded", "no-leader"),
            (Redirect, "taken", "redirected", "no-leader"),
            (Reject, "taken", "rejected", "no-leader"),
        ] {
            check(writes, Some(7), Some("me"), None, at_leader);
            check(writes, Some(7), None, None, at_leader);
            check(writes, None, Some("other"), None, at_follower);
            check(writes, None, None, None, alone);
            check(writes, None, Some("me"), None, alone);
            // Passed on to us: we lead in that term, in a newer one, not at all; or it came a longer way than there is.
            check(writes, Some(7), Some("me"), Some((7, 1)), "taken");
            check(writes, Some(8), Some("me"), Some((7, 1)), "stale");
            check(writes, None, Some("other"), Some((7, 1)), "stale");
            check(writes, None, None, Some((7, 1)), "stale");
            check(writes, Some(7), Some("me"), Some((7, 2)), "stale");
        }
    }

    fn modes() -> impl Strategy<Value = Writes> {
        prop_oneof![
            Just(Writes::Any),
            Just(Writes::Forward),
            Just(Writes::Redirect),
            Just(Writes::Reject)
        ]
    }

    proptest! {
        /// I11, whatever each replica believes at each moment: who accepts a guarded write leads, in the term it was sent for if it
        /// was sent; a write passes at most two replicas.
        #[test]
        fn who_accepts_leads_and_nothing_goes_round(
            modes in prop::collection::vec(modes(), 4),
            beliefs in prop::collection::vec((prop::option::of(0_u64..4), prop::option::of((0_usize..4, 0_u64..4))), 4..20),
            first in 0_usize..4,
        ) {
            let names = ["a", "b", "c", "d"];
            let (mut at, mut pass, mut hops) = (first, None, 0);
            for (term, seen) in beliefs {
                let question = Question {
                    writes: modes[at],
                    guarded: true,
                    pass,
                    term,
                    instance: names[at],
                    master: seen.map(|(who, term)| master(names[who], term)),
                };
                match decide(&question) {
                    Decision::Forward(to) => {
                        prop_assert!(pass.is_none(), "passed on twice");
                        prop_assert_ne!(&to.instance_id, names[at], "sent to itself");
                        prop_assert!(term.is_none(), "a leader passes nothing on");
                        hops += 1;
                        pass = Some(Pass { term: to.term, hop: 1 });
                        at = names.iter().position(|name| *name == to.instance_id).unwrap();
                    }
                    Decision::TakeAsLeader { term: taken } => {
                        prop_assert_eq!(term, Some(taken));
                        prop_assert!(pass.is_none_or(|pass| pass.term == taken));
                        break;
                    }
                    Decision::Take => {
                        prop_assert!(modes[at] == Writes::Any && pass.is_none());
                        break;
                    }
                    Decision::Redirect(_) | Decision::Reject(_) => {
                        prop_assert!(pass.is_none());
                        break;
                    }
                    Decision::NoLeader | Decision::Stale => break,
                }
            }
            prop_assert!(hops <= 1);
        }

        #[test]
        fn what_is_no_write_is_nobodys_business(mode in modes(), term in prop::option::of(0_u64..4), hop in 0_u8..3) {
            let pass = Some(Pass { term: 1, hop });
            let question = Question { writes: mode, guarded: false, pass, term, instance: "me", master: None };
            prop_assert_eq!(decide(&question), Decision::Take);
        }
    }
}
