//! Executions: a query that a planner and tools work on, in one of three modes (seed 004; CONTRACTS §5).

use capataz_policy::mode::contract;
use serde_json::{Value, json as value};

use super::*;
use crate::input::{Computed, Observing, QueryAnswer};
use crate::machine::mode::materialise;
use crate::query::{Query, Verdict};
use v1::ExecutionMode::{Planner, Simple, Supervised, Unspecified};

/// Tools: `read` can be undone, `send` cannot, `ask` has to be approved each time.
fn tool(name: &str) -> v1::ModeTool {
    v1::ModeTool {
        name: name.to_owned(),
        undoable: name != "send",
        needs_approval: name == "ask",
        ..v1::ModeTool::default()
    }
}

pub(super) fn begin(mode: v1::ExecutionMode) -> Bench {
    begin_with(mode, |_| ())
}

pub(super) fn begin_with(mode: v1::ExecutionMode, edit: impl FnOnce(&mut v1::ModeRun)) -> Bench {
    let mut run = v1::ModeRun {
        query: "tidy up".to_owned(),
        mode: (mode != Unspecified).then(|| mode.into()),
        planner: "brain".to_owned(),
        tools: ["read", "send", "ask", "plan.run"].map(tool).to_vec(),
        run_id: "run".to_owned(),
        ..v1::ModeRun::default()
    };
    edit(&mut run);
    materialise(&mut run).expect("the policies are valid");
    let request =
        StartRun { work: Work::Mode(Box::new(run)), labels: BTreeMap::new(), parent: None, lineage: None };
    let now = Timestamp(START);
    let (state, decision) = start(SEED, request, Wall(START)).expect("the run starts");
    let mut ledger = Ledger::default();
    ledger.observe(&state, &decision);
    ledger.compare_fold(&state);
    Bench { state, ledger, now, ahead: 0, last: Ok(decision), small: true }
}

impl Bench {
    /// The name of the one task of the newest wave.
    pub(super) fn newest(&self) -> String {
        let wave = u32::try_from(self.state.waves.len()).unwrap() - 1;
        self.state.plan().task(TaskRef { wave, task: 0 }).expect("a call").name.clone()
    }

    /// The prompt that is to be made.
    #[track_caller]
    pub(super) fn prompt(&self) -> Value {
        match self.state.open_query() {
            Some((_, Query::Prompt(asked))) => serde_json::from_str(&asked.prompt).expect("a prompt is JSON"),
            other => panic!("{other:?}"),
        }
    }

    /// The prompt is made, and the planner has it.
    #[track_caller]
    pub(super) fn asks(self) -> Self {
        let bench = self.asks_without(&[]);
        let task = bench.newest();
        assert!(task.starts_with("planner."), "{task}");
        bench.lease(&task, "w")
    }

    /// The prompt is made, while nobody serves these tools.
    #[track_caller]
    fn asks_without(self, absent: &[&str]) -> Self {
        let Some((query, Query::Prompt(asked))) = self.state.open_query() else {
            panic!("{:?}", self.state.open_query())
        };
        let recalled = v1::Recalled { entries: vec!["m1".to_owned()], tokens: 7, ..Default::default() };
        let absent = absent.iter().map(|tool| (*tool).to_owned()).collect();
        let computed = Computed::Prompt { prompt: json(&asked.prompt), recalled, absent };
        self.does(Input::Answered { query, answer: QueryAnswer::Computed(computed) })
    }

    /// The planner answers this, which passes its schema.
    #[track_caller]
    pub(super) fn says(self, answer: &Value) -> Self {
        let name = self.newest();
        let task = self.at(&name);
        let (lease, worker) = self.state.lease_of(task).expect("the planner is asked");
        let output = json(&answer.to_string());
        let judged = self.state.output_to_judge(task, lease, worker, &output).expect("it is judged");
        let report = Report::Judged(output, Box::new(Verdict::on(judged, Vec::new())));
        let input = reported(task, lease, worker, report);
        self.does(input)
    }

    /// The tool is called, and gives this back, which is what was expected or not.
    #[track_caller]
    pub(super) fn tool_gives(self, output: &str, as_expected: bool) -> Self {
        let task = self.newest();
        self.lease(&task, "w").completes_with(&task, output).seen(as_expected)
    }

    /// The tool fails for good.
    #[track_caller]
    fn tool_fails(self) -> Self {
        let task = self.newest();
        self.lease(&task, "w").fails(&task, "FILE_NOT_FOUND").seen(false)
    }

    #[track_caller]
    pub(super) fn seen(self, as_expected: bool) -> Self {
        let Some((query, Query::Observe(_))) = self.state.open_query() else {
            panic!("{:?}", self.state.open_query())
        };
        let seen = Observing { as_expected, content: "c".to_owned(), digest: "d".to_owned() };
        let answer = QueryAnswer::Computed(Computed::Observed(seen));
        self.does(Input::Answered { query, answer })
    }

    pub(super) fn execution(&self) -> v1::ExecutionState {
        self.state.execution(true).expect("it is an execution")
    }

    fn decides(self, option: &str, given: Option<&Value>) -> Self {
        let [question_id] = self.open().try_into().expect("one question is open");
        let mut answer =
            Answer { value: given.map(|given| json(&given.to_string())), ..Answer::from(option) };
        let request_id = format!("answers {question_id}");
        let unjudged = Input::Resolve {
            question_id: question_id.clone(),
            answer: answer.clone(),
            request_id: request_id.clone(),
        };
        if let Some(judgement) = self.state.to_judge(&unjudged) {
            answer.verdict = Some(Box::new(Verdict::on(judgement, Vec::new())));
        }
        self.input(Input::Resolve { question_id, answer, request_id })
    }

    pub(super) fn keeps(self, reason: &str) -> Self {
        self.does(Input::Checkpoint { reason: reason.to_owned(), request_id: format!("make {reason}") })
    }

    pub(super) fn goes_back_to(self, checkpoint: &str) -> Self {
        let request_id = format!("back to {checkpoint} at {}", self.state.seq());
        self.input(Input::RollbackExecution { checkpoint: checkpoint.to_owned(), request_id })
    }

    #[track_caller]
    pub(super) fn newest_event(&self, wanted: &str) -> Body {
        let found = self.ledger.events.iter().rev().find(|event| kind(event) == wanted);
        found.and_then(|event| event.body.clone()).expect("there is such an event")
    }
}

/// `SimpleResponse`.
pub(super) fn act(tool: &str, goes_on: bool) -> Value {
    value!({
        "action": { "tool": tool, "parameters": { "path": "a" } },
        "reasoning": "because", "continue": goes_on, "confidence": 0.5,
    })
}

pub(super) fn step(id: &str, tool: &str, needs: &[&str]) -> Value {
    value!({
        "id": id, "description": format!("do {id}"), "tool": tool, "parameters": { "n": id },
        "expected": { "success": true }, "dependsOn": needs,
    })
}

/// `PlannerResponse` with a plan, and its first action.
pub(super) fn plans(steps: &[Value], next: u32, tool: &str) -> Value {
    value!({
        "planUpdate": { "type": "create", "steps": steps, "estimatedTime": 2.5, "checkpoints": [] },
        "nextAction": { "tool": tool, "parameters": {}, "stepIndex": next },
        "replanRequired": false, "reasoning": "because", "confidence": 1,
    })
}

/// `PlannerResponse` that goes on.
fn next(step: u32, tool: &str) -> Value {
    value!({
        "nextAction": { "tool": tool, "parameters": {}, "stepIndex": step },
        "replanRequired": false, "reasoning": "because", "confidence": 1,
    })
}

/// `SupervisedResponse` that goes on.
pub(super) fn goes_on(tool: &str, parameters: &Value) -> Value {
    value!({
        "decision": "continue",
        "nextAction": { "tool": tool, "parameters": parameters, "justification": "the plan says so" },
        "planAdherence": 1, "reasoning": "because", "confidence": 1,
    })
}

// S004-PR-01
#[test]
fn a_prompt_of_the_mode_simple_has_the_keys_of_the_seed_and_no_others() {
    let bench = begin_with(Simple, |run| {
        run.workspace = vec!["a.txt".to_owned()];
        run.current_file = Some("a.txt".to_owned());
    });
    let expected = value!({
        "query": "tidy up", "memory": [], "currentFile": "a.txt", "workspace": ["a.txt"], "step": 0, "errorCount": 0,
    });
    assert_eq!(bench.prompt(), expected);
    let bench = bench.asks().says(&act("read", true)).tool_gives("{\"n\":1}", true);
    let last = value!({ "tool": "read", "output": null, "error": null, "durationMs": 0 });
    assert_eq!(bench.prompt()["lastResult"], last);
    let Some((_, Query::Prompt(asked))) = bench.state.open_query() else { panic!() };
    assert_eq!(asked.results, [("/lastResult/output".to_owned(), json("{\"n\":1}"))]);
    assert_eq!((asked.recall.tokens, asked.recall.entries), (100, 10));
    assert_eq!(asked.recall.since_ms, START - 24 * 60 * MINUTE);
    assert_eq!(asked.recall.session, "run");
}

#[test]
fn an_execution_without_a_session_begins_at_once_and_in_the_mode_simple_where_nobody_chose_another() {
    let bench = begin(Unspecified);
    assert_eq!(bench.execution().mode(), Simple);
    assert_eq!(bench.kinds(), ["run_accepted", "mode_begun"]);
}

