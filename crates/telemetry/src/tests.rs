//! Spans of events that are written by hand: ids by the rule of `capataz_contracts::trace`, everything else as counted.

use std::collections::BTreeMap;

use capataz_contracts::EventHead;
use capataz_contracts::trace::{AWAITED, TraceContext, span_id};
use capataz_contracts::v1::{self, event::Body};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use proptest::prelude::*;
use prost::Message as _;

use super::*;

const RUN: [u8; 16] = *b"run-of-this-test";
const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// The log of a run that is written event by event; the first one is the 1st, and each comes 1 ms after the one before.
#[derive(Default)]
struct Log(Vec<v1::Event>);

impl Log {
    fn add(&mut self, body: Body) -> &mut Self {
        let seq = self.0.len() as u64 + 1;
        self.0.push(v1::Event { seq, at_ms: 1_000 + seq as i64, body: Some(body), ..v1::Event::default() });
        self
    }

    fn accepted(traceparent: &str) -> Self {
        let task = |name: &str| v1::Task { name: name.into(), agent: "coder".into(), ..v1::Task::default() };
        let wave = v1::Wave { name: Some("look".into()), tasks: vec![task("a"), task("b")], policy: None };
        let after = v1::Wave { name: Some("end".into()), tasks: vec![task("c"), task("d")], policy: None };
        let plan = v1::Plan { name: "tour".into(), waves: vec![wave, after], ..v1::Plan::default() };
        let lineage = v1::Lineage { traceparent: traceparent.into(), ..v1::Lineage::default() };
        let mut log = Self::default();
        log.add(Body::RunAccepted(Box::new(v1::RunAccepted {
            kind: v1::RunKind::Plan.into(),
            labels: BTreeMap::from([("team".into(), "red".into())]),
            lineage: Some(lineage),
            work: Some(v1::run_accepted::Work::Plan(plan)),
            parent: None,
        })));
        log.add(Body::WaveStarted(v1::WaveStarted { wave: 0 }));
        log
    }

    fn leased(&mut self, task: u32, attempt: u32) -> &mut Self {
        self.add(Body::TaskLeased(v1::TaskLeased {
            task,
            attempt,
            activation: 1,
            worker: "w".into(),
            lease: token(self.0.len() as u64 + 1),
            ..v1::TaskLeased::default()
        }))
    }

    fn settled(&mut self, task: u32, error: Option<&str>) -> &mut Self {
        let status = if error.is_some() { v1::ResultStatus::Error } else { v1::ResultStatus::Success };
        let error = error.map(|code| v1::Error {
            code: code.into(),
            message: "it broke".into(),
            ..v1::Error::default()
        });
        self.add(Body::TaskSettled(Box::new(v1::TaskSettled {
            task,
            status: status.into(),
            error,
            ..v1::TaskSettled::default()
        })))
    }

    fn finished(&mut self) -> &mut Self {
        let evaluation = v1::Evaluation { should_continue: true, ..v1::Evaluation::default() };
        self.add(Body::WaveFinished(v1::WaveFinished { wave: 0, evaluation: Some(evaluation) }));
        self.add(Body::RunFinished(v1::RunFinished {
            outcome: v1::RunOutcome::Succeeded.into(),
            ..v1::RunFinished::default()
        }))
    }

    fn spans(&self) -> Vec<Span> {
        let (mut projection, mut spans) = (Projection::default(), Vec::new());
        for event in &self.0 {
            projection.apply(RUN, event, &mut spans).unwrap();
        }
        read(spans)
    }
}

/// Spans as whoever gets them reads them.
fn read(spans: Vec<crate::Span>) -> Vec<Span> {
    spans.into_iter().map(|span| Span::decode(span.0).unwrap()).collect()
}

impl Log {
    /// The task of the first wave is taken back, and with it whatever the later wave had done.
    fn taken_back(&mut self, task: u32) -> &mut Self {
        let taken = |wave, task| v1::TaskTakenBack { wave, task, activation: 2, states: Vec::new() };
        self.add(Body::TaskRolledBack(v1::TaskRolledBack {
            wave: 0,
            task,
            taken_back: vec![taken(0, task), taken(1, 0)],
            cascade: true,
            request_id: "r".into(),
        }))
    }

