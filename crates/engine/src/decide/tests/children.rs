//! Tasks that are runs of their own.

use capataz_contracts::v1::child_run::Work as Child;
use capataz_policy::codes;

use super::*;
use crate::fold::activity::Step;

/// The span by which a parent waits for its child.
const SPAN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A plan of one wave of runs, each a plan of one task; `edit` changes the first one.
fn runs(names: &str, edit: impl FnOnce(&mut v1::Task)) -> Bench {
    Bench::with(names, |plan| {
        for task in &mut plan.waves[0].tasks {
            task.agent = String::new();
            let inner = super::plan("continue_all: x");
            task.run =
                Some(Box::new(v1::ChildRun { work: Some(Child::Plan(inner)), ..v1::ChildRun::default() }));
        }
        edit(&mut plan.waves[0].tasks[0]);
    })
}

fn one() -> Bench {
    runs("a", |_| ())
}

fn ended(outcome: v1::RunOutcome) -> ChildNews {
    let failed = outcome == v1::RunOutcome::Failed;
    ChildNews::Ended {
        outcome: Some(outcome),
        error: failed.then(|| failure("NETWORK_ERROR")),
        output: Some(json("{\"outcome\":1}")),
        blobs: Vec::new(),
    }
}

impl Bench {
    /// The name of the child that the task waits for.
    #[track_caller]
    fn child(&self, task: &str) -> String {
        let task = self.at(task);
        self.state.child(task).expect("the task waits for its run").run.to_owned()
    }

    /// Something is heard of the child that the task waits for.
    #[track_caller]
    fn hears(self, task: &str, news: ChildNews) -> Self {
        let (run_id, task) = (self.child(task), self.at(task));
        self.does(Input::Child { task, run_id, news })
    }
}

#[test]
fn a_run_is_named_before_anybody_hears_of_it_and_takes_no_slot() {
    let bench = one();
    assert_eq!(bench.kinds(), ["run_accepted", "wave_started", "child_named"]);
    let task = bench.at("a");
    assert_eq!(bench.effects(), [Effect::Child { task }]);
    assert_eq!(bench.state.outstanding(), [Effect::Child { task }]);
    assert_eq!(bench.state.queued().count(), 0, "no slot is waited for");
    assert!(!bench.state.owes_nothing(), "its end is owed");
    let view = bench.task("a");
    assert_eq!((view.agent.as_str(), view.attempt, view.child), ("capataz.run", 1, Some(bench.child("a"))));
}

#[test]
fn the_name_is_an_id_of_its_time_and_of_its_place() {
    let id = |place| {
        let bench = runs("a", |task| task.run.as_mut().unwrap().place = place);
        uuid_of(&bench.child("a"))
    };
    let drawn = id(None);
    let millis = drawn >> 80;
    assert_eq!(millis, START as u128, "the first 48 bits are the time");
    assert_eq!(drawn >> 76 & 0xF, 7, "the version");
    assert_eq!(drawn >> 62 & 0b11, 0b10, "the variant");
    assert_eq!(id(Some(0xA5)) & 0xFF, 0xA5);
    assert_eq!(id(Some(0xA5)) | 0xFF, drawn | 0xFF, "and nothing else differs");
}

fn uuid_of(text: &str) -> u128 {
    let digits: String = text.chars().filter(|digit| *digit != '-').collect();
    assert_eq!((text.len(), digits.len()), (36, 32), "{text}");
    u128::from_str_radix(&digits, 16).unwrap()
}

#[test]
fn what_the_child_is_started_with_says_whose_it_is() {
    let bench = runs("a", |task| task.input = Some(json("[1]")));
    let start = bench.state.child_start("parent", bench.at("a"), SPAN.to_owned()).unwrap();
    let expected = v1::ParentRef {
        run_id: "parent".to_owned(),
        task: "a".to_owned(),
        lease: 0,
        activation: 1,
        attempt: 1,
    };
    assert_eq!(start.parent, Some(expected));
    assert_eq!(
        start.lineage,
        Some(v1::Lineage { depth: 1, traceparent: SPAN.to_owned(), ..v1::Lineage::default() })
    );
    let Work::Plan(plan) = start.work else { panic!("it is a plan") };
    assert_eq!(plan.waves[0].tasks[0].input, Some(json("[1]")), "a task without an input has its parent's");
    assert!(plan.policy.is_some(), "with every default filled in");
}

