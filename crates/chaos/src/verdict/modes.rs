//! Executions: they begin once, count every action once, end after three errors in a row where nobody plans, do nothing of
//! a plan that nobody has approved, call the tool that needs approval only where a person has said so, begin nothing while they are
//! paused, and count from where they have gone back to.

use std::collections::BTreeMap;

use capataz_contracts::v1::{
    self, ExecutionMode, QuestionPurpose, event::Body, payload::Data, question_subject::About,
};
use serde_json::Value;

use super::{Facts, Verdict};
use crate::workloads::{APPROVE, ASKED, Kind, REJECT};

pub(crate) fn judge(facts: &Facts, verdict: &mut Verdict) {
    for (run, log) in facts.logs.iter().filter(|(_, log)| log.kind() == Some(Kind::Modes)) {
        for wrong in wrong_in(&log.events) {
            verdict.doubled.push(format!("run {run}: {wrong}"));
        }
        let approvals = Approvals::of(&log.events);
        verdict.approved += approvals.one_by_one;
        verdict.approved_with_plan += approvals.with_plan;
        verdict.not_approved += approvals.refused;
        let bodies = log.events.iter().filter_map(|event| event.body.as_ref());
        verdict.gone_back += bodies.filter(|body| matches!(body, Body::ModeRolledBack(_))).count() as u64;
        verdict.wrong.extend(approvals.wrong.into_iter().map(|wrong| format!("run {run}: {wrong}")));
    }
}

/// What a checkpoint brings back.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    actions: u32,
    errors: u32,
    calls: u32,
    /// The newest revision, and the one that a person has approved.
    newest: u32,
    approved: u32,
}

fn wrong_in(events: &[v1::Event]) -> Vec<String> {
    let (mut begun, mut is_paused) = (None, false);
    let mut now = Standing::default();
    // How it stood at each checkpoint, by the number of its event.
    let mut kept: BTreeMap<u64, Standing> = BTreeMap::new();
    let mut wrong = Vec::new();
    for event in events {
        let seq = event.seq;
        match &event.body {
            Some(Body::ModeBegun(event)) => {
                let is_again = begun.replace(event.mode()).is_some();
                wrong.extend(is_again.then(|| "it has begun again".to_owned()));
            }
            Some(Body::RunPaused(_)) => is_paused = true,
            Some(Body::RunResumed(_)) => is_paused = false,
            Some(Body::PlannerAsked(_)) => {
                wrong.extend(is_paused.then(|| "the planner is asked while it is paused".to_owned()));
                if begun == Some(ExecutionMode::Simple) && now.errors >= 3 {
                    wrong.push(format!("the planner is asked after {} errors", now.errors));
                }
            }
            Some(Body::PlannerAnswered(event)) => {
                now.newest = event.plan.as_ref().map_or(now.newest, |plan| plan.revision);
            }
            Some(Body::PlanApproved(event)) => now.approved = event.revision,
            Some(Body::ToolCalled(_)) => {
                now.calls += 1;
                let Standing { newest, approved, .. } = now;
                wrong.extend(is_paused.then(|| "a tool is called while it is paused".to_owned()));
                if begun == Some(ExecutionMode::Supervised) && (newest == 0 || approved != newest) {
                    wrong.push(format!(
                        "a tool is called under revision {newest}, and {approved} is approved"
                    ));
                }
            }
            Some(Body::ToolObserved(event)) => {
                now.actions += 1;
                // A call that was rejected counts as an action, and was not made.
                now.calls += u32::from(event.wave.is_none());
                if event.step != now.actions || now.actions != now.calls {
                    let Standing { actions, calls, .. } = now;
                    wrong.push(format!("action {} is told as {actions} of {calls}", event.step));
                }
                now.errors = if event.error.is_some() && !event.as_expected { now.errors + 1 } else { 0 };
            }
            // A call that is at work then is not brought back.
            Some(Body::ModeCheckpointed(_)) => _ = kept.insert(seq, Standing { calls: now.actions, ..now }),
            Some(Body::ModeRolledBack(back)) => match kept.get(&back.to_seq) {
                Some(then) => {
                    now = *then;
                    kept.retain(|seq, _| *seq <= back.to_seq);
                }
                None => wrong.push(format!("it goes back to event {}, which is no checkpoint", back.to_seq)),
            },
            _ => {}
        }
    }
    wrong
}