    fn leased_in_the_later_wave(&mut self, task: u32) -> &mut Self {
        let lease = token(self.0.len() as u64 + 1);
        self.add(Body::TaskLeased(v1::TaskLeased { wave: 1, task, lease, ..v1::TaskLeased::default() }))
    }
}

/// The token of a lease that the event `seq` gives: its lower half is the mark of a claim.
fn token(seq: u64) -> u64 {
    seq << 32 | 0xABCD
}

fn named<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

/// An attribute as text; empty where there is none.
fn said(span: &Span, key: &str) -> String {
    let attribute = span.attributes.iter().find(|attribute| attribute.key == key);
    match attribute.and_then(|attribute| attribute.value.clone()?.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::BoolValue(truth)) => truth.to_string(),
        _ => String::new(),
    }
}

fn millis(span: &Span) -> (u64, u64) {
    (span.start_time_unix_nano / 1_000_000, span.end_time_unix_nano / 1_000_000)
}

#[test]
fn a_run_is_a_tree_of_its_wave_and_its_attempts() {
    let mut log = Log::accepted("");
    log.leased(0, 1).leased(1, 1).settled(1, None).settled(0, Some("API_ERROR")).finished();
    let spans = log.spans();
    let ids: Vec<_> = spans.iter().map(|span| (span.name.as_str(), span.span_id.clone())).collect();
    // The numbers are those of the events: the run's first is 1, its wave begins with 2, and 8 is its end; the leases have
    // their tokens.
    let id = |seq| span_id(RUN, seq).to_vec();
    let lease = |seq| id(token(seq));
    assert_eq!(
        ids,
        [("plan tour", id(1)), ("b", lease(4)), ("a", lease(3)), ("wave look", id(2)), ("plan tour", id(8))]
    );
    assert!(spans.iter().all(|span| span.trace_id == RUN));
    let parents: Vec<_> = spans.iter().map(|span| span.parent_span_id.clone()).collect();
    assert_eq!(parents, [vec![], id(2), id(2), id(1), id(1)]);
    let times: Vec<_> = spans.iter().map(millis).collect();
    assert_eq!(times, [(1001, 1001), (1004, 1005), (1003, 1006), (1002, 1007), (1001, 1008)]);
    assert_eq!(spans[4].links[0].span_id, id(1));
    let failed = spans[2].status.clone().unwrap();
    assert_eq!((failed.code, failed.message.as_str()), (StatusCode::Error.into(), "API_ERROR"));
    assert_eq!(said(&spans[2], "error.type"), "API_ERROR");
    assert_eq!(
        (said(&spans[0], "capataz.label.team"), said(&spans[4], "capataz.run.outcome")),
        ("red".into(), "succeeded".into())
    );
    assert_eq!(
        (said(&spans[1], "capataz.agent"), said(&spans[1], "capataz.waited_ms")),
        ("coder".into(), "2".into())
    );
}

#[test]
fn a_run_belongs_to_the_span_of_whoever_started_it() {
    let mut log = Log::accepted(CALLER);
    log.finished();
    let caller = TraceContext::parse(CALLER).unwrap();
    let spans = log.spans();
    assert!(spans.iter().all(|span| span.trace_id == caller.trace_id));
    assert_eq!(spans[0].parent_span_id, caller.span_id);
    // Of another process, and the trace is recorded (OTLP, SpanFlags).
    assert_eq!(spans[0].flags, 0x301);
}

#[test]
fn a_trace_that_nobody_records_has_no_spans() {
    let mut log = Log::accepted(&CALLER.replace("-01", "-00"));
    log.leased(0, 1).settled(0, None).finished();
    assert_eq!(log.spans(), []);
}

