use serde_json::json;

use super::*;

/// 2024-01-21T00:00:00Z
const NOW: i64 = 1_705_795_200_000;

fn state(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(state) => state,
        other => panic!("{other} is not an object"),
    }
}

fn found(value: Value) -> Vec<(String, &'static str)> {
    violations(&state(value)).into_iter().map(|violation| (violation.path, violation.rule)).collect()
}

fn valid() -> Value {
    json!({
        "version": "1.0.0",
        "created_at": "2024-01-20T10:00:00Z",
        "updated_at": "2024-01-20T15:30:00Z",
        "current_flow": {"command": "execute", "phase": "verifying", "started_at": "2024-01-20T15:00:00Z"},
        "context": {"project_type": "brownfield", "tech_stack": ["nextjs"], "own": {"kept": true}},
        "history": [
            {"command": "plan", "completed_at": "2024-01-20T14:50:00Z", "result": "created"},
            {"command": "start", "completed_at": "2024-01-20T14:00:00Z"}
        ],
        "pending_tasks": ["a"],
        "blocked_on": null,
        "errors": {"count": 2},
        "suggested_next": "verify-work"
    })
}

#[track_caller]
fn check(change: impl FnOnce(&mut Map<String, Value>), expected: &[(&str, &str)]) {
    let mut changed = state(valid());
    change(&mut changed);
    let expected: Vec<(String, &str)> =
        expected.iter().map(|(path, rule)| ((*path).to_owned(), *rule)).collect();
    assert_eq!(
        violations(&changed)
            .into_iter()
            .map(|violation| (violation.path, violation.rule))
            .collect::<Vec<_>>(),
        expected
    );
}

// S000-C7-01
#[test]
fn a_valid_state_has_no_violations() {
    check(|_| {}, &[]);
    assert_eq!(found(Value::Object(initial(NOW))), []);
    assert_eq!(found(json!({"version": "", "updated_at": "2024-01-20", "somebodys": 1})), []);
}

// S000-C7-19
#[test]
fn a_state_to_begin_with_has_every_field_and_nothing_in_it() {
    let now = "2024-01-21T00:00:00.000Z";
    assert_eq!(
        Value::Object(initial(NOW)),
        json!({
            "version": "1.0.0",
            "created_at": now,
            "updated_at": now,
            "current_flow": null,
            "context": {},
            "history": [],
            "pending_tasks": [],
            "blocked_on": null,
            "errors": {"count": 0},
            "suggested_next": null
        })
    );
}

// S000-C7-02, S000-C7-04, S000-C7-09
#[test]
fn every_field_has_the_types_of_the_contract() {
    let wrong = |field: &'static str, value: Value| {
        move |state: &mut Map<String, Value>| drop(state.insert(field.to_owned(), value))
    };
    for field in ["version", "created_at", "updated_at", "context", "history", "pending_tasks", "errors"] {
        check(wrong(field, Value::Null), &[(field, "TYPE_MISMATCH")]);
        check(wrong(field, json!(7)), &[(field, "TYPE_MISMATCH")]);
    }
    for field in ["current_flow", "blocked_on", "suggested_next"] {
        check(wrong(field, Value::Null), &[]);
        check(wrong(field, json!([])), &[(field, "TYPE_MISMATCH")]);
    }
    check(wrong("context", json!([])), &[("context", "TYPE_MISMATCH")]);
    check(
        wrong("context", json!({"tech_stack": "nextjs", "project_type": []})),
        &[("context.project_type", "TYPE_MISMATCH"), ("context.tech_stack", "TYPE_MISMATCH")],
    );
    check(
        wrong("current_flow", json!({"command": 1, "started_at": "2024-01-20T15:00:00Z"})),
        &[("current_flow.phase", "MISSING_REQUIRED"), ("current_flow.command", "TYPE_MISMATCH")],
    );
}

