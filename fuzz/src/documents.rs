//! Files and documents that people and programs write.

use std::fmt::Debug;
use std::fs;
use std::path::PathBuf;

use capataz_contracts::plan_file::{self, Format};
use capataz_contracts::validate::{self, PlanLimits};
use capataz_contracts::{json, pipeline_file, script_file, spec};
use capataz_daemon::{Config, ConfigError, Overrides, check_pipeline};
use capataz_engine::{Plan, materialise_pipeline};
use capataz_executor::chromium::StorageState;
use capataz_executor::dsl;
use capataz_judge::{REPORTED_MAX, Schema};
use capataz_policy::codes::Code;
use capataz_policy::session::{self, Place, Places, Progress, Repair, Stage, WorkResult};
use capataz_router::Catalogue;
use prost::Message;
use serde_json::{Map, Value};

/// As a person would choose: an object of JSON begins with a brace, and no file of TOML does.
fn format_of(bytes: &[u8]) -> Format {
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    if first == Some(&b'{') { Format::Json } else { Format::Toml }
}

/// What was read is printed, and reads as the same message again.
fn survives_printing<M: Message + Default + PartialEq + Debug>(full_name: &str, message: &M) {
    let printed = json::print(full_name, message);
    let again: Result<M, _> = json::parse(full_name, &printed);
    assert!(
        again.as_ref() == Ok(message),
        "{full_name}: {message:?} is printed as {printed}, read as {again:?}"
    );
}

pub(crate) fn plan(bytes: &[u8]) {
    match plan_file::parse_bytes(bytes, format_of(bytes)) {
        Ok(mut plan) => {
            survives_printing("capataz.v1.Plan", &plan);
            if validate::plan(&plan, &PlanLimits::default()).is_empty()
                && Plan::materialise(&mut plan).is_ok()
            {
                let once = plan.clone();
                assert_eq!(Plan::materialise(&mut plan), Ok(()));
                assert_eq!(plan, once, "what is filled in stays as it is");
                survives_printing("capataz.v1.Plan", &plan);
            }
        }
        Err(violations) => assert!(!violations.is_empty()),
    }
}

/// A pipeline, whose schemas' files are read as [`schema_file`] gives them.
pub(crate) fn pipeline(bytes: &[u8]) {
    match pipeline_file::parse_bytes(bytes, format_of(bytes), &mut schema_file) {
        Ok(mut pipeline) => {
            survives_printing("capataz.v1.Pipeline", &pipeline);
            if check_pipeline(&pipeline).is_empty() {
                assert_eq!(materialise_pipeline(&mut pipeline), Ok(()), "what is taken can be filled in");
                let once = pipeline.clone();
                assert_eq!(materialise_pipeline(&mut pipeline), Ok(()));
                assert_eq!(pipeline, once, "what is filled in stays as it is");
            }
        }
        Err(violations) => assert!(!violations.is_empty()),
    }
}

/// The files that are there all say the same; the name of any other one is its contents.
fn schema_file(name: &str) -> Result<Vec<u8>, String> {
    match name {
        "" => Err("it has no name".to_owned()),
        name if name.ends_with(".json") => Ok(b"{\"type\":\"object\"}".to_vec()),
        contents => Ok(contents.as_bytes().to_vec()),
    }
}

pub(crate) fn script(bytes: &[u8]) {
    match script_file::parse_bytes(bytes, format_of(bytes)) {
        Ok(mut script) => {
            survives_printing("capataz.v1.Script", &script);
            if dsl::check_script(&script).is_empty() {
                dsl::materialise(&mut script);
                let violations = dsl::check_script(&script);
                assert!(violations.is_empty(), "with its defaults it passes as well: {violations:?}");
                let once = script.clone();
                dsl::materialise(&mut script);
                assert_eq!(script, once, "what is filled in stays as it is");
                survives_printing("capataz.v1.Script", &script);
            }
        }
        Err(violations) => assert!(!violations.is_empty()),
    }
}

