use std::time::Duration;

use bytes::Bytes;
use capataz_contracts::v1::{self, connect_request::Frame as Say, connect_response::Frame as Hear};
use capataz_contracts::validate::INLINE_MAX;

use super::{Input, Lease, Output, Protocol};
use crate::serve::{Answer, Order, Report};

fn reference(token: u64) -> v1::LeaseRef {
    v1::LeaseRef { run_id: "run".to_owned(), wave: 1, task: 2, lease: token }
}

fn lease(token: u64) -> Lease {
    reference(token).into()
}

fn agent(name: &str, max_concurrency: u32) -> v1::Agent {
    v1::Agent { name: name.to_owned(), max_concurrency, ..v1::Agent::default() }
}

fn output(size: usize) -> v1::Payload {
    let data = Some(v1::payload::Data::Inline(Bytes::from(vec![b'x'; size])));
    v1::Payload { media_type: "text/plain".to_owned(), data }
}

fn done() -> Answer {
    Answer::Completed { output: output(1), log: String::new(), usage: None }
}

fn completed(token: u64) -> Output {
    let lease = Some(reference(token));
    Output::Say(Say::Completed(v1::Completed { lease, output: Some(output(1)), ..v1::Completed::default() }))
}

fn ack(token: u64) -> Output {
    Output::Say(Say::Ack(v1::Ack { lease: Some(reference(token)) }))
}

fn says_progress(token: u64, message: &str) -> Output {
    let (lease, message) = (Some(reference(token)), Some(message.to_owned()));
    Output::Say(Say::Progress(v1::Progress { lease, message, ..v1::Progress::default() }))
}

fn assignment(token: u64) -> v1::Assignment {
    v1::Assignment { lease: Some(reference(token)), agent: "a".to_owned(), ..v1::Assignment::default() }
}

/// A worker that is driven by hand.
struct Worker(Protocol);

impl Worker {
    /// Not connected.
    fn new() -> Self {
        Self(Protocol::new("w-1".to_owned(), vec![agent("a", 3)], INLINE_MAX).unwrap())
    }

    /// Connected and welcome.
    fn welcome() -> Self {
        let mut worker = Self::new();
        worker.hears_hello(&[]);
        worker.is_welcomed(&[]);
        worker
    }

    #[track_caller]
    fn hears_hello(&mut self, held: &[u64]) {
        let outputs = self.0.handle(Input::Connected);
        let [Output::Say(Say::Hello(hello))] = outputs.as_slice() else { panic!("{outputs:?}") };
        assert_eq!(hello.held, held.iter().copied().map(reference).collect::<Vec<_>>());
        assert_eq!((hello.worker_id.as_str(), hello.slots), ("w-1", 3));
    }

    fn is_welcomed(&mut self, reattached: &[u64]) -> Vec<Output> {
        self.hears(Hear::Welcome(v1::Welcome {
            heartbeat_interval_ms: 5_000,
            ack_timeout_ms: 10_000,
            silence_limit_ms: 15_000,
            reattached: reattached.iter().copied().map(reference).collect(),
        }))
    }

    fn hears(&mut self, frame: Hear) -> Vec<Output> {
        self.0.handle(Input::Heard(frame))
    }

    #[track_caller]
    fn begins(&mut self, token: u64) {
        let outputs = self.hears(Hear::Assignment(assignment(token)));
        assert_eq!(outputs, [ack(token), Output::Begin(lease(token), assignment(token))]);
    }

    fn ends(&mut self, token: u64) -> Vec<Output> {
        self.0.handle(Input::Ended(lease(token), done()))
    }

    fn reports(&mut self, token: u64, message: &str) -> Vec<Output> {
        self.0.handle(Input::Progress(
            lease(token),
            Report { message: Some(message.to_owned()), ..Report::default() },
        ))
    }

    fn loses_its_connection(&mut self) {
        assert_eq!(self.0.handle(Input::Disconnected), []);
    }

    fn cancel(&mut self, token: u64) -> Vec<Output> {
        let reason = v1::CancelReason::AttemptTimeout as i32;
        self.hears(Hear::Cancel(v1::Cancel { lease: Some(reference(token)), reason, grace_ms: 250 }))
    }
}

#[test]
fn an_assignment_is_acknowledged_and_begun_once_however_often_it_comes() {
    let mut worker = Worker::welcome();
    worker.begins(1);
    assert_eq!(worker.hears(Hear::Assignment(assignment(1))), [ack(1)]);
    assert_eq!(worker.ends(1), [completed(1)]);
    // It was done; the answer is what the shard has not heard.
    assert_eq!(worker.hears(Hear::Assignment(assignment(1))), [completed(1)]);
}