// S000-C7-05, S000-C7-06
#[test]
fn a_phase_is_one_of_its_command() {
    let invalid = [("current_flow.phase", "INVALID_PHASE")];
    for (command, phase, expected) in [
        ("execute", "executing_wave_1", &[][..]),
        ("execute", "executing_wave_12", &[]),
        ("execute", "executing_wave_0", &invalid),
        ("execute", "executing_wave_", &invalid),
        ("execute", "executing_wave_1a", &invalid),
        ("execute", "executing_wave_N", &invalid),
        ("execute", "planning", &invalid),
        ("start", "greeting", &[]),
        ("plan", "researching", &[]),
        ("verify-work", "aggregating", &[]),
        ("debug", "diagnosing", &[]),
        ("quick", "executing", &[]),
        ("quick", "executing_wave_1", &invalid),
        ("somebodys", "any", &[]),
    ] {
        let flow = json!({"command": command, "phase": phase, "started_at": "2024-01-20T15:00:00Z"});
        check(|state| drop(state.insert("current_flow".to_owned(), flow)), expected);
    }
}

// S000-C7-10
#[test]
fn an_entry_of_the_history_has_a_command_and_a_time() {
    let history = json!([
        {"command": "plan", "completed_at": "yesterday"},
        {"command": ""},
        {"command": 7, "completed_at": null},
        "plan"
    ]);
    check(
        |state| drop(state.insert("history".to_owned(), history)),
        &[
            ("history[1].command", "MISSING_REQUIRED"),
            ("history[1].completed_at", "MISSING_REQUIRED"),
            ("history[2].command", "TYPE_MISMATCH"),
            ("history[2].completed_at", "MISSING_REQUIRED"),
            ("history[3]", "TYPE_MISMATCH"),
        ],
    );
    let many: Vec<Value> = (0..5_000).map(Value::from).collect();
    assert_eq!(found(json!({"version": "1", "updated_at": "2024-01-20", "history": many})).len(), 1_000);
}

// S000-C7-11, S000-C7-12
#[test]
fn times_are_dates_in_their_order() {
    let times = |created: &'static str, updated: &'static str| {
        move |state: &mut Map<String, Value>| {
            state.insert("created_at".to_owned(), json!(created));
            state.insert("updated_at".to_owned(), json!(updated));
        }
    };
    check(times("2024-01-20T10:00:00Z", "2024-01-20T10:00:00Z"), &[]);
    check(times("2024-01-20T12:00:00+02:00", "2024-01-20T10:00:00.001Z"), &[]);
    check(times("2024-01-20", "2024-01-20T00:00:00"), &[]);
    check(
        times("2024-01-20T10:00:01Z", "2024-01-20T10:00:00Z"),
        &[("timestamps", "INVALID_TIMESTAMP_ORDER")],
    );
    for wrong in ["", "soon", "2024-13-01T00:00:00Z", "2024-02-30"] {
        check(times(wrong, "2024-01-20T10:00:00Z"), &[("created_at", "INVALID_TIMESTAMP")]);
        check(times("2024-01-20T10:00:00Z", wrong), &[("updated_at", "INVALID_TIMESTAMP")]);
    }
}

// S000-C7-09, S000-C7-13
#[test]
fn what_is_missing_is_critical_and_the_rest_high() {
    let error = |value: Value| failed(&violations(&state(value)));
    let critical = error(json!({"version": "1.0.0"})).unwrap();
    assert_eq!(
        (critical.code.as_str(), critical.severity()),
        ("SESSION_VALIDATION_FAILED", v1::Severity::Critical)
    );
    assert_eq!(critical.message, "1 validation error found");
    assert_eq!(critical.details[0].message, "required field 'updated_at' is missing");
    let high = error(json!({"version": 1, "updated_at": true})).unwrap();
    assert_eq!(high.severity(), v1::Severity::High);
    let said: Vec<&str> = high.details.iter().map(|detail| detail.message.as_str()).collect();
    assert_eq!(
        said,
        [
            "field 'version' has an invalid type: expected string, found number",
            "field 'updated_at' has an invalid type: expected string, found boolean",
        ]
    );
    assert_eq!(error(valid()), None);
}

