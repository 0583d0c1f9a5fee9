//! What will happen in a world, and whose business it is when it does.

use super::Micros;
use super::checker::{Checker, Verdict};
use super::store::{Act, Guard};
use super::world::World;
use crate::identity::{Incarnation, Name, Term};
use crate::protocol::{Input, Reply, Request, RequestId};

/// Something that will happen.
pub(crate) enum Happen {
    /// A process's own timer.
    Wake {
        process: usize,
        number: u64,
    },
    /// News for a process.
    News {
        process: usize,
        incarnation: Incarnation,
        input: Input,
    },
    /// A request reaches the store.
    Arrive(Flight),
    /// What a request did becomes durable.
    Commit {
        flight: Flight,
        reply: Reply,
        acts: Vec<Act>,
        acted: Micros,
        epoch: u32,
    },
    /// Work tries to write.
    Write {
        process: usize,
        incarnation: Incarnation,
        name: Name,
        term: Term,
    },
    /// Work commits what it wrote.
    WriteCommit {
        name: Name,
        guard: Guard,
    },
    /// Look at who believes.
    Probe(Name),
    Fault,
    StoreUp,
    Restart(usize),
    /// A process lights its beacon.
    Light {
        process: usize,
        incarnation: Incarnation,
    },
    /// A session's end is noticed by its process.
    SessionLost {
        process: usize,
        incarnation: Incarnation,
        session: u64,
    },
}

#[derive(Clone)]
pub(crate) struct Flight {
    pub(crate) process: usize,
    pub(crate) incarnation: Incarnation,
    /// The session of its sender's beacon; zero: none.
    pub(crate) session: u64,
    pub(crate) id: RequestId,
    pub(crate) request: Request,
    /// When it was sent, in true time.
    pub(crate) sent: Micros,
    pub(crate) arrived: Option<Micros>,
    /// When its sender gives it up, in true time.
    pub(crate) limit: Micros,
}

impl World {
    pub(crate) fn happen(&mut self, happen: Happen) -> Verdict {
        match happen {
            Happen::Wake { process, number } if self.processes[process].wakes == number => {
                self.input(process, Input::Tick)
            }
            Happen::News { process, incarnation, input }
                if self.processes[process].incarnation == incarnation =>
            {
                self.input(process, input)
            }
            Happen::Arrive(flight) => {
                self.arrive(flight);
                Ok(())
            }
            Happen::Commit { flight, reply, acts, acted, epoch } => {
                self.commit(&flight, reply, &acts, acted, epoch)
            }
            Happen::Write { process, incarnation, name, term } => {
                self.write(process, incarnation, name, term);
                Ok(())
            }
            Happen::WriteCommit { name, guard } => {
                self.store.settle(self.now);
                let guards = &mut self.store.table(&name).guards;
                let open = guards.iter().any(|open| open.id == guard.id);
                guards.retain(|open| open.id != guard.id);
                if open { self.checker.wrote(&name, guard.term) } else { Ok(()) }
            }
            Happen::Probe(name) if self.plan.strict() => {
                Checker::one_believer(&name, &self.processes, self.now)
            }
            Happen::Fault => self.fault(),
            Happen::StoreUp => {
                self.store.up = true;
                Ok(())
            }
            Happen::Restart(index) if !self.processes[index].alive => self.restart(index),
            Happen::Light { process, incarnation } => self.light(process, incarnation),
            Happen::SessionLost { process, incarnation, session }
                if self.processes[process].incarnation == incarnation =>
            {
                self.session_lost(process, session)
            }
            _ => Ok(()),
        }
    }
}
