//! A disk that can be filled: a small file system in memory over a directory, seen only by the processes started on it. It is gone with
//! the last of them, so nothing is left behind, and a test needs no rights beyond a mount namespace.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

const FILLER: &str = "filler";

/// Mounts over the first word, then becomes the rest.
const MOUNT: &str = r#"mount -t tmpfs -o "size=$1,mode=0755" none "$0" && shift && exec "$@""#;

/// Mounts the first word over itself for reading alone, then becomes the rest.
const READ_ONLY: &str = r#"mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@""#;

/// Mounts the first word over the second, then becomes the rest.
const ELSEWHERE: &str = r#"mount --bind "$0" "$1" && shift && exec "$@""#;

/// The same command, to which a file appears at another place as well, which must exist, as `docker -v FILE:FILE` does it.
pub fn mounted_alone(file: &Path, place: &Path, command: &Command) -> Command {
    mounted(ELSEWHERE, [file.as_os_str(), place.as_os_str()], command)
}

/// The same command, to which a directory is read-only, as a secret that systemd or Kubernetes mounts.
pub fn read_only(directory: &Path, command: &Command) -> Command {
    mounted(READ_ONLY, [directory.as_os_str()], command)
}

/// A command with mounts that it alone sees, made by a script with these words.
fn mounted<const N: usize>(script: &str, words: [&OsStr; N], command: &Command) -> Command {
    let mut within = Command::new("unshare");
    within.arg("--mount");
    if !rustix::process::geteuid().is_root() {
        within.arg("--map-root-user");
    }
    within.args(["sh", "-c", script]).args(words);
    within.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => within.env(name, value),
            None => within.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        within.current_dir(directory);
    }
    within
}

/// A directory that is a small disk to the processes started on it.
pub struct SmallDisk {
    directory: PathBuf,
    kibibytes: u32,
}

impl SmallDisk {
    /// A disk of this size at a directory, which must exist; what is in it is hidden from those processes.
    pub fn new(directory: &Path, kibibytes: u32) -> Self {
        Self { directory: directory.to_owned(), kibibytes }
    }

    /// The same command, on the disk.
    pub fn command(&self, command: &Command) -> Command {
        mounted(
            MOUNT,
            [self.directory.as_os_str(), format!("{}k", self.kibibytes).as_ref()],
            command,
        )
    }

    /// Leaves no room on the disk of a process.
    #[expect(clippy::disallowed_methods, reason = "test data, which needs no crash point")]
    pub fn fill(&self, pid: u32) -> Result<()> {
        let path = self.seen_by(pid, FILLER);
        let mut filler = File::create(&path).with_context(|| path.display().to_string())?;
        let zeros = vec![0; 4096];
        loop {
            match filler.write(&zeros) {
                Ok(0) => bail!("nothing more was written, and no error told"),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(()),
                Err(error) => return Err(error).context("filling the disk"),
            }
        }
    }

    /// Gives the room back.
    pub fn free(&self, pid: u32) -> Result<()> {
        std::fs::remove_file(self.seen_by(pid, FILLER)).context("making room")
    }

    /// Where a file on the disk of a process is found from outside.
    pub fn seen_by(&self, pid: u32, name: &str) -> PathBuf {
        let within = self.directory.strip_prefix("/").unwrap_or(&self.directory);
        Path::new("/proc").join(pid.to_string()).join("root").join(within).join(name)
    }
}
