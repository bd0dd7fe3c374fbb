//! Executions whose planners and tools would go on for ever, over a real socket: what ends them, and where a person is asked
//! (seed 004; CONTRACTS §5).

use capataz_contracts::v1::{self, ExecutionMode, event::Body};
use serde_json::{Value, json as of};

use crate::memory::fails;
use crate::modes::{
    answer, execution, gives, join, keeps_to, plan, plans, question, stands, step, try_start,
};
use crate::support::{Harness, Worker};

/// Actions of a run at most, where it does not say another number (CONTRACTS §5).
const MOST_ACTIONS: u32 = 50;

fn in_mode(mode: ExecutionMode) -> v1::ModeRun {
    v1::ModeRun { mode: Some(mode.into()), ..execution("tidy up") }
}

async fn calls(harness: &Harness, run: &str) -> usize {
    let events = harness.export(run).await.into_iter();
    events.filter(|event| matches!(event.body, Some(Body::ToolCalled(_)))).count()
}

/// A plan whose first result is never good enough, so that its second step is never come to.
fn never_good(number: u32) -> Value {
    let steps = [step("first", "read", of!({ "equals": "never" })), step("second", "read", of!("any"))];
    plan(&steps, "read", of!({ "number": number }))
}

/// The result of the plan with this number, and the next plan, which the planner has to make.
async fn made_anew(worker: &mut Worker, number: u32) {
    assert_eq!(gives(worker, "read", of!("again")).await, of!({ "number": number }));
    let prompt = plans(worker, &never_good(number + 1)).await;
    assert_eq!(prompt["deviationAnalysis"]["impactedSteps"], of!([0]), "{prompt}");
}

#[tokio::test]
async fn a_plan_that_is_made_anew_for_ever_asks_a_person_at_each_eleventh_time_and_does_nothing_before_the_answer()
 {
    let harness = Harness::start().await;
    let mut worker = join(&harness).await;
    let run = try_start(&harness, in_mode(ExecutionMode::Planner)).await.unwrap();
    plans(&mut worker, &never_good(0)).await;
    for number in 0..10 {
        made_anew(&mut worker, number).await;
        assert_eq!(harness.get(&run).await.questions, [], "{number}");
    }
    made_anew(&mut worker, 10).await;
    let asked = question(&harness, &run).await;
    assert_eq!(asked.purpose(), v1::QuestionPurpose::Escalation);
    assert_eq!(asked.text, "the plan was made anew 11 times. Is it to be worked on?");
    assert_eq!(asked.options, ["continue", "abort"]);
    assert_eq!(harness.get(&run).await.status(), v1::RunStatus::Waiting);
    let state = stands(&harness, &run).await;
    assert_eq!((state.replans, state.step, &*state.execution_state), (11, 11, "paused"));
    assert_eq!(calls(&harness, &run).await, 11, "those of the first plan and of ten others");

    // A restart asks nothing anew, and calls nothing.
    drop(worker);
    let harness = harness.restart().await;
    let mut worker = join(&harness).await;
    assert_eq!(question(&harness, &run).await.question_id, asked.question_id);
    assert_eq!(calls(&harness, &run).await, 11);
    // The person lets it go on: it has ten others, and asks again.
    answer(&harness, &run, "continue", None).await.unwrap();
    for number in 11..21 {
        made_anew(&mut worker, number).await;
        assert_eq!(harness.get(&run).await.questions.len(), 1, "{number}");
    }
    made_anew(&mut worker, 21).await;
    let again = question(&harness, &run).await;
    assert_eq!(again.text, "the plan was made anew 22 times. Is it to be worked on?");
    answer(&harness, &run, "abort", None).await.unwrap();
    assert_eq!(harness.wait(&run).await.outcome(), v1::RunOutcome::Failed);
    assert_eq!(calls(&harness, &run).await, 22, "the last plan was never worked on");
}

/// The planner makes another plan before the last step of the one before, again and again.
#[tokio::test]
async fn a_planner_whose_plans_are_never_done_ends_at_the_limit_of_actions() {
    let harness = Harness::start().await;
    let mut worker = join(&harness).await;
    let run = try_start(&harness, in_mode(ExecutionMode::Planner)).await.unwrap();
    // With 26 steps each, of which 25 are done.
    let ids: Vec<String> = (0..26).map(|number| format!("s{number}")).collect();
    let steps: Vec<Value> = ids.iter().map(|id| step(id, "read", of!("any"))).collect();
    for action in 0..MOST_ACTIONS {
        let place = action % 25;
        let said = match place {
            0 => plan(&steps, "read", of!({ "action": action })),
            _ => of!({
                "nextAction": { "tool": "read", "parameters": { "action": action }, "stepIndex": place },
                "replanRequired": false, "reasoning": "", "confidence": 1,
            }),
        };
        assert_eq!(plans(&mut worker, &said).await["step"], action);
        assert_eq!(gives(&mut worker, "read", of!(1)).await, of!({ "action": action }));
    }
    ends_at_the_limit(&harness, &run, None).await;
    assert_eq!(stands(&harness, &run).await.replans, 1);
}

/// It is allowed to depart from the plan as far as can be, so that nobody is asked.
#[tokio::test]
async fn an_approved_plan_with_a_step_that_fails_for_ever_ends_at_the_limit_of_actions() {
    let harness = Harness::start().await;
    let mut worker = join(&harness).await;
    let run = v1::ModeRun { autonomy_level: Some(1.0), ..in_mode(ExecutionMode::Supervised) };
    let run = try_start(&harness, run).await.unwrap();
    plans(&mut worker, &plan(&[step("a", "read", of!("any"))], "read", of!({ "n": "a" }))).await;
    answer(&harness, &run, "approve", None).await.unwrap();
    for action in 0..MOST_ACTIONS {
        let prompt = plans(&mut worker, &keeps_to("read", of!({ "n": "a" }))).await;
        assert_eq!(prompt["adherenceCheck"]["currentStep"], 0, "{action}: {prompt}");
        fails(&mut worker, "read").await;
    }
    ends_at_the_limit(&harness, &run, Some("NON_RETRYABLE_ERROR")).await;
    assert_eq!(harness.get(&run).await.questions.len(), 1, "that of the plan");
}

/// The run has failed after as many actions as it may do, with what the last of them has failed with as the cause; the planner
/// was not asked again.
async fn ends_at_the_limit(harness: &Harness, run: &str, cause: Option<&str>) {
    let result = harness.wait(run).await;
    assert_eq!(result.outcome(), v1::RunOutcome::Failed, "{result:?}");
    let error = result.error.unwrap();
    assert_eq!(error.code, "STEP_LIMIT", "{error:?}");
    assert_eq!(error.cause.map(|cause| cause.code).as_deref(), cause);
    let state = stands(harness, run).await;
    assert_eq!((state.step, &*state.execution_state), (MOST_ACTIONS, "error"));
    let events = harness.export(run).await;
    let count = |is_meant: fn(&Body) -> bool| {
        events.iter().filter(|event| event.body.as_ref().is_some_and(is_meant)).count()
    };
    assert_eq!(count(|body| matches!(body, Body::ToolCalled(_))), 50);
    let of_actions = count(
        |body| matches!(body, Body::PlannerAnswered(answered) if answered.decision() == v1::PlannerDecision::Act),
    );
    assert_eq!(of_actions, 50);
    let last = events.iter().rev().find_map(|event| match &event.body {
        Some(Body::ToolObserved(_)) => Some("observed"),
        Some(Body::PlannerAsked(_)) => Some("asked"),
        _ => None,
    });
    assert_eq!(last, Some("observed"));
}
