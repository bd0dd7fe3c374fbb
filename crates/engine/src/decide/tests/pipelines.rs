//! Pipelines: phases whose outputs are judged before they count (seed 003; CONTRACTS §4).

use super::*;
use crate::input::{Computed, QueryAnswer};
use crate::machine::pipeline::materialise;
use crate::query::{Purpose, Query, QueryId, Verdict};

const SCHEMA: &str = r#"{"type":"object"}"#;

/// Phases by their names, each with the agent of its own name; `a*` has a task for each item of a list.
fn pipeline(line: &str) -> v1::Pipeline {
    let phase = |word: &str| {
        let (name, has_items) = word.strip_suffix('*').map_or((word, false), |name| (name, true));
        v1::Phase {
            name: name.to_owned(),
            agent: name.to_owned(),
            for_each: has_items.then(|| "${input}".to_owned()),
            output: Some(v1::OutputRule { schema: Some(SCHEMA.to_owned()), checks: Vec::new() }),
            summary: vec!["n".to_owned()],
            ..v1::Phase::default()
        }
    };
    v1::Pipeline {
        name: "pipe".to_owned(),
        phases: line.split_whitespace().map(phase).collect(),
        ..v1::Pipeline::default()
    }
}

fn begin(line: &str) -> Bench {
    begin_with(line, |_| ())
}

fn begin_with(line: &str, edit: impl FnOnce(&mut v1::Pipeline)) -> Bench {
    let mut pipeline = pipeline(line);
    edit(&mut pipeline);
    materialise(&mut pipeline).expect("the policies are valid");
    let request =
        StartRun { work: Work::Pipeline(pipeline), labels: BTreeMap::new(), parent: None, lineage: None };
    let now = Timestamp(START);
    let (state, decision) = start(SEED, request, Wall(START)).expect("the run starts");
    let mut ledger = Ledger::default();
    ledger.observe(&state, &decision);
    ledger.compare_fold(&state);
    Bench { state, ledger, now, ahead: 0, last: Ok(decision), small: true }
}

impl Bench {
    #[track_caller]
    fn asked(&self) -> (QueryId, Query) {
        self.state.open_query().expect("something is asked")
    }

    #[track_caller]
    fn told(self, computed: Computed) -> Self {
        let (query, _) = self.asked();
        self.does(Input::Answered { query, answer: QueryAnswer::Computed(computed) })
    }

    /// The tasks of the next phase are given this.
    #[track_caller]
    fn given(self, inputs: &[&str]) -> Self {
        assert!(matches!(self.asked().1, Query::Compose(_)));
        self.told(Computed::Inputs(inputs.iter().map(|input| json(input)).collect()))
    }

    /// This of the phase goes on.
    #[track_caller]
    fn sums_up(self, summary: &str) -> Self {
        assert!(matches!(self.asked().1, Query::Summarize(_)));
        self.told(Computed::Summary(json(summary)))
    }

    /// The worker of the task gives this back, and it has these violations.
    #[track_caller]
    fn gives(self, task: &str, output: &str, rules: &[&str]) -> Self {
        let input = judged(&self, task, output, rules);
        self.does(input)
    }

    /// The phase does its work and is completed.
    #[track_caller]
    fn passes(self, phase: &str) -> Self {
        self.given(&["1"]).lease(phase, "w").gives(phase, "{\"n\":1}", &[]).sums_up("{\"n\":1}")
    }

    /// All four attempts are rejected.
    #[track_caller]
    fn blocks(mut self, task: &str) -> Self {
        for delay in [500, 1_500, 3_000] {
            self = self.lease(task, "w").gives(task, "7", &["type"]).after(delay).tick();
        }
        self.lease(task, "w").gives(task, "7", &["type"])
    }

    fn checkpoints(&self) -> Vec<v1::Checkpoint> {
        self.state.checkpoints("run")
    }

    fn statuses(&self) -> Vec<v1::CheckpointStatus> {
        self.checkpoints().iter().map(v1::Checkpoint::status).collect()
    }

