//! What a log folds to, in lines: everything that the engine lets its callers see, and nothing of how the state keeps it.
//!
//! Each fact is one line, `place = JSON value`, where the place is that of the contract's JSON form. What is absent there
//! has no line, so that fields which are new to a view and absent for an old log change nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use capataz_contracts::{json, v1};
use capataz_engine::session::SessionState;
use capataz_engine::{BROWSER_MEDIA_TYPE, Effect, Query, RunState, Timestamp, ViewOptions, Wall};
use prost::Message;
use serde_json::Value;

pub const SEED: u64 = 42;

/// Fields that views have got since, and that the files of a released format therefore do not name: ends of places, such
/// as `.tokens`. Each one is here because of a change that added it, and for nothing else.
const NEWER_FIELDS: &[&str] = &[".partial"];

/// Values by their places.
pub type Facts = BTreeMap<String, String>;

/// A log in lines: what it folds to, and what each event changes.
pub fn told(events: &[v1::Event]) -> String {
    let mut text = String::new();
    let states = facts_of_beginnings(events);
    writeln!(text, "{} events; at the end:", events.len()).unwrap();
    for (place, value) in states.last().expect("a log is not empty") {
        writeln!(text, "  {place} = {value}").unwrap();
    }
    let mut before = Facts::new();
    for (event, facts) in events.iter().zip(states) {
        writeln!(text, "{} {}", event.seq, kind(event)).unwrap();
        for (place, value) in &facts {
            if before.get(place) != Some(value) {
                writeln!(text, "  {place} = {value}").unwrap();
            }
        }
        for place in before.keys().filter(|place| !facts.contains_key(*place)) {
            writeln!(text, "  {place} is gone").unwrap();
        }
        before = facts;
    }
    text
}

/// What each beginning of the log folds to, the whole log last. Every one of them is folded from its first event, and
/// the same as one event more than the one before.
pub fn facts_of_beginnings(events: &[v1::Event]) -> Vec<Facts> {
    (1..=events.len()).map(|end| facts_of(&events[..end])).collect()
}

pub fn facts_of(events: &[v1::Event]) -> Facts {
    if kind(&events[0]) == "session_opened" {
        let state = SessionState::fold(events.iter().cloned()).expect("the session can be folded");
        return facts_of_session(&state);
    }
    let state = RunState::fold(SEED, events.iter().cloned()).expect("the run can be folded");
    let mut facts = facts_of_run(&state);
    for event in events {
        let body = json::print("capataz.v1.Event", event);
        let request = body.pointer(&format!("/{}/request_id", kind(event))).and_then(Value::as_str);
        // That of an ask is its own and no user's request.
        if let Some(request) = request.filter(|request| !request.is_empty()) {
            let seq = state.request_seq(request).expect("a request is remembered");
            facts.insert(format!("request.{request}"), seq.to_string());
        }
    }
    facts
}

pub fn facts_of_run(state: &RunState) -> Facts {
    let mut facts = Facts::new();
    let options = ViewOptions { tasks: true, outputs: true, offset: 0, limit: usize::MAX };
    let mut view = state.view("run".to_owned(), options);
    // The files of the first formats are older than these lists, and their events say the same.
    view.notices.clear();
    view.state_counts.clear();
    view.may_be_continued = false;
    view.waves.iter_mut().flat_map(|wave| &mut wave.tasks).for_each(|task| task.attempts.clear());
    // What is asked about deadlines has a list of its own here, because older versions did not ask.
    let at_deadline = |asked: &v1::Question| asked.purpose() == v1::QuestionPurpose::Timeout;
    let (deadlines, others): (Vec<_>, Vec<_>) = view.questions.into_iter().partition(at_deadline);
    view.questions = others;
    for (number, asked) in deadlines.iter().enumerate() {
        add(&mut facts, &format!("deadline[{number}]"), &json::print("capataz.v1.Question", asked));
    }
    // So has what was kept of timed-out tasks.
    let timed_out = v1::ResultStatus::Timeout;
    for task in view.waves.iter_mut().flat_map(|wave| &mut wave.tasks) {
        if let Some(kept) = task.output.take_if(|_| task.status == Some(timed_out.into())) {
            add(&mut facts, &format!("kept.{}", task.name), &json::print("capataz.v1.Payload", &kept));
        }
    }
    add(&mut facts, "run", &json::print("capataz.v1.Run", &view));
    if let Some(mut result) = state.result(usize::MAX) {
        let tasks = result.tasks.iter_mut();
        tasks.filter(|task| task.status() == timed_out).for_each(|task| task.output = None);
        add(&mut facts, "result", &json::print("capataz.v1.RunResult", &result));
    }
    if let Some((ask, context)) = state.ask_query() {
        add(&mut facts, "query.ask", &json::print("capataz.v1.Ask", ask));
        add(&mut facts, "query.context", &json::print("capataz.v1.SessionContext", context));
    }
    let mut fact = |place: String, value: String| facts.insert(place, value);
    fact("state.seq".to_owned(), state.seq().to_string());
    fact("state.may_lease".to_owned(), state.may_lease().to_string());
    fact("state.is_finished".to_owned(), state.is_finished().to_string());
    let next = state.next_deadline().map_or("none".to_owned(), |at| at.0.to_string());
    fact("state.next_deadline".to_owned(), next);
    let due: Vec<String> = state.due(Timestamp(i64::MAX)).map(|task| task.to_string()).collect();
    fact("state.due".to_owned(), due.join(" "));
    for (number, effect) in state.outstanding().iter().enumerate() {
        fact(format!("outstanding[{number}]"), effect_in_words(effect));
    }
    for task in state.queued() {
        fact(format!("{task}.queued"), "true".to_owned());
    }
    for (task, token, worker) in state.leases() {
        let assignment = state.assignment(task).expect("what is leased can be assigned");
        let (started, deadline) = state.running_times(task).expect("what is leased has its times");
        fact(format!("{task}.lease"), format!("{token} of {worker}"));
        fact(format!("{task}.times"), format!("{} to {}", started.0, deadline.0));
        let words = format!(
            "{} for {}, activation {}, attempt {}, until {}",
            assignment.name,
            assignment.agent,
            assignment.activation,
            assignment.attempt,
            assignment.deadline.map_or(0, |deadline| deadline.wall.0)
        );
        fact(format!("{task}.assignment"), words);
    }
    let inputs: Vec<_> = state
        .leases()
        .filter_map(|(task, ..)| Some((task, state.assignment(task)?.input?.clone())))
        .collect();
    for (task, input) in inputs {
        add(&mut facts, &format!("{task}.input"), &payload(&input));
    }
    facts
}

