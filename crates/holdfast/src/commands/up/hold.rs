//! One `up` per data directory: a lock that the kernel releases however the process ends.

use std::{
    fs::{File, TryLockError},
    io::{Read as _, Seek as _, Write as _},
    path::Path,
};

use crate::failure::Failure;

/// Makes the directory and takes it for this process; held until dropped.
pub(crate) fn take(data: &Path) -> Result<File, Failure> {
    let shown = data.display();
    let refused = |error: std::io::Error| {
        Failure::failed(format!(
            "The directory {shown} cannot be used ({error}); name a directory this user may write with --data."
        ))
    };
    std::fs::create_dir_all(data).map_err(refused)?;
    let mut file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(data.join("up.lock"))
        .map_err(refused)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(in_use(&mut file, data)),
        Err(TryLockError::Error(error)) => return Err(refused(error)),
    }
    // For people only, so a full disk is no reason to refuse; what counts is the lock.
    let noted = file.set_len(0).and_then(|()| file.rewind());
    noted.and_then(|()| write!(file, "{}", std::process::id())).ok();
    Ok(file)
}

fn in_use(file: &mut File, data: &Path) -> Failure {
    let mut pid = String::new();
    file.read_to_string(&mut pid).ok();
    let process = if pid.is_empty() { String::new() } else { format!(" (process {pid})") };
    Failure::failed(format!(
        "The directory {} is in use by another `holdfast`{process}; stop that one, or name another with --data.",
        data.display()
    ))
}
