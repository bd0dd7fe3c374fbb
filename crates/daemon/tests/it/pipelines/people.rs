//! What people and agents may want of a pipeline beside its own commands.

use capataz_contracts::v1::{self, CheckpointStatus};
use serde_json::json as of;

use super::{
    REVIEW, answer, blocked, cause_of, checkpoints, eventually, given, pipeline, put, start, statuses, value,
};
use crate::support::{Harness, code_of, error, json, paths_of};

#[tokio::test]
async fn what_a_person_says_of_a_lost_worker_has_to_keep_the_rule_of_the_phase() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["reader", "teller"]).await;
    let once = REVIEW.replacen("agent = \"reader\"", "agent = \"reader\"\neffect = \"at_most_once\"", 1);
    let run = start(&harness, given(&once, of!({ "path": "src" }))).await;
    worker.assignment().await;
    drop(worker);
    // It comes back without its lease.
    let mut worker = harness.worker("w1", &["reader", "teller"]).await;
    let question = blocked(&harness, &run).await;
    assert_eq!(question.purpose(), v1::QuestionPurpose::Outcome);
    let mut runs = harness.runs.clone();
    let wrong = answer(&run, &question, "succeeded", Some(of!({ "title": 7 })));
    assert_eq!(paths_of(&runs.resolve(wrong).await.unwrap_err()), ["value/title"]);
    let nothing = answer(&run, &question, "succeeded", None);
    assert_eq!(code_of(&runs.resolve(nothing).await.unwrap_err()), "VALIDATION_ERROR");
    let right = answer(&run, &question, "succeeded", Some(of!({ "title": "the sea" })));
    runs.resolve(right).await.unwrap();
    let tell = worker.assignment().await;
    let input = value(&harness, tell.assignment.input.as_ref()).await;
    assert_eq!(input["phases"]["read"], of!({ "title": "the sea" }));
}

#[tokio::test]
async fn tasks_of_a_phase_are_neither_retried_nor_taken_back_one_by_one() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["reader", "teller"]).await;
    let run = start(&harness, given(REVIEW, of!({ "path": "src" }))).await;
    let read = worker.assignment().await;
    worker.complete(&read.lease, json(of!({ "title": "the sea" }))).await;
    let tell = worker.assignment().await;
    let before = harness.export(&run).await;
    for task in ["read", "tell"] {
        let retried = v1::RetryTaskRequest {
            run_id: run.clone(),
            task: task.to_owned(),
            request_id: format!("retry {task}"),
            ..v1::RetryTaskRequest::default()
        };
        let refused = harness.runs.clone().retry_task(retried).await.unwrap_err();
        assert_eq!(code_of(&refused), "INVALID_STATE_TRANSITION", "{task}: {refused:?}");
        for cascade in [false, true] {
            let back = v1::RollbackTaskRequest {
                run_id: run.clone(),
                task: task.to_owned(),
                request_id: format!("back {task} {cascade}"),
                if_seq: None,
                cascade,
            };
            let refused = harness.runs.clone().rollback_task(back).await.unwrap_err();
            assert_eq!(code_of(&refused), "INVALID_STATE_TRANSITION", "{task}: {refused:?}");
        }
    }
    assert_eq!(harness.export(&run).await, before);
    worker.complete(&tell.lease, json(of!(1))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}

#[tokio::test]
async fn a_failure_that_is_critical_blocks_its_phase_and_a_cancelled_run_is_cancelled() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["reader", "teller"]).await;
    let run = start(&harness, given(REVIEW, of!({ "path": "src" }))).await;
    let read = worker.assignment().await;
    let critical =
        v1::Error { severity: v1::Severity::Critical.into(), ..error("STATE_MISSING", "no state") };
    worker.fail(&read.lease, critical).await;
    let question = blocked(&harness, &run).await;
    assert_eq!(question.purpose(), v1::QuestionPurpose::Phase);
    let stands = checkpoints(&harness, &run, None).await;
    assert_eq!(statuses(&stands), [CheckpointStatus::Blocked, CheckpointStatus::Pending]);
    let cancel = v1::CancelRunRequest {
        run_id: run.clone(),
        request_id: "cancel".to_owned(),
        ..v1::CancelRunRequest::default()
    };
    harness.runs.clone().cancel_run(cancel).await.unwrap();
    let result = harness.wait(&run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::Cancelled);
    // What was known of the phase is kept.
    assert_eq!(checkpoints(&harness, &run, None).await, stands);
}

#[tokio::test]
async fn codes_that_are_never_retried_elsewhere_are_when_they_are_of_an_output() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["reader", "teller"]).await;
    let run = start(&harness, given(REVIEW, of!({ "path": "src" }))).await;
    for (attempt, code) in [(1, "VALIDATION_ERROR"), (2, "PARSE_ERROR"), (3, "LOGIC_ERROR")] {
        let read = worker.assignment().await;
        assert_eq!(
            (read.assignment.attempt, read.assignment.input),
            (attempt, Some(json(of!({ "path": "src" }))))
        );
        worker.fail(&read.lease, error(code, "no")).await;
    }
    let question = blocked(&harness, &run).await;
    let stands = checkpoints(&harness, &run, None).await;
    let payload = value(&harness, stands[0].payload.as_ref()).await;
    assert_eq!(payload["failed"][0]["attempts"], 3, "{payload}");
    assert_eq!(payload["failed"][0]["code"], "LOGIC_ERROR");
    assert_eq!(question.options, ["retry", "abort"]);
}

#[tokio::test]
async fn a_phase_whose_summary_is_too_large_is_blocked_again_unless_another_agent_does_it() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["reader", "careful"]).await;
    let toml = "name = \"p\"\n[[phases]]\nname = \"read\"\nagent = \"reader\"\nsummary = [\"text\"]";
    let run = start(&harness, pipeline(toml)).await;
    let read = worker.assignment().await;
    let output = put(&harness, of!({ "text": "a".repeat(33 * 1024) }).to_string().into_bytes()).await;
    worker.complete(&read.lease, output).await;
    let question = blocked(&harness, &run).await;
    harness.runs.clone().resolve(answer(&run, &question, "retry", None)).await.unwrap();
    let open = || async {
        let questions = harness.get(&run).await.questions;
        questions
            .into_iter()
            .find(|asked| asked.answer.is_none() && asked.question_id != question.question_id)
    };
    let again = eventually("a second question", open).await;
    assert_eq!(cause_of(&again), "CHECKPOINT_TOO_LARGE");
    // With another agent everything is done anew.
    let changed = answer(&run, &again, "retry", Some(of!({ "agent": "careful" })));
    harness.runs.clone().resolve(changed).await.unwrap();
    let read = worker.assignment().await;
    assert_eq!((read.assignment.agent.as_str(), read.assignment.attempt), ("careful", 1));
    worker.complete(&read.lease, json(of!({ "text": "short" }))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}
