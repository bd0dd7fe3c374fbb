//! Executions and the people who pause them and answer their questions, over a real socket (seed 004; CONTRACTS §5).

use capataz_contracts::v1::{self, ExecutionMode, event::Body};
use serde_json::{Value, json as of};
use tonic::{Code, Status};

use crate::modes::{
    act, answer, execution, gives, join, keeps_to, modes, plan, plans, question, stands, step, try_start,
};
use crate::support::asks::heard_all;
use crate::support::{Harness, code_of, json, paths_of};

async fn pause(harness: &Harness, run: &str) -> u64 {
    let request =
        v1::PauseRunRequest { run_id: run.to_owned(), request_id: "wait".to_owned(), ..Default::default() };
    harness.runs.clone().pause_run(request).await.unwrap().into_inner().seq
}

async fn resume(harness: &Harness, run: &str) -> u64 {
    let request =
        v1::ResumeRunRequest { run_id: run.to_owned(), request_id: "go on".to_owned(), ..Default::default() };
    harness.runs.clone().resume_run(request).await.unwrap().into_inner().seq
}

async fn execution_state(harness: &Harness, run: &str) -> String {
    stands(harness, run).await.execution_state
}

/// The events by which work is given out, by their numbers.
async fn given_out(harness: &Harness, run: &str) -> Vec<u64> {
    let events = harness.export(run).await.into_iter();
    let given = events.filter(|event| {
        matches!(event.body, Some(Body::PlannerAsked(_) | Body::ToolCalled(_) | Body::TaskLeased(_)))
    });
    given.map(|event| event.seq).collect()
}

#[tokio::test]
async fn a_run_that_was_paused_stays_so_over_a_restart_and_goes_on_when_it_is_resumed() {
    for mode in [ExecutionMode::Simple, ExecutionMode::Planner, ExecutionMode::Supervised] {
        let harness = Harness::start().await;
        let mut worker = join(&harness).await;
        let run = v1::ModeRun { mode: Some(mode.into()), ..execution("tidy up") };
        let run = try_start(&harness, run).await.unwrap();
        let asked = worker.assignment().await;
        let paused = pause(&harness, &run).await;
        // What is at work goes on, and its answer is kept.
        let one_step = plan(&[step("a", "read", of!("any"))], "read", of!({ "n": "a" }));
        let said =
            if mode == ExecutionMode::Simple { act("read", of!({ "n": "a" }), false) } else { one_step };
        worker.complete(&asked.lease, json(said)).await;
        if mode == ExecutionMode::Supervised {
            answer(&harness, &run, "approve", None).await.unwrap();
        } else {
            heard_all(&mut worker).await;
        }
        drop(worker);
        let harness = harness.restart().await;
        let worker = join(&harness).await;
        assert_eq!(harness.get(&run).await.status(), v1::RunStatus::Paused, "{mode:?}");
        assert_eq!(execution_state(&harness, &run).await, "paused", "{mode:?}");
        assert_eq!(pause(&harness, &run).await, paused, "the same request is carried out once");
        drop(worker);
        let harness = harness.restart().await;
        let mut worker = join(&harness).await;
        assert_eq!(harness.get(&run).await.status(), v1::RunStatus::Paused, "{mode:?}");
        let resumed = resume(&harness, &run).await;
        if mode == ExecutionMode::Supervised {
            let prompt = plans(&mut worker, &keeps_to("read", of!({ "n": "a" }))).await;
            assert_eq!(prompt["validatedPlan"]["steps"][0]["id"], "a");
        }
        assert_eq!(gives(&mut worker, "read", of!(1)).await, of!({ "n": "a" }));
        assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded, "{mode:?}");
        let given = given_out(&harness, &run).await;
        let (before, after): (Vec<u64>, Vec<u64>) = given.iter().partition(|seq| **seq < paused);
        assert_eq!(before.len(), 2, "{mode:?}: the first prompt, and its lease");
        assert!(after.iter().all(|seq| *seq > resumed), "{mode:?}: {after:?} after {resumed}");
        assert!(!after.is_empty());
    }
}

fn resolve(run: &str, question: &v1::Question, option: &str) -> v1::ResolveRequest {
    v1::ResolveRequest {
        run_id: run.to_owned(),
        question_id: question.question_id.clone(),
        answer: option.to_owned(),
        request_id: format!("{option} {}", question.question_id),
        ..v1::ResolveRequest::default()
    }
}

async fn refused(harness: &Harness, request: v1::ResolveRequest) -> Status {
    harness.runs.clone().resolve(request).await.unwrap_err()
}

