//! Prints how fast the SQLite adapter commits: runs of a single task, that is two appends each, at several batch sizes;
//! then how long it takes to open the database again.
//!
//! `cargo run --release -p capataz-store --example bench_append [folder] [seconds per batch size]`
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement, not a program for users")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::Bytes;
use capataz_store::{
    Append, Create, IdempotencyKey, Mark, Millis, RunId, ShardId, SqliteOptions, SqliteStore, Store, Summary,
};

const BATCHES: [usize; 4] = [1, 8, 64, 256];
/// Events of a creation (accept, schedule, lease) and of an end (result, aggregation, finish).
const EVENT_BYTES: usize = 400;

/// A mark that no claim of the folder has, which may be that of an earlier measurement.
fn next_mark(store: &SqliteStore) -> Mark {
    Mark(store.history(ShardId(0)).unwrap().newest().map_or(1, |newest| newest.0 + 1))
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let temporary = tempfile::tempdir().unwrap();
    let folder = arguments.next().map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    let seconds = arguments.next().map_or(5, |text| text.parse().unwrap());
    let mut number;
    {
        let begin = Instant::now();
        let store = SqliteStore::open(&folder, SqliteOptions::default()).unwrap();
        let mut writer = store.claim(ShardId(0), next_mark(&store)).unwrap();
        number = store.bounds(ShardId(0)).unwrap().newest.0;
        println!("{number} rows at the beginning: open and claim {:?}", begin.elapsed());
        for batch in BATCHES {
            let mut waits = Vec::new();
            let (begin, processor) = (Instant::now(), processor_time());
            while begin.elapsed() < Duration::from_secs(seconds) {
                let created = number..number + batch as u64;
                number += batch as u64;
                for appends in [created.clone().map(creation).collect::<Vec<_>>(), created.map(end).collect()]
                {
                    let commit = Instant::now();
                    writer.commit(&appends).unwrap();
                    waits.push(commit.elapsed());
                }
            }
            let elapsed = begin.elapsed();
            let appends = (waits.len() * batch) as f64;
            waits.sort();
            println!(
                "batch {batch:>3}: {:>7.0} appends/s, {:>5.1} µs of processor each, commit p50 {:?}, p99 {:?}, max {:?}",
                appends / elapsed.as_secs_f64(),
                (processor_time() - processor).as_secs_f64() * 1e6 / appends,
                waits[waits.len() / 2],
                waits[waits.len() * 99 / 100],
                waits[waits.len() - 1],
            );
        }
        let wal = std::fs::metadata(folder.join("capataz.db-wal")).unwrap().len();
        println!("write-ahead log: {} MiB", wal >> 20);
        // As after kill -9: nothing is closed.
        std::mem::forget((store, writer));
    }
    let begin = Instant::now();
    let store = SqliteStore::open(&folder, SqliteOptions::default()).unwrap();
    let opened = begin.elapsed();
    let _writer = store.claim(ShardId(0), next_mark(&store)).unwrap();
    let unfinished = store.unfinished(ShardId(0), None, 1_000).unwrap().len();
    let size = std::fs::metadata(folder.join("capataz.db")).unwrap().len();
    println!(
        "{} appends, {} MiB: open {opened:?}, with claim {:?}; {unfinished} unfinished",
        2 * number,
        size >> 20,
        begin.elapsed()
    );
    let begin = Instant::now();
    drop((store, _writer));
    println!("close {:?}", begin.elapsed());
}

fn run_id(number: u64) -> RunId {
    // In the order of time, as UUIDv7 is, with a scattered rest.
    let scattered = u128::from(number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    RunId(uuid::Uuid::from_u128(u128::from(number / 4) << 80 | 0x7 << 76 | scattered))
}

fn creation(number: u64) -> Append {
    let key = scattered_key(number);
    let create = Create {
        kind: 1,
        name: "nightly build".to_owned(),
        labels: [("team".to_owned(), "core".to_owned())].into(),
        created_at: Millis(1_700_000_000_000 + number as i64),
        key: Some(IdempotencyKey { key, request: [7; 32] }),
        past: None,
    };
    let summary = Summary { status: 2, updated_at: create.created_at, tasks_total: 1, ..Summary::default() };
    Append {
        run: run_id(number),
        first_seq: 1,
        count: 3,
        events: Bytes::from(vec![1; EVENT_BYTES]),
        create: Some(create),
        summary: Some(summary),
        derived: Vec::new(),
        memory: Vec::new(),
        blobs: Vec::new(),
        rest: None,
        joined: false,
        key: None,
    }
}

fn end(number: u64) -> Append {
    let at = Millis(1_700_000_000_100 + number as i64);
    let summary = Summary {
        status: 5,
        outcome: 1,
        updated_at: at,
        finished_at: Some(at),
        tasks_total: 1,
        tasks_settled: 1,
    };
    Append { first_seq: 4, create: None, summary: Some(summary), ..creation(number) }
}

/// A key without order, as clients choose them.
fn scattered_key(number: u64) -> Bytes {
    Bytes::copy_from_slice(&blake3::hash(&number.to_le_bytes()).to_hex().as_bytes()[..36])
}

/// Processor time of this process; zero where the system does not tell.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks: u64 = text
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(11)
        .take(2)
        .flat_map(str::parse::<u64>)
        .sum();
    Duration::from_millis(ticks * 10)
}