pub fn facts_of_session(state: &SessionState) -> Facts {
    let mut facts = Facts::new();
    // What is of the last minute is told as an ask of that moment would find it, and as a much later one would.
    let updated = state.view(String::new(), Wall(0)).updated_at_ms;
    let view = state.view("stream".to_owned(), Wall(updated));
    add(&mut facts, "session", &json::print("capataz.v1.Session", &view));
    let later = state.context(Wall(updated + 30_000));
    add(&mut facts, "after_30_s", &json::print("capataz.v1.SessionContext", &later));
    facts.insert("state.name".to_owned(), state.name().to_owned());
    facts.insert("state.seq".to_owned(), state.seq().to_string());
    facts
}

/// The name of an event's kind, as in the contract.
pub fn kind(event: &v1::Event) -> String {
    let printed = json::print("capataz.v1.Event", event);
    let mut keys = printed.as_object().expect("an event is an object").keys();
    keys.find(|key| !["seq", "at_ms", "format", "elapsed_ms"].contains(&key.as_str()))
        .expect("an event has a body")
        .clone()
}

/// What the host of a browser is given travels as protobuf.
fn payload(payload: &v1::Payload) -> Value {
    match &payload.data {
        Some(v1::payload::Data::Inline(bytes)) if payload.media_type == BROWSER_MEDIA_TYPE => {
            let task = v1::BrowserTask::decode(bytes.clone()).expect("a browser's task");
            json::print("capataz.v1.BrowserTask", &task)
        }
        _ => json::print("capataz.v1.Payload", payload),
    }
}

fn effect_in_words(effect: &Effect) -> String {
    match effect {
        Effect::Enqueue { task } => format!("enqueue {task}"),
        Effect::Assign { task, lease } => format!("assign {task} under {lease}"),
        Effect::Cancel { task, lease, reason, grace_ms } => {
            format!("cancel {task} under {lease} because of {reason:?} within {grace_ms} ms")
        }
        Effect::Query { asked: Query::Route { spec, reason }, .. } => {
            format!("route to {spec:?}, {reason:?}")
        }
        Effect::Query { query, asked: Query::Compose(asked) } => {
            let given = asked.given.as_ref().map(payload);
            format!(
                "compose {} for {:?} of {:?}, given {given:?} ({})",
                asked.template, asked.items, asked.for_each, query.0
            )
        }
        Effect::Query { query, asked: Query::Summarize(asked) } => {
            let outputs: Vec<Value> = asked.outputs.iter().map(payload).collect();
            format!("summarize {:?} of {outputs:?} ({})", asked.keys, query.0)
        }
        Effect::Query { query, asked: Query::Prompt(asked) } => {
            let results: Vec<(&String, Value)> =
                asked.results.iter().map(|(place, output)| (place, payload(output))).collect();
            format!("prompt {} with {results:?}, {:?} ({})", asked.prompt, asked.recall, query.0)
        }
        Effect::Query { query, asked: Query::Observe(seen) } => {
            let output = seen.output.as_ref().map(payload);
            format!("look at {output:?} of {}, expected {:?} ({})", seen.tool, seen.expected, query.0)
        }
        Effect::Child { task } => format!("hear of the run of {task}"),
        Effect::Finish => "finish".to_owned(),
        other => panic!("{other:?} is never outstanding"),
    }
}

fn add(facts: &mut Facts, place: &str, value: &Value) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                add(facts, &format!("{place}.{name}"), value);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (number, item) in items.iter().enumerate() {
                add(facts, &format!("{place}[{number}]"), item);
            }
        }
        value => {
            if !NEWER_FIELDS.iter().any(|field| place.ends_with(field)) {
                facts.insert(place.to_owned(), value.to_string());
            }
        }
    }
}
