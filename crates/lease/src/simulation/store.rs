//! The simulated store: the rules, with row locks, commits that take time, guards, and a clock that may step.

use std::collections::{BTreeMap, BTreeSet};

use super::Micros;
use super::clock::WallClock;
use crate::identity::{Incarnation, Name, Term};
use crate::protocol::bug::{Bug, Bugs};
use crate::protocol::{Reply, Request};
use crate::request::{Acquire, Acquired, At};
use crate::row::{Row, StoreTime};
use crate::rules::Slot;

/// What a request came to.
pub(crate) enum Done {
    /// This reply, when the commit is through.
    Reply(Reply),
    /// It waits for a lock.
    Blocked,
}

/// One lease in the store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// As it is for writers.
    pub(crate) slot: Slot,
    /// As it is for readers: what was committed.
    pub(crate) visible: Option<Row>,
    /// Until when a writer holds the row.
    pub(crate) locked_until: Micros,
    /// Transactions that were let in by the guard: who, term, until when the server lets them be.
    pub(crate) guards: Vec<Guard>,
    /// Where terms are registered, if the store may lose them.
    pub(crate) fence: Option<(Term, Incarnation)>,
    /// The term that is about to be registered: guards of lower ones are no longer let in, so that it need not wait for ever.
    pub(crate) wanted: Term,
    /// When the row's owner last gave a sign of life, in true time.
    pub(crate) touched: Micros,
    /// The same, of what was committed.
    pub(crate) touched_visible: Micros,
    /// When the present term began, in true time.
    pub(crate) term_began: Micros,
    /// The same, of what was committed.
    pub(crate) term_began_visible: Micros,
    /// The session of its owner's beacon, and how often the server had been started when it was noted.
    pub(crate) session: u64,
    pub(crate) noted_after: u32,
    /// The same session, of what was committed.
    pub(crate) session_visible: u64,
    /// Whether that session ended by itself, and not with the server: what only the world knows.
    pub(crate) dark: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guard {
    pub(crate) id: u64,
    pub(crate) process: usize,
    pub(crate) term: Term,
    pub(crate) until: Micros,
}

#[derive(Clone, Debug)]
pub(crate) struct SimStore {
    pub(crate) clock: WallClock,
    pub(crate) up: bool,
    pub(crate) tables: BTreeMap<Name, Table>,
    pub(crate) weak: bool,
    /// The sessions of beacons that are open.
    pub(crate) sessions: BTreeSet<u64>,
    /// How often the server was started again.
    pub(crate) restarts: u32,
    pub(crate) bugs: Bugs,
}

/// An owner that came or went, for the checker: the row before and after.
pub(crate) struct Act {
    pub(crate) name: Name,
    pub(crate) before: Table,
    pub(crate) after: Table,
    /// When, by the store's clock.
    pub(crate) at: StoreTime,
}

impl SimStore {
    pub(crate) fn new(clock: WallClock, weak: bool, bugs: Bugs) -> Self {
        let (tables, sessions) = (BTreeMap::new(), BTreeSet::new());
        Self { clock, up: true, tables, weak, sessions, restarts: 0, bugs }
    }

    /// A session ends, and the server lives on.
    pub(crate) fn end_session(&mut self, session: u64) {
        if self.sessions.remove(&session) {
            let of = |table: &&mut Table| table.session == session;
            self.tables.values_mut().filter(of).for_each(|table| table.dark = true);
        }
    }

    /// Whether the owner's beacon counts as gone: its session is, and not because the server was started again.
    fn beacon_gone(&self, table: &Table) -> bool {
        let same_server =
            table.noted_after == self.restarts || self.bugs.has(Bug::BeaconGoneByRestart);
        let lit = table.slot.row.as_ref().is_some_and(|row| row.beacon);
        lit && same_server && !self.sessions.contains(&table.session)
    }

