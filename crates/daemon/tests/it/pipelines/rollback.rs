//! The way back to a checkpoint.

use capataz_contracts::v1::{self, CheckpointStatus, connect_response::Frame as Hear, event::Body};
use serde_json::json as of;

use super::{
    REVIEW, answer, back_to, blocked, checkpoints, eventually, given, put, roll_back, seq_of, start,
    statuses, value,
};
use crate::support::worker::Assigned;
use crate::support::{Harness, Worker, code_of, error, json, one_wave};

/// A run whose second phase is at work.
async fn telling(harness: &Harness, worker: &mut Worker) -> (String, Assigned) {
    let run = start(harness, given(REVIEW, of!({ "path": "src" }))).await;
    let read = worker.assignment().await;
    worker.complete(&read.lease, json(of!({ "title": "the sea" }))).await;
    (run, worker.assignment().await)
}

// S003-CP-03 S003-CP-05
#[tokio::test]
async fn a_rollback_ends_what_is_at_work_and_leaves_the_checkpoint_before_it_as_it_was() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["reader", "teller"]).await;
    let (run, held) = telling(&harness, &mut worker).await;
    let completed = seq_of(&harness, &run, |body| matches!(body, Body::PhaseCompleted(_))).await;
    let then = checkpoints(&harness, &run, Some(completed)).await;
    assert_eq!(statuses(&then), [CheckpointStatus::Completed, CheckpointStatus::Pending]);

    let seq = roll_back(&harness, back_to(&run, "tell", "back")).await.unwrap();
    let revoked = worker.hear_until(|frame| match frame {
        Hear::LeaseRevoked(revoked) => revoked.lease.clone(),
        _ => None,
    });
    assert_eq!(revoked.await, held.lease);
    let back = seq_of(&harness, &run, |body| matches!(body, Body::PipelineRolledBack(_))).await;
    assert!(back <= seq);
    let now = checkpoints(&harness, &run, Some(back)).await;
    assert_eq!(now[0], then[0], "field by field");
    let begun = now[1].created_at_ms;
    assert!(begun.is_some() && now[1].updated_at_ms >= begun);
    let before = v1::Checkpoint { created_at_ms: None, updated_at_ms: None, ..now[1].clone() };
    assert_eq!(before, then[1], "as if it had not begun, but for its times");

    let anew = worker.assignment().await;
    assert_eq!((anew.assignment.task_name.as_str(), anew.assignment.attempt), ("tell.again-2", 1));
    assert_eq!(anew.assignment.input, held.assignment.input);
    // What was at work says its result all the same.
    worker.complete(&held.lease, json(of!("of the past"))).await;
    let refused = worker.hear_until(|frame| match frame {
        Hear::ResultRefused(refused) => Some((refused.lease.clone(), refused.reason())),
        _ => None,
    });
    assert_eq!(refused.await.0, Some(held.lease));
    let stands = checkpoints(&harness, &run, None).await;
    assert_eq!(statuses(&stands), [CheckpointStatus::Completed, CheckpointStatus::InProgress]);
    assert_eq!(stands[0], then[0]);

    // The same call again changes nothing.
    assert_eq!(roll_back(&harness, back_to(&run, "tell", "back")).await.unwrap(), seq);
    let reused = roll_back(&harness, back_to(&run, "", "back")).await.unwrap_err();
    assert_eq!(code_of(&reused), "REQUEST_ID_REUSED");
    worker.complete(&anew.lease, json(of!({ "told": true }))).await;
    let result = harness.wait(&run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::Succeeded);
    let told =
        result.tasks.iter().find(|task| task.name == "tell.again-2").and_then(|task| task.output.clone());
    assert_eq!(told, Some(json(of!({ "told": true }))));
}

