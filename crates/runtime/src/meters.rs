//! What the shards have done since the process began, in numbers, for whoever watches a daemon.
//!
//! Counting costs the shards' thread some additions for each event, and nothing waits for it. What was before the process
//! began is in the log.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use capataz_shard::feed::split;
use capataz_shard::shard::Published;
use prost::Message;

/// Durations, by their length.
#[derive(Debug)]
pub struct Timing {
    bounds: &'static [f64],
    /// How many were so long or shorter and longer than the bound before; the last are longer than all bounds.
    counts: Vec<AtomicU64>,
    micros: AtomicU64,
}

/// Something that is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun(Instant);

impl Begun {
    #[expect(
        clippy::disallowed_methods,
        reason = "what is measured is the machine; nothing is decided by it"
    )]
    pub(crate) fn now() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn took(self) -> Duration {
        self.0.elapsed()
    }
}

/// Durations that were counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// Upper bounds in seconds, the last one infinite, and how many lay between each and the bound before.
    pub buckets: Vec<(f64, u64)>,
    /// All of them together, in seconds.
    pub sum: f64,
    pub count: u64,
}

impl Timing {
    fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, micros: AtomicU64::new(0) }
    }

    pub(crate) fn took(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let place = self.bounds.partition_point(|bound| *bound < seconds);
        if let Some(count) = self.counts.get(place) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    #[must_use]
    pub fn counted(&self) -> Counted {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        Counted {
            buckets,
            sum: Duration::from_micros(self.micros.load(Ordering::Relaxed)).as_secs_f64(),
            count,
        }
    }
}

/// From a tenth of a millisecond to a second: turns and commits.
const SHORT: &[f64] = &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0];
/// From a tenth of a second to a day: tasks and runs.
const LONG: &[f64] = &[0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0];

/// Things of one kind, by a number that the contract gives to each.
pub type Numbered = [AtomicU64; 6];

/// The numbers.
#[derive(Debug)]
pub struct Meters {
    /// How long the shards kept everybody else waiting, each time.
    pub turns: Timing,
    /// How long appends took to be durable, those that share a commit together.
    pub commits: Timing,
    /// From a task's first lease to its end.
    pub tasks: Timing,
    /// From a run's acceptance to its end, by its own clock.
    pub runs: Timing,
    pub events: AtomicU64,
    pub appends: AtomicU64,
    /// Runs that were accepted, by `RunKind`; forks are not among them.
    pub accepted: Numbered,
    pub forked: AtomicU64,
    /// Runs that have ended, by `RunOutcome`.
    pub finished: Numbered,
    /// Tasks that have ended, by `ResultStatus`.
    pub settled: Numbered,
    /// Attempts that were given to workers, a lease each.
    pub leased: AtomicU64,
    /// Attempts that failed and were followed by another one.
    pub retried: AtomicU64,
    pub leases_lost: AtomicU64,
    pub questions: AtomicU64,
    pub children: AtomicU64,
    /// Runs that have not ended.
    pub unfinished: AtomicU64,
    /// Where those are who read the whole log.
    readers: Mutex<Vec<Weak<AtomicU64>>>,
}

impl Default for Meters {
    fn default() -> Self {
        Self {
            turns: Timing::new(SHORT),
            commits: Timing::new(SHORT),
            tasks: Timing::new(LONG),
            runs: Timing::new(LONG),
            events: AtomicU64::new(0),
            appends: AtomicU64::new(0),
            accepted: Numbered::default(),
            forked: AtomicU64::new(0),
            finished: Numbered::default(),
            settled: Numbered::default(),
            leased: AtomicU64::new(0),
            retried: AtomicU64::new(0),
            leases_lost: AtomicU64::new(0),
            questions: AtomicU64::new(0),
            children: AtomicU64::new(0),
            unfinished: AtomicU64::new(0),
            readers: Mutex::default(),
        }
    }
}

impl Meters {
    /// Events are durable.
    pub(crate) fn published(&self, published: &Published) {
        self.appends.fetch_add(1, Ordering::Relaxed);
        for event in split(&published.events) {
            self.event(event);
        }
    }