#[test]
fn an_answer_is_said_until_it_is_confirmed() {
    for confirmation in [
        Hear::ResultAccepted(v1::ResultAccepted { lease: Some(reference(1)) }),
        Hear::ResultRefused(v1::ResultRefusedFrame {
            lease: Some(reference(1)),
            reason: v1::RefusalReason::StaleLease as i32,
            error: None,
        }),
    ] {
        let mut worker = Worker::welcome();
        worker.begins(1);
        worker.loses_its_connection();
        // Nobody is there to hear it.
        assert_eq!(worker.ends(1), []);
        for _ in 0..2 {
            worker.hears_hello(&[1]);
            // Not in the list of what goes on, and said all the same: the shard refuses it where it knows better.
            assert!(worker.is_welcomed(&[]).contains(&completed(1)));
            worker.loses_its_connection();
        }
        worker.hears_hello(&[1]);
        worker.is_welcomed(&[1]);
        assert_eq!(worker.hears(confirmation), []);
        worker.loses_its_connection();
        worker.hears_hello(&[]);
        assert!(!worker.is_welcomed(&[]).contains(&completed(1)));
    }
}

#[test]
fn nothing_is_said_before_the_hello_is_answered() {
    let mut worker = Worker::welcome();
    worker.begins(1);
    worker.begins(2);
    worker.loses_its_connection();
    worker.hears_hello(&[1, 2]);
    assert_eq!(worker.ends(1), []);
    assert_eq!(worker.reports(2, "first"), []);
    assert_eq!(worker.reports(2, "half"), []);
    assert_eq!(worker.0.handle(Input::Beat), []);
    let said = worker.is_welcomed(&[1, 2]);
    assert_eq!(said[..2], [completed(1), says_progress(2, "half")]);
    assert_eq!(worker.0.handle(Input::Beat), [Output::Say(Say::Heartbeat(v1::Heartbeat {}))]);
}

#[test]
fn work_goes_on_where_its_lease_does_and_is_abandoned_where_it_does_not() {
    let mut worker = Worker::welcome();
    worker.begins(1);
    worker.begins(2);
    worker.loses_its_connection();
    worker.hears_hello(&[1, 2]);
    let outputs = worker.is_welcomed(&[2]);
    assert_eq!(outputs.first(), Some(&Output::Abandon(lease(1))));
    assert_eq!(worker.ends(1), [], "what was abandoned has no answer");
    assert_eq!(worker.ends(2), [completed(2)]);
}

#[test]
fn a_heartbeat_comes_twice_as_often_as_the_shard_asks() {
    let mut worker = Worker::new();
    worker.hears_hello(&[]);
    assert_eq!(worker.is_welcomed(&[]), [Output::BeatEvery(Duration::from_millis(2_500))]);
    // A shard that says nonsense is spoken to as before.
    for interval in [i64::MIN, 0, 1] {
        let welcome = v1::Welcome { heartbeat_interval_ms: interval, ..v1::Welcome::default() };
        assert_eq!(worker.hears(Hear::Welcome(welcome)), []);
    }
}

#[test]
fn orders_reach_work_that_goes_on_and_no_other() {
    let mut worker = Worker::welcome();
    worker.begins(1);
    let grace = Duration::from_millis(250);
    assert_eq!(worker.cancel(1), [Output::Order(lease(1), Order::Cancel { grace })]);
    assert_eq!(worker.cancel(9), []);
    let extended = |cancel_withdrawn| {
        let lease = Some(reference(1));
        Hear::DeadlineExtended(v1::DeadlineExtended {
            lease,
            deadline_ms: 1,
            cancel_withdrawn,
            remaining_ms: 1,
        })
    };
    assert_eq!(worker.hears(extended(false)), []);
    assert_eq!(worker.hears(extended(true)), [Output::Order(lease(1), Order::Withdraw)]);
    worker.ends(1);
    assert_eq!(worker.cancel(1), [], "its answer is on the way");
}

#[test]
fn a_revoked_lease_is_forgotten_with_its_work_and_its_answer() {
    let mut worker = Worker::welcome();
    worker.begins(1);
    worker.begins(2);
    worker.ends(2);
    let revoked = |token| Hear::LeaseRevoked(v1::LeaseRevoked { lease: Some(reference(token)) });
    assert_eq!(worker.hears(revoked(1)), [Output::Abandon(lease(1))]);
    assert_eq!(worker.hears(revoked(2)), []);
    // The end of the work and the revocation may cross.
    assert_eq!(worker.ends(1), []);
    worker.loses_its_connection();
    worker.hears_hello(&[]);
}

