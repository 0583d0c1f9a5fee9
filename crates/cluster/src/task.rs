//! Singleton work, in small pieces: what it is called, which lease it runs under, how often.

use std::{error::Error, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, FutureExt as _};
use holdfast_store::{Fence, Progress};

/// What a run gave: how much was done, or why nothing was.
pub(crate) type Outcome = Result<Progress, Box<dyn Error + Send + Sync>>;

type Run = Arc<dyn Fn(Option<Fence>) -> BoxFuture<'static, Outcome> + Send + Sync>;

/// A piece of singleton work. It is bounded, and safe to repeat.
#[derive(Clone)]
pub struct Task {
    pub(crate) name: &'static str,
    pub(crate) lease: &'static str,
    pub(crate) every: Duration,
    by_age: bool,
    run: Run,
}

impl Task {
    /// Work that runs every so often wherever this lease is held. It gets the fence for its writes; none where the process is alone.
    /// It does one bounded step, and gives how much that was; when there is more, the next step follows at once.
    pub fn new<F, R, P, E>(name: &'static str, lease: &'static str, every: Duration, run: F) -> Self
    where
        F: Fn(Option<Fence>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<P, E>> + Send + 'static,
        P: Into<Progress> + 'static,
        E: Into<Box<dyn Error + Send + Sync>> + 'static,
    {
        let run =
            move |fence| run(fence).map(|done| done.map(Into::into).map_err(Into::into)).boxed();
        Self { name, lease, every, by_age: false, run: Arc::new(run) }
    }

    /// It drops what is old: not by a clock that has just stepped.
    #[must_use]
    pub fn by_age(self) -> Self {
        Self { by_age: true, ..self }
    }

    /// Does it drop what is old?
    #[must_use]
    pub fn is_by_age(&self) -> bool {
        self.by_age
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn run(&self, fence: Option<Fence>) -> BoxFuture<'static, Outcome> {
        (self.run)(fence)
    }
}

/// Was it refused because its lease is another's now?
pub(crate) fn is_fenced(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if matches!(error.downcast_ref(), Some(holdfast_store::Error::Fenced { .. })) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// An error with its causes, in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
