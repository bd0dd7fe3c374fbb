//! Connections that are dead at one end only: the core by itself, in a time that the test moves on.

use capataz_contracts::v1::{self, connect_request::Frame as Say, connect_response::Frame as Hear};
use capataz_crew::{CloseReason, ConnectionId, Mono, Now};
use capataz_shard::driver::{Carried, Wire};
use capataz_shard::shard::Config;
use capataz_shard::{Driver, Input, Output, Touched};

use crate::support::{SHARD, hello, recovered};

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
        bench.input(recovered(1, None));
        bench.input(hello(WORKER, "echo", 1));
        bench
    }

    fn input(&mut self, input: Input) {
        let mut outputs = Vec::new();
        self.core.handle(Now::alike(self.now), input, &mut outputs);
        self.outputs.extend(outputs.into_iter().map(|output| (self.now, output)));
    }

    fn say(&mut self, frame: Say) {
        self.input(Input::Frame { connection: WORKER, frame });
    }

    /// Moves the time on, and wakes the core whenever it wants to be woken.
    fn pass(&mut self, milliseconds: i64) {
        let until = self.now + milliseconds;
        while let Some(Mono(at)) = self.core.next_wake().filter(|at| at.0 <= until) {
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
            Output::Close { reason, .. } => Some((*at, reason.clone())),
            _ => None,
        })
    }
}

// S000-C3-04
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

#[test]
fn what_was_not_heard_while_the_daemon_stood_still_is_not_silence() {
    let mut bench = Bench::new();
    bench.pass(4_000);
    bench.say(Say::Heartbeat(v1::Heartbeat {}));
    // Suspended for an hour: nothing that is due is done, and nothing that comes is read.
    bench.now += 3_600_000;
    bench.input(Input::Wake);
    assert_eq!(bench.closed(), None);
    bench.say(Say::Heartbeat(v1::Heartbeat {}));
    bench.pass(4_000);
    assert_eq!(bench.closed(), None);
    // From then on silence counts as ever.
    let last_frame = bench.now - 4_000;
    bench.pass(60_000);
    let Some((at, CloseReason::Silent)) = bench.closed() else { panic!("not given up") };
    assert!(at - last_frame <= NOTICED_MS, "{} ms", at - last_frame);
}

#[test]
fn a_short_stall_is_no_silence_either_where_the_frames_are_still_unread() {
    let mut bench = Bench::new();
    bench.say(Say::Heartbeat(v1::Heartbeat {}));
    // The next one is late, and arrives while the daemon stands still.
    bench.pass(9_000);
    bench.now += 8_000;
    bench.input(Input::Wake);
    assert_eq!(bench.closed(), None);
    bench.say(Say::Heartbeat(v1::Heartbeat {}));
    bench.pass(14_000);
    assert_eq!(bench.closed(), None);
}

#[test]
fn nothing_that_comes_after_a_second_hello_counts() {
    let mut bench = Bench::new();
    let hello = v1::Hello { worker_id: "w".to_owned(), slots: 1, ..Default::default() };
    bench.say(Say::Hello(hello.clone()));
    assert!(matches!(bench.closed(), Some((_, CloseReason::Protocol))));
    let heard = bench.heard_at().len();
    bench.say(Say::Hello(hello.clone()));
    assert_eq!(bench.heard_at().len(), heard, "nobody is welcomed on a stream that was closed");
    // The end of the stream is seen: its number means nothing any more.
    bench.input(Input::Disconnected { connection: WORKER });
    bench.say(Say::Hello(hello));
    assert_eq!(bench.heard_at().len(), heard + 1);
}

/// Its result never arrived, which the crew's next message shows, also while the shard is read again.
#[test]
fn a_worker_whose_result_got_lost_before_its_shard_is_read_again_has_to_come_back() {
    let mut bench = Bench::new();
    let lease =
        v1::LeaseRef { run_id: "00000000-0000-7000-8000-000000000001".to_owned(), ..Default::default() };
    bench.say(Say::Failed(v1::Failed { lease: Some(lease.clone()), ..Default::default() }));
    bench.input(Input::CommitFailed { shard: SHARD });
    assert_eq!(bench.closed(), None, "it has its answer");
    bench.input(recovered(2, Some(Touched::default())));
    let mut wire = Cut;
    let said = Say::Failed(v1::Failed { lease: Some(lease), ..Default::default() });
    let mut outputs = Vec::new();
    let frame = Input::Frame { connection: WORKER, frame: said };
    bench.core.handle_over(Now::alike(bench.now), frame, &mut wire, &mut outputs);
    bench.input(Input::CommitFailed { shard: SHARD });
    bench.pass(5_000);
    assert_eq!(bench.closed(), None, "nobody reads the shard");
    bench.input(recovered(3, Some(Touched::default())));
    assert!(matches!(bench.closed(), Some((_, CloseReason::Restarting))));
}

/// A wire that nothing passes.
struct Cut;

impl Wire for Cut {
    fn carry(&mut self, _: Carried) -> Option<Carried> {
        None
    }
}

#[test]
fn a_clock_that_runs_back_makes_nobody_silent() {
    let mut bench = Bench::new();
    for _ in 0..10 {
        bench.pass(1_000);
        bench.say(Say::Heartbeat(v1::Heartbeat {}));
    }
    let (latest, back) = (bench.now, 8_000);
    bench.now -= back;
    bench.say(Say::Heartbeat(v1::Heartbeat {}));
    // What is heard then is heard at the latest moment that there was.
    let limit = bench.welcome().silence_limit_ms;
    while bench.now < latest + limit - 1_000 {
        bench.now += 1_000;
        bench.input(Input::Wake);
    }
    assert_eq!(bench.closed(), None);
    bench.pass(NOTICED_MS);
    assert!(matches!(bench.closed(), Some((_, CloseReason::Silent))));
}