pub(crate) fn spec_file(bytes: &[u8]) {
    let lines = bytes.split(|byte| *byte == b'\n').count();
    let read = Catalogue::read(&[("one.toml", bytes)]);
    match &read {
        Ok(catalogue) => assert_eq!(catalogue.specs().len(), 1),
        Err(errors) => {
            assert!(!errors.is_empty());
            for error in errors {
                assert!((1..=lines).contains(&error.line), "{error:?} in {lines} lines");
                assert!(error.column >= 1, "{error:?}");
            }
        }
    }
    // A spec is there once.
    if read.is_ok() {
        assert!(Catalogue::read(&[("one.toml", bytes), ("two.toml", bytes)]).is_err());
    }
}

pub(crate) fn spec_request(bytes: &[u8]) {
    match spec::parse_request(bytes) {
        Ok(request) => {
            let printed = json::print(spec::REQUEST, &request);
            let again = spec::parse_request(printed.to_string().as_bytes());
            assert!(again.as_ref() == Ok(&request), "{request:?} is read again as {again:?}");
        }
        Err(violations) => assert!(!violations.is_empty()),
    }
}

pub(crate) fn spec_response(bytes: &[u8]) {
    let excerpt = spec::excerpt(bytes);
    match spec::parse_response(bytes) {
        Ok(response) => {
            let short = spec::parse_response(excerpt.response.as_bytes());
            assert!(short.is_ok_and(|short| short.success == response.success), "{excerpt:?}");
            let printed = json::print("capataz.v1.SpecResponse", &response);
            let again = spec::parse_response(printed.to_string().as_bytes());
            assert!(again.as_ref() == Ok(&response), "{response:?} is read again as {again:?}");
        }
        Err(violations) => assert!(!violations.is_empty() && !excerpt.broken.is_empty()),
    }
}

/// A schema, a zero byte, and the text of a value.
pub(crate) fn schema(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let (text, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let Ok(text) = std::str::from_utf8(text) else { return };
    match Schema::compile(text) {
        Ok(schema) => {
            let verdict = schema.judge(value);
            assert!(verdict.len() <= REPORTED_MAX + 1, "{} violations", verdict.len());
            assert_eq!(verdict, schema.judge(value), "a verdict follows from schema and value alone");
            assert_eq!(verdict, capataz_judge::judge(text, json::JSON_MEDIA_TYPE, value));
            if let Some(lowered) = schema.lowered(value) {
                let [before, after] = [value, &lowered].map(|text| json::from_slice(text).map(in_lower_case));
                assert!(before.is_ok() && before == after, "only the case of texts changes");
            }
        }
        Err(violations) => assert!(!violations.is_empty() && violations.len() <= REPORTED_MAX + 1),
    }
}

/// The value with the texts in it, but not its keys, in lower case.
fn in_lower_case(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.to_lowercase()),
        Value::Array(items) => items.into_iter().map(in_lower_case).collect(),
        Value::Object(object) => object.into_iter().map(|(key, value)| (key, in_lower_case(value))).collect(),
        other => other,
    }
}

pub(crate) fn storage_state(bytes: &[u8]) {
    let Ok(state) = serde_json::from_slice::<StorageState>(bytes) else { return };
    let written = serde_json::to_vec(&state).unwrap_or_default();
    let again = serde_json::from_slice::<StorageState>(&written);
    assert!(again.is_ok_and(|again| again == state), "what was kept comes back");
}

/// Lines of a text, as editors count them.
fn lines_of(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte == b'\n').count() + 1
}