#[tokio::test]
async fn an_answer_to_no_open_question_and_one_that_is_none_change_nothing() {
    let harness = Harness::start().await;
    let mut worker = join(&harness).await;
    let run = v1::ModeRun { mode: Some(ExecutionMode::Supervised.into()), ..execution("tidy up") };
    let run = try_start(&harness, run).await.unwrap();
    plans(&mut worker, &plan(&[step("a", "read", of!("any"))], "read", of!({ "n": "a" }))).await;
    let asked = question(&harness, &run).await;
    let (log, state, seen) =
        (harness.export(&run).await, stands(&harness, &run).await, harness.get(&run).await);

    let unknown = v1::Question { question_id: "q9".to_owned(), ..asked.clone() };
    let said = refused(&harness, resolve(&run, &unknown, "approve")).await;
    assert_eq!((said.code(), &*code_of(&said)), (Code::NotFound, "QUESTION_NOT_FOUND"));
    let nameless = v1::Question { question_id: String::new(), ..asked.clone() };
    let said = refused(&harness, resolve(&run, &nameless, "approve")).await;
    assert_eq!(code_of(&said), "QUESTION_NOT_FOUND");
    for revision in [asked.revision + 1, u32::MAX] {
        let request = v1::ResolveRequest { revision: Some(revision), ..resolve(&run, &asked, "approve") };
        let said = refused(&harness, request).await;
        assert_eq!((said.code(), &*code_of(&said)), (Code::FailedPrecondition, "QUESTION_REVISED"));
    }
    let said = refused(&harness, resolve(&run, &asked, "perhaps")).await;
    assert_eq!((said.code(), paths_of(&said)), (Code::InvalidArgument, vec!["answer".to_owned()]));
    let request = v1::ResolveRequest { value: Some(json(of!(1))), ..resolve(&run, &asked, "approve") };
    assert_eq!(paths_of(&refused(&harness, request).await), ["value"]);
    let request = v1::ResolveRequest { if_seq: Some(1), ..resolve(&run, &asked, "approve") };
    assert_eq!(code_of(&refused(&harness, request).await), "SEQ_MISMATCH");

    assert_eq!(harness.export(&run).await, log);
    assert_eq!(stands(&harness, &run).await, state);
    assert_eq!(harness.get(&run).await.questions, seen.questions);
    // The right revision is taken, under the id of a request that was refused; and a second answer is not.
    let request = v1::ResolveRequest { revision: Some(asked.revision), ..resolve(&run, &asked, "approve") };
    let taken = harness.runs.clone().resolve(request.clone()).await.unwrap().into_inner();
    assert_eq!(harness.runs.clone().resolve(request).await.unwrap().into_inner(), taken, "repeated");
    let prompted = worker.assignment().await;
    let log = harness.export(&run).await;
    for option in ["approve", "reject"] {
        let second = v1::ResolveRequest { request_id: "second".to_owned(), ..resolve(&run, &asked, option) };
        let said = refused(&harness, second).await;
        assert_eq!((said.code(), &*code_of(&said)), (Code::FailedPrecondition, "QUESTION_ANSWERED"));
    }
    assert_eq!(harness.export(&run).await, log);
    worker.complete(&prompted.lease, json(keeps_to("read", of!({ "n": "a" })))).await;
    gives(&mut worker, "read", of!(1)).await;
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
    let said = refused(&harness, resolve(&run, &unknown, "approve")).await;
    assert_eq!(code_of(&said), "RUN_FINISHED");
}

#[tokio::test]
async fn a_question_that_a_rollback_has_withdrawn_takes_no_answer() {
    let harness = Harness::start().await;
    let mut worker = join(&harness).await;
    let run = try_start(&harness, execution("tidy up")).await.unwrap();
    let asked = worker.assignment().await;
    let make = v1::CreateCheckpointRequest {
        run_id: run.clone(),
        reason: "before it asks".to_owned(),
        request_id: "make".to_owned(),
        if_seq: None,
    };
    let made = modes(&harness).create_checkpoint(make).await.unwrap().into_inner();
    worker.complete(&asked.lease, json(act("ask", of!({ "n": 1 }), true))).await;
    let withdrawn = question(&harness, &run).await;
    let back = v1::RollbackExecutionRequest {
        run_id: run.clone(),
        checkpoint_id: made.checkpoint_id,
        request_id: "back".to_owned(),
        if_seq: None,
    };
    modes(&harness).rollback_execution(back).await.unwrap();
    let asked = worker.assignment().await;
    let log = harness.export(&run).await;
    for option in ["approve", "reject", "abort"] {
        let said = refused(&harness, resolve(&run, &withdrawn, option)).await;
        let code = code_of(&said);
        assert_eq!((said.code(), &*code), (Code::FailedPrecondition, "QUESTION_ANSWERED"), "{option}");
        assert!(said.message().contains("withdrawn"), "{said}");
    }
    assert_eq!(harness.export(&run).await, log);
    let open = harness.get(&run).await.questions.into_iter().filter(|question| question.answer.is_none());
    assert_eq!(open.count(), 0);
    // The next question is another one, though it asks the same.
    worker.complete(&asked.lease, json(act("ask", of!({ "n": 1 }), false))).await;
    let next = question(&harness, &run).await;
    assert_eq!(next.text, withdrawn.text);
    assert_ne!(next.question_id, withdrawn.question_id);
    let said = refused(&harness, resolve(&run, &withdrawn, "approve")).await;
    assert_eq!(code_of(&said), "QUESTION_ANSWERED");
    drop(worker);
    let harness = harness.restart().await;
    let mut worker = join(&harness).await;
    let said = refused(&harness, resolve(&run, &withdrawn, "approve")).await;
    assert_eq!(code_of(&said), "QUESTION_ANSWERED");
    answer(&harness, &run, "approve", None).await.unwrap();
    assert_eq!(gives(&mut worker, "ask", of!("yes")).await, of!({ "n": 1 }));
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
}

