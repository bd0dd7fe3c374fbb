//! What the site saw of scripts, held against their logs: no act without a lease, none twice without a reason, and none
//! that succeeded unseen.

use std::collections::BTreeMap;

use capataz_client::v1;
use capataz_contracts::v1::event::Body;

use super::logs::Log;
use super::work::loss;
use super::{Facts, Verdict};
use crate::workloads::{Kind, SEEN_BY_THE_SITE};

pub(crate) fn judge(facts: &Facts, verdict: &mut Verdict) {
    let scripts = facts.logs.iter().filter(|(_, log)| log.kind() == Some(Kind::Scripts));
    let by_key: BTreeMap<&str, (&str, &Log)> =
        scripts.map(|(run, log)| (log.key(), (run.as_str(), log))).collect();
    let mut acts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for act in &facts.site {
        if let Some(tally) = verdict.tally(Some(Kind::Scripts)) {
            tally.executions += 1;
        }
        *acts.entry((&act.key, &act.action)).or_default() += 1;
    }
    for ((key, action), seen) in &acts {
        let Some((run, log)) = by_key.get(key) else {
            verdict.lost.push(format!("key {key} was worked on by a browser and is not there"));
            continue;
        };
        verdict.unknown_acts += u64::from(is_asked_about(log, action));
        let explained = explained(log, action);
        if *seen > explained {
            let once = if log.runs_at_most_once(action) { ", which must be once at most" } else { "" };
            let text = format!("run {run}, action {action}{once}: seen {seen} times, explained {explained}");
            verdict.is_unexplained(Some(Kind::Scripts), text);
        }
    }
    for (key, (run, log)) in &by_key {
        for (action, Finished { times, is_given }) in finished(log) {
            if times > 1 {
                verdict.doubled.push(format!("run {run}: action {action} has succeeded {times} times"));
            }
            if !is_given && SEEN_BY_THE_SITE.contains(&action) && !acts.contains_key(&(*key, action)) {
                verdict
                    .lost
                    .push(format!("run {run}: action {action} has succeeded, and the site saw nothing"));
            }
        }
    }
}

/// How often an action may have been performed: once for its first lease, and once more for each further one before
/// which it was lost such that it may be repeated, or after which its attempt had failed and was to be repeated.
fn explained(log: &Log, action: &str) -> u64 {
    let mut leases: Vec<(u64, bool)> = Vec::new();
    let mut decided = false;
    for body in log.bodies() {
        match body {
            // Such an activity performs nothing.
            Body::BrowserActivityStarted(body) => decided = body.failure.is_some(),
            Body::TaskLeased(body) if !decided && log.task_name(body.wave, body.task) == action => {
                leases.push((body.lease, false));
            }
            Body::TaskAttemptFailed(body) if log.task_name(body.wave, body.task) == action => {
                if let Some((_, failed)) = leases.last_mut() {
                    *failed = true;
                }
            }
            _ => {}
        }
    }
    let repeated = leases.windows(2).filter(|pair| match pair {
        [(before, failed), _] => *failed || loss(log, action, *before).is_some(),
        _ => false,
    });
    repeated.count() as u64 + u64::from(!leases.is_empty())
}

fn is_asked_about(log: &Log, action: &str) -> bool {
    let questions = log.bodies().filter_map(|body| match body {
        Body::QuestionAsked(body) => body.question.as_ref(),
        _ => None,
    });
    questions.filter_map(|question| question.task.as_deref()).any(|task| task == action)
}

/// What the log says of an action that has succeeded.
#[derive(Debug, Default)]
struct Finished {
    times: u64,
    /// A person has said so, without having asked the site.
    is_given: bool,
}

/// The actions of the script that have succeeded.
fn finished(log: &Log) -> BTreeMap<&str, Finished> {
    let mut finished: BTreeMap<&str, Finished> = BTreeMap::new();
    let mut after_answer = false;
    for body in log.bodies() {
        if let Body::ActionFinished(done) = body
            && done.activity == v1::BrowserActivity::Action as i32
        {
            let action = finished.entry(done.action_id.as_str()).or_default();
            action.times += 1;
            action.is_given |= after_answer;
        }
        // The answer is followed by the event at once; what a host says has a lease between the two.
        after_answer = matches!(body, Body::QuestionAnswered(_));
    }
    finished
}