/// What people have said of calls of [`ASKED`], and what was made of that. Only questions and answers are believed, and nothing
/// of what the daemon says follows from them.
#[derive(Debug, Default)]
struct Approvals {
    one_by_one: u64,
    with_plan: u64,
    /// Rejected, or the reason why a run was ended.
    refused: u64,
    wrong: Vec<String>,
}

impl Approvals {
    fn of(events: &[v1::Event]) -> Self {
        let mut found = Self::default();
        let mut questions: BTreeMap<&str, &v1::Question> = BTreeMap::new();
        // The newest plan, and the revision that a person has approved.
        let (mut plan, mut approved) = (None, None);
        // What the call that comes next was answered.
        let mut said = None;
        for body in events.iter().filter_map(|event| event.body.as_ref()) {
            match body {
                Body::QuestionAsked(asked) => {
                    questions.extend(asked.question.iter().map(|asked| (asked.question_id.as_str(), asked)));
                }
                // A question that is withdrawn has revision 0.
                Body::QuestionAnswered(answer) if answer.revision > 0 => {
                    let Some(question) = questions.remove(answer.question_id.as_str()) else { continue };
                    let is_approved = answer.answer == APPROVE;
                    match question.purpose() {
                        QuestionPurpose::Tool => {
                            said = Some(answer.answer.as_str());
                            found.refused += u64::from(!is_approved);
                        }
                        QuestionPurpose::Plan if is_approved => approved = revision_of(question),
                        _ => {}
                    }
                }
                Body::PlannerAnswered(answer) => {
                    said = None;
                    plan = answer.plan.as_ref().or(plan);
                }
                Body::ModeRolledBack(_) => said = None,
                Body::ToolCalled(called) => {
                    let said = said.take();
                    if agent_of(called) != ASKED {
                        continue;
                    }
                    let with_plan = plan
                        .filter(|plan| approved == Some(plan.revision))
                        .is_some_and(|plan| stands_in(plan, called));
                    match said {
                        Some(APPROVE) => found.one_by_one += 1,
                        None if with_plan => found.with_plan += 1,
                        _ => {
                            let wave = called.wave;
                            found
                                .wrong
                                .push(format!("{ASKED} is called in wave {wave}, and {said:?} was answered"));
                        }
                    }
                }
                Body::ToolObserved(seen) => {
                    let said = said.take();
                    if seen.wave.is_none() && said != Some(REJECT) {
                        found.wrong.push(format!(
                            "action {} counts as rejected, and {said:?} was answered",
                            seen.step
                        ));
                    }
                }
                _ => {}
            }
        }
        found
    }
}

fn revision_of(question: &v1::Question) -> Option<u32> {
    match question.about.as_ref()?.about.as_ref()? {
        About::Revision(subject) => Some(subject.revision),
        _ => None,
    }
}

fn agent_of(called: &v1::ToolCalled) -> &str {
    let task = called.tasks.as_ref().and_then(|wave| wave.tasks.first());
    task.map_or("", |task| task.agent.as_str())
}

