//! The same script on the same page comes to the same end, every time.

use capataz_contracts::v1;
use capataz_contracts::v1::event::Body;

use crate::bench::{Bench, Ended};

const TIMES: usize = 20;

/// What a run has to have in common with every other run of its script.
#[derive(Debug, PartialEq)]
struct Course {
    outcome: v1::RunOutcome,
    outputs: Vec<v1::ActionOutput>,
    stages: Vec<(u32, v1::ActionStage, bool)>,
    resolutions: Vec<Option<v1::ResolutionRecord>>,
    states: Vec<(Option<v1::StateSignature>, Option<v1::StateSignature>)>,
    changes: Vec<Option<v1::PageChanges>>,
    evidence: Vec<Vec<v1::EvidenceRef>>,
    error: Option<v1::ExecutorError>,
}

impl Course {
    fn of(ended: &Ended) -> Self {
        let stages = ended.events.iter().filter_map(|event| match &event.body {
            Some(Body::StageFinished(finished)) => {
                let record = finished.record.as_ref().unwrap();
                Some((finished.step_index, record.stage(), record.passed))
            }
            _ => None,
        });
        let finished = ended.finished();
        Self {
            outcome: ended.result.outcome(),
            outputs: ended.script().outputs,
            stages: stages.collect(),
            resolutions: finished.iter().map(|done| done.resolution.clone()).collect(),
            states: finished
                .iter()
                .map(|done| (done.state_before.clone(), done.state_after.clone()))
                .collect(),
            changes: finished.iter().map(|done| done.changes.clone()).collect(),
            evidence: finished.iter().map(|done| done.evidence.clone()).collect(),
            error: ended.script().error.map(timeless),
        }
    }
}

/// The error without what is of one run alone.
fn timeless(error: v1::ExecutorError) -> v1::ExecutorError {
    v1::ExecutorError { run_id: String::new(), created_at: String::new(), ..error }
}

async fn same_every_time(script: &str, outcome: v1::RunOutcome) {
    let bench = Bench::start().await;
    let first = Course::of(&bench.run(script).await);
    assert_eq!(first.outcome, outcome, "{first:?}");
    for time in 1..TIMES {
        let next = Course::of(&bench.run(script).await);
        assert_eq!(next, first, "time {time}");
    }
}

#[tokio::test]
async fn a_script_that_succeeds_does_so_in_the_same_way_twenty_times() {
    let script = r#"
        name = "order"
        [[actions]]
        id = "open"
        kind = "navigate"
        url = "http://{site}/form"
        [[actions]]
        id = "name"
        kind = "fill"
        target = { label = "Name" }
        value = "ana"
        [[actions]]
        id = "size"
        kind = "select"
        target = { label = "Size" }
        options = ["l"]
        [[actions]]
        id = "send"
        kind = "submit"
        target = { role = "button", name = "Send" }
        [[actions.post]]
        kind = "title_equals"
        value = "Sent"
        # The last of what was sent: a document is there before all of it is.
        [[actions.post]]
        kind = "text_contains"
        target = { testid = "sent" }
        value = "csrf"
        [[actions]]
        id = "sent"
        kind = "extract"
        extract = "table"
        output = "sent"
        target = { testid = "sent" }
        "#;
    same_every_time(script, v1::RunOutcome::Succeeded).await;
}

// S002-PR-03
#[tokio::test]
async fn a_script_that_fails_does_so_in_the_same_way_twenty_times() {
    let script = r#"
        name = "no effect"
        [[actions]]
        id = "open"
        kind = "navigate"
        url = "http://{site}/button/no-effect"
        [[actions]]
        id = "save"
        kind = "click"
        timeout_ms = 2000
        target = { testid = "target" }
        [[actions.post]]
        kind = "text_equals"
        target = { testid = "status" }
        value = "saved"
        "#;
    same_every_time(script, v1::RunOutcome::Failed).await;
}