    /// What the newest attempt at the task is given.
    fn input_of(&self, task: &str) -> String {
        let assignment = self.state.assignment(self.at(task)).expect("it is leased");
        match assignment.input.and_then(|input| input.data.clone()) {
            Some(v1::payload::Data::Inline(text)) => String::from_utf8(text.to_vec()).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn answers(self, answer: &str, value: Option<&str>) -> Self {
        let [question_id] = self.open().try_into().unwrap();
        let mut answer = Answer { value: value.map(json), ..Answer::from(answer) };
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

    fn goes_back(self, phase: &str, request_id: &str) -> Self {
        self.input(Input::RollbackPipeline { phase: phase.to_owned(), request_id: request_id.to_owned() })
    }
}

#[track_caller]
fn judged(bench: &Bench, task: &str, output: &str, rules: &[&str]) -> Input {
    let task = bench.at(task);
    let (lease, worker) = bench.state.lease_of(task).expect("the task is leased");
    let output = json(output);
    let judged = bench.state.output_to_judge(task, lease, worker, &output).expect("it has to be judged");
    let rule = judged.rule.clone().expect("a phase has a rule");
    let violation = |rule: &&str| v1::SchemaViolation { rule: (*rule).to_owned(), ..Default::default() };
    let mut verdict = Verdict::on(judged, rules.iter().map(violation).collect());
    verdict.corrected = (!rules.is_empty()).then(|| json(&format!("\"corrected after {}\"", rule.attempt)));
    reported(task, lease, worker, Report::Judged(output, Box::new(verdict)))
}

use v1::CheckpointStatus::{Blocked, Completed, InProgress, Pending};

#[test]
fn phases_follow_each_other_and_each_is_completed_by_outputs_that_count() {
    let bench = begin("a b");
    assert_eq!(bench.statuses(), [Pending, Pending]);
    let (_, Query::Compose(asked)) = bench.asked() else { panic!() };
    assert_eq!((&*asked.template, &asked.input, &asked.items), ("\"${input}\"", &json("null"), &None));
    let bench = bench.given(&["1"]).expect_kinds(&["phase_started"]).lease("a", "w");
    assert_eq!(bench.statuses(), [InProgress, Pending]);
    assert_eq!(bench.input_of("a"), "1");
    let bench = bench.gives("a", "{\"n\":5}", &[]).expect_kinds(&["task_settled"]);
    let (_, Query::Summarize(asked)) = bench.asked() else { panic!() };
    assert_eq!((asked.keys, asked.outputs), (vec!["n".to_owned()], vec![json("{\"n\":5}")]));
    let bench = bench.after(SECOND).sums_up("{\"n\":5}").expect_kinds(&["phase_completed"]);
    assert_eq!(bench.statuses(), [Completed, Pending]);
    let (_, Query::Compose(asked)) = bench.asked() else { panic!() };
    assert_eq!(&*asked.template, r#"{"input":"${input}","phases":{"a":"${phases.a.summary}"}}"#);
    assert_eq!(asked.phases["a"].summary, Some(json("{\"n\":5}")));
    let bench = bench.passes("b").expect_outcome(v1::RunOutcome::Succeeded);
    // The fields of the seed, counted by hand: a began at the start and was completed a second later.
    let expected = v1::Checkpoint {
        product_id: "pipe".to_owned(),
        phase: "a".to_owned(),
        status: Completed.into(),
        checkpoint_version: "v1.0".to_owned(),
        payload: Some(json("{\"n\":5}")),
        created_at_ms: Some(START),
        updated_at_ms: Some(START + SECOND),
        run_id: "run".to_owned(),
        error_message: None,
    };
    assert_eq!(bench.checkpoints()[0], expected);
}

#[test]
fn only_a_pipeline_has_checkpoints_of_phases() {
    assert_eq!(begin("a b").checkpoints().len(), 2);
    assert!(Bench::plan("a").checkpoints().is_empty());
    let execution = super::modes::begin(v1::ExecutionMode::Simple).keeps("mine");
    assert!(execution.checkpoints().is_empty(), "those of an execution are of another kind");
}

#[test]
fn a_rejected_output_goes_back_with_what_was_wrong_after_500_1500_and_3000_milliseconds() {
    let mut bench = begin("a").given(&["1"]);
    for (attempt, delay) in [(1, 500), (2, 1_500), (3, 3_000)] {
        bench = bench.lease("a", "w").gives("a", "7", &["type"]);
        bench = bench.expect_kinds(&["output_rejected", "task_attempt_failed"]);
        bench = bench.after(delay - 1).tick();
        assert_eq!(bench.state.queued().count(), 0, "it waits for {delay} ms");
        bench = bench.after(1).tick().lease("a", "w");
        assert_eq!(bench.input_of("a"), format!("\"corrected after {attempt}\""));
        bench = bench.loses("a");
    }
    let bench = bench.lease("a", "w").gives("a", "7", &["type"]);
    let kinds = ["output_rejected", "task_settled", "phase_blocked", "question_asked"];
    let bench = bench.expect_kinds(&kinds);
    assert_eq!(bench.statuses(), [Blocked]);
    bench.expect_status(v1::RunStatus::Waiting);
}

#[test]
fn what_is_judged_is_the_schema_of_the_phase_and_that_of_the_worker() {
    let bench = begin("a").given(&["1"]);
    let task = bench.at("a");
    let output_schema = Some("true".into());
    let bench = bench.does(Input::Lease {
        output_schema,
        cancel_is_final: false,
        mark: 0,
        task,
        worker: "w".to_owned(),
    });
    let lease = bench.token("a");
    let judged = bench.state.output_to_judge(task, lease, "w", &json("{}")).unwrap();
    assert_eq!(judged.purpose, Purpose::Output { task, lease });
    assert_eq!(judged.schemas, [SCHEMA, "true"]);
    let rule = judged.rule.unwrap();
    assert_eq!((rule.attempt, rule.input), (1, Some(json("1"))));
}

#[test]
fn a_worker_is_told_the_schema_of_the_phase() {
    let told = |bench: &Bench, task: &str| {
        bench.state.assignment(bench.at(task)).unwrap().output_schema.unwrap().to_owned()
    };
    let bench = begin_with("a b", |pipeline| pipeline.phases[1].output = None).given(&["1"]).lease("a", "w");
    assert_eq!(told(&bench, "a"), SCHEMA);
    // Where a phase has no schema, its output has to be JSON.
    let bench = bench.gives("a", "{}", &[]).sums_up("{}").given(&["1"]).lease("b", "w");
    assert_eq!(told(&bench, "b"), "true");
}

#[test]
fn an_output_counts_as_its_schema_has_it() {
    let bench = begin("a").given(&["1"]).lease("a", "w");
    let Input::Report { task, lease, worker, report: Report::Judged(output, mut verdict), log, usage } =
        judged(&bench, "a", "{\"n\":\"A\"}", &[])
    else {
        panic!()
    };
    verdict.value = Some(json("{\"n\":\"a\"}"));
    let report = Report::Judged(output, verdict);
    let bench = bench.does(Input::Report { task, lease, worker, report, log, usage });
    assert_eq!(bench.task("a").output, Some(json("{\"n\":\"a\"}")));
}

#[test]
fn a_blocked_phase_tells_its_attempts_and_offers_what_can_be_done() {
    let bench = begin("a b").passes("a").given(&["1"]).blocks("b");
    let checkpoint = &bench.checkpoints()[1];
    assert_eq!(checkpoint.status(), Blocked);
    assert!(checkpoint.error_message.as_ref().unwrap().starts_with("the phase \"b\" is blocked: "));
    let Some(v1::payload::Data::Inline(text)) = checkpoint.payload.as_ref().unwrap().data.as_ref() else {
        panic!()
    };
    let told: serde_json::Value = serde_json::from_slice(text).unwrap();
    assert_eq!(told.pointer("/failed/0/attempts").unwrap(), 4);
    assert_eq!(told.pointer("/failed/0/code").unwrap(), "VALIDATION_ERROR");
    assert_eq!(told.pointer("/failed/0/failed").unwrap().as_array().unwrap().len(), 3);
    let question = &bench.run().questions[0];
    assert_eq!(question.options, ["retry", "rollback", "abort"]);
    assert_eq!(question.purpose(), v1::QuestionPurpose::Phase);
    // Nothing comes before the first phase.
    let first = begin("a").given(&["1"]).blocks("a");
    assert_eq!(first.run().questions[0].options, ["retry", "abort"]);
}

#[test]
fn a_phase_that_goes_on_does_again_only_what_has_no_output() {
    let bench = begin("a*").given(&["1", "2", "3"]);
    let bench = bench.lease("a.0", "w").gives("a.0", "{\"n\":1}", &[]);
    let bench = bench.lease("a.2", "w").gives("a.2", "{\"n\":3}", &[]).blocks("a.1");
    assert_eq!(bench.statuses(), [Blocked]);
    let about = bench.run().questions[0].about.clone().unwrap().about.unwrap();
    let v1::question_subject::About::Phase(subject) = about else { panic!() };
    assert_eq!((subject.items, &*subject.name), (vec![1], "a"));
    let bench = bench.answers("retry", Some("{\"agent\":\"other\"}"));
    let bench = bench.expect_kinds(&["question_answered", "phase_changed"]);
    let (_, Query::Compose(asked)) = bench.asked() else { panic!() };
    assert_eq!(asked.items, Some(vec![1]));
    let bench = bench.given(&["2"]).lease("a.1.again-2", "w");
    assert_eq!(bench.state.plan().task(bench.at("a.1.again-2")).unwrap().agent, "other");
    let bench = bench.gives("a.1.again-2", "{\"n\":2}", &[]);
    let (_, Query::Summarize(asked)) = bench.asked() else { panic!() };
    assert_eq!(asked.outputs, [json("{\"n\":1}"), json("{\"n\":2}"), json("{\"n\":3}")]);
    bench.sums_up("[]").expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn a_person_may_give_another_input() {
    let bench = begin("a").given(&["1"]).blocks("a").answers("retry", Some("{\"input\":{\"x\":1}}"));
    let (_, Query::Compose(asked)) = bench.asked() else { panic!() };
    assert_eq!(asked.given, Some(json("{\"x\":1}")));
}

#[test]
fn what_is_at_work_is_ended_when_the_run_goes_back_and_its_late_result_is_refused() {
    let bench = begin("a b").passes("a").given(&["1"]).lease("b", "w");
    let (task, lease) = (bench.at("b"), bench.token("b"));
    let before = bench.checkpoints();
    let late = judged(&bench, "b", "{\"n\":9}", &[]);
    let bench =
        bench.after(SECOND).goes_back("", "r1").expect_kinds(&["task_settled", "pipeline_rolled_back"]);
    assert!(bench.effects().iter().any(
        |effect| matches!(effect, Effect::Revoke { task: of, lease: held } if *of == task && *held == lease)
    ));
    assert_eq!(bench.task("b").error.unwrap().message, "cancelled: its phase was rolled back");
    // The checkpoint that it went back to is what it was, field by field; the phase after it begins anew.
    assert_eq!(bench.checkpoints()[0], before[0]);
    let again = &bench.checkpoints()[1];
    assert_eq!(again.status(), Pending);
    assert_eq!((again.created_at_ms, again.updated_at_ms), (before[1].created_at_ms, Some(START + SECOND)));
    let bench = bench.does(late);
    let refused = |effect: &Effect| matches!(effect, Effect::Refuse { lease: of, .. } if *of == lease);
    assert!(bench.effects().iter().any(refused), "{:?}", bench.effects());
    // The same request once more changes nothing.
    let bench = bench.goes_back("", "r1").expect_kinds(&[]);
    let bench = bench.given(&["1"]).lease("b.again-2", "w").gives("b.again-2", "{\"n\":2}", &[]);
    bench.sums_up("{\"n\":2}").expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn a_run_goes_back_further_when_a_phase_is_named() {
    let bench = begin("a b c").passes("a").passes("b").given(&["1"]).blocks("c");
    let bench = bench.goes_back("b", "r1");
    let kinds = ["question_answered", "pipeline_rolled_back"];
    let bench = bench.expect_kinds(&kinds);
    assert_eq!(bench.statuses(), [Completed, Pending, Pending]);
    assert!(bench.open().is_empty(), "what was asked about the blocked phase is withdrawn");
    let (_, Query::Compose(asked)) = bench.asked() else { panic!() };
    assert_eq!(asked.phases.keys().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn the_answer_rollback_begins_the_blocked_phase_anew() {
    let bench = begin("a* b*").given(&["1"]).lease("a.0", "w").gives("a.0", "{}", &[]).sums_up("[{}]");
    let bench = bench.given(&["1", "2"]).lease("b.0", "w").gives("b.0", "{}", &[]).blocks("b.1");
    let bench = bench.answers("rollback", None).expect_kinds(&["question_answered", "pipeline_rolled_back"]);
    let (_, Query::Compose(asked)) = bench.asked() else { panic!() };
    assert_eq!(asked.items, None, "what had counted does not count any more");
    bench.given(&["1", "2"]).lease("b.0.again-2", "w");
}

#[test]
fn what_was_asked_before_a_run_went_back_is_answered_in_vain() {
    let bench = begin("a b").passes("a");
    let (query, _) = bench.asked();
    let bench = bench.goes_back("b", "r1");
    let stale = QueryAnswer::Computed(Computed::Inputs(vec![json("1")]));
    let bench = bench.input(Input::Answered { query, answer: stale });
    assert_eq!(bench.clone_run().expect_refusal(), Refusal::Outdated);
    assert_ne!(bench.asked().0, query);
}

#[test]
fn there_is_no_way_back_without_a_completed_checkpoint() {
    let bench = begin("a b c").given(&["1"]).lease("a", "w");
    for (phase, code) in [
        ("", "CHECKPOINT_NOT_FOUND"),
        ("a", "CHECKPOINT_NOT_FOUND"),
        ("c", "CHECKPOINT_NOT_FOUND"),
        ("nowhere", "PHASE_NOT_FOUND"),
    ] {
        assert_eq!(bench.clone_run().goes_back(phase, "r").expect_rule().code, code, "{phase:?}");
    }
    assert_eq!(Bench::plan("a").goes_back("", "r").expect_rule().code, "CHECKPOINT_NOT_FOUND");
}

#[test]
fn a_request_id_is_good_for_one_way_back() {
    let bench = begin("a b c").passes("a").passes("b").goes_back("c", "r1");
    let other = bench.clone_run().goes_back("b", "r1");
    assert_eq!(other.expect_refusal(), Refusal::RequestReused { request_id: "r1".to_owned() });
}

#[test]
fn a_way_back_that_is_asked_for_again_is_the_one_that_was_gone() {
    let bench = begin("a b c").passes("a").passes("b").goes_back("b", "r1");
    let bench = bench.expect_kinds(&["pipeline_rolled_back"]);
    let first = bench.ledger.events.last().expect("an event").seq;
    let again = bench.goes_back("b", "r1").last.expect("it is known again");
    assert_eq!((again.count, again.request_seq), (0, Some(first)));
}

#[test]
fn a_blocked_run_that_is_aborted_ends_as_blocked_and_one_that_is_cancelled_as_cancelled() {
    let blocked = begin("a").given(&["1"]).blocks("a");
    let ended = blocked.clone_run().answers("abort", None).expect_outcome(v1::RunOutcome::Blocked);
    assert_eq!(ended.state.view("run".to_owned(), options()).error.unwrap().code, "PHASE_BLOCKED");
    blocked.cancel().expect_outcome(v1::RunOutcome::Cancelled);
}

fn options() -> ViewOptions {
    ViewOptions { tasks: false, outputs: false, offset: 0, limit: 0 }
}

#[test]
fn a_phase_whose_input_cannot_be_made_blocks() {
    let failed = Computed::Failed(failure("INPUT_UNRESOLVED"));
    let bench = begin("a").told(failed).expect_kinds(&["phase_blocked", "question_asked"]);
    let told = bench.checkpoints()[0].error_message.clone();
    assert_eq!(told.as_deref(), Some("the phase \"a\" is blocked: exit code 1"));
    let bench = bench.answers("retry", None);
    bench.passes("a").expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn a_phase_whose_summary_is_no_checkpoint_is_blocked_and_its_outputs_stay() {
    let bench = begin("a").given(&["1"]).lease("a", "w").gives("a", "{\"n\":1}", &[]);
    let bench = bench.told(Computed::Failed(failure("CHECKPOINT_TOO_LARGE")));
    let bench = bench.expect_kinds(&["phase_blocked", "question_asked"]);
    let about = bench.run().questions[0].about.clone().unwrap().about.unwrap();
    assert!(matches!(about, v1::question_subject::About::Phase(subject) if subject.items.is_empty()));
}

#[test]
fn a_failure_of_the_agent_goes_by_its_code_but_for_those_of_schemas() {
    let at_work = || begin("a").given(&["1"]).lease("a", "w");
    for code in ["VALIDATION_ERROR", "PARSE_ERROR", "NETWORK_ERROR"] {
        assert_eq!(at_work().fails("a", code).statuses(), [InProgress], "{code}");
    }
    assert_eq!(at_work().fails("a", "PERMISSION_DENIED").statuses(), [Blocked]);
    // A failure that aborts a plan blocks a phase.
    let mut critical = failure("STATE_CORRUPTED");
    critical.severity = v1::Severity::Critical.into();
    assert_eq!(at_work().report("a", Report::Failed(critical)).statuses(), [Blocked]);
}

#[test]
fn a_phase_whose_time_is_over_is_blocked_with_the_attempts_that_it_has_had() {
    let bench = begin_with("a b", |pipeline| {
        let timeouts = v1::TimeoutPolicy { timeout_ms: Some(10 * SECOND), ..Default::default() };
        pipeline.phases[1].timeouts = Some(timeouts);
    });
    let mut bench = bench.passes("a").given(&["1"]);
    for delay in [500, 1_500] {
        bench = bench.lease("b", "w").gives("b", "7", &["type"]).after(delay).tick();
    }
    // The time is that of all attempts together: 8 of 10 seconds are left for the third one.
    let bench = bench.lease("b", "w").after(8 * SECOND - 1).expect_unsettled("b");
    let bench = bench.after(1).expect_kinds(&["task_cancel_requested"]);
    assert_eq!(bench.statuses(), [Completed, InProgress]);
    let bench = bench.after(10 * SECOND).expect_timed_out("b");
    assert_eq!(bench.statuses(), [Completed, Blocked]);
    let open = bench.run().questions.into_iter().find(|question| question.answer.is_none()).unwrap();
    assert_eq!(open.purpose(), v1::QuestionPurpose::Phase);
    let error = open.error.unwrap();
    assert_eq!((&*error.code, &*error.cause.unwrap().code), ("PHASE_BLOCKED", "TASK_TIMEOUT"));
    let payload = bench.checkpoints()[1].payload.clone().unwrap();
    let Some(v1::payload::Data::Inline(text)) = payload.data else { panic!() };
    let told: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let failed = &told["failed"][0];
    assert_eq!((&failed["attempts"], &failed["code"]), (&3.into(), &"TASK_TIMEOUT".into()));
    let before = failed["failed"].as_array().unwrap();
    let before: Vec<_> = before.iter().map(|at| (at["attempt"].as_u64(), at["waitedMs"].as_u64())).collect();
    assert_eq!(before, [(Some(1), Some(0)), (Some(2), Some(500))]);
    // Whoever lets it go on has all of the time again.
    let bench = bench.answers("retry", None).given(&["1"]).lease("b.again-2", "w");
    let bench = bench.after(10 * SECOND - 1).gives("b.again-2", "{\"n\":2}", &[]);
    bench.sums_up("{\"n\":2}").expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn nothing_begins_while_the_run_is_paused() {
    let bench = begin("a b").given(&["1"]).lease("a", "w").pause().gives("a", "{}", &[]);
    let bench = bench.sums_up("{}");
    assert_eq!(bench.statuses(), [Completed, Pending]);
    let bench = bench.given(&["1"]);
    assert!(!bench.state.may_lease());
    bench.resume().lease("b", "w");
}

#[test]
fn a_person_who_says_what_a_lost_worker_has_given_back_is_held_to_the_schema_of_the_phase() {
    let bench = begin_with("a", |pipeline| {
        pipeline.phases[0].effect = Some(v1::Effect::AtMostOnce.into());
    });
    let bench = bench.given(&["1"]).lease("a", "w").loses("a");
    let takes = bench.run().questions[0].value.clone().unwrap();
    assert_eq!((&*takes.schema, takes.options), (SCHEMA, vec!["succeeded".to_owned()]));
    let bench = bench.answers("succeeded", Some("{\"n\":4}"));
    bench.sums_up("{\"n\":4}").expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn what_a_person_names_as_the_output_of_a_phase_without_a_schema_has_to_be_json_all_the_same() {
    let bench = begin_with("a", |pipeline| {
        pipeline.phases[0].effect = Some(v1::Effect::AtMostOnce.into());
        pipeline.phases[0].output = None;
    });
    let bench = bench.given(&["1"]).lease("a", "w").loses("a");
    let takes = bench.run().questions[0].value.clone().unwrap();
    assert_eq!((&*takes.media_type, &*takes.schema), ("application/json", ""));
    assert_eq!(takes.options, ["succeeded"]);
}

#[test]
fn a_task_of_a_phase_is_not_retried_or_taken_back_by_itself() {
    let bench = begin("a b").passes("a").given(&["1"]).blocks("b");
    assert_eq!(bench.clone_run().input(retry("b", "r")).expect_rule().code, "INVALID_STATE_TRANSITION");
    let back = bench.input(rollback("a", false, "r"));
    assert_eq!(back.expect_rule().code, "INVALID_STATE_TRANSITION");
}

#[test]
fn a_phase_without_items_is_completed_at_once() {
    let bench = begin("a* b").given(&[]);
    let (_, Query::Summarize(asked)) = bench.asked() else { panic!() };
    assert!(asked.outputs.is_empty() && asked.has_items);
    bench.sums_up("[]").passes("b").expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn a_summary_that_was_too_large_is_made_again_or_the_phase_is_done_anew_with_what_a_person_names() {
    let blocked = || {
        let bench = begin("a").given(&["1"]).lease("a", "w").gives("a", "{\"n\":1}", &[]);
        bench.told(Computed::Failed(failure("CHECKPOINT_TOO_LARGE")))
    };
    // The output stays, and only its summary is made again.
    let bench = blocked().answers("retry", None);
    let (_, Query::Compose(asked)) = bench.asked() else { panic!() };
    assert_eq!(asked.items, Some(Vec::new()));
    let bench = bench.given(&[]);
    let (_, Query::Summarize(asked)) = bench.asked() else { panic!() };
    assert_eq!(asked.outputs, [json("{\"n\":1}")]);
    bench.sums_up("{}").expect_outcome(v1::RunOutcome::Succeeded);
    // Who names another agent has the work done again.
    let bench = blocked().answers("retry", Some("{\"agent\":\"other\"}"));
    let (_, Query::Compose(asked)) = bench.asked() else { panic!() };
    assert_eq!(asked.items, None);
    let bench = bench.given(&["1"]).lease("a.again-2", "w").gives("a.again-2", "{\"n\":2}", &[]);
    bench.sums_up("{\"n\":2}").expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn the_summary_is_made_of_what_the_tasks_were_given() {
    let bench = begin_with("a*", |pipeline| {
        pipeline.phases[0].summary.clear();
        pipeline.phases[0].summarize = Some(v1::SummaryRule::Surfaces.into());
    });
    let bench = bench.given(&["1", "2"]).lease("a.0", "w").gives("a.0", "{}", &[]).blocks("a.1");
    let bench = bench.answers("retry", Some("{\"input\":7}")).given(&["7"]);
    let bench = bench.lease("a.1.again-2", "w").gives("a.1.again-2", "{}", &[]);
    let (_, Query::Summarize(asked)) = bench.asked() else { panic!() };
    let inputs = asked.inputs.unwrap();
    assert_eq!((inputs.items, inputs.given), (None, None));
    assert_eq!(inputs.overrides, BTreeMap::from([(1, json("7"))]));
}

#[test]
fn what_is_told_of_a_blocked_phase_fits_into_a_checkpoint() {
    // Each character of the message is six as JSON.
    let message = "\u{1}".repeat(5_000);
    let items: Vec<String> = (0..40).map(|item| item.to_string()).collect();
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    let mut bench = begin("a*").given(&items);
    for item in 0..40 {
        let name = format!("a.{item}");
        let error = v1::Error { message: message.clone(), ..failure("PERMISSION_DENIED") };
        bench = bench.lease(&name, "w").report(&name, Report::Failed(error));
    }
    let checkpoint = &bench.checkpoints()[0];
    let Some(v1::payload::Data::Inline(text)) = checkpoint.payload.as_ref().unwrap().data.as_ref() else {
        panic!()
    };
    assert!(text.len() <= 32 * 1024, "{} bytes", text.len());
    let told: serde_json::Value = serde_json::from_slice(text).unwrap();
    let listed = told["failed"].as_array().unwrap().len() as u64;
    assert_eq!(listed + told["moreFailed"].as_u64().unwrap(), 40);
}

#[test]
fn an_output_that_nobody_could_judge_is_no_rejected_one_and_is_not_done_twice_where_that_must_not_be() {
    let bench = begin("a").given(&["1"]).lease("a", "w").gives("a", "1", &[crate::query::UNJUDGED]);
    let bench = bench.expect_kinds(&["task_attempt_failed"]);
    assert_eq!(bench.statuses(), [InProgress]);
    let once = begin_with("a", |pipeline| {
        pipeline.phases[0].effect = Some(v1::Effect::AtMostOnce.into());
    });
    let bench = once.given(&["1"]).lease("a", "w").gives("a", "1", &[crate::query::UNJUDGED]);
    assert_eq!(bench.statuses(), [Blocked]);
}

#[test]
fn a_run_that_is_about_to_end_does_not_go_back() {
    let bench = begin("a b").passes("a").given(&["1"]).lease("b", "w").cancel();
    assert_eq!(bench.goes_back("", "r").expect_rule().code, "CHECKPOINT_NOT_FOUND");
}

#[test]
fn what_is_no_json_is_rejected_and_corrected_as_any_other_output() {
    let bench = begin("a").given(&["{\"x\":1}"]).lease("a", "w").fails("a", "INVALID_OUTPUT");
    let bench = bench.expect_kinds(&["output_rejected", "task_attempt_failed"]);
    let bench = bench.after(500).tick().lease("a", "w");
    let given: serde_json::Value = serde_json::from_str(&bench.input_of("a")).unwrap();
    assert_eq!((&given["x"], &given["correction"]["attempt"]), (&1.into(), &1.into()));
    assert_eq!(given["correction"]["violations"][0]["rule"], "syntax");
    // Four attempts, and then it is blocked.
    let mut bench = bench.fails("a", "INVALID_OUTPUT");
    for delay in [1_500, 3_000] {
        bench = bench.after(delay).tick().lease("a", "w").fails("a", "INVALID_OUTPUT");
    }
    assert_eq!(bench.statuses(), [Blocked]);
    let told = bench.checkpoints()[0].error_message.clone().unwrap();
    assert!(told.contains("expected JSON"), "{told}");
}

#[test]
fn a_fork_asks_again_and_may_work_on_another_input_from_there_on() {
    let base = begin_with("one two", |pipeline| pipeline.input = Some(json("\"old\""))).passes("one");
    let (query, _) = base.asked();
    let fork = base.forks_with(SECOND, Some(json("\"new\"")));
    let (again, asked) = fork.asked();
    assert_eq!(again, query);
    let Query::Compose(composition) = &asked else { panic!("{asked:?}") };
    assert_eq!(composition.input, json("\"new\""), "{composition:?}");
    assert!(fork.effects().iter().any(|effect| matches!(effect, Effect::Query { .. })));
    let completed = v1::CheckpointStatus::Completed;
    assert_eq!(fork.statuses()[0], completed, "what was completed stays so");
    fork.passes("two").expect_outcome(v1::RunOutcome::Succeeded);
}
