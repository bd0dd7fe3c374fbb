//! The verdict on asks and sessions: a good world, and for each finding a world in which one thing is broken.

use capataz_client::v1::{self, event::Body};
use serde_json::json;

use super::CLIENT;
use super::world::{accepted, events, finished, found, log};
use crate::EVERYTHING;
use crate::records::{Call, ClientRecord, SubscriberRecord, Work, WorkerRecord};
use crate::subscriber::hash;
use crate::verdict::logs::{Log, SessionLog};
use crate::verdict::{Demands, Facts, judge};
use crate::workloads::Kind;

const SESSION: &str = "harbour";
const STREAM: &str = "s1";
/// The lease of every call of a spec: the number of its event.
const LEASE: u64 = 4;

fn message(role: v1::MessageRole, text: String) -> v1::SessionMessage {
    v1::SessionMessage { role: role.into(), text, ..Default::default() }
}

/// What the asks of these keys say and are answered.
fn said(keys: &[&str]) -> Vec<v1::SessionMessage> {
    let of_key = |key: &&str| {
        let user = message(v1::MessageRole::User, format!("text of {key}"));
        [user, message(v1::MessageRole::Assistant, format!("{key} under {LEASE}"))]
    };
    keys.iter().flat_map(of_key).collect()
}

fn context(said: &[v1::SessionMessage]) -> Option<v1::SessionContext> {
    let (message_count, history) = (said.len() as u64, said.to_vec());
    Some(v1::SessionContext { message_count, history, ..Default::default() })
}

/// An ask of the session, which finds what was said before it.
fn ask(key: &str, found: &[v1::SessionMessage]) -> Log {
    let ask =
        v1::Ask { text: format!("text of {key}"), session: Some(SESSION.to_owned()), ..Default::default() };
    let output = json!({
        "response": {
            "text": format!("{key} under {LEASE}"),
            "structured": { "key": key, "spec": "tides", "lease": LEASE },
        },
    });
    let settled = v1::TaskSettled {
        activation: 1,
        lease: Some(LEASE),
        status: v1::ResultStatus::Success as i32,
        output: Some(v1::Payload {
            media_type: "application/json".to_owned(),
            data: Some(v1::payload::Data::Inline(output.to_string().into())),
        }),
        ..Default::default()
    };
    let bodies = vec![
        accepted(v1::run_accepted::Work::Ask(ask)),
        Body::AskBegun(v1::AskBegun { context: context(found) }),
        Body::AskRouted(v1::AskRouted { spec: "tides".to_owned(), ..Default::default() }),
        Body::TaskLeased(v1::TaskLeased { attempt: 1, activation: 1, lease: LEASE, ..Default::default() }),
        Body::TaskSettled(Box::new(settled)),
        finished(v1::RunOutcome::Succeeded),
    ];
    log(key, &["tides"], bodies)
}

fn turn(key: &str) -> Body {
    let (run_id, messages) = (format!("run-{key}"), said(&[key]));
    Body::SessionTurn(v1::SessionTurn { run_id, messages, ..Default::default() })
}

fn session(keys: &[&str]) -> SessionLog {
    let opened = Body::SessionOpened(v1::SessionOpened { session: SESSION.to_owned() });
    let events = events([opened].into_iter().chain(keys.iter().map(|key| turn(key))).collect());
    let (seq, context) = (events.len() as u64, context(&said(keys)));
    let (session, stream_id) = (SESSION.to_owned(), STREAM.to_owned());
    SessionLog { view: v1::Session { session, stream_id, seq, context, ..Default::default() }, events }
}

fn deliveries(stream: &str, events: &[v1::Event]) -> Vec<SubscriberRecord> {
    let record = |event: &v1::Event| SubscriberRecord::Event {
        run: stream.to_owned(),
        seq: event.seq,
        hash: hash(event),
        cursor: Vec::new(),
    };
    events.iter().map(record).collect()
}

/// Three asks of one session, one after the other, each acknowledged before the next one is sent, each worked on once.
fn three_asks() -> Facts {
    let keys = ["a", "b", "c"];
    let mut facts = Facts::default();
    let mut journal = Vec::new();
    let mut everything = Vec::new();
    for (number, key) in keys.into_iter().enumerate() {
        let (run, index, at) = (format!("run-{key}"), number as u64, 10 * number as u64);
        let log = ask(key, &said(&keys[..number]));
        everything.extend(deliveries(&run, &log.events));
        facts.logs.insert(run.clone(), log);
        let (key, attempt) = (key.to_owned(), 1);
        journal.push(ClientRecord::Sent { at, call: Call::Start, index, key: key.clone(), attempt });
        journal.push(ClientRecord::Started { at: at + 1, key, attempt, run: run.clone(), created: true });
        let work = Work { run, task: "tides".to_owned(), activation: 1, attempt: 1, lease: LEASE };
        facts.workers.push(WorkerRecord::Began { at, work });
    }
    let session = session(&keys);
    let of_session = deliveries(STREAM, &session.events);
    everything.extend(of_session.clone());
    facts.sessions.insert(STREAM.to_owned(), session);
    facts.clients.insert(CLIENT.to_owned(), journal);
    facts.subscribers.insert(SESSION.to_owned(), everything.clone());
    facts.subscribers.insert(EVERYTHING.to_owned(), everything);
    facts
}