#[test]
fn each_try_is_a_span_that_says_how_it_ended_and_what_the_next_waited_for() {
    let mut log = Log::accepted("");
    let error = v1::Error { code: "RATE_LIMIT".into(), ..v1::Error::default() };
    log.leased(0, 1)
        .add(Body::TaskAttemptFailed(v1::TaskAttemptFailed {
            attempt: 1,
            error: Some(error),
            delay_ms: 500,
            ..v1::TaskAttemptFailed::default()
        }))
        .add(Body::TaskRetryDue(v1::TaskRetryDue::default()))
        .leased(0, 2)
        .add(Body::TaskLeaseLost(v1::TaskLeaseLost {
            reason: v1::LeaseLossReason::Silent.into(),
            ..v1::TaskLeaseLost::default()
        }))
        .leased(0, 2)
        .settled(0, None);
    let spans = log.spans();
    let tries = named(&spans, "a");
    let told: Vec<_> = tries
        .iter()
        .map(|span| {
            ["error.type", "capataz.retry_in_ms", "capataz.lease.lost", "capataz.waited_ms"]
                .map(|key| said(span, key))
        })
        .collect();
    assert_eq!(told, [["RATE_LIMIT", "500", "", "1"], ["WORKER_LOST", "", "SILENT", "1"], ["", "", "", "1"]]);
}

#[test]
fn a_task_that_ends_without_any_try_has_a_span_all_the_same() {
    let mut log = Log::accepted("");
    log.settled(0, Some("SCHEDULE_TO_START_TIMEOUT"));
    let spans = log.spans();
    assert_eq!(spans[1].span_id, span_id(RUN, 3));
    assert_eq!(spans[1].status.as_ref().unwrap().message, "SCHEDULE_TO_START_TIMEOUT");
}

#[test]
fn what_waits_for_a_child_has_the_id_that_the_child_says() {
    let child = uuid::Uuid::from_bytes(*b"child-of-the-run");
    let mut log = Log::accepted("");
    log.add(Body::ChildNamed(v1::ChildNamed {
        attempt: 1,
        run_id: child.to_string(),
        ..v1::ChildNamed::default()
    }));
    log.add(Body::ChildEnded(v1::ChildEnded {
        run_id: child.to_string(),
        outcome: Some(v1::RunOutcome::Failed.into()),
        ..v1::ChildEnded::default()
    }));
    log.settled(0, Some("API_ERROR"));
    let spans = log.spans();
    assert_eq!(spans[1].span_id, span_id(child.into_bytes(), AWAITED));
    assert_eq!(
        (said(&spans[1], "capataz.child.run.id"), said(&spans[1], "capataz.child.outcome")),
        (child.to_string(), "failed".into())
    );
}

#[test]
fn of_a_fork_only_its_own_part_has_spans() {
    let mut log = Log::accepted(CALLER);
    log.leased(0, 1);
    let mut past = Past::new(RUN);
    log.0.iter().for_each(|event| past.apply(event));
    let base = uuid::Uuid::from_bytes(*b"another run that");
    log.add(Body::RunForked(v1::RunForked { run_id: base.to_string(), seq: 3, ..v1::RunForked::default() }));
    log.leased(1, 1).settled(1, None).finished();
    let (mut projection, mut spans) = (Projection::default(), Vec::new());
    assert_eq!(projection.apply(RUN, &log.0[3], &mut spans), Err(Unknown));
    projection.recall(past, &mut spans);
    for event in &log.0[3..] {
        projection.apply(RUN, event, &mut spans).unwrap();
    }
    let spans = read(spans);
    let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    // Recalled is what the base was accepted with; a fork's own first span is that of its beginning.
    assert_eq!(names, ["plan tour", "plan tour", "b", "wave look", "plan tour"]);
    let spans = &spans[1..];
    assert!(spans.iter().all(|span| span.trace_id == RUN), "its trace is its own");
    assert_eq!(said(&spans[0], "capataz.run.forked_from"), base.to_string());
    assert_eq!(spans[2].start_time_unix_nano, 1_004_000_000, "it has been at work since it was forked");
}

#[test]
fn what_is_taken_back_ends_then_and_so_does_the_wave_after_it() {
    let mut log = Log::accepted("");
    log.leased(0, 1).settled(0, None).add(Body::WaveStarted(v1::WaveStarted { wave: 1 }));
    log.leased_in_the_later_wave(0).leased_in_the_later_wave(1).taken_back(0).leased(0, 1);
    let spans = log.spans();
    let ended: Vec<_> = spans.iter().map(|span| (span.name.as_str(), said(span, "error.type"))).collect();
    let rolled_back = || "ROLLED_BACK".to_owned();
    assert_eq!(
        ended,
        [
            ("plan tour", String::new()),
            ("a", String::new()),
            ("c", rolled_back()),
            ("d", rolled_back()),
            ("wave end", rolled_back()),
        ]
    );
}

