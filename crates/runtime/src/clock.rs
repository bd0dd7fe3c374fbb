//! Where the time comes in.

use std::sync::Arc;

use capataz_crew::{Mono, Now};
use capataz_store::Millis;

/// Where the shards have their time from.
pub type Clock = Arc<dyn Fn() -> Now + Send + Sync>;

/// What the system's clocks say. The one that nobody can set goes on while the machine sleeps.
#[must_use]
pub fn now() -> Now {
    #[expect(clippy::disallowed_methods, reason = "the shell is where time comes in")]
    let wall = std::time::SystemTime::now();
    let since = wall.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Now { wall: Millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX)), mono: mono() }
}

/// Since the machine was started, sleep included.
#[cfg(target_os = "linux")]
fn mono() -> Mono {
    let since = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Mono(since.tv_sec.saturating_mul(1_000).saturating_add(since.tv_nsec / 1_000_000))
}

/// Since the first call. Whether the machine's sleep counts is up to the system.
#[cfg(not(target_os = "linux"))]
fn mono() -> Mono {
    use std::sync::LazyLock;
    use std::time::Instant;
    #[expect(clippy::disallowed_methods, reason = "the shell is where time comes in")]
    static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);
    Mono(i64::try_from(FIRST.elapsed().as_millis()).unwrap_or(i64::MAX))
}

/// Microseconds of the clock that nobody can set; for measuring.
pub(crate) fn micros() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "the shell is where time comes in")]
    static FIRST: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    u64::try_from(FIRST.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// Says when somebody has set the clock on the wall: an event of the daemon, and of no run.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    before: Option<Now>,
}

/// What the clocks may differ by and count as going alike. Milliseconds.
const ALIKE: i64 = 1_000;

impl Watch {
    /// By how much the clock on the wall was set since the last call; `None` where it was not, or by less than can be told
    /// from going a little wrong.
    pub(crate) fn set_by(&mut self, now: Now) -> Option<i64> {
        let before = self.before.get_or_insert(now);
        let by = now.wall.0.saturating_sub(before.wall.0).saturating_sub(now.mono.since(before.mono));
        if by.saturating_abs() <= ALIKE {
            return None;
        }
        *before = now;
        Some(by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(wall: i64, mono: i64) -> Now {
        Now { wall: Millis(wall), mono: Mono(mono) }
    }

    #[test]
    fn a_clock_that_is_set_is_told_once_and_one_that_goes_is_not() {
        let mut watch = Watch::default();
        assert_eq!(watch.set_by(at(1_000_000, 5)), None);
        assert_eq!(watch.set_by(at(1_060_000, 60_005)), None);
        assert_eq!(watch.set_by(at(4_660_000, 60_005)), Some(3_600_000));
        assert_eq!(watch.set_by(at(4_661_000, 61_005)), None);
        assert_eq!(watch.set_by(at(61_000, 61_005)), Some(-4_600_000));
        assert_eq!(watch.set_by(at(i64::MIN, i64::MAX)), Some(i64::MIN));
    }

    /// Says so where `cargo xtask test` reads it.
    #[cfg(target_os = "linux")]
    #[expect(clippy::disallowed_methods, reason = "where to say so is told by whoever runs the tests")]
    fn skipped(line: &str) {
        use std::io::Write as _;
        eprintln!("SKIPPED  {line}");
        if let Some(list) = std::env::var_os("CAPATAZ_SKIPPED") {
            let list = std::fs::OpenOptions::new().create(true).append(true).open(list);
            list.unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
        }
    }

    /// A clock that counts sleep is ahead of one that does not by the time for which the machine has slept. In a time
    /// namespace it is ahead by as much as one likes. Where this machine allows none, the test names itself as skipped, and
    /// `cargo xtask test` lists it at its end.
    #[cfg(target_os = "linux")]
    #[test]
    #[expect(
        clippy::disallowed_methods,
        clippy::disallowed_types,
        reason = "the test starts itself again, and tells itself so, where the machine seems to have slept"
    )]
    fn time_in_which_the_machine_sleeps_counts() {
        const NAME: &str = "clock::tests::time_in_which_the_machine_sleeps_counts";
        const ASKED: &str = "CAPATAZ_TEST_SAYS_THE_TIME";
        const SAID: &str = "the time is ";
        const SLEPT_MS: i64 = 3_600_000;
        if std::env::var_os(ASKED).is_some() {
            return println!("\n{SAID}{}", now().mono.0);
        }
        let having_slept = || {
            let mut command = std::process::Command::new("unshare");
            command.args(["--user", "--map-root-user", "--time", "--fork", "--boottime", "3600"]);
            command
        };
        let refused = match having_slept().arg("true").output() {
            Ok(tried) if tried.status.success() => None,
            Ok(tried) => Some(String::from_utf8_lossy(&tried.stderr).trim().replace('\n', "; ")),
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = refused {
            return skipped(&format!("capataz-runtime {NAME}: no time namespace can be made: {why}"));
        }
        let before = now().mono.0;
        let mut again = having_slept();
        again.arg(std::env::current_exe().unwrap()).args(["--exact", NAME, "--nocapture"]).env(ASKED, "1");
        let told = again.output().unwrap();
        let after = now().mono.0;
        let text = String::from_utf8_lossy(&told.stdout);
        let Some(there) = text.lines().find_map(|line| line.strip_prefix(SAID)) else { panic!("{told:?}") };
        let there: i64 = there.parse().unwrap();
        let expected = before + SLEPT_MS..=after + SLEPT_MS;
        assert!(expected.contains(&there), "{there} in {expected:?}");
    }
}
