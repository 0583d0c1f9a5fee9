//! Real peers for tests and benchmarks, as child processes on free ports.
//!
//! Everything started here ends with the test, also when the test panics or its process is killed: children ask the
//! kernel to be killed when their parent dies, and directories left behind are removed by the next run. A missing
//! program is an error, never a skipped test. What lies here is small: `LyingCa` is a proxy before a real CA, and
//! the DNS server that misbehaves has a rule for each lie.
//!
//! Tests should `unwrap()` rather than return errors: logs of the peers are printed when a test panics.

mod challtestsrv;
pub mod dns;
mod eventually;
mod faketime;
mod haproxy;
mod lying_ca;
mod nginx;
mod pace;
mod pebble;
mod pgbouncer;
mod pki;
mod port;
mod postgres;
mod process;
mod proxy;
mod redis;
mod scratch;
mod small_disk;
mod spawner;
mod sql;

pub use self::challtestsrv::ChallTestSrv;
pub use self::eventually::eventually;
pub use self::faketime::Faketime;
pub use self::haproxy::Haproxy;
pub use self::lying_ca::{Endpoint, Lie, LyingCa};
pub use self::nginx::Nginx;
pub use self::pace::pace;
pub use self::pebble::{Pebble, PebbleConfig};
pub use self::pgbouncer::{PgBouncer, PoolMode};
pub use self::pki::Pki;
pub use self::port::free_port;
pub use self::postgres::{Durability, Postgres};
pub use self::process::Process;
pub use self::proxy::{Proxy, Way};
pub use self::redis::{Redis, RedisCluster, RedisSentinels, RedisTls};
pub use self::scratch::Scratch;
pub use self::small_disk::{SmallDisk, mounted_alone, read_only};
pub use self::sql::run_sql;