/// Whether the plan has the call, word for word.
fn stands_in(plan: &v1::ModePlan, called: &v1::ToolCalled) -> bool {
    let step = called.step_index.and_then(|place| plan.steps.get(usize::try_from(place).ok()?));
    let task = called.tasks.as_ref().and_then(|wave| wave.tasks.first());
    let given = match task.and_then(|task| task.input.as_ref()?.data.as_ref()) {
        Some(Data::Inline(given)) => serde_json::from_slice::<Value>(given).ok(),
        _ => None,
    };
    step.is_some_and(|step| step.tool == ASKED && serde_json::from_str(&step.parameters).ok() == given)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(bodies: Vec<Body>) -> Vec<v1::Event> {
        bodies.into_iter().map(|body| v1::Event { body: Some(body), ..v1::Event::default() }).collect()
    }

    fn begun(mode: ExecutionMode) -> Body {
        Body::ModeBegun(v1::ModeBegun { mode: mode.into(), ..Default::default() })
    }

    fn proposed(revision: u32) -> Body {
        let plan = Some(v1::ModePlan { revision, ..Default::default() });
        Body::PlannerAnswered(v1::PlannerAnswered { plan, ..Default::default() })
    }

    fn called() -> Body {
        Body::ToolCalled(v1::ToolCalled::default())
    }

    fn observed(step: u32, failed: bool) -> Body {
        let error = failed.then(v1::Error::default);
        Body::ToolObserved(v1::ToolObserved { step, error, wave: Some(step), ..Default::default() })
    }

    #[test]
    fn what_an_execution_does_in_order_is_right() {
        let bodies = vec![
            begun(ExecutionMode::Supervised),
            proposed(1),
            Body::PlanApproved(v1::PlanApproved { revision: 1, ..Default::default() }),
            called(),
            observed(1, true),
            called(),
            observed(2, false),
        ];
        assert!(wrong_in(&events(bodies)).is_empty());
    }

    #[test]
    fn a_second_beginning_an_action_counted_twice_and_a_call_without_approval_are_found() {
        let asked = Body::PlannerAsked(v1::PlannerAsked::default());
        let after_three = [begun(ExecutionMode::Simple), called(), observed(1, true), called()];
        let after_three = after_three.into_iter().chain([observed(2, true), called(), observed(3, true)]);
        for bodies in [
            vec![begun(ExecutionMode::Simple), begun(ExecutionMode::Simple)],
            vec![begun(ExecutionMode::Simple), called(), observed(1, false), observed(1, false)],
            vec![begun(ExecutionMode::Supervised), proposed(1), called()],
            after_three.chain([asked]).collect(),
        ] {
            assert_eq!(wrong_in(&events(bodies.clone())).len(), 1, "{bodies:?}");
        }
    }

    fn checkpointed() -> Body {
        Body::ModeCheckpointed(v1::ModeCheckpointed::default())
    }

    fn gone_back(to_seq: u64) -> Body {
        Body::ModeRolledBack(v1::ModeRolledBack { to_seq, ..Default::default() })
    }

    /// The same events, numbered from 1.
    fn numbered(bodies: Vec<Body>) -> Vec<v1::Event> {
        (1..).zip(events(bodies)).map(|(seq, event)| v1::Event { seq, ..event }).collect()
    }

    #[test]
    fn actions_errors_and_the_approval_count_from_where_it_has_gone_back_to() {
        let failed = |step| [called(), observed(step, true)];
        // Two errors in a row, then the checkpoint as the third event is at work; the third error is gone back on.
        let simple = || {
            let begin = [begun(ExecutionMode::Simple)].into_iter().chain(failed(1)).chain(failed(2));
            begin.chain([called(), checkpointed(), observed(3, true), gone_back(7)])
        };
        let right = simple().chain([Body::PlannerAsked(v1::PlannerAsked::default())]).chain(failed(3));
        assert_eq!(wrong_in(&numbered(right.collect())), [] as [String; 0]);
        let counted_on = simple().chain(failed(4));
        assert_eq!(wrong_in(&numbered(counted_on.collect())).len(), 1);
        let again = simple().chain(failed(3)).chain([gone_back(8)]);
        assert_eq!(wrong_in(&numbered(again.collect())), ["it goes back to event 8, which is no checkpoint"]);
        // Who goes back behind the approval has none.
        let unapproved = [
            begun(ExecutionMode::Supervised),
            proposed(1),
            checkpointed(),
            Body::PlanApproved(v1::PlanApproved { revision: 1, ..Default::default() }),
            gone_back(3),
            called(),
        ];
        assert_eq!(wrong_in(&numbered(unapproved.to_vec())).len(), 1);
    }

    #[test]
    fn what_is_begun_while_it_is_paused_is_found() {
        let paused = || Body::RunPaused(v1::RunPaused::default());
        let resumed = || Body::RunResumed(v1::RunResumed::default());
        let asked = || Body::PlannerAsked(v1::PlannerAsked::default());
        let begun = || begun(ExecutionMode::Simple);
        let right = vec![begun(), asked(), called(), paused(), observed(1, false), resumed(), asked()];
        assert_eq!(wrong_in(&events(right)), [] as [String; 0]);
        for wrong in [vec![begun(), paused(), asked()], vec![begun(), asked(), paused(), called()]] {
            assert_eq!(wrong_in(&events(wrong)).len(), 1);
        }
    }

    fn asked(purpose: QuestionPurpose, id: &str, revision: u32) -> Body {
        let about = Some(About::Revision(v1::RevisionSubject { revision }));
        let question = v1::Question {
            question_id: id.to_owned(),
            purpose: purpose.into(),
            about: (purpose == QuestionPurpose::Plan).then_some(v1::QuestionSubject { about }),
            ..Default::default()
        };
        Body::QuestionAsked(Box::new(v1::QuestionAsked { question: Some(question), ..Default::default() }))
    }

    fn answered(id: &str, answer: &str) -> Body {
        let (question_id, answer) = (id.to_owned(), answer.to_owned());
        Body::QuestionAnswered(v1::QuestionAnswered {
            question_id,
            answer,
            revision: 1,
            ..Default::default()
        })
    }

    /// A call of the tool that needs approval, as the first step of the plan.
    fn called_with(parameters: &str) -> Body {
        let data = Some(Data::Inline(parameters.to_owned().into()));
        let input = Some(v1::Payload { media_type: "application/json".to_owned(), data });
        let task = v1::Task { agent: ASKED.to_owned(), input, ..Default::default() };
        let tasks = Some(v1::Wave { tasks: vec![task], ..Default::default() });
        Body::ToolCalled(v1::ToolCalled { tasks, step_index: Some(0), ..Default::default() })
    }

    fn planned(revision: u32, parameters: &str) -> Body {
        let step =
            v1::PlanStep { tool: ASKED.to_owned(), parameters: parameters.to_owned(), ..Default::default() };
        let plan = Some(v1::ModePlan { revision, steps: vec![step], ..Default::default() });
        Body::PlannerAnswered(v1::PlannerAnswered { plan, ..Default::default() })
    }

    fn wants() -> Body {
        Body::PlannerAnswered(v1::PlannerAnswered::default())
    }

    fn rejected(step: u32) -> Body {
        let error = Some(v1::Error::default());
        Body::ToolObserved(v1::ToolObserved { step, error, ..Default::default() })
    }

    #[test]
    fn a_call_is_made_where_it_was_approved_and_a_rejected_one_is_an_action_all_the_same() {
        let of_tool = |id| asked(QuestionPurpose::Tool, id, 0);
        let bodies = vec![
            begun(ExecutionMode::Simple),
            wants(),
            of_tool("q0"),
            answered("q0", REJECT),
            rejected(1),
            wants(),
            of_tool("q1"),
            answered("q1", APPROVE),
            called_with("1"),
            observed(2, false),
            wants(),
            of_tool("q2"),
            answered("q2", "abort"),
        ];
        let events = events(bodies);
        let found = Approvals::of(&events);
        assert_eq!((found.one_by_one, found.with_plan, found.refused), (1, 0, 2));
        assert!(found.wrong.is_empty() && wrong_in(&events).is_empty(), "{found:?}");
    }

    #[test]
    fn whoever_has_approved_a_plan_has_approved_its_own_words() {
        let of_plan = |revision, answer| {
            let begin = [planned(revision, r#"{"a":1,"b":2}"#), asked(QuestionPurpose::Plan, "q0", revision)];
            begin.into_iter().chain([answered("q0", answer), wants()])
        };
        let approved = events(of_plan(1, APPROVE).chain([called_with(r#"{"b":2,"a":1}"#)]).collect());
        let found = Approvals::of(&approved);
        assert_eq!((found.one_by_one, found.with_plan), (0, 1));
        assert!(found.wrong.is_empty(), "{found:?}");
        for bodies in [
            of_plan(1, APPROVE).chain([called_with(r#"{"a":1,"b":3}"#)]).collect::<Vec<_>>(),
            of_plan(1, REJECT).chain([called_with(r#"{"a":1,"b":2}"#)]).collect(),
            of_plan(1, APPROVE).chain([planned(2, "7"), called_with("7")]).collect(),
        ] {
            assert_eq!(Approvals::of(&events(bodies.clone())).wrong.len(), 1, "{bodies:?}");
        }
    }

    #[test]
    fn a_call_that_nobody_has_approved_is_found() {
        let of_tool = |id| asked(QuestionPurpose::Tool, id, 0);
        let approved =
            || [wants(), of_tool("q0"), answered("q0", APPROVE), called_with("1"), observed(1, false)];
        let once = |bodies: &[Body]| bodies.to_vec();
        let withdrawn = Body::QuestionAnswered(v1::QuestionAnswered {
            question_id: "q0".to_owned(),
            answer: APPROVE.to_owned(),
            ..Default::default()
        });
        for bodies in [
            once(&[wants(), called_with("1")]),
            once(&[wants(), of_tool("q0"), called_with("1")]),
            once(&[wants(), of_tool("q0"), called_with("1"), answered("q0", APPROVE)]),
            once(&[wants(), of_tool("q0"), answered("q0", REJECT), called_with("1")]),
            once(&[wants(), of_tool("q0"), withdrawn, called_with("1")]),
            // An answer is for one call, for the one that was asked about, and is no answer to something else.
            approved().into_iter().chain([called_with("1")]).collect(),
            once(&[wants(), of_tool("q0"), answered("q0", APPROVE), wants(), called_with("1")]),
            once(&[
                wants(),
                asked(QuestionPurpose::Escalation, "q0", 0),
                answered("q0", APPROVE),
                called_with("1"),
            ]),
            // A refusal that nobody has given.
            once(&[wants(), rejected(1)]),
            once(&[wants(), of_tool("q0"), answered("q0", APPROVE), rejected(1)]),
        ] {
            assert_eq!(Approvals::of(&events(bodies.clone())).wrong.len(), 1, "{bodies:?}");
        }
    }

    #[test]
    fn the_verdict_has_what_was_found_of_approvals() {
        let accepted = v1::RunAccepted {
            work: Some(v1::run_accepted::Work::Mode(v1::ModeRun::default())),
            ..Default::default()
        };
        let bodies = vec![
            Body::RunAccepted(Box::new(accepted)),
            wants(),
            asked(QuestionPurpose::Tool, "q0", 0),
            answered("q0", APPROVE),
            called_with("1"),
            observed(1, false),
            called_with("1"),
            observed(2, false),
        ];
        let mut facts = Facts::default();
        let log = super::super::Log { view: v1::Run::default(), events: events(bodies) };
        facts.logs.insert("r1".to_owned(), log);
        let mut verdict = Verdict::default();
        judge(&facts, &mut verdict);
        assert_eq!((verdict.wrong.len(), verdict.doubled.len(), verdict.approved), (1, 0, 1), "{verdict:?}");
    }
}
