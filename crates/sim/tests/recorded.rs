//! What `simulate --replay` says of the trace of a daemon.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};

use capataz_crew::Now;
use capataz_shard::shard::Config;
use capataz_shard::trace::{Header, Recording, ReplayError};
use capataz_shard::{Driver, Input, Recovered, Request};
use capataz_sim::Recorded;
use capataz_store::{Epoch, ShardId};

const SHARD: ShardId = ShardId(0);

/// A trace of three turns in a file. `outputs` says of a turn whether its outputs are recorded, or those of nothing.
fn trace(name: &str, outputs: impl Fn(usize) -> bool) -> PathBuf {
    let config = Config::default();
    let mut driver = Driver::new(&config, vec![SHARD]);
    let mut recording = Recording::begin(&Header::of_this_build(&config, &[SHARD]), 1 << 20).unwrap();
    let recovered = Recovered { epoch: Epoch(1), ..Recovered::default() };
    let inputs = [
        Input::Recovered { shard: SHARD, recovered },
        Input::Request {
            reply: capataz_shard::ReplyId(7),
            request: Request::ListAgents { after: None, most: 500 },
        },
        Input::Wake,
    ];
    for (number, input) in inputs.into_iter().enumerate() {
        let now = Now::alike(1_000);
        recording.input(now, &input).unwrap();
        let mut done = Vec::new();
        driver.handle(now, input, &mut done);
        done.truncate(if outputs(number + 1) { done.len() } else { 0 });
        recording.outputs(&done);
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&file, recording.take()).unwrap();
    file
}

#[test]
fn a_trace_that_replays_is_the_same_and_shows_its_last_turns() {
    let same = Recorded::replay(&trace("same", |_| true), 2).unwrap();
    assert!(same.is_same());
    assert_eq!(same.replayed.turns, 3);
    assert_eq!(same.tail.len(), 2);
    assert!(same.tail[0].starts_with("turn 2 at 1000: Request"), "{:?}", same.tail);
    assert!(same.tail[0].contains("-> Reply"), "{:?}", same.tail);
    assert!(same.to_string().ends_with("turns with 1 outputs: the same"), "{same}");
    assert_eq!(same.as_json()["same"], true);
}

#[test]
fn a_turn_that_differs_is_shown_with_its_input_and_its_outputs() {
    let different = Recorded::replay(&trace("different", |turn| turn != 2), 0).unwrap();
    assert!(!different.is_same());
    let text = different.to_string();
    assert!(text.contains("turn 2 differs; the daemon had 0 outputs"), "{text}");
    assert!(text.contains("ListAgents") && text.contains("-> Reply"), "{text}");
    let json = different.as_json();
    assert_eq!((&json["same"], &json["different"]["turn"]), (&false.into(), &2.into()));
    assert_eq!(json["different"]["recorded_outputs"], 0);
}

#[test]
fn a_file_that_is_not_a_trace_is_refused() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-trace");
    std::fs::write(&file, "{}").unwrap();
    assert!(matches!(Recorded::replay(&file, 0), Err(ReplayError::NotATrace)));
    assert!(matches!(Recorded::replay(&file.join("nowhere"), 0), Err(ReplayError::Io(_))));
}