    fn event(&self, event: Bytes) {
        self.events.fetch_add(1, Ordering::Relaxed);
        let Ok(event) = slim::Event::decode(event) else { return };
        let Some(body) = event.body else { return };
        let milliseconds =
            |milliseconds: i64| Duration::from_millis(u64::try_from(milliseconds).unwrap_or_default());
        let one = |counter: &AtomicU64| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        match body {
            slim::Body::RunAccepted(accepted) => add(&self.accepted, accepted.kind),
            slim::Body::RunForked(_) => one(&self.forked),
            slim::Body::TaskLeased(_) => one(&self.leased),
            slim::Body::TaskLeaseLost(_) => one(&self.leases_lost),
            slim::Body::TaskAttemptFailed(_) => one(&self.retried),
            slim::Body::QuestionAsked(_) => one(&self.questions),
            slim::Body::ChildNamed(_) => one(&self.children),
            slim::Body::TaskSettled(settled) => {
                add(&self.settled, settled.status);
                // One that nobody had has no duration, and one that was taken over has that of another run.
                if settled.attempts > 0 && !settled.taken_over {
                    self.tasks.took(milliseconds(settled.duration_ms));
                }
            }
            slim::Body::RunFinished(finished) => {
                add(&self.finished, finished.outcome);
                self.runs.took(milliseconds(event.elapsed_ms));
            }
        }
    }

    /// Somebody reads the whole log from here on, and says at which position it is.
    pub(crate) fn reads(&self, position: u64) -> Arc<AtomicU64> {
        let place = Arc::new(AtomicU64::new(position));
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.retain(|reader| reader.strong_count() > 0);
        readers.push(Arc::downgrade(&place));
        place
    }

    /// How many read the whole log, and the position of the one who is furthest behind.
    #[must_use]
    pub fn readers(&self) -> (u64, Option<u64>) {
        let readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let places = readers.iter().filter_map(|reader| Some(reader.upgrade()?.load(Ordering::Relaxed)));
        places.fold((0, None), |(count, furthest), place| {
            (count + 1, Some(furthest.map_or(place, |furthest: u64| furthest.min(place))))
        })
    }
}

