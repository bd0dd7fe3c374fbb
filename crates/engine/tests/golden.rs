//! Stored logs stay readable, and what was begun under an older version goes on.
//!
//! For each log of each format `golden/` has `FORMAT-NAME.binpb`, the events of one run or session, each with its length
//! before it, as the store keeps them; `FORMAT-NAME.txt`, which says what they fold to, at the end and after each event;
//! and `FORMAT-NAME.decisions`, the number of the last event of each decision.
//!
//! The files of a format are made once, by the version that writes it, and stay as they are: nothing overwrites them. A
//! later format gets files of its own: `CAPATAZ_WRITE_GOLDEN=format-2 cargo test -p capataz-engine --test golden` writes
//! those that are not there yet.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod golden_run;
mod golden_told;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use capataz_contracts::v1;
use capataz_engine::RunState;
use capataz_engine::session::SessionState;

use golden_run::{Log, STORIES, Story};
use golden_told::{Facts, SEED, facts_of, kind, told};

/// What a log of format 1 can hold, and one of format 2 as well.
const KINDS_OF_FORMAT_1: &[&str] = &[
    "run_accepted",
    "wave_started",
    "task_input_resolved",
    "task_leased",
    "task_lease_lost",
    "task_attempt_failed",
    "task_retry_due",
    "task_cancel_requested",
    "task_extended",
    "task_settled",
    "task_reactivated",
    "result_refused",
    "wave_finished",
    "question_asked",
    "question_answered",
    "run_paused",
    "run_resumed",
    "run_cancel_requested",
    "run_finished",
    "notice",
    "wave_decided",
    "ask_begun",
    "ask_routed",
    "transition_considered",
    "session_opened",
    "session_turn",
    "session_transition_accepted",
    "browser_activity_started",
    "browser_opened",
    "action_proposed",
    "stage_finished",
    "action_finished",
    "action_failed",
    "browser_close_requested",
    "browser_closed",
];

/// What no older format could tell.
const STORIES_SINCE_FORMAT_3: &[&str] = &[
    "mode",
    "mode-in-a-browser",
    "mode-of-a-missed-tool",
    "mode-of-a-rejected-plan",
    "pipeline",
    "plan-at-its-deadlines",
    "plan-forked",
    "plan-of-a-session",
    "plan-of-runs",
    "plan-taken-back",
    "plan-that-goes-on",
    "plan-that-is-billed",
    "plan-vouched-for",
    "script-put-away",
    "session-of-any-json",
    "session-of-modes",
    "session-of-plans",
    "session-that-forgets",
];

