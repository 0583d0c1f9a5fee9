//! What is said while it runs: to the terminal, one line per run, with the time since the start.

use tokio::time::Instant;

/// Says what goes on.
#[derive(Clone, Copy, Debug)]
pub struct Progress(Instant);

impl Progress {
    /// Starts the clock.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// A new part begins.
    pub fn part(&self, title: &str) {
        println!("\n== {title}");
    }

    /// One line.
    pub fn say(&self, line: impl AsRef<str>) {
        let seconds = self.0.elapsed().as_secs();
        println!("{:>3}:{:02}  {}", seconds / 60, seconds % 60, line.as_ref());
    }
}