// S004-CO-03
#[test]
fn an_execution_of_a_session_has_the_mode_that_the_session_chose_unless_it_names_one() {
    for (named, chosen, expected) in [
        (Unspecified, Unspecified, Simple),
        (Unspecified, Planner, Planner),
        (Unspecified, Supervised, Supervised),
        (Simple, Supervised, Simple),
    ] {
        let bench = begin_with(named, |run| run.session = Some("shop".to_owned()));
        assert_eq!(bench.kinds(), ["run_accepted"], "it waits for its turn");
        let context = v1::SessionContext { chosen_mode: chosen.into(), ..Default::default() };
        let bench = bench.does(Input::SessionTurn { context });
        assert_eq!(bench.execution().mode(), expected);
        assert_eq!(bench.execution().session_id, "shop");
    }
}

// S004-SI-02, S004-SI-05
#[test]
fn simple_goes_on_while_the_planner_says_so_and_its_result_is_the_last_one() {
    let bench = begin(Simple).asks().says(&act("read", true)).tool_gives("1", true);
    let bench = bench.asks().says(&act("send", false)).tool_gives("{\"done\":2}", true);
    let bench = bench.expect_outcome(v1::RunOutcome::Succeeded);
    let Some(v1::run_result::Work::Mode(result)) = bench.state.result(1 << 20).unwrap().work else {
        panic!()
    };
    assert_eq!(result.output, Some(json("{\"done\":2}")));
    assert_eq!(result.state.unwrap().step, 2);
}

// S004-SI-03, S004-SI-04
#[test]
fn simple_fails_after_three_errors_in_a_row_and_a_success_resets_the_count() {
    let mut bench = begin(Simple);
    for _ in 0..2 {
        bench = bench.asks().says(&act("read", true)).tool_fails();
    }
    assert_eq!(bench.prompt()["errorCount"], 2);
    bench = bench.asks().says(&act("read", true)).tool_gives("1", true);
    assert_eq!(bench.execution().error_count, 0);
    for _ in 0..3 {
        bench = bench.asks().says(&act("read", true)).tool_fails();
    }
    let error = bench.run().error.expect("it has failed");
    assert_eq!(error.code, "TOO_MANY_ERRORS");
    assert_eq!(error.cause.unwrap().code, "FILE_NOT_FOUND");
    bench.expect_outcome(v1::RunOutcome::Failed);
}

// S004-SI-05
#[test]
fn simple_that_ends_with_an_error_has_failed_with_it() {
    let bench = begin(Simple).asks().says(&act("read", false)).tool_fails();
    assert_eq!(bench.run().error.as_ref().unwrap().code, "FILE_NOT_FOUND");
    bench.expect_outcome(v1::RunOutcome::Failed);
}

// S004-SI-04
#[test]
fn a_planner_that_goes_on_for_ever_ends_at_the_step_limit() {
    let mut bench = begin_with(Simple, |run| run.max_steps = Some(4));
    for _ in 0..4 {
        bench = bench.asks().says(&act("read", true)).tool_gives("1", true);
    }
    assert_eq!(bench.run().error.as_ref().unwrap().code, "STEP_LIMIT");
    bench.expect_outcome(v1::RunOutcome::Failed);
}

#[test]
fn fifty_actions_are_the_limit_where_nobody_says_another() {
    let mut run = v1::ModeRun::default();
    materialise(&mut run).unwrap();
    assert_eq!((run.max_steps, run.autonomy_level), (Some(50), Some(0.3)));
}

// S004-PR-02
#[test]
fn an_answer_goes_back_with_what_is_wrong_and_the_fourth_wrong_one_fails_the_run() {
    let wrong = value!({
        "action": { "tool": "plan.run", "parameters": { "name": "p", "waves": [] } },
        "reasoning": "", "continue": true, "confidence": 0,
    });
    let mut bench = begin(Simple).asks();
    for delay in [500, 1_500, 3_000] {
        bench = bench.says(&wrong).expect_kinds(&["output_rejected", "task_attempt_failed"]);
        bench = bench.after(delay).tick();
        let task = bench.newest();
        bench = bench.lease(&task, "w");
        let assignment = bench.state.assignment(bench.at(&task)).unwrap();
        let Some(v1::payload::Data::Inline(text)) = assignment.input.unwrap().data.clone() else { panic!() };
        let given: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(given["correction"]["violations"][0]["path"], "/action/parameters/waves");
        assert_eq!(given["correction"]["output"], wrong);
        assert_eq!(given["query"], "tidy up");
    }
    let bench = bench.says(&wrong);
    assert_eq!(bench.count("output_rejected"), 4);
    bench.expect_outcome(v1::RunOutcome::Failed);
}

// S004-PR-07
#[test]
fn the_contract_of_the_answer_is_told_to_the_planner_and_judged() {
    let bench = begin(Planner).asks();
    let task = bench.at(&bench.newest());
    let schema = bench.state.assignment(task).unwrap().output_schema.unwrap().to_owned();
    let tools = ["read", "send", "ask", "plan.run"].map(|name| contract::Tool { name, input_schema: "" });
    assert_eq!(schema, contract::plan_schema(Planner, &tools), "the first answer brings a plan");
    let (lease, worker) = bench.state.lease_of(task).unwrap();
    let judged = bench.state.output_to_judge(task, lease, worker, &json("{}")).unwrap();
    assert_eq!(judged.schemas, [schema]);
    // A tool is told nothing.
    let bench = bench.says(&plans(&[step("a", "read", &[])], 0, "read"));
    let task = bench.at(&bench.newest());
    assert_eq!(bench.state.assignment(task).unwrap().output_schema, None);
}

// S004-PL-01
#[test]
fn a_plan_is_followed_step_by_step_and_is_done_when_every_step_has_succeeded() {
    let steps = [step("a", "read", &[]), step("b", "send", &["a"])];
    let bench = begin(Planner);
    assert_eq!(bench.prompt()["progress"], 0.0);
    assert_eq!(bench.prompt().get("currentPlan"), None);
    let bench = bench.asks().says(&plans(&steps, 0, "read")).tool_gives("1", true);
    let state = bench.execution();
    assert_eq!((state.plan.as_ref().unwrap().revision, state.progress, state.replans), (1, 0.5, 0));
    assert_eq!(bench.prompt()["currentPlan"]["steps"][1]["dependsOn"], value!(["a"]));
    assert_eq!(bench.prompt()["progress"], 0.5);
    assert_eq!(bench.prompt().get("deviationAnalysis"), None);
    let bench = bench.asks().says(&next(1, "send")).tool_gives("2", true);
    assert_eq!(bench.execution().progress, 1.0);
    bench.expect_outcome(v1::RunOutcome::Succeeded);
}

// S004-PR-04
#[test]
fn the_next_step_of_a_plan_is_one_that_can_be_done_by_its_own_tool() {
    let steps = [step("a", "read", &[]), step("b", "send", &["a"])];
    let rejected = |answer: &Value| {
        let bench = begin(Planner).asks().says(answer);
        let Body::OutputRejected(rejected) = bench.newest_event("output_rejected") else { panic!() };
        (rejected.violations[0].path.clone(), rejected.violations[0].rule.clone())
    };
    assert_eq!(rejected(&plans(&steps, 1, "send")), ("/nextAction/stepIndex".to_owned(), "step".to_owned()));
    assert_eq!(rejected(&plans(&steps, 2, "read")), ("/nextAction/stepIndex".to_owned(), "step".to_owned()));
    assert_eq!(rejected(&plans(&steps, 0, "send")), ("/nextAction/tool".to_owned(), "plan".to_owned()));
}

// S004-PR-04
#[test]
fn a_plan_has_steps_of_names_of_their_own_that_wait_for_no_circle() {
    let cases = [
        (vec![step("a", "read", &[]), step("a", "read", &[])], "/planUpdate/steps/1/id", "unique"),
        (vec![step("a", "read", &["x"])], "/planUpdate/steps/0/dependsOn/0", "step"),
        (vec![step("a", "read", &["a"])], "/planUpdate/steps/0/dependsOn/0", "step"),
        (
            vec![step("z", "read", &[]), step("a", "read", &["b"]), step("b", "read", &["a"])],
            "/planUpdate/steps/1/dependsOn",
            "circle",
        ),
    ];
    for (steps, path, rule) in cases {
        let bench = begin(Planner).asks().says(&plans(&steps, 0, "read"));
        let Body::OutputRejected(rejected) = bench.newest_event("output_rejected") else { panic!() };
        assert_eq!(
            (rejected.violations[0].path.as_str(), rejected.violations[0].rule.as_str()),
            (path, rule)
        );
    }
}

/// Ten steps, of which so many miss what was expected.
fn misses(missed: usize, done: usize) -> Bench {
    let steps: Vec<Value> = (0..10).map(|n| step(&format!("s{n}"), "read", &[])).collect();
    let mut bench = begin(Planner).asks().says(&plans(&steps, 0, "read"));
    for n in 0..done {
        if n > 0 {
            bench = bench.asks().says(&next(u32::try_from(n).unwrap(), "read"));
        }
        // Those that miss come last, so that nothing is made anew before.
        bench = bench.tool_gives("1", n < done - missed);
    }
    bench
}

// S004-PL-02, S004-PR-03
#[test]
fn a_plan_is_made_anew_where_more_than_four_in_ten_results_miss_what_was_expected_and_not_at_four() {
    // 2 of 5 is 0.4.
    let bench = misses(2, 5);
    assert_eq!(bench.execution().deviation, 0.4);
    assert_eq!(bench.prompt().get("deviationAnalysis"), None);
    // 3 of 7 is 0.428….
    let bench = misses(3, 7);
    let analysis = bench.prompt()["deviationAnalysis"].clone();
    assert_eq!(analysis["impactedSteps"], value!([4, 5, 6]));
    assert_eq!(analysis["availableResources"], value!(["ask", "plan.run", "read", "send"]));
    let bench = bench.asks();
    let Body::PlannerAsked(asked) = bench.newest_event("planner_asked") else { panic!() };
    assert_eq!(asked.reasons().collect::<Vec<_>>(), [v1::ReplanReason::Deviation]);
    assert!(asked.plan_wanted);
}