/// One more of that number.
fn add(counters: &Numbered, number: i32) {
    let counter = usize::try_from(number).ok().and_then(|number| counters.get(number));
    if let Some(counter) = counter {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Of events what is counted, by the numbers of event.proto: the rest is passed over without being read.
mod slim {
    use prost::{Message, Oneof};

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Event {
        #[prost(int64, tag = "4")]
        pub(super) elapsed_ms: i64,
        #[prost(oneof = "Body", tags = "10, 13, 14, 15, 19, 23, 28, 32, 36")]
        pub(super) body: Option<Body>,
    }

    #[derive(Clone, PartialEq, Oneof)]
    pub(super) enum Body {
        #[prost(message, tag = "10")]
        RunAccepted(Accepted),
        #[prost(message, tag = "13")]
        TaskLeased(Nothing),
        #[prost(message, tag = "14")]
        TaskLeaseLost(Nothing),
        #[prost(message, tag = "15")]
        TaskAttemptFailed(Nothing),
        #[prost(message, tag = "19")]
        TaskSettled(Settled),
        #[prost(message, tag = "23")]
        QuestionAsked(Nothing),
        #[prost(message, tag = "28")]
        RunFinished(Finished),
        #[prost(message, tag = "32")]
        ChildNamed(Nothing),
        #[prost(message, tag = "36")]
        RunForked(Nothing),
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Nothing {}

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Accepted {
        #[prost(int32, tag = "1")]
        pub(super) kind: i32,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Settled {
        #[prost(int32, tag = "5")]
        pub(super) status: i32,
        #[prost(uint32, tag = "8")]
        pub(super) attempts: u32,
        #[prost(int64, tag = "9")]
        pub(super) duration_ms: i64,
        #[prost(bool, tag = "15")]
        pub(super) taken_over: bool,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Finished {
        #[prost(int32, tag = "1")]
        pub(super) outcome: i32,
    }
}

#[cfg(test)]
mod tests {
    use capataz_contracts::v1::{self, event::Body};
    use capataz_store::{Position, RunId};

    use super::*;

    fn published(bodies: Vec<Body>) -> Published {
        let mut events = Vec::new();
        for (place, body) in bodies.into_iter().enumerate() {
            let seq = place as u64 + 1;
            let event = v1::Event { seq, elapsed_ms: 61_000, body: Some(body), ..v1::Event::default() };
            event.encode_length_delimited(&mut events).unwrap();
        }
        let run = RunId(uuid::Uuid::nil());
        Published { position: Position(1), run, first_seq: 1, count: 0, events: events.into(), facts: None }
    }

    #[test]
    fn each_event_is_counted_as_what_it_is() {
        let settled = |status: v1::ResultStatus, attempts, duration_ms| {
            Body::TaskSettled(Box::new(v1::TaskSettled {
                status: status.into(),
                attempts,
                duration_ms,
                log: "a text that nobody counts".to_owned(),
                ..v1::TaskSettled::default()
            }))
        };
        let accepted = v1::RunAccepted { kind: 2, ..v1::RunAccepted::default() };
        let meters = Meters::default();
        meters.published(&published(vec![
            Body::RunAccepted(Box::new(accepted)),
            Body::RunForked(v1::RunForked::default()),
            Body::TaskLeased(v1::TaskLeased { worker: "w".into(), ..v1::TaskLeased::default() }),
            Body::TaskLeaseLost(v1::TaskLeaseLost::default()),
            Body::TaskAttemptFailed(v1::TaskAttemptFailed::default()),
            Body::QuestionAsked(Box::default()),
            Body::ChildNamed(v1::ChildNamed::default()),
            Body::RunPaused(v1::RunPaused::default()),
            settled(v1::ResultStatus::Success, 1, 50),
            settled(v1::ResultStatus::Timeout, 2, 2_000),
            settled(v1::ResultStatus::Cancelled, 0, 0),
            Body::RunFinished(v1::RunFinished {
                outcome: v1::RunOutcome::Failed.into(),
                ..v1::RunFinished::default()
            }),
        ]));
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let values = |counters: &Numbered| counters.each_ref().map(value);
        assert_eq!((value(&meters.appends), value(&meters.events)), (1, 12));
        // The numbers of the contract: ASK is 2, SUCCESS 1, TIMEOUT 3, CANCELLED 4, FAILED 3.
        assert_eq!(values(&meters.accepted), [0, 0, 1, 0, 0, 0]);
        assert_eq!(values(&meters.settled), [0, 1, 0, 1, 1, 0]);
        assert_eq!(values(&meters.finished), [0, 0, 0, 1, 0, 0]);
        let ones = [
            &meters.forked,
            &meters.leased,
            &meters.leases_lost,
            &meters.retried,
            &meters.questions,
            &meters.children,
        ];
        assert_eq!(ones.map(value), [1; 6]);
        let tasks = meters.tasks.counted();
        assert_eq!((tasks.count, tasks.sum), (2, 2.05));
        assert_eq!(
            tasks.buckets.iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>(),
            [&(0.1, 1), &(5.0, 1)]
        );
        assert_eq!(meters.runs.counted().buckets[6], (300.0, 1));
    }

    #[test]
    fn what_is_no_event_and_what_is_of_an_unknown_kind_is_counted_as_nothing_else() {
        let meters = Meters::default();
        meters.event(Bytes::from_static(b"\xff\xff\xff"));
        meters.event(Bytes::new());
        let other = v1::RunFinished { outcome: 77, ..v1::RunFinished::default() };
        meters.published(&published(vec![Body::RunFinished(other)]));
        assert_eq!(meters.finished.each_ref().map(|counter| counter.load(Ordering::Relaxed)), [0; 6]);
        assert_eq!(meters.events.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_duration_on_a_bound_is_not_above_it_and_the_longest_are_above_all() {
        let timing = Timing::new(&[0.5, 1.0]);
        for millis in [0, 500, 501, 1_000, 90_000] {
            timing.took(Duration::from_millis(millis));
        }
        let counted = timing.counted();
        assert_eq!(counted.buckets, [(0.5, 2), (1.0, 2), (f64::INFINITY, 1)]);
        assert_eq!((counted.count, counted.sum), (5, 92.001));
    }

    #[test]
    fn readers_that_are_gone_are_not_counted_and_the_slowest_of_the_others_is_told() {
        let meters = Meters::default();
        assert_eq!(meters.readers(), (0, None));
        let (slow, fast) = (meters.reads(3), meters.reads(3));
        fast.store(9, Ordering::Relaxed);
        assert_eq!(meters.readers(), (2, Some(3)));
        drop(slow);
        assert_eq!(meters.readers(), (1, Some(9)));
    }
}