#[tokio::test]
async fn an_answer_to_a_revision_that_is_not_the_one_that_is_asked_about_is_refused_and_changes_nothing() {
    let harness = Harness::start().await;
    let mut worker = join(&harness).await;
    let run = v1::ModeRun { mode: Some(ExecutionMode::Supervised.into()), ..execution("tidy up") };
    let run = try_start(&harness, run).await.unwrap();
    plans(&mut worker, &plan(&[step("a", "read", of!("any"))], "read", of!({ "n": "a" }))).await;
    let about = |question: &v1::Question| match question.about.as_ref().and_then(|about| about.about.clone())
    {
        Some(v1::question_subject::About::Revision(about)) => about.revision,
        other => panic!("{other:?}"),
    };
    let first = question(&harness, &run).await;
    assert_eq!((about(&first), first.revision), (1, 1));
    answer(&harness, &run, "edit", Some(of!({ "steps": [step("b", "read", of!("any"))] }))).await.unwrap();
    let second = question(&harness, &run).await;
    assert_eq!((about(&second), second.revision), (2, 1), "it is another question");
    assert_ne!(second.question_id, first.question_id);

    let edited = || Some(json(of!({ "steps": [step("c", "read", of!("any"))] })));
    let (log, state, seen) =
        (harness.export(&run).await, stands(&harness, &run).await, harness.get(&run).await);
    // Somebody still has the first question before his eyes.
    for (option, value) in [("approve", None), ("reject", None), ("edit", edited())] {
        for revision in [None, Some(1), Some(2)] {
            let request = v1::ResolveRequest {
                value: value.clone(),
                revision,
                request_id: format!("late {option} {revision:?}"),
                ..resolve(&run, &first, option)
            };
            let said = refused(&harness, request).await;
            assert_eq!(
                (said.code(), &*code_of(&said)),
                (Code::FailedPrecondition, "QUESTION_ANSWERED"),
                "{option} {revision:?}"
            );
        }
    }
    // Or answers the new question, and has seen another revision of it than the one that there is.
    for (option, value) in [("approve", None), ("reject", None), ("edit", edited())] {
        for revision in [0, 2, u32::MAX] {
            let request = v1::ResolveRequest {
                value: value.clone(),
                revision: Some(revision),
                request_id: format!("other {option} {revision}"),
                ..resolve(&run, &second, option)
            };
            let said = refused(&harness, request).await;
            assert_eq!(
                (said.code(), &*code_of(&said)),
                (Code::FailedPrecondition, "QUESTION_REVISED"),
                "{option} {revision}"
            );
        }
    }
    assert_eq!(harness.export(&run).await, log);
    assert_eq!(stands(&harness, &run).await, state);
    assert_eq!(harness.get(&run).await.questions, seen.questions);

    // It is so after a restart, too, and the revision that is asked about is the one that is worked on.
    drop(worker);
    let harness = harness.restart().await;
    let mut worker = join(&harness).await;
    let late = v1::ResolveRequest { request_id: "very late".to_owned(), ..resolve(&run, &first, "approve") };
    assert_eq!(code_of(&refused(&harness, late).await), "QUESTION_ANSWERED");
    let request = v1::ResolveRequest { revision: Some(1), ..resolve(&run, &second, "approve") };
    harness.runs.clone().resolve(request).await.unwrap();
    let prompt = plans(&mut worker, &keeps_to("read", of!({ "n": "b" }))).await;
    assert_eq!(prompt["validatedPlan"]["steps"].as_array().map(Vec::len), Some(1));
    assert_eq!(prompt["validatedPlan"]["steps"][0]["id"], "b");
    assert_eq!(gives(&mut worker, "read", of!(1)).await, of!({ "n": "b" }));
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Succeeded);
    let approved = harness.export(&run).await.into_iter().filter_map(|event| match event.body {
        Some(Body::PlanApproved(approved)) => Some(approved.revision),
        _ => None,
    });
    assert_eq!(approved.collect::<Vec<_>>(), [2]);
}

