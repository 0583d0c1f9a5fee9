//! One agent per data directory: a lock that the kernel releases however the process ends.

use std::{
    fs::{File, TryLockError},
    io::{Read as _, Seek as _, Write as _},
    path::Path,
};

use crate::failure::Failure;

/// Makes the directory and takes it for this process; held until dropped.
pub(super) fn take(data: &Path) -> Result<File, Failure> {
    let shown = data.display();
    let refused = |error: std::io::Error| {
        Failure::failed(format!(
            "agent.data: {shown} cannot be used ({error}); name a directory this user may write."
        ))
    };
    std::fs::create_dir_all(data).map_err(refused)?;
    let mut options = File::options();
    options.create(true).truncate(false).read(true).write(true);
    let mut file = options.open(data.join("agent.lock")).map_err(refused)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut first = String::new();
            file.read_to_string(&mut first).ok();
            return Err(Failure::failed(format!(
                "agent.data: {shown} is in use by another agent (process {first}); stop that one, or give this one a directory of its own."
            )));
        }
        Err(TryLockError::Error(error)) => return Err(refused(error)),
    }
    // For people only; what counts is the lock.
    file.set_len(0).and_then(|()| file.rewind()).map_err(refused)?;
    write!(file, "{}", std::process::id()).map_err(refused)?;
    Ok(file)
}