#[test]
fn a_plan_whose_last_results_depart_from_it_too_far_is_made_anew_and_not_done() {
    let steps = [step("a", "read", &[]), step("b", "read", &[])];
    let bench = begin(Planner).asks().says(&plans(&steps, 0, "read")).tool_gives("1", true);
    // 1 of 2, and no step is left.
    let bench = bench.asks().says(&next(1, "read")).tool_gives("1", false);
    assert_eq!(bench.prompt()["deviationAnalysis"]["impactedSteps"], value!([1]));
    assert_eq!(bench.prompt()["progress"], value!(1.0));
    let another = [step("c", "read", &[])];
    let bench = bench.asks().says(&plans(&another, 0, "read")).tool_gives("2", true);
    bench.expect_outcome(v1::RunOutcome::Succeeded);
}

// S004-PL-08
#[test]
fn a_tool_that_nobody_serves_is_as_one_that_nobody_knows() {
    let steps = [step("a", "read", &[]), step("b", "send", &["a"])];
    let bench = begin(Planner).asks().says(&plans(&steps, 0, "read")).tool_gives("1", true);
    let Some((_, Query::Prompt(asked))) = bench.state.open_query() else { panic!() };
    // Those that agents serve: whoever makes the prompt finds out whether somebody does.
    assert_eq!(asked.tools, ["read", "send", "ask"]);
    let bench = bench.asks_without(&["send"]).expect_kinds(&["tools_missed"]);
    let analysis = bench.prompt()["deviationAnalysis"].clone();
    assert_eq!(analysis["impactedSteps"], value!([1]));
    assert_eq!(analysis["availableResources"], value!(["ask", "plan.run", "read"]));
    let bench = bench.asks_without(&["send"]);
    let Body::PlannerAsked(asked) = bench.newest_event("planner_asked") else { panic!() };
    assert_eq!(asked.reasons().collect::<Vec<_>>(), [v1::ReplanReason::ResourcesUnavailable]);
    assert!(asked.plan_wanted);
    // The planner insists: nothing is called, no step is done, and the plan has to be another one.
    let bench = bench.lease("planner.2", "w").says(&plans(&[step("c", "send", &[])], 0, "send"));
    let Body::ToolObserved(missed) = bench.newest_event("tool_observed") else { panic!() };
    assert_eq!(missed.error.unwrap().code, "AGENT_ABSENT");
    assert_eq!((bench.count("tool_called"), bench.execution().metrics.unwrap().plan_steps), (1, 1));
    assert_eq!(bench.execution().deviation, 0.0);
    assert!(bench.prompt().get("deviationAnalysis").is_some());
    // It is there again.
    let bench = bench.asks_without(&[]).expect_kinds(&["tools_missed"]);
    assert_eq!(bench.prompt().get("deviationAnalysis"), None);
}

#[test]
fn in_the_other_modes_a_call_waits_for_whoever_serves_the_tool() {
    for mode in [Simple, Supervised] {
        let bench = begin(mode);
        let Some((_, Query::Prompt(asked))) = bench.state.open_query() else { panic!() };
        assert_eq!(asked.tools, [""; 0], "{mode:?}");
    }
}

// S004-AN-01
#[test]
fn a_call_that_a_person_rejects_is_no_step_that_was_done() {
    let steps = [step("a", "ask", &[]), step("b", "read", &[])];
    let bench = begin(Planner).asks().says(&plans(&steps, 0, "ask")).answer("reject");
    let state = bench.execution();
    assert_eq!((state.deviation, state.error_count, state.step), (0.0, 1, 1));
    assert_eq!(state.metrics.unwrap().plan_steps, 0);
    assert_eq!(bench.prompt().get("deviationAnalysis"), None);
}

#[test]
fn a_plan_that_a_person_calls_done_before_it_is_leaves_no_pattern() {
    let done = value!({ "decision": "complete", "planAdherence": 1, "reasoning": "", "confidence": 1 });
    let bench = approved().asks().says(&done).answer("complete");
    let Body::ModeCompleted(completed) = bench.newest_event("mode_completed") else { panic!() };
    assert_eq!(completed.remembered, None);
}

#[test]
fn whoever_approved_a_plan_is_asked_about_its_last_result_where_that_misses() {
    let bench = approved().asks().says(&goes_on("read", &value!({ "n": "a" }))).tool_gives("1", true);
    let bench = bench.asks().says(&goes_on("read", &value!({ "n": "b" }))).tool_gives("2", false);
    assert_eq!(bench.open().len(), 1);
    assert_eq!(bench.count("mode_completed"), 0);
    bench.answer("continue").expect_outcome(v1::RunOutcome::Succeeded);
}

// S004-PL-05
#[test]
fn a_new_plan_resets_the_errors_makes_a_checkpoint_and_counts_results_anew() {
    let bench = misses(3, 7).asks().says(&plans(&[step("x", "read", &[])], 0, "read"));
    // The planner's answer, the end of its task, the checkpoint, the call.
    let kinds = ["planner_answered", "task_settled", "mode_checkpointed", "tool_called"];
    let bench = bench.expect_kinds(&kinds);
    let state = bench.execution();
    assert_eq!((state.replans, state.deviation, state.error_count), (1, 0.0, 0));
    assert_eq!(state.plan.unwrap().revision, 2);
    assert_eq!(state.checkpoints[0].reason, "the plan was made anew");
}

// S004-PL-03, S004-PL-04
#[test]
fn a_failed_step_invalidates_those_that_need_it_and_three_errors_are_a_reason_by_themselves() {
    let steps = [step("a", "read", &[]), step("b", "read", &["a"]), step("c", "read", &["b"])];
    let bench = begin(Planner).asks().says(&plans(&steps, 0, "read")).tool_fails().asks();
    let Body::PlannerAsked(asked) = bench.newest_event("planner_asked") else { panic!() };
    use v1::ReplanReason::{Deviation, Errors, InvalidatedSteps};
    assert_eq!(asked.reasons().collect::<Vec<_>>(), [Deviation, InvalidatedSteps]);
    // Three errors, none of which is counted as a miss any more once the plan is another one.
    let mut bench = misses(0, 7);
    for _ in 0..3 {
        bench = bench.asks().says(&next(7, "read")).tool_fails();
    }
    let bench = bench.asks();
    let Body::PlannerAsked(asked) = bench.newest_event("planner_asked") else { panic!() };
    assert_eq!(asked.reasons().collect::<Vec<_>>(), [Errors]);
}