async fn choose(harness: &Harness, mode: ExecutionMode) {
    let request = v1::ChooseModeRequest { session: "shop".to_owned(), mode: mode.into() };
    modes(harness).choose_mode(request).await.unwrap();
}

/// The mode by whose contract the planner is asked.
fn contract_of(prompt: &Value) -> ExecutionMode {
    let keys = [
        ("workspace", ExecutionMode::Simple),
        ("progress", ExecutionMode::Planner),
        ("validatedPlan", ExecutionMode::Supervised),
    ];
    let found: Vec<ExecutionMode> =
        keys.iter().filter(|(key, _)| prompt.get(key).is_some()).map(|(_, mode)| *mode).collect();
    assert_eq!(found.len(), 1, "{prompt}");
    found[0]
}

// S004-CO-03
#[tokio::test]
async fn a_run_goes_on_in_its_mode_while_its_session_has_another_one_which_the_next_run_has() {
    use ExecutionMode::{Planner, Simple, Supervised};
    let steps = [step("a", "read", of!("any")), step("b", "read", of!("any"))];
    let planned = || plan(&steps, "read", of!({ "n": "a" }));
    for (mode, other) in [(Simple, Planner), (Planner, Supervised), (Supervised, Simple)] {
        let harness = Harness::start().await;
        let mut worker = join(&harness).await;
        choose(&harness, mode).await;
        let of_session = || v1::ModeRun { session: Some("shop".to_owned()), ..execution("tidy up") };
        let run = try_start(&harness, of_session()).await.unwrap();
        let first = worker.assignment().await;
        // It is at work, and the user chooses for what comes next.
        choose(&harness, other).await;
        let mut contracts = vec![contract_of(&crate::modes::read(first.assignment.input.as_ref()))];
        let said = if mode == Simple { act("read", of!({ "n": "a" }), true) } else { planned() };
        worker.complete(&first.lease, json(said)).await;
        if mode == Supervised {
            answer(&harness, &run, "approve", None).await.unwrap();
            contracts.push(contract_of(&plans(&mut worker, &keeps_to("read", of!({ "n": "a" }))).await));
        }
        assert_eq!(gives(&mut worker, "read", of!(1)).await, of!({ "n": "a" }));
        heard_all(&mut worker).await;
        drop(worker);
        let harness = harness.restart().await;
        let mut worker = join(&harness).await;
        let last = match mode {
            Simple => act("read", of!({ "n": "b" }), false),
            Planner => of!({
                "nextAction": { "tool": "read", "parameters": { "n": "b" }, "stepIndex": 1 },
                "replanRequired": false, "reasoning": "", "confidence": 1,
            }),
            _ => keeps_to("read", of!({ "n": "b" })),
        };
        contracts.push(contract_of(&plans(&mut worker, &last).await));
        assert_eq!(gives(&mut worker, "read", of!(2)).await, of!({ "n": "b" }));
        let result = harness.wait(&run).await;
        assert_eq!(result.outcome(), v1::RunOutcome::Succeeded, "{mode:?}: {result:?}");
        let expected = match mode {
            Simple => vec![Simple, Simple],
            Planner => vec![Planner, Planner],
            // Its plan is made by the contract of planners.
            _ => vec![Planner, Supervised, Supervised],
        };
        assert_eq!(contracts, expected);
        assert_eq!(stands(&harness, &run).await.mode(), mode);
        let mut modes_told = Vec::new();
        for event in harness.export(&run).await {
            match event.body {
                Some(Body::ModeBegun(begun)) => modes_told.push(begun.mode()),
                Some(Body::ToolObserved(seen)) => modes_told.push(seen.remembered.unwrap().mode()),
                _ => {}
            }
        }
        assert_eq!(modes_told, [mode; 3], "how it has begun, and where its two results are remembered");

        // The choice was not lost either.
        let next = try_start(&harness, of_session()).await.unwrap();
        let asked = worker.assignment().await;
        let first_contract = if other == Supervised { Planner } else { other };
        assert_eq!(contract_of(&crate::modes::read(asked.assignment.input.as_ref())), first_contract);
        assert_eq!(stands(&harness, &next).await.mode(), other);
    }
}
