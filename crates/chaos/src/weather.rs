//! What the daemon takes for its machine: a clock on the wall that is set, and a disk that fails, by a library that is built
//! here and loaded before the C library. The daemon has no hook for it, and what it starts does not have the library.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;

const SOURCE: &str = include_str!("preload.c");

/// Bytes of one number in the file that the library maps; their order is that of `struct control`.
const NUMBER: u64 = 8;

#[derive(Clone, Copy, Debug)]
enum Number {
    ClockMs,
    Failure,
    Every,
    Failed,
    Loaded,
}

/// A failure of the disk, as the daemon meets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskFailure {
    /// The device does not answer.
    Broken,
    Full,
}

impl DiskFailure {
    fn errno(self) -> i32 {
        match self {
            Self::Broken => rustix::io::Errno::IO.raw_os_error(),
            Self::Full => rustix::io::Errno::NOSPC.raw_os_error(),
        }
    }
}

/// The library, and the file by which it is told.
#[derive(Debug)]
pub(crate) struct Weather {
    pub(crate) library: PathBuf,
    pub(crate) control_path: PathBuf,
    control: File,
}

impl Weather {
    /// Builds the library with the C compiler of the machine.
    pub(crate) fn start(folder: &Path) -> Outcome<Self> {
        if !cfg!(target_os = "linux") {
            return Err("only Linux loads a library before the C library in this way".into());
        }
        let (source, library) = (folder.join("preload.c"), folder.join("preload.so"));
        fs::write(&source, SOURCE)?;
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut build = Command::new(&compiler);
        build.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).arg("-ldl");
        let built = build.output().map_err(|error| format!("{}: {error}", compiler.display()))?;
        if !built.status.success() {
            return Err(String::from_utf8_lossy(&built.stderr).into_owned().into());
        }
        let control_path = folder.join("weather");
        let mut options = File::options();
        let control = options.create(true).truncate(true).read(true).write(true).open(&control_path)?;
        control.set_len(NUMBER * (Number::Loaded as u64 + 1))?;
        Ok(Self { library, control_path, control })
    }

    fn set(&self, number: Number, value: i64) -> io::Result<()> {
        self.control.write_all_at(&value.to_ne_bytes(), NUMBER * number as u64)
    }

    fn get(&self, number: Number) -> io::Result<i64> {
        let mut value = [0; 8];
        self.control.read_exact_at(&mut value, NUMBER * number as u64)?;
        Ok(i64::from_ne_bytes(value))
    }

    /// By how many milliseconds the daemon's clock on the wall is ahead of everybody else's.
    pub(crate) fn clock_ms(&self) -> io::Result<i64> {
        self.get(Number::ClockMs)
    }

    pub(crate) fn set_clock_ms(&self, ahead_ms: i64) -> io::Result<()> {
        self.set(Number::ClockMs, ahead_ms)
    }

    /// From now on each `every`-th operation on the daemon's data fails.
    pub(crate) fn fail_disk(&self, failure: DiskFailure, every: u32) -> io::Result<()> {
        self.set(Number::Every, i64::from(every))?;
        self.set(Number::Failure, i64::from(failure.errno()))
    }

    pub(crate) fn repair_disk(&self) -> io::Result<()> {
        self.set(Number::Failure, 0)
    }

    /// Operations that have failed so far.
    pub(crate) fn failed(&self) -> io::Result<u64> {
        Ok(self.get(Number::Failed)?.unsigned_abs())
    }

    /// Processes that have had the library so far.
    pub(crate) fn loaded(&self) -> io::Result<u64> {
        Ok(self.get(Number::Loaded)?.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a program as the daemon is started.
    fn run(weather: &Weather, data: &Path, program: &str, arguments: &[&str]) -> Outcome<(bool, String)> {
        let mut command = Command::new(program);
        command.args(arguments).env("LD_PRELOAD", &weather.library);
        command.env("CAPATAZ_CHAOS_CONTROL", &weather.control_path).env("CAPATAZ_CHAOS_DATA", data);
        let output = command.output()?;
        Ok((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_program_has_the_clock_and_the_disk_that_it_is_given() -> Outcome<()> {
        let folder = tempfile::tempdir()?;
        let data = folder.path().join("data");
        fs::create_dir_all(&data)?;
        let weather = Weather::start(folder.path())?;
        let seconds = |text: String| text.trim().parse::<i64>().map_err(|error| format!("{text}: {error}"));
        let own = i64::try_from(crate::journal::now_us() / 1_000_000)?;
        for ahead in [40 * 86_400, 0, -40 * 86_400] {
            weather.set_clock_ms(ahead * 1_000)?;
            let told = seconds(run(&weather, &data, "date", &["+%s"])?.1)?;
            assert!((ahead..ahead + 60).contains(&(told - own)), "{told} at {own}, which is {ahead} ahead");
        }
        weather.set_clock_ms(0)?;
        let of = |name: &str| format!("of={}", folder.path().join(name).display());
        let write = |name: &str| {
            let wrote = run(&weather, &data, "dd", &["if=/dev/zero", &of(name), "bs=16", "count=1"]);
            wrote.map(|(succeeded, _)| succeeded)
        };
        weather.fail_disk(DiskFailure::Full, 1)?;
        assert!(!write("data/full")? && write("elsewhere")?);
        assert_eq!(weather.failed()?, 1);
        weather.repair_disk()?;
        assert!(write("data/repaired")?);
        // What a program starts has the machine's own clock: `sh` is counted, `env` is not.
        let before = weather.loaded()?;
        let (_, inherited) = run(&weather, &data, "sh", &["-c", "env"])?;
        assert!(!inherited.contains("LD_PRELOAD"), "{inherited}");
        assert_eq!(weather.loaded()?, before + 1);
        Ok(())
    }
}