#[test]
fn progress_is_said_while_the_work_goes_on() {
    let mut worker = Worker::welcome();
    worker.begins(1);
    assert_eq!(worker.reports(1, "half"), [says_progress(1, "half")]);
    assert_eq!(worker.reports(9, "of nothing"), []);
    worker.ends(1);
    assert_eq!(worker.reports(1, "too late"), []);
}

#[test]
fn a_draining_shard_gets_what_is_held_and_no_further_connection() {
    let mut worker = Worker::welcome();
    worker.begins(1);
    worker.hears(Hear::Drain(v1::Drain {}));
    assert!(!worker.0.is_over());
    // It was on its way when the shard began to drain.
    worker.begins(2);
    worker.ends(1);
    worker.ends(2);
    worker.loses_its_connection();
    assert!(!worker.0.is_over(), "two answers are not confirmed");
    worker.hears_hello(&[1, 2]);
    worker.is_welcomed(&[]);
    worker.hears(Hear::Drain(v1::Drain {}));
    for token in [1, 2] {
        worker.hears(Hear::ResultAccepted(v1::ResultAccepted { lease: Some(reference(token)) }));
    }
    assert!(worker.0.is_over());
}

#[test]
fn an_answer_that_breaks_the_rules_is_kept_and_said_as_a_failure() {
    let mut worker = Worker::welcome();
    worker.begins(1);
    let large = Answer::Completed { output: output(INLINE_MAX + 1), log: "said".to_owned(), usage: None };
    let outputs = worker.0.handle(Input::Ended(lease(1), large));
    let [Output::Say(Say::Failed(failed))] = outputs.as_slice() else { panic!("{outputs:?}") };
    assert_eq!(failed.error.as_ref().map(|error| error.code.as_str()), Some("OUTPUT_TOO_LARGE"));
    assert_eq!((failed.lease.clone(), failed.log.as_str()), (Some(reference(1)), "said"));
    // More may be said by whoever agreed on it with the engine.
    let mut browsers = Protocol::new("b".to_owned(), vec![agent("a", 1)], INLINE_MAX + 1).unwrap();
    browsers.handle(Input::Connected);
    browsers.handle(Input::Heard(Hear::Welcome(v1::Welcome::default())));
    browsers.handle(Input::Heard(Hear::Assignment(assignment(1))));
    let large = Answer::Completed { output: output(INLINE_MAX + 1), log: String::new(), usage: None };
    let outputs = browsers.handle(Input::Ended(lease(1), large));
    assert!(matches!(outputs.as_slice(), [Output::Say(Say::Completed(_))]), "{outputs:?}");
}

#[test]
fn what_a_shard_would_refuse_of_a_hello_is_said_before_there_is_one() {
    let refused = |id: &str, agents| Protocol::new(id.to_owned(), agents, INLINE_MAX).unwrap_err();
    assert_eq!(refused("w", Vec::new())[0].path, "agents");
    assert_eq!(refused("w", vec![agent("", 1)])[0].path, "agents[0].name");
    assert_eq!(refused("not an id", vec![agent("a", 1)])[0].path, "worker_id");
    // As many slots as the agents together, within what a worker may have.
    let many = Protocol::new("w".to_owned(), vec![agent("a", 0), agent("b", u32::MAX)], INLINE_MAX);
    assert_eq!(many.unwrap().hello.slots, 10_000);
}

#[test]
fn what_is_served_anew_is_said_on_the_connection_and_leaves_what_is_held_as_it_is() {
    let mut worker = Worker::welcome();
    worker.0.handle(Input::Heard(Hear::Assignment(assignment(1))));
    let outputs = worker.0.handle(Input::Serves(vec![agent("a", 2), agent("b", 3)]));
    let [Output::Say(Say::Hello(hello))] = outputs.as_slice() else { panic!("{outputs:?}") };
    let names: Vec<&str> = hello.agents.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(
        (names, hello.slots, hello.held.len()),
        (vec!["a", "b"], 6, 0),
        "what is held takes no slot of theirs"
    );
    // It goes on, and the next connection begins with the newest.
    assert_eq!(worker.0.handle(Input::Ended(lease(1), done())), [completed(1)]);
    worker.0.handle(Input::Disconnected);
    assert_eq!(worker.0.handle(Input::Serves(Vec::new())), [], "there is nobody to say it to");
    let outputs = worker.0.handle(Input::Connected);
    let [Output::Say(Say::Hello(hello))] = outputs.as_slice() else { panic!("{outputs:?}") };
    assert_eq!((hello.agents.len(), hello.slots, hello.held.len()), (0, 2, 1));
}