/// A log as a version before this one, or this one, has written it.
struct Stored {
    /// Such as `format-1-ask`.
    name: String,
    story: Story,
    log: Log,
    told: String,
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

#[expect(clippy::disallowed_methods, reason = "whoever runs the tests asks for the files to be written")]
fn format_to_write() -> Option<String> {
    std::env::var("CAPATAZ_WRITE_GOLDEN").ok().filter(|format| !format.is_empty())
}

/// Tells each story by the rules of this version, and keeps what is not there yet.
fn write(format: &str) {
    let is_free = |name: &str| !path(name).exists();
    for (name, story) in STORIES {
        let log = story(SEED, &Log::default(), 0);
        let ends: Vec<String> = log.ends.iter().map(u64::to_string).collect();
        let name = format!("{format}-{name}");
        // What the events are, and what they are told as, belong together.
        if is_free(&format!("{name}.binpb")) {
            fs::write(path(&format!("{name}.binpb")), log.encode()).unwrap();
            fs::write(path(&format!("{name}.decisions")), ends.join("\n") + "\n").unwrap();
            fs::write(path(&format!("{name}.txt")), told(&log.events)).unwrap();
        }
    }
}

static STORED: LazyLock<Vec<Stored>> = LazyLock::new(|| {
    if let Some(format) = format_to_write() {
        write(&format);
    }
    let files = fs::read_dir(path("")).expect("the golden logs are there");
    let files = files.map(|file| file.unwrap().file_name().into_string().expect("a plain name"));
    let names: BTreeSet<String> =
        files.filter_map(|file| Some(file.strip_suffix(".binpb")?.to_owned())).collect();
    names.into_iter().map(read).collect()
});

fn read(name: String) -> Stored {
    let of = name.splitn(3, '-').nth(2).expect("format, number, name").to_owned();
    let (_, story) = STORIES.iter().find(|(name, _)| *name == of).expect("each log has its story");
    let decisions = fs::read_to_string(path(&format!("{name}.decisions"))).unwrap();
    let log = Log {
        events: Log::decode(&fs::read(path(&format!("{name}.binpb"))).unwrap()),
        ends: decisions.lines().map(|line| line.parse().unwrap()).collect(),
        seen: Vec::new(),
    };
    assert_eq!(log.ends.last(), Some(&(log.events.len() as u64)), "{name}");
    let told = fs::read_to_string(path(&format!("{name}.txt"))).unwrap();
    Stored { name, story: *story, log, told }
}

#[test]
fn every_log_and_every_beginning_of_it_folds_to_what_it_was() {
    for stored in &*STORED {
        let now = told(&stored.log.events);
        // Where no spec gave a valid answer, there was none, once; now the daemon makes one from the same state.
        let has_answer = stored.told.contains("  result.ask.response.");
        // Within a decision nobody sees what is outstanding. Whether there is a spec that is suggested was not asked, once.
        let is_seen = |line: &&str| {
            let is_query = line.contains("= route to ") || line.ends_with(" is gone");
            let is_own_answer = !has_answer && line.starts_with("  result.ask.response.");
            // The form is complete by now: it names what is 0, false, or empty.
            let is_default = [" = 0", " = 0.0", " = false", " = \"\""].iter().any(|end| line.ends_with(end));
            let is_default = is_default && line.starts_with("  result.mode.state.");
            // The plan as a text is the same plan.
            let is_same_plan = line.starts_with("  result.mode.state.planText = ");
            !(line.starts_with("  outstanding[") && is_query || is_own_answer || is_same_plan || is_default)
        };
        let (mut then, mut now) = (stored.told.lines().filter(is_seen), now.lines().filter(is_seen));
        let mut event = String::new();
        loop {
            let (then, now) = (then.next(), now.next());
            assert_eq!(now, then, "{}: {event}", stored.name);
            match then {
                Some(line) if !line.starts_with(' ') => event = line.to_owned(),
                Some(_) => {}
                None => break,
            }
        }
    }
}

#[test]
fn what_is_folded_at_once_and_event_by_event_and_from_a_snapshot_is_the_same() {
    for Stored { name, log, .. } in &*STORED {
        let events = &log.events;
        if kind(&events[0]) == "session_opened" {
            let mut state = SessionState::fold([events[0].clone()]).unwrap();
            for end in 2..=events.len() {
                state = SessionState::from_snapshot(&state.snapshot().unwrap()).unwrap();
                state.apply(events[end - 1].clone()).unwrap();
                assert_eq!(state, SessionState::fold(events[..end].iter().cloned()).unwrap(), "{name} {end}");
            }
            continue;
        }
        let mut state = RunState::fold(SEED, [events[0].clone()]).unwrap();
        for end in 2..=events.len() {
            state = RunState::from_snapshot(&state.snapshot().unwrap()).unwrap();
            state.apply(events[end - 1].clone()).unwrap();
            state.loaded();
            assert_eq!(state, RunState::fold(SEED, events[..end].iter().cloned()).unwrap(), "{name} {end}");
            assert_eq!(state.is_finished(), end == events.len(), "{name} {end}");
        }
    }
}

/// Whatever had happened when this version took the run over, it shows the same after each decision, to the same end, and
/// writes the same kinds of events on its way.
#[test]
fn what_was_begun_before_goes_on_in_the_same_way() {
    for Stored { name, story, log, .. } in &*STORED {
        let ends = log.ends.iter().map(|end| &log.events[..*end as usize]);
        let before_3 = !name.starts_with("format-3-");
        let given_up = given_up_by_now(log);
        let comparable = |facts| {
            let mut facts: Facts = without_numbers(facts);
            let is_of_3 = |place: &str| {
                is_newer(place)
                    || is_told_otherwise(place)
                    || ["deadline[", "kept."].iter().any(|list| place.starts_with(list))
            };
            facts.retain(|place, _| !(before_3 && is_of_3(place) || is_kept_by_now(name, place)));
            // A failure that a script passes over is a warning, which hosts did not say once.
            let is_script = name.contains("-script");
            facts.retain(|place, _| !(is_of_an_error(place) || is_script && is_of_severity(place)));
            facts.retain(|place, _| !given_up.iter().any(|task| place.starts_with(task)));
            facts.values_mut().for_each(without_details);
            facts.iter_mut().filter(|(place, _)| is_hash(place)).for_each(|(_, value)| hashed(value));
            facts
        };
        let then: Vec<Facts> = ends.map(|events| comparable(facts_of(events))).collect();
        for decisions in 1..log.ends.len() {
            let gone_on = story(SEED, log, decisions);
            // A limit halts whatever comes after it; the logs of earlier versions have failures that were passed over.
            if let Some(halt) = passed_over(log).filter(|halt| *halt >= decisions) {
                assert_eq!(gone_on.seen.len(), halt + 1 - decisions, "{name} after decision {decisions}");
                let end = gone_on.seen.last().expect("it has gone on");
                assert!(end.values().any(|value| value.contains("POLICY_HALT")), "{name} {decisions}");
                continue;
            }
            assert_eq!(gone_on.seen.len(), log.ends.len() - decisions, "{name} after decision {decisions}");
            let now = gone_on.seen.into_iter().map(comparable);
            for ((number, then), now) in (decisions + 1..).zip(&then[decisions..]).zip(now) {
                for place in then.keys().chain(now.keys()) {
                    let when =
                        format!("{name}, taken over after decision {decisions}, after decision {number}");
                    let (now, then) = (now.get(place), then.get(place));
                    let is_jitter = before_3 && differ_by_jitter(now, then);
                    let is_known =
                        is_jitter || differ_by_warning(place, now, then) || differ_by_mark(now, then);
                    let is_known = is_known || then.is_none() && is_proposed(place) || is_contract(place);
                    let is_known = is_known || differ_by_given(place, now, then);
                    assert!(now == then || is_known, "{when}: {place}: {now:?}, not {then:?}");
                }
            }
            let at_deadlines = asked_at_deadlines(&gone_on.events);
            let known = |event: &v1::Event| {
                let is_of_then = !(before_3 && (is_unclassified(event) || is_about(event, &at_deadlines)));
                Some(kind(event)).filter(|kind| is_of_then && KINDS_OF_FORMAT_1.contains(&&**kind))
            };
            let kinds = |events: &[v1::Event]| -> Vec<String> {
                let given = given_outcomes(events);
                events.iter().filter(|event| !given.contains(&event.seq)).filter_map(known).collect()
            };
            let (now, then) = (kinds(&gone_on.events), kinds(&log.events));
            assert_eq!(now, then, "{name} after decision {decisions}");
        }
    }
}

/// The numbers of the events that tell of an action of which a person has said that it is done. Once, there were none.
fn given_outcomes(events: &[v1::Event]) -> BTreeSet<u64> {
    let given = events.windows(2).filter_map(|pair| match pair {
        [before, after] if kind(before) == "question_answered" && kind(after) == "action_finished" => {
            Some(after.seq)
        }
        _ => None,
    });
    given.collect()
}

/// Whether the one more is an action of which a person has said that it is done. Once, it was not counted.
fn differ_by_given(place: &str, now: Option<&String>, then: Option<&String>) -> bool {
    let count = |value: Option<&String>| -> Option<u64> { value?.parse().ok() };
    let is_one_more = count(now).zip(count(then)).is_some_and(|(now, then)| now == then + 1);
    place == "result.script.succeeded" && is_one_more
}

/// Whether the contract of a person's plan stands there: by now it takes `null` for no key, and holds schemas to be some.
fn is_contract(place: &str) -> bool {
    place.starts_with("run.questions[") && place.ends_with("].value.schema")
}

/// Whether a question's proposal stands there: one about a call has the whole call by now.
fn is_proposed(place: &str) -> bool {
    place.starts_with("run.questions[") && place.contains("].proposed.")
}

/// Whether a hash stands there, in whose place the stored logs of scripts have a text.
fn is_hash(place: &str) -> bool {
    let is_of_evidence = place.contains("evidence") && place.ends_with(".id");
    place.ends_with("_hash") || is_of_evidence
}

/// The value of a place where a hash stands, as this version's errors have it.
fn hashed(value: &mut String) {
    let text = value.trim_matches('"');
    let is_hash = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hash {
        *value = format!("\"{}\"", golden_run::hash_of(text));
    }
}

/// The number of decisions before the one in which a limit was passed over.
fn passed_over(log: &Log) -> Option<usize> {
    let is_passed_over = |event: &v1::Event| match &event.body {
        Some(v1::event::Body::ActionFailed(failed)) => {
            let is_halt = failed.error.as_ref().is_some_and(|error| error.error_code == "POLICY_HALT");
            is_halt && failed.next() == v1::AfterFailure::Continue
        }
        _ => false,
    };
    let passed = log.events.iter().position(is_passed_over)?;
    log.ends.iter().position(|end| *end > passed as u64)
}

/// Facts without numbers of events, which a version may count otherwise, and without what is made of them: tokens of
/// leases, ids of questions.
fn without_numbers(facts: Facts) -> Facts {
    let is_number = |place: &str| {
        let named = [".seq", ".question_id", ".lease"].iter().any(|end| place.ends_with(end));
        named || place.starts_with("request.")
    };
    let facts = facts.into_iter().filter(|(place, _)| !is_number(place));
    facts.map(|(place, value)| (place, without_token(without_token(value, "(lease "), " under "))).collect()
}

/// Whether formats 1 and 2 have no such fact: what their questions ask for is in the text alone.
fn is_newer(place: &str) -> bool {
    let of_question =
        place.strip_prefix("run.questions[").and_then(|rest| rest.split_once("].")).map(|(_, fact)| fact);
    of_question.is_some_and(|fact| {
        ["purpose", "about", "holds", "revision", "value"].iter().any(|newer| fact.starts_with(newer))
    })
}

/// Whether the versions that wrote formats 1 and 2 said this of a failure in other words, or rated it otherwise. Their logs
/// fold to what they said; a run that goes on has what the present rules say.
fn is_told_otherwise(place: &str) -> bool {
    let told = [".error.reason", ".severity", ".waited_ms", ".is_critical", ".can_continue"];
    told.iter().any(|fact| place.ends_with(fact)) || place.contains("summary.")
}

/// Whether a text of a session was cut in both, and says so only now.
fn differ_by_mark(now: Option<&String>, then: Option<&String>) -> bool {
    let kept = now.and_then(|now| now.strip_suffix(" […]\""));
    kept.is_some_and(|kept| then.is_some_and(|then| then.starts_with(kept)))
}

/// Whether this follows from how severe a failure is.
fn is_of_severity(place: &str) -> bool {
    place.contains("summary.") || [".severity", ".can_continue"].iter().any(|fact| place.ends_with(fact))
}

/// Takes away what a planner is told of an action's error besides its message. Hosts once gave no details.
fn without_details(value: &mut String) {
    while let Some(order) = value.find("target_resolution_order") {
        let begin = value[..order].rfind(": {").expect("details have a beginning");
        let count = value[order..].find("count_observed").expect("details have a count");
        let end = value[order + count..].find('}').expect("details have an end");
        value.replace_range(begin..=order + count + end, "");
    }
}

/// Whether this is of what an error of a script has to have, which hosts once did not say whole. One that lacks it is recorded
/// as another one now.
fn is_of_an_error(place: &str) -> bool {
    let Some((_, fact)) = place.split_once("script.error.") else { return false };
    ["evidence_refs[", "details", "severity"].iter().any(|told| fact.starts_with(told))
}

/// Whether this is of an answer that breaks the contract, which was not recorded, once.
fn is_kept_by_now(name: &str, place: &str) -> bool {
    name.ends_with("-ask-stopped") && place.contains("tasks[0].output.")
}

/// Where the states of tasks stand that were skipped when that left them FAILED. They end DELETED now.
fn given_up_by_now(log: &Log) -> Vec<String> {
    let Some(v1::event::Body::RunAccepted(accepted)) = &log.events[0].body else { return Vec::new() };
    let waves = accepted.plan().map(|plan| plan.waves.iter().map(|wave| wave.tasks.len()).collect());
    let waves: Vec<usize> = waves.unwrap_or_default();
    let asked = |id: &str| {
        log.events.iter().find_map(|event| match &event.body {
            Some(v1::event::Body::QuestionAsked(asked)) if asked.question.as_ref()?.question_id == id => {
                asked.wave.zip(asked.task).map(|(wave, task)| (wave as usize, task as usize))
            }
            _ => None,
        })
    };
    let skipped = log.events.iter().filter_map(|event| match &event.body {
        Some(v1::event::Body::QuestionAnswered(answered))
            if answered.answer == "skip" && !answered.gives_up =>
        {
            asked(&answered.question_id)
        }
        _ => None,
    });
    let places = skipped.flat_map(|(wave, task)| {
        let number = waves.iter().take(wave).sum::<usize>() + task;
        let view = format!("run.waves[{wave}].tasks[{task}]");
        [format!("{view}.state"), format!("{view}.history["), format!("result.tasks[{number}].state")]
    });
    places.collect()
}

/// Whether this is the notice of a failure that no rule knows, which formats 1 and 2 do not have.
fn is_unclassified(event: &v1::Event) -> bool {
    matches!(&event.body, Some(v1::event::Body::Notice(notice)) if notice.kind() == v1::NoticeKind::Unclassified)
}

/// Whether these are times that a retry's delay of 100 ms explains. Its jitter is drawn by the number of an event, and questions
/// about deadlines are further events.
fn differ_by_jitter(now: Option<&String>, then: Option<&String>) -> bool {
    let time = |value: Option<&String>| {
        value?.trim_matches('"').parse().ok().filter(|time: &i64| *time > 1_000_000_000_000)
    };
    time(now).zip(time(then)).is_some_and(|(now, then)| now.abs_diff(then) < 100)
}

/// Whether a warning before a deadline explains it. It was given with a whole minute left, and said how much that was; now it
/// comes a millisecond later, and says that less is left.
fn differ_by_warning(place: &str, now: Option<&String>, then: Option<&String>) -> bool {
    let Some((now, then)) = now.zip(then) else { return false };
    if place.ends_with("message") {
        let subject =
            |message: &str, verb: &str| message.split_once(verb).map(|(subject, _)| subject.to_owned());
        let then = then.contains(" left before its timeout").then(|| subject(then, " has ")).flatten();
        return then.is_some() && then == subject(now, " has less than ");
    }
    if !["run.updated_at_ms", "state.next_deadline"].contains(&place) {
        return false;
    }
    let time = |value: &str| {
        let time: Option<i64> = value.trim_matches('"').parse().ok();
        time.filter(|time| *time > 1_000_000_000_000)
    };
    time(now).zip(time(then)).is_some_and(|(now, then)| now == then + 1)
}

/// The ids of the questions about deadlines, which formats 1 and 2 do not have.
fn asked_at_deadlines(events: &[v1::Event]) -> BTreeSet<String> {
    let asked = events.iter().filter_map(|event| match &event.body {
        Some(v1::event::Body::QuestionAsked(asked)) => asked.question.as_ref(),
        _ => None,
    });
    let at_deadline = asked.filter(|asked| asked.purpose() == v1::QuestionPurpose::Timeout);
    at_deadline.map(|asked| asked.question_id.clone()).collect()
}

/// Whether the event asks or answers one of these questions.
fn is_about(event: &v1::Event, questions: &BTreeSet<String>) -> bool {
    match &event.body {
        Some(v1::event::Body::QuestionAsked(asked)) => {
            asked.question.as_ref().is_some_and(|asked| questions.contains(&asked.question_id))
        }
        Some(v1::event::Body::QuestionAnswered(answered)) => questions.contains(&answered.question_id),
        _ => false,
    }
}

/// The text without the number that follows these words.
fn without_token(text: String, words: &str) -> String {
    match text.split_once(words) {
        Some((before, after)) => {
            let after = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
            format!("{before}{words}{after}")
        }
        None => text,
    }
}

#[test]
fn every_format_has_every_story_and_every_kind_of_event() {
    let formats = [("format-1", KINDS_OF_FORMAT_1), ("format-2", KINDS_OF_FORMAT_1)];
    for (format, kinds) in formats {
        let of_format = |stored: &&Stored| stored.name.starts_with(&format!("{format}-"));
        let stored: Vec<&Stored> = STORED.iter().filter(of_format).collect();
        let names: BTreeSet<String> = stored.iter().map(|stored| stored.name.clone()).collect();
        let stories = STORIES.iter().filter(|(name, _)| !STORIES_SINCE_FORMAT_3.contains(name));
        let stories = stories.map(|(name, _)| format!("{format}-{name}")).collect();
        assert_eq!(names, stories);
        let events = stored.iter().flat_map(|stored| &stored.log.events);
        assert_eq!(
            events.map(kind).collect::<BTreeSet<_>>(),
            kinds.iter().map(|&kind| kind.to_owned()).collect()
        );
    }
}

#[test]
fn the_stories_of_this_version_have_every_kind_of_event_there_is() {
    let told = STORIES.iter().flat_map(|(_, story)| story(SEED, &Log::default(), 0).events);
    let told: BTreeSet<String> = told.map(|event| kind(&event)).collect();
    let known: BTreeSet<String> = kinds_of_the_contract();
    assert_eq!(told, known);
}

/// Every kind that the contract has: an event of that kind, with nothing in it, has a name.
fn kinds_of_the_contract() -> BTreeSet<String> {
    use prost::Message as _;
    let empty = |number: u32| {
        let mut bytes = Vec::new();
        prost::encoding::encode_key(number, prost::encoding::WireType::LengthDelimited, &mut bytes);
        prost::encoding::encode_varint(0, &mut bytes);
        v1::Event::decode(bytes.as_slice()).unwrap()
    };
    let events = (10..1_000).map(empty).filter(|event| event.body.is_some());
    events.map(|event| kind(&event)).collect()
}