#[test]
fn a_child_knows_its_parent_and_what_nobody_has_started_has_none() {
    let bench = one();
    assert_eq!(bench.state.parent(), None);
    let request = bench.state.child_start("parent", bench.at("a"), SPAN.to_owned()).unwrap();
    let (child, _) = start(SEED, request, Wall(START)).unwrap();
    assert_eq!(child.parent().map(|parent| (&*parent.run_id, &*parent.task)), Some(("parent", "a")));
}

#[test]
fn an_ask_without_a_text_has_its_input_as_its_text() {
    let ask = |input: &str| {
        let input = json(input);
        runs("a", |task| {
            task.input = Some(input);
            task.run = Some(Box::new(v1::ChildRun {
                work: Some(Child::Ask(v1::Ask::default())),
                ..Default::default()
            }));
        })
    };
    let bench = ask("\"how far?\"");
    let start = bench.state.child_start("parent", bench.at("a"), SPAN.to_owned()).unwrap();
    let Work::Ask(asked) = start.work else { panic!("it is an ask") };
    assert_eq!((asked.text.as_str(), asked.request_id), ("how far?", Some(bench.child("a"))));
    ask("{\"no\":\"text\"}").expect_failed("a", "INPUT_UNRESOLVED");
    ask("\" \"").expect_failed("a", "INPUT_UNRESOLVED");
}