#[test]
fn work_of_which_nobody_knows_what_became_ends_where_it_is_begun_again() {
    let mut log = Log::accepted("");
    log.leased(0, 1).add(Body::QuestionAsked(Box::default()));
    log.add(Body::TaskRetryDue(v1::TaskRetryDue::default())).leased(0, 1).settled(0, None);
    let spans = log.spans();
    let tries: Vec<String> = named(&spans, "a").iter().map(|span| said(span, "error.type")).collect();
    assert_eq!(tries, ["OUTCOME_UNKNOWN", ""]);
}

#[test]
fn nothing_that_somebody_wrote_is_in_a_span_but_names_and_labels() {
    let mut log = Log::accepted("");
    let question = v1::Question {
        question_id: "q-1".into(),
        text: "call pay with 4242?".into(),
        ..v1::Question::default()
    };
    log.add(Body::QuestionAsked(Box::new(v1::QuestionAsked {
        question: Some(question),
        wave: None,
        task: None,
    })));
    log.add(Body::RunCancelRequested(v1::RunCancelRequested { reason: "4242".into(), ..Default::default() }));
    log.leased(0, 1).settled(0, Some("API_ERROR")).finished();
    let told = format!("{:?}", log.spans());
    assert!(told.contains("q-1") && !told.contains("4242") && !told.contains("it broke"), "{told}");
}

#[test]
fn however_long_a_text_is_and_whatever_happens_a_span_has_its_bounds() {
    let mut log = Log::accepted("");
    for _ in 0..1_000 {
        log.add(Body::RunPaused(v1::RunPaused::default()));
    }
    log.settled(0, None).finished();
    if let Some(Body::RunAccepted(accepted)) = &mut log.0[0].body {
        accepted.labels.insert("long".to_owned(), "ñ".repeat(10_000));
    }
    let spans = log.spans();
    let whole = spans.last().unwrap();
    assert_eq!((whole.events.len(), whole.dropped_events_count), (128, 872));
    let label = said(&spans[0], "capataz.label.long");
    assert!(label.len() <= 1_024 + '…'.len_utf8() && label.ends_with('…'));
}

/// An event whose body has this number and says nothing.
fn empty(seq: u64, body: u32) -> v1::Event {
    let mut bytes = v1::Event { seq, at_ms: 1_000 + seq as i64, ..v1::Event::default() }.encode_to_vec();
    prost::encoding::message::encode(body, &(), &mut bytes);
    v1::Event::decode(bytes.as_slice()).unwrap()
}

#[test]
fn what_is_passed_over_would_have_made_nothing() {
    let mut log = Log::accepted("");
    log.leased(0, 1);
    let bodies: Vec<u32> = (10..=100).filter(|body| empty(4, *body).body.is_some()).collect();
    // As many as the contract has (proto/capataz/v1/event.proto).
    assert_eq!(bodies.len(), 67);
    let mut passed = 0;
    for body in bodies {
        let made = |passes: bool| {
            let (mut projection, mut spans) = (Projection::default(), Vec::new());
            log.0.iter().for_each(|event| projection.apply(RUN, event, &mut spans).unwrap());
            let has_passed = passes && projection.pass(RUN, EventHead { seq: 4, body });
            if !has_passed {
                projection.apply(RUN, &empty(4, body), &mut spans).unwrap();
            }
            let end =
                v1::RunFinished { outcome: v1::RunOutcome::Failed.into(), ..v1::RunFinished::default() };
            let end = v1::Event {
                seq: 5,
                at_ms: 1_005,
                body: Some(Body::RunFinished(end)),
                ..v1::Event::default()
            };
            // One of the events is the run's end itself.
            let _ = projection.apply(RUN, &end, &mut spans);
            (has_passed, spans)
        };
        let ((has_passed, spans), (_, expected)) = (made(true), made(false));
        assert_eq!(spans, expected, "{body}");
        passed += u32::from(has_passed);
    }
    assert!(passed > 20, "{passed}");
    // task_input_resolved, wave_decided, plan_begun and the first of a session.
    let mut projection = Projection::default();
    assert!([12, 30, 43, 50].into_iter().all(|body| projection.pass(RUN, EventHead { seq: 2, body })));
}