#[test]
fn a_failure_of_a_tool_that_would_abort_a_plan_is_told_to_the_planner_like_any_other() {
    let mut critical = failure("STATE_CORRUPTED");
    critical.severity = v1::Severity::Critical.into();
    let bench = begin(Simple).asks().says(&act("read", true));
    let task = bench.newest();
    let bench = bench.lease(&task, "w").report(&task, Report::Failed(critical)).seen(false);
    assert_eq!(bench.prompt()["lastResult"]["error"]["code"], "STATE_CORRUPTED");
    let bench = bench.asks().says(&act("read", false)).tool_gives("1", true);
    bench.expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn a_step_that_was_to_fail_and_has_is_done_and_counts_as_no_error() {
    let mut to_fail = step("a", "read", &[]);
    to_fail["expected"] = value!({ "success": false });
    let steps = [to_fail, step("b", "read", &["a"])];
    let fails = |bench: Bench, as_expected| {
        let task = bench.newest();
        bench.lease(&task, "w").fails(&task, "FILE_NOT_FOUND").seen(as_expected)
    };
    let bench = fails(begin(Planner).asks().says(&plans(&steps, 0, "read")), true);
    let told = bench.execution();
    assert_eq!((told.error_count, told.deviation, told.progress), (0, 0.0, 0.5));
    assert_eq!(bench.prompt()["lastResult"]["error"]["code"], "FILE_NOT_FOUND", "the planner is told");
    assert!(bench.prompt().get("deviationAnalysis").is_none());
    let Body::ToolObserved(seen) = bench.newest_event("tool_observed") else { panic!() };
    assert_eq!(seen.remembered.unwrap().r#type, "success");
    let bench = bench.asks().says(&next(1, "read"));
    fails(bench.clone_run(), false).asks().expect_status(v1::RunStatus::Running);
    bench.tool_gives("1", true).expect_outcome(v1::RunOutcome::Succeeded);
    // Where it succeeds against all expectation, it has missed what was expected, and is done all the same.
    let bench = begin(Planner).asks().says(&plans(&steps, 0, "read")).tool_gives("1", false);
    assert_eq!((bench.execution().deviation, bench.execution().progress), (1.0, 0.5));
}

// S004-PL-08
#[test]
fn a_plan_that_names_a_tool_which_is_not_there_is_made_anew_before_it_is_called() {
    let steps = [step("a", "read", &[]), step("b", "fly", &["a"])];
    let bench = begin(Planner).asks().says(&plans(&steps, 0, "read")).tool_gives("1", true);
    let analysis = bench.prompt()["deviationAnalysis"].clone();
    assert_eq!(analysis["availableResources"], value!(["ask", "plan.run", "read", "send"]));
    let bench = bench.asks();
    let Body::PlannerAsked(asked) = bench.newest_event("planner_asked") else { panic!() };
    assert_eq!(asked.reasons().collect::<Vec<_>>(), [v1::ReplanReason::ResourcesUnavailable]);
    assert!(asked.plan_wanted);
    // What is done already needs its tool no more.
    let steps = [step("b", "read", &[])];
    let bench = bench.says(&plans(&steps, 0, "read")).tool_gives("1", true);
    bench.expect_outcome(v1::RunOutcome::Succeeded);
}

// S004-PL-06
#[test]
fn the_planner_itself_may_demand_another_plan_and_what_is_done_stays_done_where_it_modifies() {
    let steps = [step("a", "read", &[]), step("b", "send", &[])];
    let bench = begin(Planner).asks().says(&plans(&steps, 0, "read")).tool_gives("1", true).asks();
    let mut answer = plans(&[step("a", "read", &[]), step("c", "read", &["a"])], 1, "read");
    answer["planUpdate"]["type"] = value!("modify");
    answer["replanRequired"] = value!(true);
    let bench = bench.says(&answer);
    let Body::PlannerAnswered(answered) = bench.newest_event("planner_answered") else { panic!() };
    assert_eq!(answered.reasons().collect::<Vec<_>>(), [v1::ReplanReason::Planner]);
    assert_eq!(bench.execution().progress, 0.5, "the step a has succeeded");
    bench.tool_gives("1", true).expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn another_plan_for_which_there_is_no_reason_is_the_planners_own_even_where_it_does_not_demand_it() {
    let steps = [step("a", "read", &[]), step("b", "send", &[])];
    let reasons = |bench: &Bench| -> Vec<v1::ReplanReason> {
        let Body::PlannerAnswered(answered) = bench.newest_event("planner_answered") else { panic!() };
        answered.reasons().collect()
    };
    let bench = begin(Planner).asks().says(&plans(&steps, 0, "read"));
    assert!(reasons(&bench).is_empty(), "the first plan takes the place of none");
    let another = plans(&[step("c", "read", &[])], 0, "read");
    assert_eq!(another["replanRequired"], value!(false));
    let bench = bench.tool_gives("1", true).asks().says(&another);
    assert_eq!(reasons(&bench), [v1::ReplanReason::Planner]);
    assert_eq!(bench.execution().replans, 1);
}

#[test]
fn the_eleventh_new_plan_waits_for_a_person_before_anything_is_done() {
    let steps = [step("a", "read", &[]), step("b", "read", &[])];
    let mut bench = begin(Planner).asks().says(&plans(&steps, 0, "read"));
    for replans in 1..=10 {
        bench = bench.tool_gives("1", false).asks().says(&plans(&steps, 0, "read"));
        assert_eq!((bench.execution().replans, bench.open().len()), (replans, 0));
    }
    let bench = bench.tool_gives("1", false).asks().says(&plans(&steps, 0, "read"));
    assert_eq!(bench.run().questions[0].purpose(), v1::QuestionPurpose::Escalation);
    assert_eq!(bench.run().questions[0].options, ["continue", "abort"]);
    let bench = bench.answer("continue");
    assert!(bench.newest().starts_with("read."));
    assert_eq!(bench.execution().escalations, 1);
}

#[test]
fn the_eleventh_new_plan_waits_for_a_person_where_nobody_serves_its_tool_too_and_then_looks_again() {
    let steps = [step("a", "send", &[])];
    let missing = |bench: Bench| {
        let bench = bench.asks_without(&["send"]);
        let task = bench.newest();
        bench.lease(&task, "w").says(&plans(&steps, 0, "send"))
    };
    let mut bench = missing(begin(Planner).asks_without(&["send"]));
    for replans in 1..=10 {
        bench = missing(bench);
        assert_eq!((bench.execution().replans, bench.open().len()), (replans, 0));
    }
    let bench = missing(bench);
    assert_eq!((bench.execution().replans, bench.open().len()), (11, 1));
    // The person has started its worker: the call is made, and waits where it has not.
    let bench = bench.answer("continue");
    assert!(bench.newest().starts_with("send."), "{}", bench.newest());
}

#[test]
fn whoever_resumes_a_run_may_have_brought_the_tool() {
    let steps = [step("a", "send", &[])];
    let bench = begin(Planner).asks_without(&["send"]).asks_without(&["send"]);
    let bench = bench.lease("planner.0", "w").pause().says(&plans(&steps, 0, "send"));
    assert_eq!(bench.count("tool_observed"), 0, "nothing is called or missed while it is held");
    let bench = bench.resume();
    assert!(bench.newest().starts_with("send."), "{}", bench.newest());
}

// CONTRACTS §5, "Analytics".
#[test]
fn an_escalation_counts_once_whatever_a_person_makes_of_it() {
    let decides = |decision: &str| value!({ "decision": decision, "planAdherence": 1, "reasoning": "", "confidence": 1 });
    let counted = |bench: &Bench| {
        let execution = bench.execution();
        (execution.escalations, execution.metrics.unwrap().escalations)
    };
    let bench = approved().asks();
    assert_eq!(counted(&bench), (0, 0), "the approval of a plan is none");
    let bench = bench.says(&decides("complete"));
    assert_eq!(counted(&bench), (1, 1));
    for answer in ["continue", "complete", "abort"] {
        assert_eq!(counted(&bench.clone_run().answer(answer)), (1, 1), "{answer}");
    }
    assert_eq!(counted(&bench.cancel()), (1, 1));
}

/// A plan of two steps that a person has approved.
pub(super) fn approved() -> Bench {
    let steps = [step("a", "read", &[]), step("b", "read", &["a"])];
    begin(Supervised).asks().says(&plans(&steps, 0, "read")).decides("approve", None)
}

// S004-SU-01, S004-SU-02
#[test]
fn only_an_approved_revision_is_worked_on_and_an_edit_is_the_next_one_with_a_question_of_its_own() {
    let bench = begin(Supervised);
    assert!(bench.prompt().get("progress").is_some(), "the plan is made by the contract of planners");
    let bench = bench.asks().says(&plans(&[step("a", "read", &[])], 0, "read"));
    let question = bench.run().questions[0].clone();
    assert_eq!(question.purpose(), v1::QuestionPurpose::Plan);
    assert_eq!(question.options, ["approve", "edit", "reject"]);
    assert_eq!(bench.execution().execution_state, "paused");
    assert_eq!(bench.count("tool_called"), 0);
    let edited = value!({ "steps": [step("x", "send", &[]), step("y", "read", &["x"])], "checkpoints": [1] });
    let bench = bench.decides("edit", Some(&edited));
    let questions = bench.run().questions;
    assert_eq!(questions.len(), 2);
    assert_ne!(questions[1].question_id, question.question_id);
    assert!(questions[1].text.starts_with("Revision 2 of the plan has 2 steps."));
    // The first question is answered, and cannot be again.
    let late = bench.clone_run().input(resolve(&question.question_id, "approve", "late"));
    assert!(matches!(late.last, Err(Refusal::QuestionAnswered { .. })));
    let bench = bench.decides("approve", None);
    assert_eq!(bench.prompt()["validatedPlan"]["steps"][0]["id"], "x");
    assert_eq!(bench.prompt()["adherenceCheck"]["currentStep"], 0);
    assert_eq!(bench.prompt()["adherenceCheck"]["planStep"]["tool"], "send");
    assert_eq!(bench.execution().plan_text(), "1. do x (send)\n2. do y (read)");
    assert_eq!(bench.prompt()["autonomyLevel"], 0.3);
}

#[test]
fn a_plan_that_cannot_be_worked_on_is_no_edit() {
    let bench = begin(Supervised).asks().says(&plans(&[step("a", "read", &[])], 0, "read"));
    for edited in [
        value!({ "steps": [step("a", "fly", &[])] }),
        value!({ "steps": [step("a", "read", &["b"])] }),
        value!({ "steps": [step("a", "read", &[])], "checkpoints": [1] }),
    ] {
        let refused = bench.clone_run().decides("edit", Some(&edited));
        assert!(matches!(refused.last, Err(Refusal::BreaksSchema { .. })), "{:?}", refused.last);
    }
    let refused = bench.decides("edit", None);
    assert!(refused.last.is_err());
}

// S004-SU-02
#[test]
fn a_rejected_plan_ends_the_run() {
    let bench = begin(Supervised).asks().says(&plans(&[step("a", "read", &[])], 0, "read"));
    let bench = bench.decides("reject", None);
    let Body::PlanRejected(rejected) = bench.newest_event("plan_rejected") else { panic!() };
    let said = rejected.remembered.unwrap();
    assert_eq!((rejected.revision, said.r#type.as_str(), said.positive), (1, "user_feedback", Some(false)));
    // It is about the plan, which the fifth event has made, and about what was recalled for it.
    let planned =
        bench.ledger.events.iter().find(|event| matches!(event.body, Some(Body::PlannerAnswered(_))));
    let plan = format!("{}-{}-0", bench.run().run_id, planned.unwrap().seq);
    assert_eq!(said.related_to, [plan.as_str(), "m1"]);
    bench.expect_outcome(v1::RunOutcome::Cancelled);
}

// S004-PR-05
#[test]
fn an_approved_plan_is_worked_on_without_anybody_and_is_done_with_its_last_step() {
    let bench = approved().asks().says(&goes_on("read", &value!({ "n": "a" }))).tool_gives("1", true);
    let bench = bench.asks().says(&goes_on("read", &value!({ "n": "b" }))).tool_gives("2", true);
    assert_eq!(bench.execution().escalations, 0);
    bench.expect_outcome(v1::RunOutcome::Succeeded);
}

// S004-SU-03
#[test]
fn another_tool_than_that_of_the_step_is_no_answer_in_the_mode_supervised() {
    let bench = approved().asks().says(&goes_on("send", &value!({})));
    let Body::OutputRejected(rejected) = bench.newest_event("output_rejected") else { panic!() };
    assert_eq!(
        (rejected.violations[0].path.as_str(), rejected.violations[0].rule.as_str()),
        ("/nextAction/tool", "plan")
    );
}

// S004-SU-04
#[test]
fn results_that_depart_further_than_the_autonomy_allows_ask_a_person_who_alone_lets_the_run_go_on() {
    // 1 of 1 results misses: 1.0 is more than 0.3.
    let bench = approved().asks().says(&goes_on("read", &value!({ "n": "a" }))).tool_gives("1", false);
    let question = bench.run().questions.last().unwrap().clone();
    assert_eq!(question.purpose(), v1::QuestionPurpose::Escalation);
    assert!(question.text.starts_with("1.00 of the results miss what was expected, and 0.30 is allowed."));
    assert_eq!(bench.execution().execution_state, "paused");
    let bench = bench.answer("continue");
    let history = bench.prompt()["escalationHistory"].clone();
    assert_eq!(history.as_array().unwrap().len(), 1);
    // What the person knows of is no reason to ask again: the next result is as expected.
    let bench = bench.asks().says(&goes_on("read", &value!({ "n": "b" }))).tool_gives("2", true);
    bench.expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn whoever_lets_one_result_pass_is_asked_about_the_next_one_that_misses() {
    let steps: Vec<Value> = (0..4).map(|n| step(&format!("s{n}"), "read", &[])).collect();
    let does = |bench: Bench, n: u32, as_expected: bool| {
        bench.asks().says(&goes_on("read", &value!({ "n": format!("s{n}") }))).tool_gives("1", as_expected)
    };
    let bench = begin(Supervised).asks().says(&plans(&steps, 0, "read")).decides("approve", None);
    let bench = does(bench, 0, false).answer("continue");
    // 1 of 2 is still more than 0.3, and the person knows of it.
    let bench = does(bench, 1, true);
    assert_eq!(bench.open().len(), 0);
    // 2 of 3: one more than the person knows of, though the share is smaller than it was.
    let bench = does(bench, 2, false);
    assert_eq!(bench.open().len(), 1);
    let bench = does(bench.answer("continue"), 3, true);
    assert_eq!(bench.execution().escalations, 2);
    bench.expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn as_far_as_the_autonomy_allows_nobody_is_asked() {
    let steps: Vec<Value> = (0..10).map(|n| step(&format!("s{n}"), "read", &[])).collect();
    let plan = plans(&steps, 0, "read");
    let mut bench = begin(Supervised).asks().says(&plan).decides("approve", None);
    // 3 of 10 is 0.3, and not more.
    for n in 0..10 {
        bench = bench.asks().says(&goes_on("read", &value!({ "n": format!("s{n}") }))).tool_gives("1", n < 7);
    }
    assert_eq!(bench.execution().escalations, 0);
    bench.expect_outcome(v1::RunOutcome::Succeeded);
}

// S004-PR-06, S004-SU-04
#[test]
fn a_planner_may_ask_pause_and_say_that_the_plan_is_done() {
    let escalates = value!({
        "decision": "escalate",
        "escalation": { "reason": "two files", "userQuestion": "Which one?", "suggestedOptions": ["left", "right"] },
        "planAdherence": 1, "reasoning": "", "confidence": 1,
    });
    let bench = approved().asks().says(&escalates);
    let question = bench.run().questions.last().unwrap().clone();
    assert_eq!(question.text, "two files. Which one?");
    assert_eq!(question.options, ["continue", "left", "right", "abort"]);
    let bench = bench.answer("right");
    assert_eq!(bench.prompt()["escalationHistory"], value!(["two files: right"]));
    let decides = |decision: &str| value!({ "decision": decision, "planAdherence": 1, "reasoning": "tea", "confidence": 1 });
    let bench = bench.asks().says(&decides("pause"));
    let bench = bench.expect_kinds(&["planner_answered", "run_paused", "task_settled"]);
    let bench = bench.expect_status(v1::RunStatus::Paused);
    assert_eq!(bench.state.open_query(), None, "nothing is asked while it is paused");
    let bench = bench.resume().asks().says(&decides("complete"));
    assert!(
        bench
            .run()
            .questions
            .last()
            .unwrap()
            .text
            .starts_with("the planner says that the plan is done, and 2 steps")
    );
    bench.answer("complete").expect_outcome(v1::RunOutcome::Succeeded);
}

// S004-SU-03
#[test]
fn an_action_that_hardly_keeps_to_the_plan_by_the_planners_own_words_is_asked_about_and_then_done() {
    let mut answer = goes_on("read", &value!({ "n": "other" }));
    answer["planAdherence"] = value!(0.5);
    let bench = approved().asks().says(&answer);
    assert_eq!(bench.count("tool_called"), 0);
    let bench = bench.answer("continue");
    assert!(bench.newest().starts_with("read."));
}

/// As far as the autonomy allows is allowed, whatever the difference of two numbers is to a computer.
#[test]
fn an_action_that_keeps_to_the_plan_exactly_as_far_as_it_has_to_is_done() {
    for (autonomy, adherence, asked) in
        [(0.7, 0.3, false), (0.95, 0.05, false), (0.9, 0.1, false), (0.7, 0.299, true), (0.0, 1.0, false)]
    {
        let plan = plans(&[step("x", "read", &[])], 0, "read");
        let bench = begin_with(Supervised, |run| run.autonomy_level = Some(autonomy)).asks().says(&plan);
        let mut answer = goes_on("read", &value!({ "n": "x" }));
        answer["planAdherence"] = value!(adherence);
        let bench = bench.decides("approve", None).asks().says(&answer);
        assert_eq!(bench.count("tool_called") == 0, asked, "{autonomy} {adherence}");
    }
}

#[test]
fn a_planner_that_fails_ends_the_modes_without_a_person_and_asks_the_person_of_the_other() {
    let fails = |bench: Bench| {
        let task = bench.newest();
        bench.fails(&task, "LOGIC_ERROR")
    };
    for mode in [Simple, Planner] {
        fails(begin(mode).asks()).expect_outcome(v1::RunOutcome::Failed);
    }
    let bench = fails(approved().asks());
    assert_eq!(bench.run().questions.last().unwrap().purpose(), v1::QuestionPurpose::Escalation);
    let bench = bench.answer("continue");
    assert_eq!(bench.prompt()["adherenceCheck"]["currentStep"], 0);
}

#[test]
fn a_tool_that_needs_it_is_called_only_once_a_person_has_approved_that_very_call() {
    let bench = begin(Simple).asks().says(&act("ask", true));
    assert_eq!(bench.count("tool_called"), 0);
    let question = bench.run().questions[0].clone();
    assert_eq!(question.purpose(), v1::QuestionPurpose::Tool);
    assert_eq!(question.options, ["approve", "reject", "abort"]);
    assert_eq!(question.text, "Is ask to be called with {\"path\":\"a\"}?");
    assert_eq!(question.proposed, Some(json("{\"path\":\"a\"}")));
    let approved = bench.clone_run().answer("approve");
    assert!(approved.newest().starts_with("ask."));
    // What the text has no room for can be seen all the same.
    let long = value!({
        "action": { "tool": "ask", "parameters": { "path": "ñ".repeat(1_000) } },
        "reasoning": "", "continue": true, "confidence": 1,
    });
    let asked = begin(Simple).asks().says(&long).run().questions[0].clone();
    assert_eq!(asked.text, format!("Is ask to be called with {{\"path\":\"{}…?", "ñ".repeat(991)));
    assert_eq!(asked.proposed, Some(json(&long["action"]["parameters"].to_string())));
    // A rejection is a result, which the planner is told.
    let rejected = bench.answer("reject");
    assert_eq!(rejected.prompt()["lastResult"]["error"]["code"], "TOOL_REJECTED");
    assert_eq!(rejected.execution().error_count, 1);
}

// CONTRACTS §5, "Memory": relevance.
#[test]
fn what_a_person_says_of_a_call_is_feedback_on_what_was_recalled_for_it() {
    let plan = plans(&[step("a", "ask", &[]), step("b", "read", &[])], 0, "ask");
    let bench = begin(Planner).asks().says(&plan);
    let made = bench.ledger.events.iter().find(|event| kind(event) == "planner_answered").unwrap().seq;
    // The plan, and the entry of the prompt.
    let related = [format!("run-{made}-0"), "m1".to_owned()];
    let Body::ToolApproved(approved) = bench.clone_run().answer("approve").newest_event("tool_approved")
    else {
        panic!()
    };
    let approved = approved.remembered.unwrap();
    assert_eq!((approved.positive, &approved.related_to[..]), (Some(true), &related[..]));
    let Body::ToolObserved(rejected) = bench.answer("reject").newest_event("tool_observed") else { panic!() };
    let rejected = rejected.remembered.unwrap();
    assert_eq!((rejected.positive, &rejected.related_to[..]), (Some(false), &related[..]));
}

// CONTRACTS §5, "Memory": never a cut prefix.
#[test]
fn digests_have_whole_parts_and_leave_out_what_has_no_room() {
    let digest = |remembered: Option<v1::Remembered>| remembered.unwrap().digest;
    let long = "a.tool.with.a.name.that.has.no.room.in.any.digest";
    let with_long = |run: &mut v1::ModeRun| run.tools.push(tool(long));
    let steps =
        [step("a", "read", &[]), step("b", long, &[]), step("c", "read", &[]), step("d", "send", &[])];
    let bench = begin_with(Planner, with_long).asks().says(&plans(&steps, 0, "read"));
    let Body::PlannerAnswered(planned) = bench.newest_event("planner_answered") else { panic!() };
    assert_eq!(digest(planned.remembered), "plan proposed: 4 steps, revision 1");
    let mut bench = bench.tool_gives("1", true);
    for (place, tool) in [(1, long), (2, "read"), (3, "send")] {
        bench = bench.asks().says(&next(place, tool)).tool_gives("1", true);
    }
    let Body::ModeCompleted(completed) = bench.newest_event("mode_completed") else { panic!() };
    assert_eq!(digest(completed.remembered), "pattern: read > read > send");
    // Each letter and each mark may be a token: ": t" and seven of " > t" are 31 bytes.
    let steps: Vec<Value> = (0..20).map(|place| step(&format!("s{place}"), "t", &[])).collect();
    let mut bench = begin_with(Planner, |run| run.tools.push(tool("t"))).asks().says(&plans(&steps, 0, "t"));
    bench = bench.tool_gives("1", true);
    for place in 1..20 {
        bench = bench.asks().says(&next(place, "t")).tool_gives("1", true);
    }
    let Body::ModeCompleted(completed) = bench.newest_event("mode_completed") else { panic!() };
    assert_eq!(digest(completed.remembered), "pattern: t > t > t > t > t > t > t > t");
    // An answer comes before the reason of the question, which is long.
    let escalates = value!({
        "decision": "escalate",
        "escalation": {
            "reason": "there are two files, and nobody knows which of them is the newer one",
            "userQuestion": "Which one?", "suggestedOptions": ["left"],
        },
        "planAdherence": 1, "reasoning": "", "confidence": 1,
    });
    let bench = approved().asks().says(&escalates).answer("left");
    let Body::EscalationAnswered(answered) = bench.newest_event("escalation_answered") else { panic!() };
    assert_eq!(digest(answered.remembered), "feedback: left");
    let Body::PlanApproved(approved) = bench.newest_event("plan_approved") else { panic!() };
    assert_eq!(digest(approved.remembered), "feedback: plan; approved");
}

#[test]
fn whoever_has_approved_a_plan_has_approved_its_own_calls_and_no_others() {
    let plan = plans(&[step("a", "ask", &[])], 0, "ask");
    let bench = begin(Supervised).asks().says(&plan).decides("approve", None).asks();
    let as_planned = bench.clone_run().says(&goes_on("ask", &value!({ "n": "a" })));
    assert!(as_planned.newest().starts_with("ask."));
    let another = bench.says(&goes_on("ask", &value!({ "n": "b" })));
    assert_eq!(another.run().questions.last().unwrap().purpose(), v1::QuestionPurpose::Tool);
}

// S004-CP-02
#[test]
fn a_plan_says_before_which_of_its_steps_a_checkpoint_is_made() {
    let mut plan = plans(&[step("a", "read", &[]), step("b", "read", &[])], 0, "read");
    plan["planUpdate"]["checkpoints"] = value!([1]);
    let bench = begin(Planner).asks().says(&plan).tool_gives("1", true);
    assert_eq!(bench.execution().checkpoints.len(), 0);
    let bench = bench.asks().says(&next(1, "read"));
    let kept = bench.execution().checkpoints;
    assert_eq!((kept.len(), kept[0].step, &*kept[0].reason), (1, 1, "before step 1, as the plan says"));
}

// S004-CO-02, S004-CP-01, S004-CP-04
#[test]
fn a_rollback_brings_the_state_back_field_by_field_and_late_results_are_refused() {
    let bench = begin(Simple).asks().says(&act("read", true)).tool_gives("1", true).keeps("mine");
    let before = bench.execution();
    let bench = bench.asks().says(&act("read", true)).tool_fails();
    let bench = bench.asks().says(&act("read", true));
    assert_eq!((bench.execution().step, bench.execution().error_count), (2, 1));
    let task = bench.newest();
    let bench = bench.lease(&task, "w");
    let (place, lease) = (bench.at(&task), bench.token(&task));
    let bench = bench.goes_back_to("c1").expect_kinds(&["task_settled", "mode_rolled_back"]);
    let after = bench.execution();
    let without_memory = |state: v1::ExecutionState| v1::ExecutionState {
        memory_entries: 0,
        memory_tokens: 0,
        metrics: None,
        ..state
    };
    assert_eq!(without_memory(after), without_memory(before));
    let Body::ModeRolledBack(back) = bench.newest_event("mode_rolled_back") else { panic!() };
    let made = bench.ledger.events.iter().find(|event| kind(event) == "mode_checkpointed").unwrap().seq;
    assert_eq!(back.to_seq, made);
    let bench = bench.does(reported(place, lease, "w", Report::Completed(json("1"))));
    assert_eq!(bench.kinds(), ["result_refused"]);
    // What was dropped is still in the log.
    assert_eq!(bench.count("tool_observed"), 2);
    bench.asks().says(&act("read", false)).tool_gives("1", true).expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn a_call_that_ends_because_its_run_goes_back_says_so() {
    let bench = begin(Simple).keeps("mine").asks().says(&act("read", true));
    let task = bench.newest();
    let bench = bench.lease(&task, "w").goes_back_to("c1");
    assert_eq!(bench.error(&task).message, "cancelled: its run went back to a checkpoint");
}

/// What a rollback brings back, as readers see it: without what was recalled for a prompt and what is only counted.
fn brought_back(bench: &Bench) -> v1::ExecutionState {
    v1::ExecutionState {
        memory_entries: 0,
        memory_tokens: 0,
        metrics: None,
        escalations: 0,
        checkpoints: Vec::new(),
        ..bench.execution()
    }
}

/// The ids of the checkpoints that are kept.
fn kept(bench: &Bench) -> Vec<String> {
    bench.execution().checkpoints.into_iter().map(|kept| kept.checkpoint_id).collect()
}

#[test]
fn a_rollback_of_a_planner_brings_plan_misses_replans_and_errors_back_field_by_field() {
    use v1::StepStatus::{Failed, Pending, Succeeded};
    let ten: Vec<Value> = (0..10).map(|n| step(&format!("s{n}"), "read", &[])).collect();
    let two = [step("a", "read", &[]), step("b", "read", &[])];
    // The first plan misses with its only result, and the second one is made, with the checkpoint c1.
    let bench = begin(Planner).asks().says(&plans(&two, 0, "read")).tool_gives("1", false);
    let mut bench = bench.asks().says(&plans(&ten, 0, "read"));
    for n in 1..=4 {
        bench = bench.tool_gives("1", true).asks().says(&next(n, "read"));
    }
    let bench = bench.tool_fails().keeps("mine");
    let (before, prompt) = (brought_back(&bench), bench.prompt());
    // One result of five misses, which is 0.2; four steps of ten are done, after one of the plan before.
    assert_eq!((before.step, before.error_count, before.replans), (6, 1, 1));
    assert_eq!((before.deviation, before.progress), (0.2, 0.4));
    assert_eq!(before.plan.as_ref().map(|plan| (plan.revision, plan.steps.len())), Some((2, 10)));
    let mut stands = vec![Succeeded; 4];
    stands.push(Failed);
    stands.extend([Pending; 5]);
    assert_eq!(before.steps, stands.into_iter().map(i32::from).collect::<Vec<_>>());
    assert_eq!(before.last_result.as_ref().unwrap().error.as_ref().unwrap().code, "FILE_NOT_FOUND");
    // Two errors more, another plan, and a call of that which is at work.
    let bench = bench.asks().says(&next(4, "read")).tool_fails().asks().says(&next(4, "read")).tool_fails();
    let bench = bench.asks().says(&plans(&two, 0, "read")).tool_gives("1", true);
    let bench = bench.asks().says(&next(1, "read"));
    let then = bench.execution();
    assert_eq!((then.step, then.error_count, then.replans, then.deviation), (9, 0, 2, 0.0));
    assert_eq!(
        (then.plan.as_ref().unwrap().revision, kept(&bench)),
        (3, vec!["c1".into(), "c2".into(), "c3".into()])
    );
    let bench = bench.goes_back_to("c2");
    assert_eq!((brought_back(&bench), bench.prompt()), (before, prompt));
    assert_eq!(kept(&bench), ["c1", "c2"], "what came after is dropped");
    // What has missed is counted on from there: 2 of 6 is a third, and 3 of 7 is more than 0.4.
    let bench = bench.asks().says(&next(4, "read")).tool_fails();
    assert_eq!((bench.execution().deviation, bench.execution().error_count), (2.0 / 6.0, 2));
    let bench = bench.asks().says(&next(5, "read")).tool_gives("1", false);
    assert_eq!(bench.prompt()["deviationAnalysis"]["impactedSteps"], value!([4, 5]));
    // A revision and a checkpoint have numbers that nothing had before, and the plan is another one for the second time.
    let bench = bench.asks().says(&plans(&two, 0, "read"));
    assert_eq!((bench.execution().plan.unwrap().revision, bench.execution().replans), (4, 2));
    assert_eq!(kept(&bench), ["c1", "c2", "c4"]);
}

#[test]
fn whoever_goes_back_before_a_marked_step_has_its_checkpoint_made_again() {
    let mut plan = plans(&[step("a", "read", &[]), step("b", "read", &[])], 0, "read");
    plan["planUpdate"]["checkpoints"] = value!([1]);
    let bench = begin(Planner).asks().says(&plan).tool_gives("1", true).keeps("mine");
    let bench = bench.asks().says(&next(1, "read"));
    assert_eq!(kept(&bench), ["c1", "c2"]);
    let at_c2 = bench.clone_run().goes_back_to("c2").asks().says(&next(1, "read"));
    assert_eq!(kept(&at_c2), ["c1", "c2"], "it is there already");
    let bench = bench.goes_back_to("c1").asks().says(&next(1, "read"));
    assert_eq!(kept(&bench), ["c1", "c3"]);
    assert_eq!(bench.execution().checkpoints[1].reason, "before step 1, as the plan says");
}

#[test]
fn a_rollback_of_a_supervised_run_brings_the_approval_and_what_people_know_back_field_by_field() {
    use v1::StepStatus::{Failed, Pending, Succeeded};
    let steps: Vec<Value> = (0..4).map(|n| step(&format!("s{n}"), "read", &[])).collect();
    let does = |n: u32| goes_on("read", &value!({ "n": format!("s{n}") }));
    let bench = begin(Supervised).asks().says(&plans(&steps, 0, "read")).decides("approve", None);
    // The first result misses and the second is an error, and a person lets both pass.
    let bench = bench.asks().says(&does(0)).tool_gives("1", false).answer("continue");
    let bench = bench.asks().says(&does(1)).tool_fails().answer("continue").keeps("mine");
    let (before, prompt) = (brought_back(&bench), bench.prompt());
    assert_eq!((before.step, before.error_count, before.approved), (2, 1, true));
    assert_eq!((before.deviation, before.progress), (1.0, 0.25));
    assert_eq!(before.steps, [Succeeded, Failed, Pending, Pending].map(i32::from));
    assert_eq!(prompt["escalationHistory"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&prompt["adherenceCheck"]["currentStep"], &prompt["adherenceCheck"]["deviation"]),
        (&value!(1), &value!(1.0))
    );
    // A success, and a question of the planner which is open.
    let bench = bench.asks().says(&does(1)).tool_gives("1", true).asks();
    let bench = bench.says(&value!({
        "decision": "escalate",
        "escalation": { "reason": "two files", "userQuestion": "Which one?", "suggestedOptions": ["left"] },
        "planAdherence": 1, "reasoning": "", "confidence": 1,
    }));
    let answered = bench.clone_run().answer("left");
    let asked = bench.open();
    let then = bench.execution();
    assert_eq!((then.step, then.error_count, then.execution_state.as_str()), (3, 0, "paused"));
    let open = bench.goes_back_to("c1");
    assert_eq!(open.open(), [""; 0], "nobody is asked what belongs to what was dropped");
    let late = open.clone_run().input(resolve(&asked[0], "left", "late"));
    assert!(late.last.is_err());
    for bench in [open, answered.goes_back_to("c1")] {
        assert_eq!((brought_back(&bench), bench.prompt()), (before.clone(), prompt.clone()));
        // What the person has let pass is known: 2 of 3 is no reason to ask, and the run goes on to its end.
        let mut bench = bench.asks().says(&does(1)).tool_gives("1", true);
        for n in 2..4 {
            assert_eq!(bench.open().len(), 0);
            bench = bench.asks().says(&does(n)).tool_gives("1", true);
        }
        bench.expect_outcome(v1::RunOutcome::Succeeded);
    }
}

#[test]
fn a_supervised_run_that_goes_back_behind_its_approval_asks_for_it_again() {
    let bench = begin(Supervised).asks().says(&plans(&[step("a", "read", &[])], 0, "read")).keeps("mine");
    let first = bench.open();
    let bench = bench.decides("approve", None).asks();
    let bench = bench.says(&goes_on("read", &value!({ "n": "a" })));
    let bench = bench.goes_back_to("c1");
    let state = bench.execution();
    assert_eq!((state.approved, state.plan.unwrap().revision, state.step), (false, 1, 0));
    assert_eq!(state.execution_state, "paused");
    assert_eq!(bench.state.open_query(), None, "nothing is done without an approval");
    let question = bench.run().questions.last().unwrap().clone();
    assert_eq!((question.purpose(), bench.open().len()), (v1::QuestionPurpose::Plan, 1));
    assert_ne!(bench.open(), first, "the answer to the first question is no answer to this one");
    let bench = bench.decides("approve", None).asks();
    let bench = bench.says(&goes_on("read", &value!({ "n": "a" }))).tool_gives("1", true);
    bench.expect_outcome(v1::RunOutcome::Succeeded);
}

// S004-CP-01, S004-CP-03
#[test]
fn nobody_goes_back_behind_what_cannot_be_undone() {
    let bench = begin(Simple).keeps("before").asks().says(&act("send", true)).tool_gives("1", true);
    let bench = bench.keeps("after");
    let kept = bench.execution().checkpoints;
    assert_eq!(kept.iter().map(|kept| kept.can_rollback).collect::<Vec<_>>(), [false, true]);
    assert_eq!(kept[0].why_not, "send was called since then, and what it did cannot be undone");
    let refused = bench.clone_run().goes_back_to("c1");
    let Err(Refusal::Rule(error)) = refused.last else { panic!() };
    assert_eq!(error.code, "ROLLBACK_NOT_POSSIBLE");
    let unknown = bench.clone_run().goes_back_to("c9");
    let Err(Refusal::Rule(error)) = unknown.last else { panic!() };
    assert_eq!(
        (&*error.code, &*error.message),
        ("CHECKPOINT_NOT_FOUND", "there is no checkpoint \"c9\"; there are: c1, c2")
    );
    assert!(bench.goes_back_to("c2").last.is_ok());
}

// S004-CP-02
#[test]
fn fifty_checkpoints_are_kept_and_the_oldest_goes_first() {
    let mut bench = begin(Simple);
    for number in 0..51 {
        bench = bench.keeps(&number.to_string());
    }
    let kept = bench.execution().checkpoints;
    assert_eq!((kept.len(), &*kept[0].checkpoint_id, &*kept[49].checkpoint_id), (50, "c2", "c51"));
}

#[test]
fn checkpoints_keep_64_mib_and_the_oldest_go_first_however_few_there_are() {
    const MIB: usize = 1024 * 1024;
    let large = |id: &str| {
        let mut large = step(id, "read", &[]);
        large["description"] = value!("x".repeat(10 * MIB));
        large
    };
    let mut bench = begin(Planner);
    // The fold of the log is not compared at each step: that takes long with states of this size.
    bench.small = false;
    let mut bench =
        bench.keeps("small").asks().says(&plans(&[large("a"), step("b", "read", &[])], 0, "read"));
    let bytes_before = bench.state.bytes();
    for number in 1..=6 {
        bench = bench.keeps(&format!("large {number}"));
    }
    let reasons = |bench: &Bench| -> Vec<String> {
        bench.execution().checkpoints.into_iter().map(|kept| kept.reason).collect()
    };
    // 60 MiB and a little.
    let all = ["small", "large 1", "large 2", "large 3", "large 4", "large 5", "large 6"];
    assert_eq!(reasons(&bench), all);
    // 70 MiB would be too much: the first one is too small to matter, and goes before the next all the same.
    let bench = bench.keeps("large 7");
    assert_eq!(reasons(&bench), ["large 2", "large 3", "large 4", "large 5", "large 6", "large 7"]);
    assert_eq!(kept(&bench), ["c3", "c4", "c5", "c6", "c7", "c8"]);
    let held = bench.state.bytes() - bytes_before;
    assert!((60 * MIB as u64..64 * MIB as u64).contains(&held), "{held} bytes are told of six states");
    assert_eq!(bench.state.bytes, bench.state.counted(), "the count of bytes goes along");
    // What is forgotten is not gone back to, and what is kept is.
    for gone in ["c1", "c2"] {
        let Err(Refusal::Rule(error)) = bench.clone_run().goes_back_to(gone).last else { panic!() };
        assert_eq!(error.code, "CHECKPOINT_NOT_FOUND");
    }
    let bench = bench.goes_back_to("c3");
    assert_eq!((reasons(&bench), kept(&bench)), (vec!["large 2".to_owned()], vec!["c3".to_owned()]));
    assert_eq!(bench.state.bytes, bench.state.counted(), "the count of bytes goes along");
}

#[test]
fn the_newest_checkpoint_is_kept_however_large_it_is() {
    let mut large = step("a", "read", &[]);
    large["description"] = value!("x".repeat(65 * 1024 * 1024));
    let mut bench = begin(Planner);
    bench.small = false;
    let bench = bench.keeps("before").asks().says(&plans(&[large, step("b", "read", &[])], 0, "read"));
    let bench = bench.keeps("one").keeps("two");
    assert_eq!(kept(&bench), ["c3"]);
    assert!(bench.goes_back_to("c3").last.is_ok());
}

#[test]
fn a_request_for_a_checkpoint_is_carried_out_once() {
    let bench = begin(Simple).keeps("x").keeps("x");
    assert_eq!(bench.execution().checkpoints.len(), 1);
    let other = Input::Checkpoint { reason: "y".to_owned(), request_id: "make x".to_owned() };
    assert!(matches!(bench.input(other).last, Err(Refusal::RequestReused { .. })));
}

#[test]
fn a_request_to_go_back_is_carried_out_once_and_means_one_checkpoint() {
    let back = |checkpoint: &str| Input::RollbackExecution {
        checkpoint: checkpoint.to_owned(),
        request_id: "r1".to_owned(),
    };
    let bench = begin(Simple).keeps("x").keeps("y").does(back("c1")).does(back("c1")).expect_kinds(&[]);
    let refusal = bench.input(back("c2")).expect_refusal();
    assert_eq!(refusal, Refusal::RequestReused { request_id: "r1".to_owned() });
}

#[test]
fn an_execution_may_change_the_memory_of_a_session_and_a_plan_does_not() {
    assert!(begin(Simple).state.remembers());
    assert!(!Bench::plan("a").state.remembers());
}

#[test]
fn a_paused_execution_asks_nothing_and_calls_nothing_until_it_is_resumed() {
    let bench = begin(Simple).asks().pause().says(&act("read", true));
    assert_eq!(bench.count("tool_called"), 0);
    let bench = bench.resume();
    assert!(bench.newest().starts_with("read."));
    let task = bench.newest();
    let bench = bench.lease(&task, "w").pause().completes_with(&task, "1").seen(true);
    assert_eq!(bench.state.open_query(), None);
    assert!(bench.resume().prompt().get("lastResult").is_some());
}

#[test]
fn a_tool_may_be_a_run_of_its_own_which_is_waited_for() {
    let plan = value!({ "name": "p", "waves": [{ "tasks": [{ "name": "t", "agent": "x" }] }] });
    let answer = value!({
        "action": { "tool": "plan.run", "parameters": plan },
        "reasoning": "", "continue": false, "confidence": 0,
    });
    let bench = begin(Simple).asks().says(&answer);
    let task = bench.at(&bench.newest());
    let child = bench.state.child(task).expect("it is a run").run.to_owned();
    let started = bench.state.child_start("run", task, String::new()).expect("it can be started");
    let Work::Plan(started) = started.work else { panic!() };
    assert_eq!((&*started.name, &*started.waves[0].tasks[0].agent), ("p", "x"));
    // While it is at work nobody goes back.
    let bench = bench.keeps("x");
    assert!(matches!(bench.clone_run().goes_back_to("c1").last, Err(Refusal::Rule(_))));
    let news = ChildNews::Ended {
        outcome: Some(v1::RunOutcome::Succeeded),
        error: None,
        output: Some(json("{\"tasks\":[]}")),
        blobs: Vec::new(),
    };
    let bench = bench.does(Input::Child { task, run_id: child, news }).seen(true);
    bench.expect_outcome(v1::RunOutcome::Succeeded);
}

/// Nobody is asked to approve what cannot be done.
#[test]
fn a_plan_that_names_a_tool_that_there_is_not_is_not_proposed() {
    let steps = [step("a", "read", &[]), step("b", "shell", &["a"])];
    let bench = begin(Supervised).asks().says(&plans(&steps, 0, "read"));
    let bench = bench.expect_kinds(&["output_rejected", "task_attempt_failed"]);
    let Body::OutputRejected(rejected) = bench.newest_event("output_rejected") else { panic!() };
    let [violation] = rejected.violations.as_slice() else { panic!("{rejected:?}") };
    assert_eq!((&*violation.path, &*violation.found), ("/planUpdate/steps/1/tool", "\"shell\""));
}

#[test]
fn a_plan_that_gives_a_tool_of_the_daemon_what_it_does_not_take_is_neither_proposed_nor_an_edit() {
    let mut step = step("b", "plan.run", &["a"]);
    step["parameters"] = value!({ "waves": [{ "name": "one", "tasks": [] }] });
    let steps = [super::modes::step("a", "read", &[]), step];
    let bench = begin(Supervised).asks().says(&plans(&steps, 0, "read"));
    let bench = bench.expect_kinds(&["output_rejected", "task_attempt_failed"]);
    let Body::OutputRejected(rejected) = bench.newest_event("output_rejected") else { panic!() };
    let paths: Vec<&str> = rejected.violations.iter().map(|violation| &*violation.path).collect();
    assert!(paths.iter().all(|path| path.starts_with("/planUpdate/steps/1/parameters")), "{paths:?}");

    let bench = begin(Supervised).asks().says(&plans(&steps[..1], 0, "read"));
    let refused = bench.decides("edit", Some(&value!({ "steps": steps })));
    let Err(Refusal::BreaksSchema { violations }) = refused.last else { panic!("{:?}", refused.last) };
    assert!(violations.iter().all(|violation| violation.path.starts_with("/steps/1/parameters")));
}

#[test]
fn a_run_that_a_person_ends_where_nothing_had_failed_says_so() {
    let error_of = |bench: Bench| {
        let bench = bench.decides("abort", None);
        let run = bench.run();
        assert_eq!(run.outcome(), v1::RunOutcome::Failed);
        run.error.expect("it has one").code
    };
    assert_eq!(error_of(begin(Simple).asks().says(&act("ask", true))), "TASK_CANCELLED");
}

/// CONTRACTS §5: `canRollback` is false once a tool ran whose effect cannot be undone. The moment is of before its end.
#[test]
fn a_checkpoint_of_a_moment_at_which_an_irreversible_tool_is_at_work_is_not_gone_back_to() {
    let can_roll_back = |bench: &Bench| -> Vec<bool> {
        bench.execution().checkpoints.iter().map(|kept| kept.can_rollback).collect()
    };
    let bench = begin(Simple).keeps("before").asks().says(&act("send", true)).keeps("while it is sent");
    assert_eq!(can_roll_back(&bench), [false, false]);
    let bench = bench.tool_gives("1", true).keeps("after");
    assert_eq!(can_roll_back(&bench), [false, false, true]);
    let Err(Refusal::Rule(error)) = bench.clone_run().goes_back_to("c2").last else { panic!() };
    assert_eq!(error.code, "ROLLBACK_NOT_POSSIBLE");
    assert!(bench.clone_run().goes_back_to("c3").last.is_ok());
    // What can be undone is done again.
    let bench = begin(Simple).asks().says(&act("read", true)).keeps("while it is read").tool_gives("1", true);
    assert_eq!(can_roll_back(&bench), [true]);
}

#[test]
fn a_cancelled_execution_has_the_run_that_its_tool_is_cancelled_and_ends_when_that_has_ended() {
    let plan = value!({ "name": "p", "waves": [{ "tasks": [{ "name": "t", "agent": "x" }] }] });
    let calls = value!({
        "action": { "tool": "plan.run", "parameters": plan },
        "reasoning": "", "continue": true, "confidence": 0,
    });
    use v1::RunOutcome::{Cancelled, Failed, Succeeded};
    // However the child ends: what has succeeded before it heard of the cancel comes too late.
    for outcome in [Cancelled, Succeeded, Failed] {
        let bench = begin(Simple).asks().says(&calls);
        let task = bench.at(&bench.newest());
        let child = bench.state.child(task).expect("it is a run").run.to_owned();
        let bench = bench.cancel().expect_kinds(&["run_cancel_requested", "child_cancel_requested"]);
        assert_eq!(bench.effects().last(), Some(&Effect::Child { task }), "the word for it leaves");
        assert!(bench.state.child(task).unwrap().cancelled.is_some());
        // It waits for as long as the child takes.
        let bench = bench.after(60 * MINUTE).expect_status(v1::RunStatus::Cancelling);
        assert!(!bench.state.owes_nothing(), "the end of the child is owed");
        assert_eq!(bench.state.open_query(), None, "nothing else is begun meanwhile");
        let news = ChildNews::Ended {
            outcome: Some(outcome),
            error: (outcome == Failed).then(|| failure("NETWORK_ERROR")),
            output: Some(json("{\"tasks\":[]}")),
            blobs: Vec::new(),
        };
        let bench = bench.does(Input::Child { task, run_id: child, news });
        assert_eq!(bench.count("tool_observed"), 0, "nobody is told what it gave back");
        assert_eq!(bench.count("planner_asked"), 1);
        bench.expect_outcome(Cancelled);
    }
}

#[test]
fn a_cancelled_execution_ends_whatever_it_waits_for() {
    begin(Simple).cancel().expect_outcome(v1::RunOutcome::Cancelled);
    begin(Simple).asks().says(&act("ask", true)).cancel().expect_outcome(v1::RunOutcome::Cancelled);
    approved().cancel().expect_outcome(v1::RunOutcome::Cancelled);
}

#[test]
fn what_the_events_leave_in_memory_is_of_the_kinds_of_the_seed() {
    let of = |bench: &Bench| {
        let remembered = |event: &v1::Event| match event.body.clone().unwrap() {
            Body::PlannerAnswered(event) => event.remembered,
            Body::PlanApproved(event) => event.remembered,
            Body::ToolObserved(event) => event.remembered,
            Body::EscalationAnswered(event) => event.remembered,
            Body::ModeCompleted(event) => event.remembered,
            _ => None,
        };
        let kinds = bench.ledger.events.iter().filter_map(remembered).map(|remembered| remembered.r#type);
        kinds.collect::<Vec<_>>()
    };
    let bench = begin(Simple).asks().says(&act("read", true)).tool_fails();
    let bench = bench.asks().says(&act("read", true)).tool_gives("1", true);
    let bench = bench.asks().says(&act("read", false)).tool_gives("1", true);
    assert_eq!(of(&bench), ["error", "solution", "tool_result"]);
    // An error that has led to another plan is an error all the same.
    let plan = plans(&[step("a", "read", &[]), step("b", "read", &["a"])], 0, "read");
    let bench = begin(Planner).asks().says(&plan).tool_fails();
    let bench = bench.asks().says(&plan).tool_gives("1", true);
    assert_eq!(of(&bench), ["plan", "error", "plan", "solution"]);
    let bench = approved().asks().says(&goes_on("read", &value!({ "n": "a" }))).tool_gives("1", true);
    let bench = bench.asks().says(&goes_on("read", &value!({ "n": "b" }))).tool_gives("2", true);
    assert_eq!(of(&bench), ["plan", "user_feedback", "success", "success", "pattern"]);
    let Body::ToolObserved(seen) = bench.newest_event("tool_observed") else { panic!() };
    assert_eq!(seen.useful, ["m1"], "what was recalled has one success more");
}
