use super::*;

fn agent() -> ProcessAgent {
    let output = OutputFormat::Json;
    ProcessAgent { retryable_exit_codes: vec![75], output, ..ProcessAgent::new("a", ["prog"]) }
}

fn seen(ending: Ending, stdout: &str, log: &'static str) -> Observation {
    Observation {
        ending: Some(ending),
        stdout: stdout.into(),
        log: Bytes::from_static(log.as_bytes()),
        ..Default::default()
    }
}

#[track_caller]
fn check_failure(observation: Observation, code: &str, message: &str) -> Box<v1::Error> {
    match ProcessOutcome::of(&agent(), &Redactor::default(), observation) {
        ProcessOutcome::Failed { error, .. } => {
            assert_eq!((error.code.as_str(), error.message.as_str()), (code, message));
            error
        }
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn the_exit_code_and_the_last_line_make_the_message() {
    let exited = |code| Ending::Exited { code };
    check_failure(
        seen(exited(3), "", "first\nsecond\n"),
        codes::AGENT_COMMAND_FAILED.as_str(),
        "exit code 3: second",
    );
    check_failure(seen(exited(3), "[1]", ""), codes::AGENT_COMMAND_FAILED.as_str(), "exit code 3");
    check_failure(seen(exited(75), "", "busy"), codes::SERVICE_UNAVAILABLE.as_str(), "exit code 75: busy");
}

#[test]
fn a_reported_error_wins_over_the_exit_code() {
    let stdout =
        r#"{"error": {"code": "QUOTA", "message": "later", "severity": "low", "retry_after_ms": 1500}}"#;
    let error = check_failure(seen(Ending::Exited { code: 75 }, stdout, "x"), "QUOTA", "later");
    assert_eq!((error.severity(), error.retry_after_ms), (v1::Severity::Low, Some(1500)));

    let stdout = r#"{"error": {"code": "QUOTA", "severity": 4, "retry_after_ms": -1}}"#;
    let error = check_failure(seen(Ending::Exited { code: 1 }, stdout, "x"), "QUOTA", "");
    assert_eq!((error.severity(), error.retry_after_ms), (v1::Severity::Critical, None));

    let stdout = r#"{"error": {"code": "not a code"}}"#;
    check_failure(
        seen(Ending::Exited { code: 1 }, stdout, "x"),
        codes::AGENT_COMMAND_FAILED.as_str(),
        "exit code 1: x",
    );
}

#[test]
fn signals_and_reasons_have_names() {
    check_failure(
        seen(Ending::Signalled { signal: 9 }, "", ""),
        codes::AGENT_COMMAND_FAILED.as_str(),
        "ended by signal 9 (SIGKILL)",
    );
    check_failure(
        seen(Ending::Signalled { signal: 40 }, "", ""),
        codes::AGENT_COMMAND_FAILED.as_str(),
        "ended by signal 40",
    );
    let missing = seen(Ending::NotStarted { errno: 2 }, "", "");
    check_failure(
        missing,
        codes::AGENT_COMMAND_NOT_STARTED.as_str(),
        "cannot start `prog`: No such file or directory",
    );
}

#[test]
fn what_was_found_is_shown_without_control_characters() {
    let found = seen(Ending::Exited { code: 0 }, "\u{1b}[2J oops", "");
    check_failure(
        found,
        codes::INVALID_OUTPUT.as_str(),
        "stdout is not one JSON value; it begins: \\u{1b}[2J oops",
    );
    let long = seen(Ending::Exited { code: 0 }, &"ñ".repeat(5000), "");
    check_failure(
        long,
        codes::INVALID_OUTPUT.as_str(),
        &format!("stdout is not one JSON value; it begins: {}", "ñ".repeat(200)),
    );
}

#[test]
fn stdout_is_json_where_it_is_one_value_and_else_text_unless_the_agent_says() {
    let read = |output, stdout: &str| {
        let agent = ProcessAgent { output, ..ProcessAgent::new("a", ["prog"]) };
        match ProcessOutcome::of(&agent, &Redactor::default(), seen(Ending::Exited { code: 0 }, stdout, "")) {
            ProcessOutcome::Completed { output, .. } => {
                (output.media_type, String::from_utf8(output.bytes.to_vec()).unwrap())
            }
            other => unreachable!("{other:?}"),
        }
    };
    let expect = |media_type: &str, text: &str| (media_type.to_owned(), text.to_owned());
    let auto = OutputFormat::default();
    assert_eq!(read(auto, " {\"n\": 1}\n"), expect("application/json", "{\"n\": 1}"));
    assert_eq!(read(auto, "42\n"), expect("application/json", "42"));
    assert_eq!(read(auto, "\n"), expect("application/json", "null"));
    assert_eq!(read(auto, "42 words\n"), expect("text/plain", "42 words\n"));
    assert_eq!(read(auto, "{} {}"), expect("text/plain", "{} {}"));
    assert_eq!(read(OutputFormat::Text, "42\n"), expect("text/plain", "42\n"));
}

#[test]
fn a_cancelled_command_keeps_what_it_has_written() {
    let cancelled =
        |stdout: &str| Observation { cancelled: true, ..seen(Ending::Signalled { signal: 15 }, stdout, "") };
    let partial = |stdout| match ProcessOutcome::of(&agent(), &Redactor::default(), cancelled(stdout)) {
        ProcessOutcome::Cancelled { partial, .. } => partial,
        other => unreachable!("{other:?}"),
    };
    let output = |media_type: &str, text: &'static str| {
        Some(Output { media_type: media_type.to_owned(), bytes: Bytes::from_static(text.as_bytes()) })
    };
    assert_eq!(partial("{\"half\": true}\n"), output("application/json", "{\"half\": true}"));
    assert_eq!(partial("{\"half\":"), output("text/plain", "{\"half\":"), "it was to become JSON");
    assert_eq!(partial(""), None);
}

#[test]
fn what_is_cut_off_has_no_secret_however_it_is_read() {
    let secrets = Redactor::new(&["tok3n-value".to_owned()]);
    for output in [OutputFormat::Auto, OutputFormat::Json, OutputFormat::Text] {
        let agent = ProcessAgent { output, ..ProcessAgent::new("a", ["prog"]) };
        let seen = Observation {
            cancelled: true,
            ..seen(Ending::Signalled { signal: 15 }, "working with tok3n-value\n", "")
        };
        let ProcessOutcome::Cancelled { partial: Some(partial), .. } =
            ProcessOutcome::of(&agent, &secrets, seen)
        else {
            unreachable!("it was cancelled")
        };
        assert_eq!(&*partial.bytes, b"working with ***********\n", "{output:?}");
    }
}

#[test]
fn what_is_cut_off_and_is_json_has_no_secret_however_it_is_written() {
    let secrets = Redactor::new(&["tok3n-\"value".to_owned(), "20261999".to_owned()]);
    let partial = |output, stdout: &str| {
        let agent = ProcessAgent { output, ..ProcessAgent::new("a", ["prog"]) };
        let seen = Observation { cancelled: true, ..seen(Ending::Signalled { signal: 15 }, stdout, "") };
        match ProcessOutcome::of(&agent, &secrets, seen) {
            ProcessOutcome::Cancelled { partial: Some(Output { media_type, bytes }), .. } => {
                (media_type, String::from_utf8(bytes.to_vec()).unwrap())
            }
            other => unreachable!("{other:?}"),
        }
    };
    let expect = |media_type: &str, text: &str| (media_type.to_owned(), text.to_owned());
    for output in [OutputFormat::Auto, OutputFormat::Json] {
        for written in [r#""tok3n-\"value""#, r#""\u0074ok3n-\u0022value""#] {
            let stdout = format!("{{\"with\": {written}, \"n\": 1.0}}\n");
            let expected = expect("application/json", r#"{"with": "************", "n": 1.0}"#);
            assert_eq!(partial(output, &stdout), expected, "{output:?}");
        }
        // Asterisks are no number.
        assert_eq!(partial(output, "{\"pin\": 20261999}"), expect("text/plain", "{\"pin\": ********}"));
        assert_eq!(partial(output, "{\"pin\": 2026}"), expect("application/json", "{\"pin\": 2026}"));
    }
}

#[test]
fn a_lack_that_passes_is_tried_again() {
    for errno in [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM].map(Errno::raw_os_error) {
        for ending in [Ending::Refused { errno }, Ending::NotStarted { errno }] {
            let outcome = ProcessOutcome::of(&agent(), &Redactor::default(), seen(ending, "", ""));
            let ProcessOutcome::Failed { error, .. } = outcome else { unreachable!("{outcome:?}") };
            assert_eq!(error.code, codes::SERVICE_UNAVAILABLE.as_str(), "{}", error.message);
        }
    }
    let missing = Ending::NotStarted { errno: Errno::NOENT.raw_os_error() };
    let outcome = ProcessOutcome::of(&agent(), &Redactor::default(), seen(missing, "", ""));
    let ProcessOutcome::Failed { error, .. } = outcome else { unreachable!("{outcome:?}") };
    assert_eq!(error.code, codes::AGENT_COMMAND_NOT_STARTED);
}
