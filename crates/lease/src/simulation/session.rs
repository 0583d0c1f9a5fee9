//! Sessions that are beacons: lit by a process, seen by the store, ended by a crash, a cut or a restart of the server.

use super::Micros;
use super::checker::Verdict;
use super::happen::Happen;
use super::world::World;
use crate::identity::Incarnation;
use crate::protocol::Input;

impl World {
    /// A process that keeps a beacon lights it, as soon as it can.
    pub(crate) fn light_soon(&mut self, index: usize) {
        if self.plan.beacon {
            let incarnation = self.processes[index].incarnation;
            let soon = self.now + self.dice.between(1_000, 300_000);
            self.at(soon, Happen::Light { process: index, incarnation });
        }
    }

    pub(crate) fn light(&mut self, index: usize, incarnation: Incarnation) -> Verdict {
        let process = &self.processes[index];
        if process.incarnation != incarnation || !process.alive || process.session != 0 {
            return Ok(());
        }
        let runs = process.runs_from();
        if runs > self.now {
            self.at(runs, Happen::Light { process: index, incarnation });
            return Ok(());
        }
        if !self.store.up || process.cut_out_until.max(process.cut_in_until) > self.now {
            self.light_soon(index);
            return Ok(());
        }
        self.sessions += 1;
        self.processes[index].session = self.sessions;
        self.store.sessions.insert(self.sessions);
        self.input(index, Input::Beacon { lit: true })
    }

    /// The server sees a session end at once. Its process, if it lives, learns of it within `most`.
    pub(crate) fn end_session(&mut self, index: usize, most: Micros) {
        let (session, incarnation) =
            (self.processes[index].session, self.processes[index].incarnation);
        if session == 0 {
            return;
        }
        self.store.end_session(session);
        if self.processes[index].alive {
            let most = if self.dice.once_in(2) { 2_000 } else { most };
            let noticed = self.now + self.dice.between(1_000, most);
            self.at(noticed, Happen::SessionLost { process: index, incarnation, session });
        }
    }

    pub(crate) fn session_lost(&mut self, index: usize, session: u64) -> Verdict {
        let process = &mut self.processes[index];
        if !process.alive || process.session != session {
            return Ok(());
        }
        let (runs, incarnation) = (process.runs_from(), process.incarnation);
        if runs > self.now {
            self.at(runs, Happen::SessionLost { process: index, incarnation, session });
            return Ok(());
        }
        process.session = 0;
        self.light_soon(index);
        self.input(index, Input::Beacon { lit: false })
    }

    /// The server itself was started again: no session is left, and none of those that were counts as gone.
    pub(crate) fn end_all_sessions(&mut self) {
        self.store.restarts += 1;
        self.store.sessions.clear();
        for index in 0..self.processes.len() {
            self.end_session(index, 500_000);
        }
    }

    /// A process that knows its beacon to be gone holds nothing by it.
    pub(crate) fn nothing_held_in_the_dark(&mut self, index: usize) -> Verdict {
        if !self.plan.beacon {
            return Ok(());
        }
        let now = self.now;
        for name in self.names.clone() {
            let process = &self.processes[index];
            let (own, session) = (process.incarnation, process.session);
            let Some(term) = process.believes(&name, now) else { continue };
            let table = self.store.table(&name);
            let by_beacon = table.slot.row.as_ref().is_some_and(|row| {
                row.is_of(own) && row.term == term && row.beacon && table.session != session
            });
            if by_beacon {
                return Err(format!("I5: p{index} holds {name} by a beacon that is gone"));
            }
        }
        Ok(())
    }
}
