//! What a process has used, as the system tells it.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use crate::Outcome;

/// User and system time of all threads, dead ones included.
pub(crate) fn cpu_time(pid: u32) -> Outcome<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The program's name, in parentheses, may hold anything.
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).flat_map(str::parse::<u64>).sum();
    Ok(of_ticks(ticks))
}

fn of_ticks(ticks: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / per_second))
}

/// Time that all processors together have worked, for whomever.
pub(crate) fn machine_time() -> Outcome<Duration> {
    let stat = fs::read_to_string("/proc/stat")?;
    let line = stat.lines().next().unwrap_or_default();
    // user, nice, system, idle, iowait, irq, softirq, steal; the rest is counted in user and nice already.
    let fields: Vec<u64> = line.split_whitespace().skip(1).take(8).flat_map(str::parse::<u64>).collect();
    let idle: u64 = fields.iter().skip(3).take(2).sum();
    Ok(of_ticks(fields.iter().sum::<u64>().saturating_sub(idle)))
}

/// Time of the living threads, by the threads' names.
pub(crate) fn cpu_by_thread(pid: u32) -> Outcome<BTreeMap<String, Duration>> {
    let mut threads = BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        let folder = entry?.path();
        // A thread may end at any moment.
        let Ok(name) = fs::read_to_string(folder.join("comm")) else { continue };
        let Ok(schedule) = fs::read_to_string(folder.join("schedstat")) else { continue };
        let nanoseconds = schedule.split_whitespace().next().and_then(|text| text.parse().ok()).unwrap_or(0);
        *threads.entry(name.trim().to_owned()).or_default() += Duration::from_nanos(nanoseconds);
    }
    Ok(threads)
}

/// Bytes that the process sent to the disk.
pub(crate) fn written_bytes(pid: u32) -> Outcome<u64> {
    let io = fs::read_to_string(format!("/proc/{pid}/io"))?;
    value_of(&io, "write_bytes:").ok_or_else(|| "no write_bytes in /proc/PID/io".into())
}

/// Resident memory in bytes: now, and at its highest.
pub(crate) fn memory(pid: u32) -> Outcome<(u64, u64)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kilobytes = |name| value_of(&status, name).ok_or("no memory in /proc/PID/status");
    Ok((kilobytes("VmRSS:")? * 1024, kilobytes("VmHWM:")? * 1024))
}

/// Files, sockets and the like that the process holds open.
pub(crate) fn open_files(pid: u32) -> Outcome<usize> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}

/// Living threads.
pub(crate) fn threads(pid: u32) -> Outcome<usize> {
    Ok(fs::read_dir(format!("/proc/{pid}/task"))?.count())
}

fn value_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