/// Breaks one thing of a good world. A session is judged without the subscriptions, which would show the same once more,
/// and whose acceptance order is a test of its own.
#[track_caller]
fn check_asks(breaks: impl FnOnce(&mut Facts), expected: [usize; 6]) {
    let mut facts = three_asks();
    facts.subscribers.clear();
    breaks(&mut facts);
    let (found, verdict) = found(&facts);
    assert_eq!(found, expected, "{verdict:#?}");
}

fn the_session(facts: &mut Facts) -> &mut SessionLog {
    facts.sessions.get_mut(STREAM).unwrap()
}

/// The session as if these asks had been its turns.
fn with_turns(keys: &[&str]) -> impl FnOnce(&mut Facts) {
    let session = session(keys);
    move |facts| *the_session(facts) = session
}

#[test]
fn asks_in_order_are_good() {
    let (found, verdict) = found(&three_asks());
    assert_eq!(found, [0; 6], "{verdict:#?}");
    let tally = verdict.kinds[&Kind::Asks];
    assert_eq!((tally.accepted, tally.finished, tally.succeeded), (3, 3, 3));
    assert_eq!((tally.executions, verdict.sessions, verdict.turns), (3, 1, 3));
}

#[test]
fn an_acknowledged_ask_that_is_not_there_or_does_not_finish() {
    // Its session has a turn of it, its worker an execution, and its client an acknowledgement.
    check_asks(|facts| _ = facts.logs.remove("run-b"), [2, 0, 0, 0, 0, 1]);
    check_asks(
        |facts| {
            let log = facts.logs.get_mut("run-c").unwrap();
            log.events.pop();
            log.view.seq -= 1;
            log.view.outcome = None;
            log.view.status = v1::RunStatus::Running.into();
        },
        [1, 0, 0, 0, 0, 1],
    );
}

#[test]
fn an_answered_ask_that_is_not_in_its_session() {
    check_asks(with_turns(&["a", "b"]), [1, 0, 0, 0, 0, 0]);
    // The ask after it did not find what the session now says.
    check_asks(with_turns(&["a", "c"]), [1, 0, 1, 0, 0, 0]);
}

#[test]
fn an_ask_that_is_in_its_session_twice() {
    check_asks(with_turns(&["a", "b", "c", "c"]), [0, 1, 1, 0, 0, 0]);
}

#[test]
fn a_cancelled_ask_is_in_no_session() {
    let cancel = |facts: &mut Facts| {
        let log = facts.logs.get_mut("run-c").unwrap();
        log.events.last_mut().unwrap().body = Some(finished(v1::RunOutcome::Cancelled));
        log.view.outcome = Some(v1::RunOutcome::Cancelled as i32);
    };
    check_asks(cancel, [0, 0, 0, 0, 0, 1]);
    check_asks(
        |facts| {
            cancel(facts);
            with_turns(&["a", "b"])(facts);
        },
        [0; 6],
    );
}

#[test]
fn a_hole_in_the_stream_of_a_session() {
    check_asks(|facts| _ = the_session(facts).events.remove(2), [1, 0, 3, 0, 0, 0]);
    check_asks(|facts| the_session(facts).view.seq += 1, [0, 0, 1, 0, 0, 0]);
}

#[test]
fn a_session_that_shows_other_messages_than_its_asks_have() {
    check_asks(|facts| the_session(facts).view.context = context(&said(&["a", "b"])), [0, 0, 1, 0, 0, 0]);
    check_asks(
        |facts| {
            let session = the_session(facts);
            let Some(Body::SessionTurn(turn)) = &mut session.events[3].body else { panic!("a turn") };
            turn.messages[1].text = "something else".to_owned();
            session.view.context.as_mut().unwrap().history[5].text = "something else".to_owned();
        },
        [0, 0, 0, 0, 0, 1],
    );
}

#[test]
fn an_ask_that_began_before_the_one_before_it_had_ended() {
    check_asks(
        |facts| _ = facts.logs.insert("run-c".to_owned(), ask("c", &said(&["a"]))),
        [0, 0, 1, 0, 0, 0],
    );
}

