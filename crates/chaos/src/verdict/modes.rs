//! Executions: they begin once, count every action once, end after three errors in a row where nobody plans, and do nothing of
//! a plan that nobody has approved.

use capataz_contracts::v1::{self, ExecutionMode, event::Body};

use super::{Facts, Verdict};
use crate::workloads::Kind;

pub(crate) fn judge(facts: &Facts, verdict: &mut Verdict) {
    for (run, log) in facts.logs.iter().filter(|(_, log)| log.kind() == Some(Kind::Modes)) {
        for wrong in wrong_in(&log.events) {
            verdict.doubled.push(format!("run {run}: {wrong}"));
        }
    }
}

fn wrong_in(events: &[v1::Event]) -> Vec<String> {
    let (mut begun, mut actions, mut errors, mut calls) = (None, 0, 0, 0_u32);
    // The newest revision, and the one that a person has approved.
    let (mut newest, mut approved) = (0, 0);
    let mut wrong = Vec::new();
    for event in events {
        match &event.body {
            Some(Body::ModeBegun(event)) => {
                let is_again = begun.replace(event.mode()).is_some();
                wrong.extend(is_again.then(|| "it has begun again".to_owned()));
            }
            Some(Body::PlannerAsked(_)) if begun == Some(ExecutionMode::Simple) && errors >= 3 => {
                wrong.push(format!("the planner is asked after {errors} errors"));
            }
            Some(Body::PlannerAnswered(event)) => {
                newest = event.plan.as_ref().map_or(newest, |plan| plan.revision);
            }
            Some(Body::PlanApproved(event)) => approved = event.revision,
            Some(Body::ToolCalled(_)) => {
                calls += 1;
                if begun == Some(ExecutionMode::Supervised) && (newest == 0 || approved != newest) {
                    wrong.push(format!(
                        "a tool is called under revision {newest}, and {approved} is approved"
                    ));
                }
            }
            Some(Body::ToolObserved(event)) => {
                actions += 1;
                if event.step != actions || actions != calls {
                    wrong.push(format!("action {} is told as {actions} of {calls}", event.step));
                }
                errors = if event.error.is_some() { errors + 1 } else { 0 };
            }
            _ => {}
        }
    }
    wrong
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
        Body::ToolObserved(v1::ToolObserved { step, error, ..Default::default() })
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
}
