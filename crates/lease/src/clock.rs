//! The one source of time: a clock that also runs while the machine sleeps.
//!
//! `std::time::Instant` and tokio's timers are CLOCK_MONOTONIC on Linux, which stands still in suspend: a laptop
//! lid or a paused virtual machine would stretch every lease. Wall clocks step. CLOCK_BOOTTIME does neither.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use async_trait::async_trait;

/// A moment of one machine's boot clock, in nanoseconds. Moments of two machines cannot be compared.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The moment so many nanoseconds after boot.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds after boot.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it was not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Moment {
    type Output = Self;
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(nanos(span)))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;
    fn sub(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(span)))
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000_000, self.0 / 1_000 % 1_000_000)
    }
}

/// A clock, and a way to wait for it. Tests replace it whole.
#[async_trait]
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Moment;

    /// Waits until the clock shows `moment`, counting time spent in suspend.
    async fn sleep_until(&self, moment: Moment);
}

/// The machine's own clock: CLOCK_BOOTTIME where there is one.
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

#[cfg(target_os = "linux")]
const BOOT: rustix::time::ClockId = rustix::time::ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const BOOT: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

#[async_trait]
impl Clock for BootClock {
    #[inline]
    fn now(&self) -> Moment {
        let time = rustix::time::clock_gettime(BOOT);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
        Moment(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
    }

    async fn sleep_until(&self, moment: Moment) {
        #[cfg(target_os = "linux")]
        if timer::sleep_until(moment).await.is_ok() {
            return;
        }
        // No timerfd, or no descriptor left: short tokio sleeps notice a suspend within a second.
        while let left @ 1.. = moment.0.saturating_sub(self.now().0) {
            tokio::time::sleep(Duration::from_nanos(left).min(Duration::from_secs(1))).await;
        }
    }
}

#[cfg(target_os = "linux")]
mod timer {
    //! A timerfd on CLOCK_BOOTTIME: it fires on time even if the machine slept meanwhile.

    use std::io;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    use super::Moment;

    pub(super) async fn sleep_until(moment: Moment) -> io::Result<()> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
        let it_value = Timespec {
            tv_sec: i64::try_from(moment.0 / 1_000_000_000).unwrap_or(i64::MAX),
            // Zero in both fields would disarm the timer.
            tv_nsec: i64::try_from(moment.0 % 1_000_000_000).unwrap_or_default().max(1),
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &once)?;
        #[expect(
            deprecated,
            reason = "its replacement is unsafe for other descriptors than an owned one"
        )]
        let timer = AsyncFd::with_interest(timer, Interest::READABLE)?;
        timer.readable().await?.retain_ready();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sleeps_until_the_moment_and_not_before() {
        let clock = BootClock;
        let wanted = clock.now() + Duration::from_millis(30);
        clock.sleep_until(wanted).await;
        assert!(clock.now() >= wanted);
        clock.sleep_until(Moment::from_nanos(0)).await;
    }

    #[test]
    fn runs_as_long_as_the_machine_is_up() {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        let clock = Duration::from_nanos(BootClock.now().as_nanos()).as_secs_f64();
        assert!((clock - uptime).abs() < 5.0, "{clock} against {uptime}");
    }
}