#[test]
fn asks_out_of_the_order_in_which_they_were_accepted() {
    let swapped = |facts: &mut Facts| {
        with_turns(&["a", "c", "b"])(facts);
        facts.logs.insert("run-c".to_owned(), ask("c", &said(&["a"])));
        facts.logs.insert("run-b".to_owned(), ask("b", &said(&["a", "c"])));
    };
    // As the client was told.
    check_asks(swapped, [0, 0, 0, 0, 0, 1]);
    // As the stream of everything has it.
    check_asks(
        |facts| {
            swapped(facts);
            facts.clients.get_mut(CLIENT).unwrap().retain(|record| match record {
                ClientRecord::Started { .. } => true,
                other => !matches!(other, ClientRecord::Sent { at: 10.., .. }),
            });
            let starts: Vec<v1::Event> = Vec::new();
            let mut everything = deliveries("none", &starts);
            for key in ["a", "b", "c"] {
                let run = format!("run-{key}");
                everything.extend(deliveries(&run, &facts.logs[&run].events));
            }
            everything.extend(deliveries(STREAM, &facts.sessions[STREAM].events));
            facts.subscribers.insert(EVERYTHING.to_owned(), everything);
        },
        // Two starts that nobody sent, and the order.
        [0, 0, 0, 0, 0, 3],
    );
}

#[test]
fn an_acknowledged_acceptance_is_in_the_session_once() {
    let accept = |count: usize| {
        move |facts: &mut Facts| {
            let (request_id, from, to) = ("a".to_owned(), "tides".to_owned(), "maps".to_owned());
            let body = v1::SessionTransitionAccepted { request_id, from, to };
            let session = the_session(facts);
            for seq in 5..5 + count as u64 {
                let body = Some(Body::SessionTransitionAccepted(body.clone()));
                session.events.push(v1::Event { seq, at_ms: 0, format: 2, elapsed_ms: 0, body });
                session.view.seq = seq;
            }
            let (key, session, request) = ("a/accept".to_owned(), SESSION.to_owned(), "a".to_owned());
            let told = ClientRecord::Accepted { at: 99, key, session, request, seq: 5 };
            facts.clients.get_mut(CLIENT).unwrap().push(told);
        }
    };
    check_asks(accept(1), [0; 6]);
    check_asks(accept(0), [1, 0, 0, 0, 0, 0]);
    check_asks(accept(2), [0, 1, 0, 0, 0, 0]);
}

#[test]
fn a_subscription_to_a_session_has_the_events_of_its_stream() {
    let check = |breaks: fn(&mut Vec<SubscriberRecord>), expected: [usize; 6]| {
        let mut facts = three_asks();
        facts.subscribers.remove(EVERYTHING);
        breaks(facts.subscribers.get_mut(SESSION).unwrap());
        let (found, verdict) = found(&facts);
        assert_eq!(found, expected, "{verdict:#?}");
    };
    check(|_| {}, [0; 6]);
    check(|journal| _ = journal.pop(), [0, 0, 1, 0, 0, 0]);
    check(|journal| _ = journal.remove(journal.len() - 2), [0, 0, 1, 0, 0, 0]);
    check(|journal| journal.push(journal.last().unwrap().clone()), [0, 0, 0, 1, 0, 0]);
    let foreign = |journal: &mut Vec<SubscriberRecord>| {
        let (run, cursor) = ("another".to_owned(), Vec::new());
        journal.push(SubscriberRecord::Event { run, seq: 1, hash: 7, cursor });
    };
    check(foreign, [0, 0, 0, 0, 0, 1]);
}

#[test]
fn a_spec_that_was_called_twice_for_one_lease_and_an_answer_of_another_ask() {
    check_asks(|facts| facts.workers.push(facts.workers[0].clone()), [0, 0, 0, 0, 1, 0]);
    let foreign = |facts: &mut Facts| {
        let other = facts.logs["run-a"].events[4].clone();
        facts.logs.get_mut("run-b").unwrap().events[4] = other;
    };
    // Its output is not its own, and its session holds another answer than its log.
    check_asks(foreign, [0, 0, 0, 0, 0, 2]);
}

#[test]
fn a_kind_that_does_nothing_is_a_problem_of_the_test() {
    let demands =
        |kinds: &[Kind]| Demands { runs: 0, kills: 0, kills_in_flight: 0, kinds: kinds.to_vec(), removed: 0 };
    let verdict = judge(&three_asks());
    let about = |kinds: &[Kind], words: &str| {
        verdict.problems(&demands(kinds)).iter().any(|problem| problem.contains(words))
    };
    assert!(!about(&[Kind::Asks], "asks"));
    assert!(about(&[Kind::Asks, Kind::Scripts], "scripts that have succeeded"));
    assert!(about(&[Kind::Plans], "executions of plans"));
}