#[tokio::test]
async fn of_two_clients_that_go_back_at_once_one_is_refused() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["reader", "teller"]).await;
    let (run, _held) = telling(&harness, &mut worker).await;
    let if_seq = Some(harness.get(&run).await.seq);
    let one = v1::RollbackPipelineRequest { if_seq, ..back_to(&run, "tell", "one") };
    let other = v1::RollbackPipelineRequest { if_seq, ..back_to(&run, "tell", "other") };
    let (one, other) = tokio::join!(roll_back(&harness, one), roll_back(&harness, other));
    let refused = match (one, other) {
        (Ok(_), Err(refused)) | (Err(refused), Ok(_)) => refused,
        both => panic!("one of them: {both:?}"),
    };
    assert_eq!(code_of(&refused), "SEQ_MISMATCH");
    let events = harness.export(&run).await;
    let back = events.iter().filter(|event| matches!(event.body, Some(Body::PipelineRolledBack(_))));
    assert_eq!(back.count(), 1);
    assert_eq!(worker.assignment().await.assignment.task_name, "tell.again-2");
}

/// One client lets the blocked phase go on, another one goes back; both have seen the same.
#[tokio::test]
async fn of_a_client_that_resumes_and_one_that_goes_back_one_is_refused() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["reader", "teller"]).await;
    let (run, held) = telling(&harness, &mut worker).await;
    worker.fail(&held.lease, error("LOGIC_ERROR", "cannot tell")).await;
    let question = blocked(&harness, &run).await;
    let if_seq = Some(harness.get(&run).await.seq);
    let back = v1::RollbackPipelineRequest { if_seq, ..back_to(&run, "tell", "back") };
    let retry = v1::ResolveRequest { if_seq, ..answer(&run, &question, "retry", None) };
    let mut runs = harness.runs.clone();
    let (resumed, back) = tokio::join!(runs.resolve(retry), roll_back(&harness, back));
    let refused = match (&resumed, &back) {
        (Ok(_), Err(refused)) | (Err(refused), Ok(_)) => code_of(refused),
        both => panic!("one of them: {both:?}"),
    };
    assert!(["SEQ_MISMATCH", "QUESTION_ANSWERED"].contains(&&*refused), "{refused}");
    let log = harness.export(&run).await;
    let count = |wanted: fn(&Body) -> bool| {
        log.iter().filter(|event| event.body.as_ref().is_some_and(wanted)).count()
    };
    let happened = (
        count(|body| matches!(body, Body::PhaseChanged(_))),
        count(|body| matches!(body, Body::PipelineRolledBack(_))),
    );
    assert_eq!(happened, if resumed.is_ok() { (1, 0) } else { (0, 1) });
    let again = worker.assignment().await;
    assert_eq!(again.assignment.task_name, "tell.again-2");
    worker.complete(&again.lease, json(of!(1))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}

// S003-CP-05
#[tokio::test]
async fn a_run_goes_back_over_several_phases_and_no_further_than_to_a_completed_one() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["reader", "teller"]).await;
    let third = "\n[[phases]]\nname = \"check\"\nagent = \"reader\"\n";
    let run = start(&harness, given(&format!("{REVIEW}{third}"), of!({ "path": "src" }))).await;
    let read = worker.assignment().await;
    let refused = |phase: &'static str| {
        let (harness, run) = (&harness, &run);
        async move { code_of(&roll_back(harness, back_to(run, phase, phase)).await.unwrap_err()) }
    };
    assert_eq!(refused("tell").await, "CHECKPOINT_NOT_FOUND", "the phase before it is not completed");
    assert_eq!(refused("read").await, "CHECKPOINT_NOT_FOUND", "no phase comes before it");
    let unknown = roll_back(&harness, back_to(&run, "tel", "tel")).await.unwrap_err();
    assert_eq!((code_of(&unknown).as_str(), unknown.code()), ("PHASE_NOT_FOUND", tonic::Code::NotFound));
    assert!(unknown.message().contains("read, tell, check"), "{}", unknown.message());

    worker.complete(&read.lease, json(of!({ "title": "the sea" }))).await;
    let tell = worker.assignment().await;
    worker.complete(&tell.lease, json(of!(1))).await;
    let check = worker.assignment().await;
    assert_eq!(check.assignment.task_name, "check");
    roll_back(&harness, back_to(&run, "tell", "two phases")).await.unwrap();
    let tell = worker.assignment().await;
    assert_eq!(tell.assignment.task_name, "tell.again-2");
    let stands = checkpoints(&harness, &run, None).await;
    use CheckpointStatus::{Completed, InProgress, Pending};
    assert_eq!(statuses(&stands), [Completed, InProgress, Pending]);
    worker.complete(&tell.lease, json(of!(2))).await;
    let check = worker.assignment().await;
    assert_eq!(check.assignment.task_name, "check.again-2");
    worker.complete(&check.lease, json(of!(3))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
    assert_eq!(refused("check").await, "RUN_FINISHED");

    let of_plan = harness.start_run(one_wave(&["reader"])).await;
    let refusal = roll_back(&harness, back_to(&of_plan, "", "no pipeline")).await.unwrap_err();
    assert!(!code_of(&refusal).is_empty(), "{refusal:?}");
    assert!(checkpoints(&harness, &of_plan, None).await.is_empty());
}