// S000-C7-07, S000-C7-08
#[test]
fn what_is_no_json_and_what_is_no_object_is_told_apart() {
    let refused = parse(b"{\"version\": \"1.0.0\",\n  nope}").unwrap_err();
    assert_eq!((refused.code.as_str(), refused.severity()), ("JSON_PARSE_ERROR", v1::Severity::Critical));
    assert!(refused.message.ends_with("line 2 column 3"), "{}", refused.message);
    for (text, kind) in
        [("[]", "array"), ("null", "null"), ("7", "number"), ("\"a\"", "string"), ("true", "boolean")]
    {
        let refused = parse(text.as_bytes()).unwrap_err();
        assert_eq!(refused.code, "INVALID_STATE_TYPE");
        assert_eq!(refused.message, format!("the state must be an object, not {kind}"));
    }
    let mut large = vec![b' '; MAX_BYTES];
    assert_eq!(parse(&large).unwrap_err().code, "JSON_PARSE_ERROR");
    large.push(b' ');
    assert!(parse(&large).unwrap_err().message.contains("larger than 4194304 bytes"));
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    assert_eq!(parse(&deep).unwrap_err().code, "JSON_PARSE_ERROR");
}

// S000-C7-18, S000-C7-26
#[test]
fn only_a_valid_state_that_can_be_read_again_is_written() {
    let text = text(&state(valid())).unwrap();
    assert_eq!(parse(&text).unwrap(), state(valid()));
    assert!(text.starts_with(b"{\n  \"") && text.ends_with(b"\n}\n"));

    let refused = super::text(&state(json!({"version": "1", "updated_at": "soon"}))).unwrap_err();
    assert_eq!((refused.code.as_str(), refused.severity()), ("SESSION_INVALID", v1::Severity::High));
    assert_eq!(refused.details[0].message, "timestamp 'updated_at' is not a valid date: soon");

    // Laid out it would be too large to be read again; on one line it is not.
    let of_size = |ones: usize| {
        let mut large = state(valid());
        large.insert("own".to_owned(), json!(vec![1; ones]));
        large
    };
    let written = super::text(&of_size(1_000_000)).unwrap();
    assert!(parse(&written).is_ok() && !written.starts_with(b"{\n"));
    let refused = super::text(&of_size(2_100_000)).unwrap_err();
    assert_eq!(refused.code, "SESSION_INVALID");
    assert_eq!(refused.message, "the state would be larger than 4194304 bytes, the most that is read");
    let failed = repair_failed(refused);
    assert_eq!((failed.code.as_str(), failed.severity()), ("REPAIR_FAILED", v1::Severity::Critical));
}

// S000-C7-14, S000-C7-15, S000-C7-16, S000-C7-17
#[test]
fn a_repair_keeps_what_is_valid_and_tells_what_it_has_changed() {
    let damaged = json!({
        "current_flow": {"command": "execute", "phase": "nowhere"},
        "created_at": "soon",
        "context": {"project_type": "brownfield", "tech_stack": "nextjs", "own": 1},
        "history": [{"command": "plan", "completed_at": "2024-01-20T14:50:00Z"}, {"command": "x"}, 7],
        "errors": {"count": 3},
        "somebodys": [1]
    });
    let (repaired, repairs) = repaired(&state(damaged), NOW);
    assert_eq!(
        Value::Object(repaired),
        json!({
            "version": "1.0.0",
            "created_at": "2024-01-21T00:00:00.000Z",
            "updated_at": "2024-01-21T00:00:00.000Z",
            "current_flow": null,
            "context": {"project_type": "brownfield", "own": 1},
            "history": [{"command": "plan", "completed_at": "2024-01-20T14:50:00Z"}],
            "pending_tasks": [],
            "blocked_on": null,
            "errors": {"count": 0},
            "suggested_next": null,
            "somebodys": [1]
        })
    );
    let of = |field: &str| field.to_owned();
    assert_eq!(
        repairs,
        [
            Repair::Added { field: of("version") },
            Repair::Added { field: of("created_at") },
            Repair::Reset { field: of("updated_at") },
            Repair::Removed { field: of("context.tech_stack") },
            Repair::Filtered { entries: 2 },
            Repair::Reset { field: of("current_flow") },
            Repair::Reset { field: of("errors") },
        ]
    );
}

