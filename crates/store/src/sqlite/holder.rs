//! Who holds a lock on a file, as the kernel lists it. The list tells nothing of processes in other containers.

use super::place::Identity;

/// The kind of lock that holds a whole file for a process of ours.
const WHOLE_FILE: &str = "FLOCK";
/// The kind of lock by which SQLite works.
const OF_SQLITE: &str = "POSIX";

/// The process that holds a file as a whole.
pub(super) fn of_file(file: Identity) -> Option<u32> {
    first(&listed()?, WHOLE_FILE, &[file.inode], None)
}

/// Another process that keeps SQLite from writing by its lock on one of these files.
pub(super) fn of_write_lock(files: &[Identity]) -> Option<String> {
    let inodes: Vec<_> = files.iter().map(|file| file.inode).collect();
    let pid = first(&listed()?, OF_SQLITE, &inodes, Some(std::process::id()))?;
    Some(named(pid))
}

fn listed() -> Option<String> {
    std::fs::read_to_string("/proc/locks").ok()
}

fn named(pid: u32) -> String {
    match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("process {pid} ({})", name.trim_end()),
        Err(_) => format!("process {pid}"),
    }
}

/// The first process that holds such a lock for writing.
fn first(locks: &str, kind: &str, inodes: &[u64], except: Option<u32>) -> Option<u32> {
    // 1: FLOCK  ADVISORY  WRITE 703 00:2b:12345 0 EOF
    let fields = locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let held =
        fields.filter(|fields| fields.get(1) == Some(&kind) && fields.get(3) == Some(&"WRITE"));
    held.filter_map(|fields| {
        let of = fields.get(5)?.rsplit(':').next()?.parse().ok()?;
        let pid: u32 = fields.get(4)?.parse().ok()?;
        // 0 is a process that is not to be seen from here.
        (inodes.contains(&of) && pid != 0 && Some(pid) != except).then_some(pid)
    })
    .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_list_names_who_locks_a_file() {
        let locks = "1: POSIX  ADVISORY  READ 11 00:2b:77 124 124\n\
                     1: -> FLOCK  ADVISORY  WRITE 12 00:2b:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 0 00:2b:77 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 703 00:2b:77 0 EOF\n\
                     4: POSIX  ADVISORY  WRITE 20 00:2b:79 120 120\n\
                     5: POSIX  ADVISORY  WRITE 21 00:2b:79 120 120\n";
        assert_eq!(first(locks, WHOLE_FILE, &[77], None), Some(703));
        assert_eq!(first(locks, WHOLE_FILE, &[78], None), None);
        assert_eq!(first(locks, OF_SQLITE, &[77], None), None);
        assert_eq!(first(locks, OF_SQLITE, &[77, 79], None), Some(20));
        assert_eq!(first(locks, OF_SQLITE, &[77, 79], Some(20)), Some(21));
    }
}
