use super::*;
use crate::model::tests::{accepted, attempt_failed, events, leased, settled, started};
use crate::words::Language;

fn of(bodies: impl IntoIterator<Item = Body>) -> Vec<Decision> {
    explain(&events(bodies))
}

fn story() -> Vec<Body> {
    let Body::TaskLeased(mut first) = leased(0, 1) else { panic!("a lease") };
    (first.deadline_in_ms, first.warn_before_ms) = (Some(1_800_000), Some(60_000));
    let Body::TaskSettled(mut failed) = settled(0, v1::ResultStatus::Error, 2) else { panic!("an end") };
    failed.set_state(v1::TaskState::Failed);
    failed.error = Some(v1::Error {
        code: "NON_RETRYABLE_ERROR".to_owned(),
        message: "not retryable: LOGIC_ERROR".to_owned(),
        severity: v1::Severity::High.into(),
        reason: Some(
            "LOGIC_ERROR is on the list of failures that are not retried, by LOGIC_ERROR".to_owned(),
        ),
        cause: Some(Box::new(v1::Error { code: "LOGIC_ERROR".to_owned(), ..v1::Error::default() })),
        ..v1::Error::default()
    });
    let evaluation = v1::Evaluation {
        policy: v1::AggregationKind::Quorum.into(),
        successes: 0,
        total: 1,
        threshold: Some(0.5),
        reason: "quorum not met: 0/1 (0%), needs 50%".to_owned(),
        ..v1::Evaluation::default()
    };
    let over = v1::WaveFinished { evaluation: Some(evaluation), ..v1::WaveFinished::default() };
    let mut finished = v1::RunFinished {
        summary: Some(v1::ErrorSummary { total: 1, high: 1, ..v1::ErrorSummary::default() }),
        ..v1::RunFinished::default()
    };
    finished.set_outcome(v1::RunOutcome::Failed);
    vec![
        accepted(&["lint"]),
        started(),
        Body::TaskLeased(first),
        attempt_failed(0, 1, 1_000),
        leased(0, 2),
        Body::TaskSettled(failed),
        Body::WaveFinished(over),
        Body::RunFinished(finished),
    ]
}

/// Contract by contract, as the seed has the cascade.
// S000-IN-05
#[test]
fn each_decision_is_told_with_its_contract_and_its_numbers() {
    let decisions = of(story());
    assert_eq!(
        text(&decisions, Paint::OFF),
        "\
+  0.000s  registry     the agent is known
+  2.000s  lifecycle    lint: INIT -> ACTIVE, taken by process
+  2.000s  timeout      lint: has 30m for all attempts
+  3.000s  retry        lint: attempt 1 of 3 failed (SERVICE_UNAVAILABLE: exit code 75: busy); SERVICE_UNAVAILABLE is retryable: again in 1s
+  4.000s  lifecycle    lint: stays ACTIVE: attempt 2, taken by process
+  5.000s  retry        lint: no attempt follows after 2: NON_RETRYABLE_ERROR: LOGIC_ERROR is on the list of failures that are not retried, by LOGIC_ERROR
+  5.000s  severity     lint: HIGH: no rule knows it, and what is unknown counts as serious
+  5.000s  lifecycle    lint: -> FAILED, attempts: 2, took 1.5s
+  6.000s  aggregation  checks: stops, 0/1 (0%) under quorum: quorum not met: 0/1 (0%), needs 50%
+  7.000s  aggregation  errors: 1 (0 CRITICAL, 1 HIGH, 0 MEDIUM, 0 LOW)
+  7.000s  lifecycle    the run ended: failed"
    );
    let retry = decisions.iter().find(|decision| decision.contract == Contract::Retry).unwrap();
    assert_eq!(
        retry.to_json(),
        json!({
            "seq": 4,
            "at_ms": 4_000,
            "contract": "retry",
            "subject": "lint",
            "decision": "again",
            "numbers": {
                "attempt": 1,
                "max_attempts": 3,
                "code": "SERVICE_UNAVAILABLE",
                "entry": "SERVICE_UNAVAILABLE",
                "delay_ms": 1_000,
            },
            "text": retry.text,
        })
    );
}

#[test]
fn the_cascade_is_told_in_spanish() {
    let spanish = Language::Spanish.within(|| text(&of(story()), Paint::OFF));
    for expected in [
        "+  0.000s  registro       el agente es conocido\n",
        "+  2.000s  tiempo límite  lint: tiene 30m para todos los intentos\n",
        "+  6.000s  agregación     checks: se detiene, 0/1 (0%) con quorum: quórum no alcanzado: 0/1 (0%), se necesita 50%\n",
        "+  7.000s  ciclo de vida  la ejecución terminó: fallida",
    ] {
        assert!(spanish.contains(expected), "{expected} in\n{spanish}");
    }
}

/// The cascade begins and ends with the session.
// S000-IN-05
#[test]
fn a_plan_of_a_session_is_told_from_its_turn_to_the_end_of_it() {
    let mut story = story();
    story.insert(1, Body::PlanBegun(v1::PlanBegun::default()));
    for (language, expected) in [
        (
            Language::English,
            [
                "+  0.000s  registry     the agent is known\n+  1.000s  session      its turn has come\n",
                "+  8.000s  lifecycle    the run ended: failed\n+  8.000s  session      its turn is over",
            ],
        ),
        (
            Language::Spanish,
            [
                "+  0.000s  registro       el agente es conocido\n+  1.000s  sesión         llegó su turno\n",
                "+  8.000s  ciclo de vida  la ejecución terminó: fallida\n+  8.000s  sesión         terminó su turno",
            ],
        ),
    ] {
        let [begins, ends] = expected;
        let told = language.within(|| text(&of(story.clone()), Paint::OFF));
        assert!(told.starts_with(begins) && told.ends_with(ends), "{told}");
    }
    let session: Vec<&str> = of(story)
        .iter()
        .filter(|decision| decision.contract == Contract::Session)
        .map(|decision| decision.verdict)
        .collect();
    assert_eq!(session, ["turn", "turn_over"]);
}

#[test]
fn a_declared_severity_is_told_as_declared_and_nothing_of_nothing() {
    let Body::TaskSettled(mut failed) = settled(0, v1::ResultStatus::Error, 1) else { panic!("an end") };
    failed.error = Some(v1::Error {
        code: "LINT_WARNINGS".to_owned(),
        severity: v1::Severity::Critical.into(),
        ..v1::Error::default()
    });
    let decisions = of([accepted(&["lint"]), started(), Body::TaskSettled(failed)]);
    let severity = decisions.iter().find(|decision| decision.contract == Contract::Severity).unwrap();
    assert_eq!(severity.text, "CRITICAL: declared by the plan or the error");
    assert_eq!(text(&of([]), Paint::OFF), "Nothing was decided yet.");
}