    pub(crate) fn table(&mut self, name: &Name) -> &mut Table {
        let bugs = self.bugs;
        self.tables
            .entry(name.clone())
            .or_insert_with(|| Table { slot: Slot { bugs, ..Slot::default() }, ..Table::default() })
    }

    /// Lets the server end guards that are too old, and readers see what was committed.
    pub(crate) fn settle(&mut self, now: Micros) {
        for table in self.tables.values_mut() {
            table.guards.retain(|guard| guard.until > now);
            if table.locked_until <= now {
                table.visible.clone_from(&table.slot.row);
                table.touched_visible = table.touched;
                table.term_began_visible = table.term_began;
                table.session_visible = table.session;
            }
        }
    }

    /// The server dies: what was not committed is undone, and all transactions end.
    pub(crate) fn crash(&mut self, now: Micros) {
        self.settle(now);
        self.up = false;
        for table in self.tables.values_mut() {
            table.slot.row.clone_from(&table.visible);
            table.touched = table.touched_visible;
            table.term_began = table.term_began_visible;
            table.session = table.session_visible;
            table.locked_until = 0;
            table.guards.clear();
        }
    }

    /// Acts on a request; its commit is through at `commit`.
    pub(crate) fn act(
        &mut self,
        request: &Request,
        (session, sent): (u64, Micros),
        now: Micros,
        commit: Micros,
    ) -> (Done, Vec<Act>) {
        self.settle(now);
        // The most frequent by far, and it changes nothing.
        if let Request::Look(names) = request {
            return (Done::Reply(self.look(names, now)), Vec::new());
        }
        let names = names(request);
        if names.iter().any(|name| self.locked(name, now)) {
            return (Done::Blocked, Vec::new());
        }
        let before: Vec<Table> = names.iter().map(|name| self.table(name).clone()).collect();
        let Some(reply) = self.reply(request, session, now) else {
            for (name, before) in names.iter().zip(before) {
                let wanted = self.table(name).wanted;
                *self.table(name) = Table { wanted, ..before };
                self.expire_lifeless(request, now);
            }
            return (Done::Blocked, Vec::new());
        };
        let (mut acts, at) = (Vec::new(), self.clock.now(now));
        for (name, before) in names.into_iter().zip(before) {
            let table = self.table(&name);
            if table.slot.row == before.slot.row && table.fence == before.fence {
                continue;
            }
            table.locked_until = commit;
            table.visible.clone_from(&before.visible);
            let version = |table: &Table| table.slot.row.as_ref().map(Row::version);
            if version(table) != version(&before) {
                // A renewal is a sign of life from when it was sent, and says so; how late it acts says nothing of its owner.
                let said = matches!(request, Request::Renew(renew)
                    if table.slot.row.as_ref().is_some_and(|row| row.beat == renew.beat));
                table.touched = table.touched.max(if said { sent } else { now });
            }
            let term = |table: &Table| table.slot.row.as_ref().map(|row| row.term);
            // A row that was lost, and regained by its owner in the term that is registered as its own, goes on.
            let regained = before.fence.is_some() && before.fence == table.fence;
            if term(table) != term(&before) && !regained {
                table.term_began = now;
            }
            let after = table.clone();
            acts.push(Act { name, before, after, at });
        }
        (Done::Reply(reply), acts)
    }

    /// A row to be taken because it shows no life is first expired: a clock that was set back would let its guards in for ever.
    fn expire_lifeless(&mut self, request: &Request, now: Micros) {
        let at = self.clock.now(now);
        let Request::Acquire(acquire) = request else { return };
        let table = self.table(&acquire.name);
        let lifeless = |row: &&mut Row| acquire.unchanged == Some(row.version());
        if let Some(row) = table.slot.row.as_mut().filter(lifeless) {
            row.expires_at = row.expires_at.min(at);
            table.visible.clone_from(&table.slot.row);
        }
    }

    fn locked(&mut self, name: &Name, now: Micros) -> bool {
        self.table(name).locked_until > now
    }