/// The mark with which some editors begin a file.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The daemon's configuration, and behind zero bytes a profile and a file of rules, which it may name.
pub(crate) fn configuration(bytes: &[u8]) {
    let folder = tempfile::tempdir();
    assert!(folder.is_ok(), "{folder:?}");
    let Ok(folder) = folder else { return };
    let names = ["capataz.toml", "crew.toml", "rules.toml"];
    let texts = bytes.splitn(names.len(), |byte| *byte == 0);
    let files: Vec<(PathBuf, &[u8])> =
        names.into_iter().map(|name| folder.path().join(name)).zip(texts).collect();
    for (file, text) in &files {
        let written = fs::write(file, text);
        assert!(written.is_ok(), "{written:?}");
    }
    let Some((file, text)) = files.first() else { return };
    match Config::load(Some(file), Overrides::default()) {
        Ok(config) => {
            assert!(!config.describe().is_empty());
            let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(*text);
            let written = fs::write(file, [BYTE_ORDER_MARK, text, b"\n# The same.\n"].concat());
            assert!(written.is_ok(), "{written:?}");
            let again = Config::load(Some(file), Overrides::default());
            let is_same = again.as_ref().is_ok_and(|again| again.describe() == config.describe());
            assert!(is_same, "a mark and a remark change nothing: {again:?}");
        }
        Err(error) => {
            let problems = match &error {
                ConfigError::Invalid(problems) => problems.as_slice(),
                ConfigError::Missing(_) => &[],
            };
            assert!(!problems.is_empty(), "{error:?}");
            for problem in problems {
                let Some((line, column)) = problem.place else { continue };
                let of_file = |(file, _): &&(PathBuf, &[u8])| {
                    problem.file.as_deref() == Some(file.display().to_string().as_str())
                };
                let Some((_, text)) = files.iter().find(of_file) else { continue };
                let lines = lines_of(text);
                assert!((1..=lines).contains(&line) && column >= 1, "{problem:?} in {lines} lines");
            }
        }
    }
}

/// The moment at which states are repaired and plans are at work: 2024-01-21T00:00:00Z, in Unix milliseconds.
const NOW: i64 = 1_705_795_200_000;

/// The state of a session, as commands check, repair and restore it.
pub(crate) fn session_state(bytes: &[u8]) {
    let kept = session::salvaged(bytes);
    let parsed = session::parse(bytes);
    let is_whole = parsed.is_ok();
    let state = match parsed {
        Ok(state) => {
            assert_eq!(kept.unwrap_or_default(), state, "nothing is lost of what is whole");
            state
        }
        Err(error) => {
            assert!(Code::named(&error.code).is_some(), "{error:?}");
            let Some(kept) = kept else { return };
            assert!(!kept.is_empty(), "what is kept is something");
            kept
        }
    };
    let violations = session::violations(&state);
    assert_eq!(session::failed(&violations).is_none(), violations.is_empty());
    let (places, lines) = (Places::of(bytes), lines_of(bytes));
    for violation in &violations {
        match places.find(&violation.path) {
            Some(Place { line, column }) => {
                assert!(
                    (1..=lines).contains(&line) && column >= 1,
                    "{line}:{column} of {lines} lines: {violation}"
                );
            }
            None => assert!(!is_whole, "what is wrong has a place: {violation}"),
        }
    }
    let _ = session::updated_at(&state);
    let text = session::text(&state);
    assert_eq!(text.is_ok(), violations.is_empty(), "what is valid is written, and nothing else: {text:?}");
    if let Ok(text) = text {
        assert_eq!(session::parse(&text).as_ref(), Ok(&state), "what is written is read again");
        has_a_plan_at_work(&state);
    }
    is_repaired(&state);
}

/// What a plan at work makes of a valid state is valid.
fn has_a_plan_at_work(state: &Map<String, Value>) {
    let result = WorkResult::SucceededWithFailures;
    for stage in [Stage::Begun, Stage::Wave(1), Stage::Verifying, Stage::Ended(result)] {
        let progress = Progress {
            run_id: "run",
            stage,
            blocked_on: Some("a person".to_owned()),
            pending: vec!["a"],
            failures: 1,
        };
        let mut then = state.clone();
        then.extend(session::changes(state, &progress, NOW));
        let violations = session::violations(&then);
        assert!(violations.is_empty(), "{stage:?}: {violations:?}");
    }
}

/// What a repair keeps is valid, and is kept by the next repair.
fn is_repaired(state: &Map<String, Value>) {
    let (repaired, _) = session::repaired(state, NOW);
    let violations = session::violations(&repaired);
    assert!(violations.is_empty(), "{violations:?}");
    let text = session::text(&repaired);
    let read = text.as_deref().map(session::parse);
    assert!(matches!(&read, Ok(Ok(read)) if *read == repaired), "what is repaired is read again: {read:?}");
    let (again, repairs) = session::repaired(&repaired, NOW);
    assert_eq!(again, repaired, "what is valid stays as it is");
    assert_eq!(repairs, [Repair::Reset { field: "updated_at".to_owned() }]);
}