proptest! {
    /// Wherever a reader lost its place, and however often: the same spans, none missing, none under another id.
    #[test]
    fn whoever_begins_again_anywhere_makes_the_same_spans(
        deeds in prop::collection::vec((0_u8..10, 0_u32..2), 0..40),
        again in prop::collection::vec(0.0..1.0, 0..6),
    ) {
        let mut log = Log::accepted("");
        for (deed, task) in deeds {
            match deed {
                0 | 1 => log.leased(task, 1),
                2 => log.settled(task, None),
                3 => log.add(Body::TaskLeaseLost(v1::TaskLeaseLost { task, ..v1::TaskLeaseLost::default() })),
                4 => log.add(Body::WaveStarted(v1::WaveStarted { wave: 1 })),
                5 => log.leased_in_the_later_wave(task),
                6 => log.taken_back(task),
                7 => log.add(Body::TaskRetryDue(v1::TaskRetryDue { wave: 0, task })),
                _ => log.add(Body::RunPaused(v1::RunPaused::default())),
            };
        }
        log.finished();
        let whole = log.spans();
        let mut told: BTreeMap<Vec<u8>, Span> = BTreeMap::new();
        let mut places: Vec<usize> = again.iter().map(|place| (place * log.0.len() as f64) as usize).collect();
        places.insert(0, 0);
        for place in places {
            let (mut projection, mut spans) = (Projection::default(), Vec::new());
            for event in &log.0[place..] {
                if projection.apply(RUN, event, &mut spans) == Err(Unknown) {
                    let mut past = Past::new(RUN);
                    log.0[..event.seq as usize - 1].iter().for_each(|event| past.apply(event));
                    projection.recall(past, &mut spans);
                    projection.apply(RUN, event, &mut spans).unwrap();
                }
            }
            for span in read(spans) {
                let before = told.insert(span.span_id.clone(), span.clone());
                prop_assert!(before.is_none_or(|before| before == span), "another span under the same id");
            }
        }
        prop_assert_eq!(told.len(), whole.len());
        for span in whole {
            let is_root = span.parent_span_id.is_empty();
            prop_assert!(is_root || told.contains_key(&span.parent_span_id), "an orphan");
            prop_assert_eq!(told.get(&span.span_id), Some(&span));
        }
    }
}

#[test]
fn runs_for_which_there_is_no_room_are_told_to_be_unknown() {
    let (mut projection, mut spans) = (Projection::default(), Vec::new());
    let log = Log::accepted("");
    let id = |number: u32| uuid::Uuid::from_u128(u128::from(number) + 1).into_bytes();
    for number in 0..4_200 {
        projection.apply(id(number), &log.0[0], &mut spans).unwrap();
    }
    assert_eq!(projection.apply(id(0), &log.0[1], &mut spans), Err(Unknown));
    assert_eq!(projection.apply(id(4_199), &log.0[1], &mut spans), Ok(()));
}

#[test]
fn an_address_is_one_of_a_collector_and_headers_do_not_travel_in_the_clear() {
    let check = |address: &str, headers: &[(&str, &str)]| {
        let headers: Vec<_> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Endpoint::new(address, &headers, Vec::new()).map(|_| ())
    };
    let key = [("Authorization", "Bearer x")];
    assert_eq!(check("http://127.0.0.1:4317", &key), Ok(()));
    assert_eq!(check("http://[::1]:4317/", &key), Ok(()));
    assert_eq!(check("https://collector.example:4317", &key), Ok(()));
    assert_eq!(check("http://collector.example:4317", &[]), Ok(()));
    assert_eq!(check("http://collector.example:4317", &key), Err(InvalidEndpoint::Clear));
    for wrong in [
        "",
        "collector",
        "127.0.0.1:4317",
        "ftp://a",
        "http://a/v1/traces",
        "http://",
        "http://user:pw@127.0.0.1:4317",
    ] {
        assert_eq!(check(wrong, &[]), Err(InvalidEndpoint::Address), "{wrong:?}");
    }
    assert_eq!(check("http://localhost", &[("a b", "x")]), Err(InvalidEndpoint::Header("a b".into())));
    assert_eq!(check("http://localhost", &[("a", "x\ny")]), Err(InvalidEndpoint::Header("a".into())));
}