#[test]
fn what_a_child_is_given_stands_for_itself() {
    let bench = runs("a", |task| task.input = Some(json(r#"{"script":"echo $${HOME} $$${x}"}"#)));
    // What the task is given, after its escapes are undone, is `echo ${HOME} $${x}`; the child's template gives the same.
    let start = bench.state.child_start("parent", bench.at("a"), SPAN.to_owned()).unwrap();
    let Work::Plan(plan) = start.work else { panic!("it is a plan") };
    assert_eq!(plan.waves[0].tasks[0].input, Some(json(r#"{"script":"echo $${HOME} $$${x}"}"#)));
}

#[test]
fn what_a_child_is_given_has_bounds() {
    let large = format!("\"{}\"", "x".repeat(30 * 1024));
    let names: Vec<String> = (0..200).map(|index| format!("t{index}")).collect();
    let bench = runs("a", |task| {
        let inner = super::plan(&format!("continue_all: {}", names.join(" ")));
        task.run = Some(Box::new(v1::ChildRun { work: Some(Child::Plan(inner)), ..v1::ChildRun::default() }));
        task.input = Some(json(&large));
    });
    bench.expect_failed("a", "INPUT_UNRESOLVED");
    let bench = runs("a", |task| {
        task.run =
            Some(Box::new(v1::ChildRun { work: Some(Child::Ask(v1::Ask::default())), ..Default::default() }));
        task.input = Some(json(&large));
    });
    bench.expect_failed("a", "INPUT_UNRESOLVED");
}

#[test]
fn the_childs_result_is_the_tasks_output() {
    let bench = one().hears("a", ended(v1::RunOutcome::Succeeded));
    let bench = bench.expect_kinds(&["child_ended", "task_settled", "wave_finished", "run_finished"]);
    assert_eq!(bench.task("a").output, Some(json("{\"outcome\":1}")));
    bench.expect_outcome(v1::RunOutcome::Succeeded);
    let partly = one().hears("a", ended(v1::RunOutcome::SucceededWithFailures));
    partly.expect_succeeded("a");
}

#[test]
fn an_end_is_heard_once() {
    let bench = runs("a b", |_| ());
    let (run_id, task) = (bench.child("a"), bench.at("a"));
    let bench = bench.hears("a", ended(v1::RunOutcome::Succeeded));
    let again = Input::Child { task, run_id, news: ended(v1::RunOutcome::Failed) };
    assert_eq!(bench.input(again).expect_refusal(), Refusal::Outdated);
}

#[test]
fn a_child_that_has_failed_is_followed_by_another_one() {
    let bench = one();
    let (first, task) = (bench.child("a"), bench.at("a"));
    let bench = bench.hears("a", ended(v1::RunOutcome::Failed));
    let bench = bench.expect_kinds(&["child_ended", "task_attempt_failed"]).after(10 * SECOND);
    let second = bench.child("a");
    assert_ne!(first, second);
    assert_eq!(bench.task("a").attempt, 2);
    let late = Input::Child { task, run_id: first, news: ended(v1::RunOutcome::Succeeded) };
    let bench = bench.input(late);
    assert_eq!(bench.last, Err(Refusal::Outdated), "of the attempt before");
    bench.hears("a", ended(v1::RunOutcome::Succeeded)).expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn a_child_that_nobody_can_work_on_fails_its_task() {
    let damaged = crate::never_ends(codes::LOG_DAMAGED, "the log of run x is damaged".to_owned());
    let bench = one().hears("a", damaged).expect_outcome(v1::RunOutcome::Failed);
    bench.expect_failed("a", "NON_RETRYABLE_ERROR");
}

#[test]
fn a_run_ends_only_when_its_cancels_are_acknowledged() {
    let bench = one().cancel().expect_kinds(&["run_cancel_requested", "child_cancel_requested"]);
    assert_eq!(bench.effects().last(), Some(&Effect::Child { task: bench.at("a") }));
    let bench = bench.after(60 * MINUTE).expect_status(v1::RunStatus::Cancelling);
    let bench = bench.cancel_by_force().expect_status(v1::RunStatus::Cancelling);
    assert_eq!(bench.state.child(bench.at("a")).unwrap().cancelled, Some(true));
    // It has succeeded before the word came: too late.
    let bench = bench.hears("a", ended(v1::RunOutcome::Succeeded));
    bench
        .expect_task("a", v1::TaskState::Failed, v1::ResultStatus::Cancelled)
        .expect_outcome(v1::RunOutcome::Cancelled);
}

#[test]
fn a_deadline_cancels_the_child_and_the_timeout_waits_for_its_end() {
    let bench = one().after(30 * MINUTE);
    let bench = bench.expect_kinds(&["child_cancel_requested"]).after(60 * MINUTE);
    assert!(matches!(bench.state.activity(bench.at("a")).unwrap().step, Step::Child(_)));
    bench.hears("a", ended(v1::RunOutcome::Cancelled)).expect_timed_out("a");
}

#[test]
fn a_detached_child_is_done_when_it_is_there_and_goes_on() {
    let bench = runs("a", |task| task.run.as_mut().unwrap().detached = true);
    let child = bench.child("a");
    // Whether it came into being is still owed, whatever becomes of the parent.
    let bench = bench.cancel().expect_status(v1::RunStatus::Cancelling);
    assert_eq!(bench.state.child(bench.at("a")).unwrap().cancelled, None);
    let bench = bench.hears("a", ChildNews::Started).expect_outcome(v1::RunOutcome::Cancelled);
    assert_eq!(bench.task("a").output, Some(json(&format!("{{\"run_id\":\"{child}\"}}"))));
}

#[test]
fn that_a_child_is_there_means_nothing_to_a_parent_that_waits_for_its_end() {
    let bench = one();
    let (run_id, task) = (bench.child("a"), bench.at("a"));
    let bench = bench.input(Input::Child { task, run_id, news: ChildNews::Started });
    assert_eq!(bench.expect_refusal(), Refusal::Outdated);
}

#[test]
fn no_child_begins_while_the_run_is_held() {
    let bench = Bench::with("a | b", |plan| {
        let task = &mut plan.waves[1].tasks[0];
        task.agent = String::new();
        let inner = super::plan("continue_all: x");
        task.run = Some(Box::new(v1::ChildRun { work: Some(Child::Plan(inner)), ..v1::ChildRun::default() }));
    });
    let bench = bench.lease("a", "w1").pause().completes("a");
    let bench = bench.expect_kinds(&["task_settled", "wave_finished", "wave_started"]);
    let bench = bench.resume().expect_kinds(&["run_resumed", "child_named"]);
    bench.hears("b", ended(v1::RunOutcome::Succeeded)).expect_outcome(v1::RunOutcome::Succeeded);
}

#[test]
fn a_child_that_cannot_be_holds_those_after_it_where_a_person_is_asked() {
    let bench = Bench::with("a | b c", |plan| {
        plan.on_high = Some(v1::OnHigh::Pause.into());
        plan.session = Some("talk".to_owned());
        let ask = v1::Ask { text: "?".to_owned(), session: Some("talk".to_owned()), ..v1::Ask::default() };
        let works = [Child::Ask(ask), Child::Plan(super::plan("continue_all: x"))];
        for (task, work) in plan.waves[1].tasks.iter_mut().zip(works) {
            task.agent = String::new();
            task.run = Some(Box::new(v1::ChildRun { work: Some(work), ..v1::ChildRun::default() }));
        }
    });
    let bench = bench.does(Input::SessionTurn { context: v1::SessionContext::default() });
    let bench = bench.lease("a", "w1").pause().completes("a").resume();
    bench.expect_kinds(&["run_resumed", "task_settled", "notice", "question_asked"]);
}

#[test]
fn a_run_has_at_most_64_ancestors() {
    let depth = |depth| {
        let mut plan = super::plan("a");
        plan.waves[0].tasks[0].agent = String::new();
        let inner = super::plan("continue_all: x");
        plan.waves[0].tasks[0].run =
            Some(Box::new(v1::ChildRun { work: Some(Child::Plan(inner)), ..Default::default() }));
        Plan::materialise(&mut plan).unwrap();
        let lineage = Some(v1::Lineage { depth, ..v1::Lineage::default() });
        let request = StartRun { work: Work::Plan(plan), labels: BTreeMap::new(), parent: None, lineage };
        let (state, decision) = start(SEED, request, Wall(START)).unwrap();
        let kinds: Vec<&str> = events_of(&decision).iter().map(kind).collect();
        (kinds.contains(&"child_named"), state.outcome())
    };
    assert_eq!(depth(63), (true, None));
    assert_eq!(depth(64), (false, Some(v1::RunOutcome::Failed)));
}

#[test]
fn a_child_never_waits_in_a_session_in_which_its_ancestor_has_its_turn() {
    let mut plan = super::plan("a");
    plan.waves[0].tasks[0].agent = String::new();
    let ask = v1::Ask { text: "?".to_owned(), session: Some("talk".to_owned()), ..v1::Ask::default() };
    plan.waves[0].tasks[0].run =
        Some(Box::new(v1::ChildRun { work: Some(Child::Ask(ask)), ..Default::default() }));
    Plan::materialise(&mut plan).unwrap();
    let lineage = Some(v1::Lineage { depth: 1, sessions: vec!["talk".to_owned()], ..v1::Lineage::default() });
    let request = StartRun { work: Work::Plan(plan), labels: BTreeMap::new(), parent: None, lineage };
    let (_, decision) = start(SEED, request, Wall(START)).unwrap();
    let failed = events_of(&decision).into_iter().find_map(|event| match event.body {
        Some(Body::TaskSettled(settled)) => settled.error,
        _ => None,
    });
    assert_eq!(failed.unwrap().code, "SESSION_HELD");
}

#[test]
fn a_childs_failure_is_as_severe_as_the_child_says_and_not_as_what_caused_it() {
    use v1::Severity::{Critical, High, Low};
    let told = |outer: v1::Severity, inner: v1::Severity| {
        let cause = v1::Error { severity: inner.into(), ..failure("E_INNER") };
        let error =
            v1::Error { severity: outer.into(), cause: Some(Box::new(cause)), ..failure("RETRY_EXHAUSTED") };
        let outcome = Some(v1::RunOutcome::Failed);
        let news = ChildNews::Ended { outcome, error: Some(error), output: None, blobs: Vec::new() };
        runs("a b", |_| ()).hears("a", news)
    };
    let bench = told(Critical, Low).expect_failed("a", "NON_RETRYABLE_ERROR");
    assert_eq!((bench.task("a").severity(), bench.error("a").severity()), (Critical, Critical));
    bench.expect_status(v1::RunStatus::Cancelling).expect_run_error("NON_RETRYABLE_ERROR");
    let bench =
        told(High, Critical).expect_status(v1::RunStatus::Running).expect_failed("a", "NON_RETRYABLE_ERROR");
    assert_eq!((bench.task("a").severity(), bench.error("a").severity()), (High, High));
}

#[test]
fn what_a_failed_child_gave_back_is_whole() {
    let bench = one().hears("a", ended(v1::RunOutcome::Failed)).after(MINUTE);
    let bench = bench.hears("a", ended(v1::RunOutcome::Failed)).after(MINUTE);
    let task = bench.hears("a", ended(v1::RunOutcome::Failed)).task("a");
    assert_eq!(
        (task.status(), task.output, task.partial),
        (v1::ResultStatus::Error, Some(json("{\"outcome\":1}")), false)
    );
}
