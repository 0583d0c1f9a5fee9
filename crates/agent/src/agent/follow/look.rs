//! Looks by handshakes at what was applied: a bounded number at once, each a task of its own, beside whatever else goes on.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use holdfast_model::{Hostname, Note};
use holdfast_store::{Change, Observation};
use tokio::task::JoinSet;

use super::super::retry::Task;
use crate::Target;

pub(super) struct Looks {
    target: Arc<dyn Target>,
    limit: usize,
    /// Those that are not in place yet, as far as is known.
    tasks: Vec<Option<Task>>,
    waiting: VecDeque<(Task, Option<Note>)>,
    // Dropped, it ends them all.
    looking: JoinSet<(Task, Observation)>,
}

impl Looks {
    pub(super) fn new(target: Arc<dyn Target>, limit: usize, tasks: Vec<Task>) -> Self {
        let tasks = tasks.into_iter().map(Some).collect();
        Self { target, limit, tasks, waiting: VecDeque::new(), looking: JoinSet::new() }
    }

    /// This one is in place.
    pub(super) fn begin(&mut self, at: usize) {
        let task = self.tasks.get_mut(at).and_then(Option::take);
        self.waiting.extend(task.map(|task| (task, None)));
        self.fill();
    }

    /// All are in place, but for those that were refused.
    pub(super) fn rest(&mut self, mut refusals: HashMap<Hostname, Note>) {
        let tasks = self.tasks.iter_mut().filter_map(Option::take);
        self.waiting.extend(tasks.map(|task| {
            let refused = refusals.remove(&task.change.name);
            (task, refused)
        }));
        self.fill();
    }

    /// Is nothing looked at, and nothing about to be?
    pub(super) fn is_idle(&self) -> bool {
        self.looking.is_empty()
    }

    fn fill(&mut self) {
        while self.looking.len() < self.limit.max(1)
            && let Some((task, refused)) = self.waiting.pop_front()
        {
            let target = self.target.clone();
            self.looking.spawn(async move {
                let seen = look(target.as_ref(), &task.change, refused).await;
                (task, seen)
            });
        }
    }

    /// What was seen next; none when nothing is looked at. Dropping the call loses nothing.
    pub(super) async fn next(&mut self) -> Option<(Task, Observation)> {
        let looked = self.looking.join_next().await?;
        self.fill();
        match looked {
            Ok(seen) => Some(seen),
            Err(broken) if broken.is_panic() => std::panic::resume_unwind(broken.into_panic()),
            Err(_) => None,
        }
    }
}

/// Makes the handshake and says whether what it shows is what was wanted.
async fn look(target: &dyn Target, change: &Change, refused: Option<Note>) -> Observation {
    let wanted = change.certificate.as_ref().map(|(_, sha256)| sha256);
    let (sha256, error) = match target.probe(&change.name).await {
        // Whatever was said of applying: what is served is what counts.
        Ok(seen) if seen.as_ref() == wanted => (seen, None),
        Ok(seen) => {
            let note = refused.unwrap_or_else(|| differs(seen.as_ref(), wanted));
            (seen, Some(note))
        }
        Err(error) => (None, Some(refused.unwrap_or_else(|| error.note()))),
    };
    Observation { domain: change.domain, sha256, error }
}

fn differs(seen: Option<&String>, wanted: Option<&String>) -> Note {
    match (seen, wanted) {
        (Some(seen), Some(wanted)) => Note::new(
            "edge-serves-another",
            format!("the edge serves certificate {seen}, not {wanted}"),
        ),
        (None, Some(wanted)) => Note::new(
            "edge-does-not-serve",
            format!("the edge refuses the name; it should serve certificate {wanted}"),
        ),
        (Some(seen), None) => Note::new(
            "edge-still-serves",
            format!("the edge still serves certificate {seen}; the name was withdrawn"),
        ),
        (None, None) => Note::new("edge-does-not-serve", "the edge refuses the name"),
    }
}
