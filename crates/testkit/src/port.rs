//! Free ports, safe between test processes that run at once.
//!
//! A port found free by binding to it is anybody's again the moment it is closed. So each port handed out is
//! also locked, by a file, until this process ends. The range lies below the one the kernel hands out
//! for outgoing connections and port 0.

use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};

use crate::scratch;

const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

static HELD: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// A port that nothing listens on, over TCP or UDP, and that no other test will be given while this process lives.
pub fn free_port() -> Result<u16> {
    let locks = scratch::base()?.join("ports");
    std::fs::create_dir_all(&locks)?;
    let random = RandomState::new().hash_one(std::process::id());
    let start = u16::try_from(random % u64::from(COUNT))?;
    for offset in 0..COUNT {
        let port = FIRST + (start + offset) % COUNT;
        let lock = File::options().create(true).append(true).open(locks.join(port.to_string()))?;
        if lock.try_lock().is_ok() && is_free(port) {
            HELD.lock().unwrap_or_else(PoisonError::into_inner).push(lock);
            return Ok(port);
        }
    }
    bail!("no free port from {FIRST} to {}", FIRST + (COUNT - 1))
}

fn is_free(port: u16) -> bool {
    let everywhere = (Ipv4Addr::UNSPECIFIED, port);
    TcpListener::bind(everywhere).is_ok() && UdpSocket::bind(everywhere).is_ok()
}
