//! Connections that are dead at one end only: the core by itself, in a time that the test moves on.

#![expect(clippy::unwrap_used, reason = "tests")]

use capataz_contracts::v1::{self, connect_request::Frame as Say, connect_response::Frame as Hear};
use capataz_crew::{CloseReason, ConnectionId};
use capataz_engine::Timestamp;
use capataz_shard::shard::Config;
use capataz_shard::{Driver, Input, Output, Recovered};
use capataz_store::{Epoch, ShardId};

const SHARD: ShardId = ShardId(0);
const WORKER: ConnectionId = ConnectionId(1);
/// Within this time a half-open connection is noticed, at both ends.
const NOTICED_MS: i64 = 20_000;

struct Bench {
    core: Driver,
    now: i64,
    /// What the core has said, and when.
    outputs: Vec<(i64, Output)>,
}

impl Bench {
    /// A core that has welcomed a worker.
    fn new() -> Self {
        let core = Driver::new(&Config::default(), vec![SHARD]);
        let mut bench = Self { core, now: 1_000, outputs: Vec::new() };
        bench.input(Input::Recovered {
            shard: SHARD,
            recovered: Recovered {
                epoch: Epoch(1),
                runs: Vec::new(),
                sessions: Vec::new(),
                agents: Vec::new(),
            },
        });
        let agent = v1::Agent { name: "echo".to_owned(), max_concurrency: 1, ..Default::default() };
        let hello =
            v1::Hello { worker_id: "w".to_owned(), agents: vec![agent], slots: 1, ..Default::default() };
        bench.say(Say::Hello(hello));
        bench
    }

    fn input(&mut self, input: Input) {
        let mut outputs = Vec::new();
        self.core.handle(Timestamp(self.now), input, &mut outputs);
        self.outputs.extend(outputs.into_iter().map(|output| (self.now, output)));
    }

    fn say(&mut self, frame: Say) {
        self.input(Input::Frame { connection: WORKER, frame });
    }

    /// Moves the time on, and wakes the core whenever it wants to be woken.
    fn pass(&mut self, milliseconds: i64) {
        let until = self.now + milliseconds;
        while let Some(Timestamp(at)) = self.core.next_wake().filter(|at| at.0 <= until) {
            self.now = at;
            self.input(Input::Wake);
        }
        self.now = until;
    }

    fn welcome(&self) -> v1::Welcome {
        let welcome = self.outputs.iter().find_map(|(_, output)| match output {
            Output::Frame { frame: Hear::Welcome(welcome), .. } => Some(welcome.clone()),
            _ => None,
        });
        welcome.unwrap()
    }

    /// When frames of any kind were sent to the worker.
    fn heard_at(&self) -> Vec<i64> {
        let frames = self.outputs.iter().filter(|(_, output)| matches!(output, Output::Frame { .. }));
        frames.map(|(at, _)| *at).collect()
    }

    /// When and why the worker's connection was closed.
    fn closed(&self) -> Option<(i64, CloseReason)> {
        self.outputs.iter().find_map(|(at, output)| match output {
            Output::Close { reason, .. } => Some((*at, *reason)),
            _ => None,
        })
    }
}

#[test]
fn a_worker_hears_the_daemon_in_every_interval_and_is_told_what_silence_means() {
    let mut bench = Bench::new();
    let welcome = bench.welcome();
    assert_eq!(welcome.silence_limit_ms, 3 * welcome.heartbeat_interval_ms);
    assert!(welcome.silence_limit_ms <= NOTICED_MS);
    for _ in 0..60 {
        bench.pass(1_000);
        bench.say(Say::Heartbeat(v1::Heartbeat {}));
    }
    let heard_at = bench.heard_at();
    let gaps = heard_at.windows(2).map(|pair| pair[1] - pair[0]);
    assert_eq!(gaps.max(), Some(welcome.heartbeat_interval_ms));
    assert_eq!(heard_at.last(), Some(&bench.now));
    assert_eq!(bench.closed(), None);
    let heartbeats = bench.outputs.iter().filter(|(_, output)| {
        matches!(output, Output::Frame { connection: WORKER, frame: Hear::Heartbeat(_) })
    });
    assert_eq!(heartbeats.count(), 12);
}

#[test]
fn a_silent_worker_is_given_up_in_20_s_wherever_its_last_frame_fell_between_two_looks() {
    for offset in [0, 1, 2_500, 4_999, 5_000] {
        let mut bench = Bench::new();
        bench.pass(offset);
        bench.say(Say::Heartbeat(v1::Heartbeat {}));
        let last_frame = bench.now;
        bench.pass(60_000);
        let Some((at, CloseReason::Silent)) = bench.closed() else { panic!("{offset}: not given up") };
        let silent_for = at - last_frame;
        assert!((15_000..=NOTICED_MS).contains(&silent_for), "{offset}: {silent_for} ms");
        assert!(bench.heard_at().iter().all(|heard| *heard < at), "nothing is said to a dead connection");
    }
}