#[test]
fn a_text_that_ends_at_any_byte_gives_what_was_whole_before() {
    let text = serde_json::to_string_pretty(&valid()).unwrap();
    let whole = state(valid());
    let mut kept = 0;
    for end in 0..text.len() {
        let Some(salvaged) = salvaged(&text.as_bytes()[..end]) else { continue };
        kept += 1;
        for (field, value) in &salvaged {
            let original = &whole[field];
            match (value, original) {
                (Value::Array(some), Value::Array(all)) => {
                    let (last, before) =
                        some.split_last().map_or((None, &some[..]), |(last, rest)| (Some(last), rest));
                    assert!(all.starts_with(before), "{field} of the first {end} bytes: {value}");
                    // The last one may have lost fields.
                    let of = all.get(before.len());
                    assert!(last.is_none() || last == of || last.unwrap().is_object(), "{field}: {value}");
                }
                (Value::Object(some), Value::Object(all)) => {
                    assert!(
                        some.keys().all(|key| all.contains_key(key)),
                        "{field} of the first {end} bytes: {value}"
                    );
                }
                _ => assert_eq!(value, original, "{field} of the first {end} bytes"),
            }
        }
        let (repaired, _) = repaired(&salvaged, NOW);
        assert_eq!(violations(&repaired), []);
    }
    // All but the beginning up to the first comma.
    assert!(kept > text.len() - 40, "{kept} of {}", text.len());
    assert_eq!(salvaged(text.as_bytes()), Some(whole));
}

#[test]
fn damage_in_the_middle_leaves_what_is_before_it() {
    for (text, expected) in [
        (r#"{"a": 1, "b": {"c": [1, 2, x], "d": 2}, "e": 3}"#, Some(json!({"a": 1, "b": {"c": [1, 2]}}))),
        (r#"{"a": "x, y}", "b": tru"#, Some(json!({"a": "x, y}"}))),
        (r#"{"a": {}, ]"#, Some(json!({"a": {}}))),
        ("{\n \"a\": 1,\n \"b\":: 2}", Some(json!({"a": 1}))),
        (r#"{"a"#, None),
        ("{", None),
        ("", None),
        ("[1, 2", None),
        ("[]", None),
        ("nonsense, {}", None),
        // What stands before it is damage as well.
        ("\u{feff}{\"a\": 1}", Some(json!({"a": 1}))),
        ("<<<<<<< HEAD\n{\"a\": 1, \"b\": tru", Some(json!({"a": 1}))),
        (" [{\"a\": 1}", None),
        ("\u{feff}[{\"a\": 1}]", None),
        ("<<<<<<< HEAD\n[{\"a\": 1}]", None),
    ] {
        assert_eq!(salvaged(text.as_bytes()).map(Value::Object), expected, "{text}");
    }
    let broken = [&b"{\"a\": 1, \"b\": \"\xff\xfe\", \"c\": 2}"[..]].concat();
    assert_eq!(salvaged(&broken).map(Value::Object), Some(json!({"a": 1})));
}

mod any {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_are_read_or_refused_and_what_is_kept_of_them_can_be_repaired(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            cut in 0..500_usize,
            place in 0..500_usize,
        ) {
            let mut text = serde_json::to_vec(&valid()).unwrap();
            text.truncate(cut.max(1));
            let place = place % text.len();
            text.splice(place..place, bytes.iter().copied().take(4));
            for input in [&bytes, &text] {
                let _ = parse(input);
                if let Some(salvaged) = salvaged(input) {
                    let (repaired, _) = repaired(&salvaged, NOW);
                    prop_assert_eq!(violations(&repaired), []);
                }
            }
        }
    }
}

#[test]
fn the_log_of_a_session_says_which_error_was_mended() {
    let words = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    let log = told("SESSION_CORRUPTED", "restored", words(&["context reset"]));
    assert_eq!(log, ["SESSION_CORRUPTED: restored", "context reset"]);
    assert_eq!(mended(&log), Some(codes::SESSION_CORRUPTED));
    // Words of somebody else, who names no code.
    assert_eq!(mended(&words(&["history: one entry"])), Some(codes::SESSION_VALIDATION_FAILED));
    assert_eq!(mended(&[]), None);
}
