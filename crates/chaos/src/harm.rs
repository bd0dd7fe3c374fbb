//! What is done to the daemon's own processes and to the machine that it takes for its own: shims and browsers killed, the
//! daemon stopped, its clock set, its disk failing.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::Outcome;
use crate::family::{self, Kin};
use crate::journal::now_us;
use crate::records::Fault;
use crate::storm::Storm;
use crate::weather::DiskFailure;

/// How long the daemon is stopped: longer than any worker may be silent.
pub(crate) const STOP: Duration = Duration::from_secs(20);
/// How long a fault waits for a process that it could hit.
const VICTIM: Duration = Duration::from_secs(8);

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const DAY: i64 = 24 * 60 * MINUTE;

/// By how much the daemon's clock is set, in either direction: a little, by more than any deadline, and by more than
/// anything is kept.
const STEPS: [i64; 8] =
    [SECOND / 2, -SECOND / 2, 90 * SECOND, -90 * SECOND, 10 * MINUTE, -10 * MINUTE, 40 * DAY, -40 * DAY];

impl Storm<'_> {
    /// The daemon's shims, as soon as there are any; none where none come.
    pub(crate) async fn shims(&mut self, patience: Duration) -> Vec<Kin> {
        self.soon(patience, family::shims).await
    }

    async fn soon(&mut self, patience: Duration, find: impl Fn(i32) -> Vec<Kin>) -> Vec<Kin> {
        let until = Instant::now() + patience;
        loop {
            let found = self.daemon.id().map(&find).unwrap_or_default();
            if !found.is_empty() || Instant::now() > until {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) async fn kill_shim(&mut self) -> Outcome<()> {
        let shims = self.shims(VICTIM).await;
        if self.rng.choice(&shims).is_some_and(Kin::kill) {
            self.faults.write(&Fault::ShimKilled { at: now_us() }).await?;
        }
        Ok(())
    }

    pub(crate) async fn kill_browser(&mut self) -> Outcome<()> {
        if self.site.is_none() {
            return Ok(());
        }
        let browsers = self.soon(VICTIM, family::browsers).await;
        if self.rng.choice(&browsers).is_some_and(Kin::kill) {
            self.faults.write(&Fault::BrowserKilled { at: now_us() }).await?;
        }
        Ok(())
    }

    /// A closed lid: the daemon does nothing for so long, and everybody else goes on.
    pub(crate) async fn stop_daemon(&mut self) -> Outcome<()> {
        self.daemon.signal(Signal::STOP)?;
        self.faults.write(&Fault::DaemonStopped { at: now_us() }).await?;
        let until = Instant::now() + STOP;
        while Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(100)).await;
            self.check_children()?;
        }
        self.daemon.signal(Signal::CONT)?;
        self.faults.write(&Fault::DaemonContinued { at: now_us() }).await
    }

    /// Sets the daemon's clock on the wall.
    pub(crate) async fn set_clock(&mut self) -> Outcome<()> {
        let Some(weather) = &self.weather else { return Ok(()) };
        // A daemon that starts after a long step finds deadlines passed, and few scripts would be left that succeed.
        let steps = if self.options.quick { &STEPS[..2] } else { &STEPS };
        let Some(by_ms) = self.rng.choice(steps).copied() else { return Ok(()) };
        weather.set_clock_ms(weather.clock_ms()? + by_ms)?;
        self.faults.write(&Fault::ClockSet { at: now_us(), by_ms }).await
    }

    /// The daemon's disk fails for a moment: each operation, or some.
    pub(crate) async fn fail_disk(&mut self) -> Outcome<()> {
        let failure = if self.rng.bool() { DiskFailure::Broken } else { DiskFailure::Full };
        let every = self.rng.u32(1..5);
        let Some(weather) = &self.weather else { return Ok(()) };
        let before = weather.failed()?;
        weather.fail_disk(failure, every)?;
        self.pause(30..600).await;
        let Some(weather) = &self.weather else { return Ok(()) };
        weather.repair_disk()?;
        let operations = weather.failed()?.saturating_sub(before);
        self.faults.write(&Fault::DiskFailed { at: now_us(), operations }).await
    }
}