/// Whichever is first, the phase begins anew, and its worker is told what became of its result.
#[tokio::test]
async fn a_result_that_is_being_judged_when_the_run_goes_back_counts_or_is_refused() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["reader", "teller"]).await;
    let third = "\n[[phases]]\nname = \"check\"\nagent = \"reader\"\n";
    let run = start(&harness, given(&format!("{REVIEW}{third}"), of!({ "path": "src" }))).await;
    let read = worker.assignment().await;
    worker.complete(&read.lease, json(of!({ "title": "the sea" }))).await;
    // Long enough to be judged for a while.
    let output = put(&harness, of!(vec![1; 200_000]).to_string().into_bytes()).await;
    for number in 1..=5 {
        let tell = loop {
            let given = worker.assignment().await;
            // The phase after it may have begun in between.
            if given.assignment.task_name.starts_with("tell") {
                break given;
            }
        };
        worker.complete(&tell.lease, output.clone()).await;
        roll_back(&harness, back_to(&run, "tell", &format!("back {number}"))).await.unwrap();
        let about = |lease: &Option<v1::LeaseRef>| lease.as_ref() == Some(&tell.lease);
        let heard = worker.hear_until(|frame| match frame {
            Hear::ResultAccepted(accepted) => about(&accepted.lease).then_some(()),
            Hear::ResultRefused(refused) => about(&refused.lease).then_some(()),
            Hear::LeaseRevoked(revoked) => about(&revoked.lease).then_some(()),
            _ => None,
        });
        heard.await;
    }
    let events = harness.export(&run).await;
    let back = events.iter().filter(|event| matches!(event.body, Some(Body::PipelineRolledBack(_))));
    assert_eq!(back.count(), 5);
}

#[tokio::test]
async fn a_blocked_phase_goes_back_when_a_person_answers_so_or_asks_for_it() {
    let harness = Harness::start().await;
    let mut worker = harness.worker("w1", &["reader", "teller"]).await;
    let (run, held) = telling(&harness, &mut worker).await;
    worker.fail(&held.lease, error("LOGIC_ERROR", "cannot tell")).await;
    let question = blocked(&harness, &run).await;
    assert_eq!(question.options, ["retry", "rollback", "abort"]);
    harness.runs.clone().resolve(answer(&run, &question, "rollback", None)).await.unwrap();
    let again = worker.assignment().await;
    assert_eq!(again.assignment.task_name, "tell.again-2");
    worker.fail(&again.lease, error("LOGIC_ERROR", "cannot tell")).await;
    let open = || async {
        let questions = harness.get(&run).await.questions;
        questions
            .into_iter()
            .find(|asked| asked.answer.is_none() && asked.question_id != question.question_id)
    };
    let second = eventually("a second question", open).await;
    // The call withdraws the question.
    roll_back(&harness, back_to(&run, "", "back")).await.unwrap();
    let again = worker.assignment().await;
    assert_eq!(again.assignment.task_name, "tell.again-3");
    let late = harness.runs.clone().resolve(answer(&run, &second, "retry", None)).await.unwrap_err();
    assert_eq!(code_of(&late), "QUESTION_ANSWERED");
    assert_eq!(
        value(&harness, again.assignment.input.as_ref()).await["phases"]["read"],
        of!({ "title": "the sea" })
    );
    worker.complete(&again.lease, json(of!(1))).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}