    fn look(&self, names: &[Name], now: Micros) -> Reply {
        let row = |name: &Name| {
            let Some(table) = self.tables.get(name) else { return (None, false) };
            let gone = table.visible == table.slot.row && self.beacon_gone(table);
            (table.visible.clone(), gone)
        };
        let answer = names.iter().map(row).collect();
        Reply::Looked(At { at: self.clock.now(now), answer })
    }

    /// The answer; none if it has to wait for an open guard.
    fn reply(&mut self, request: &Request, session: u64, now: Micros) -> Option<Reply> {
        let at = self.clock.now(now);
        Some(match request {
            Request::Look(names) => self.look(names, now),
            Request::Acquire(acquire) => {
                Reply::Acquired(At { at, answer: self.acquire(acquire, session, now)? })
            }
            Request::Renew(renew) => {
                let answers = renew.leases.iter().map(|lease| {
                    let slot = &mut self.table(&lease.name).slot;
                    slot.renew(renew, lease, at)
                });
                Reply::Renewed(At { at, answer: answers.collect() })
            }
            Request::Release(release) => {
                let (answer, _) = self.table(&release.name).slot.release(release, at);
                Reply::Released(At { at, answer })
            }
            Request::Ask(ask) => {
                let answer = self.table(&ask.name).slot.ask(ask, at);
                Reply::Asked(At { at, answer })
            }
        })
    }

    /// A change of term waits for open guards; so does its registration in the fence.
    fn acquire(&mut self, request: &Acquire, session: u64, now: Micros) -> Option<Acquired> {
        let (at, weak, restarts) = (self.clock.now(now), self.weak, self.restarts);
        // A beacon that the server does not see is none.
        let beacon = request.beacon && self.sessions.contains(&session);
        let request = &Acquire { beacon, ..request.clone() };
        let table = self.table(&request.name).clone();
        let gone = self.beacon_gone(&table);
        let table = self.table(&request.name);
        table.slot.beacon_gone = gone;
        let term = table.slot.row.as_ref().map(|row| row.term);
        let (mut answer, _) = table.slot.acquire(request, at);
        if weak && let Acquired::Granted(row) = &answer {
            let registered = table.fence.map_or(Term::NONE, |(term, _)| term);
            let again = table.fence == Some((row.term, request.incarnation));
            if row.term <= registered && !again {
                // Redis has forgotten: its counter is raised above what refused it.
                let above = registered.max(request.above);
                (answer, _) = table.slot.acquire(&Acquire { above, ..request.clone() }, at);
            }
            if let Acquired::Granted(row) = &answer {
                table.wanted = row.term;
                table.fence = Some((row.term, request.incarnation));
            }
        }
        if matches!(answer, Acquired::Granted(_)) {
            (table.session, table.noted_after) = (if beacon { session } else { 0 }, restarts);
            table.dark = false;
        }
        let changed = table.slot.row.as_ref().map(|row| row.term) != term;
        (!changed || table.guards.is_empty()).then_some(answer)
    }

    /// Whether a write under this term is let in now.
    pub(crate) fn guards(
        &mut self,
        name: &Name,
        own: Incarnation,
        term: Term,
        now: Micros,
    ) -> bool {
        let (at, weak) = (self.clock.now(now), self.weak);
        let table = self.table(name);
        if weak {
            table.fence == Some((term, own)) && table.wanted <= term
        } else {
            table.slot.guards(own, term, at)
        }
    }
}

/// The leases a request is about.
pub(crate) fn names(request: &Request) -> Vec<Name> {
    match request {
        Request::Look(names) => names.clone(),
        Request::Acquire(acquire) => vec![acquire.name.clone()],
        Request::Renew(renew) => renew.leases.iter().map(|lease| lease.name.clone()).collect(),
        Request::Release(release) => vec![release.name.clone()],
        Request::Ask(ask) => vec![ask.name.clone()],
    }
}
