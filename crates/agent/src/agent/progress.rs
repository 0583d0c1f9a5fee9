//! The newest revision ever heard of, kept across restarts: within an epoch nothing goes back, and epochs only rise.

use std::path::{Path, PathBuf};

use holdfast_gateway::files::{self, Access};
use holdfast_gateway::point::Point;
use holdfast_store::Revision;

use crate::{Error, Result};

#[derive(Debug, Default)]
pub(super) struct Progress {
    newest: Revision,
    file: Option<PathBuf>,
}

impl Progress {
    /// Reads what was kept; a file that cannot be understood counts for nothing.
    pub(super) fn load(file: Option<&Path>) -> Self {
        let text = file.and_then(|path| std::fs::read_to_string(path).ok());
        let newest = text.and_then(|text| text.trim().parse().ok()).unwrap_or_default();
        Self { newest, file: file.map(Path::to_owned) }
    }

    /// The newest ever heard of.
    pub(super) const fn newest(&self) -> Revision {
        self.newest
    }

    /// Checks a revision that the control plane says it is at.
    pub(super) fn check(&self, said: Revision) -> Result<()> {
        if said < self.newest {
            return Err(Error::WentBack { seen: self.newest, said });
        }
        Ok(())
    }

    /// Keeps a revision that was checked and followed.
    pub(super) async fn keep(&mut self, said: Revision) -> Result<()> {
        if said <= self.newest {
            return Ok(());
        }
        if let Some(file) = self.file.clone() {
            let text = format!("{said}\n");
            let write =
                move || files::write(Point::FILE_EDGE, &file, text.as_bytes(), Access::Private);
            tokio::task::spawn_blocking(write).await.map_err(|_| Error::Stopped)??;
        }
        self.newest = said;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(epoch: i64, number: i64) -> Revision {
        Revision { epoch, number }
    }

    #[tokio::test]
    async fn nothing_goes_back_also_across_a_restart() {
        let scratch = holdfast_testkit::Scratch::new().unwrap();
        let file = scratch.path().join("revision");
        let mut progress = Progress::load(Some(&file));
        progress.check(at(1, 7)).unwrap();
        progress.keep(at(1, 7)).await.unwrap();
        progress.keep(at(1, 3)).await.unwrap();
        let again = Progress::load(Some(&file));
        assert!(matches!(again.check(at(1, 6)), Err(Error::WentBack { .. })));
        assert!(matches!(again.check(at(0, 9)), Err(Error::WentBack { .. })));
        again.check(at(1, 7)).unwrap();
        again.check(at(2, 0)).unwrap();
    }
}
