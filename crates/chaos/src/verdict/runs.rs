//! The logs by themselves: numbered without a gap, one end for everything, and fenced.

use std::collections::{BTreeMap, BTreeSet};

use capataz_client::v1;
use capataz_contracts::v1::event::Body;
use serde_json::Value;

use super::logs::Log;
use super::{Verdict, inline};

pub(super) fn judge(logs: &BTreeMap<String, Log>, verdict: &mut Verdict) {
    // A task that is a run is another run in each of its lives and attempts.
    let mut runs_of_key: BTreeMap<(&str, &str, u32, u32), Vec<&str>> = BTreeMap::new();
    for (run, log) in logs {
        verdict.runs += 1;
        verdict.finished += u64::from(log.is_finished());
        let parent = log.view.parent.as_ref();
        let life = parent.map_or(("", 0, 0), |parent| (&*parent.task, parent.activation, parent.attempt));
        runs_of_key.entry((log.key(), life.0, life.1, life.2)).or_default().push(run);
        numbers(run, log, verdict);
        ends(run, log, verdict);
        leases(run, log, verdict);
        outputs(run, log, verdict);
        children(run, log, logs, verdict);
        taken_over(run, log, logs, verdict);
        forked(run, log, logs, verdict);
    }
    for ((key, ..), runs) in runs_of_key {
        if runs.len() > 1 {
            verdict.doubled.push(format!("key {key} has the runs {}", runs.join(", ")));
        }
    }
}

/// Each child is named once, is there, and was heard once, as it has ended; a parent ends after its children, and a task whose
/// child has succeeded has no other one in the same life.
fn children(run: &str, log: &Log, logs: &BTreeMap<String, Log>, verdict: &mut Verdict) {
    let mut heard: BTreeMap<&str, Option<u32>> = BTreeMap::new();
    // Tasks that are done, and children that were told to end: what those give back is no success.
    let (mut done, mut told) = (BTreeSet::new(), BTreeSet::new());
    let mut newest: BTreeMap<(u32, u32), &str> = BTreeMap::new();
    for event in &log.events {
        match &event.body {
            Some(Body::ChildNamed(named)) => {
                let before = heard.insert(&named.run_id, Some(0));
                let twice = before.map(|_| format!("run {run}: child {} is named twice", named.run_id));
                verdict.doubled.extend(twice);
                if done.contains(&(named.wave, named.task)) {
                    let task = log.task_name(named.wave, named.task);
                    verdict
                        .doubled
                        .push(format!("run {run}, task {task}: another child after one that succeeded"));
                }
            }
            Some(Body::ChildCancelRequested(asked)) => _ = told.insert(asked.run_id.as_str()),
            Some(Body::TaskRolledBack(body)) => {
                body.taken_back.iter().for_each(|back| _ = done.remove(&(back.wave, back.task)));
            }
            Some(Body::ChildEnded(ended)) => {
                let times = heard.entry(&ended.run_id).or_default();
                *times = times.map(|times| times + 1);
                newest.insert((ended.wave, ended.task), &ended.run_id);
                let succeeded = ended.outcome == Some(v1::RunOutcome::Succeeded as i32);
                if succeeded && !told.contains(ended.run_id.as_str()) {
                    done.insert((ended.wave, ended.task));
                }
                let child = logs.get(&ended.run_id);
                if child.is_none_or(|child| child.view.outcome != ended.outcome) {
                    verdict.wrong.push(format!("run {run}: what it heard of {} is not so", ended.run_id));
                }
            }
            Some(Body::TaskSettled(body)) if body.status == v1::ResultStatus::Success as i32 => {
                let child =
                    newest.get(&(body.wave, body.task)).and_then(|child| Some((child, logs.get(*child)?)));
                if let Some((child, log)) = child.filter(|(_, log)| given_by(log) != told_of(inline(body))) {
                    let key = log.key();
                    verdict
                        .wrong
                        .push(format!("run {run}: what it has of {child}, key {key}, that has not given"));
                }
            }
            _ => {}
        }
    }
    for (child, times) in heard {
        match times {
            Some(1) => {
                verdict.children += 1;
                if let Some(tally) = verdict.tally(log.kind()) {
                    tally.children += 1;
                }
            }
            Some(0) if !log.is_finished() => {}
            Some(0) => verdict.lost.push(format!("run {run} has ended, and never heard of child {child}")),
            Some(times) => {
                verdict.doubled.push(format!("run {run}: the end of {child} counts {times} times"))
            }
            None => verdict.wrong.push(format!("run {run} heard of {child}, which it never named")),
        }
    }
}

/// What the tasks of a run have given, by their names.
fn given_by(log: &Log) -> BTreeMap<String, Value> {
    let outputs = log.bodies().filter_map(|body| match body {
        Body::TaskSettled(body) if body.status == v1::ResultStatus::Success as i32 => {
            let output = serde_json::from_slice::<Value>(inline(body)).ok()?;
            Some((log.task_name(body.wave, body.task).to_owned(), output))
        }
        _ => None,
    });
    outputs.filter(|(_, output)| !output.is_null()).collect()
}

/// What the parent of a run has of the outputs of its tasks, by their names; of an ask it has the answer of one spec.
fn told_of(output: &[u8]) -> BTreeMap<String, Value> {
    let output = serde_json::from_slice::<Value>(output).unwrap_or_default();
    if let Some(spec) = output["ask"]["spec"].as_str() {
        return [(spec.to_owned(), output["ask"]["response"].clone())].into();
    }
    let tasks = output["tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
    let outputs = tasks.iter().map(|task| (task["name"].as_str().unwrap_or_default(), &task["output"]));
    let outputs = outputs.filter(|(_, output)| !output.is_null());
    outputs.map(|(name, output)| (name.to_owned(), output.clone())).collect()
}

/// What a run has taken over is what the one that it continues has; and nothing of it was at work again in the same life.
fn taken_over(run: &str, log: &Log, logs: &BTreeMap<String, Log>, verdict: &mut Verdict) {
    let Some(before) = log.view.continues.as_ref() else { return };
    verdict.continued += 1;
    let mut taken = BTreeSet::new();
    for event in &log.events {
        match &event.body {
            Some(Body::TaskSettled(body)) if body.taken_over => {
                taken.insert((body.wave, body.task));
                let task = log.task_name(body.wave, body.task);
                let is_so = |before: &Log| {
                    before.bodies().any(|was| match was {
                        Body::TaskSettled(was) => {
                            before.task_name(was.wave, was.task) == task
                                && was.status == v1::ResultStatus::Success as i32
                                && was.output == body.output
                        }
                        _ => false,
                    })
                };
                // What retention has removed, nobody can look at.
                if logs.get(before).is_some_and(|before| !is_so(before)) {
                    verdict.wrong.push(format!("run {run}: task {task} has not given that in run {before}"));
                }
            }
            Some(Body::TaskRolledBack(body)) => {
                body.taken_back.iter().for_each(|back| _ = taken.remove(&(back.wave, back.task)));
            }
            Some(Body::TaskLeased(body)) if taken.contains(&(body.wave, body.task)) => {
                let task = log.task_name(body.wave, body.task);
                verdict.doubled.push(format!("run {run}: task {task} was taken over, and is done again"));
            }
            _ => {}
        }
    }
}

/// A fork begins with the events of the other run, to the letter, and says so.
fn forked(run: &str, log: &Log, logs: &BTreeMap<String, Log>, verdict: &mut Verdict) {
    let Some(forked) = log.forked() else { return };
    verdict.forked += 1;
    let past = usize::try_from(forked.seq).unwrap_or(usize::MAX);
    let shown = log.view.forked_from.as_ref().map(|from| (from.run_id.as_str(), from.seq));
    let is_next = log.events.get(past).is_some_and(|event| matches!(event.body, Some(Body::RunForked(_))));
    if !is_next || shown != Some((forked.run_id.as_str(), forked.seq)) || forked.fork_id != run {
        verdict
            .wrong
            .push(format!("run {run}: {forked:?} is event {past} + 1 of it, and it is shown as {shown:?}"));
    }
    // What retention has removed, nobody can look at.
    let Some(base) = logs.get(&forked.run_id) else { return };
    if base.events.get(..past).is_none_or(|events| log.events.get(..past) != Some(events)) {
        verdict.wrong.push(format!("run {run}: it does not begin as run {} did", forked.run_id));
    }
}

fn numbers(run: &str, log: &Log, verdict: &mut Verdict) {
    for (expected, event) in (1..).zip(&log.events) {
        if event.seq != expected {
            verdict.gaps.push(format!("run {run}: event {} where {expected} is due", event.seq));
            return;
        }
    }
    let last = log.events.last().map_or(0, |event| event.seq);
    if log.view.seq != last {
        verdict.gaps.push(format!("run {run}: shown at event {}, exported to {last}", log.view.seq));
    }
}

fn ends(run: &str, log: &Log, verdict: &mut Verdict) {
    let mut finished = 0;
    let mut settled: BTreeMap<(u32, u32, u32), u32> = BTreeMap::new();
    let mut requests: BTreeMap<&str, u32> = BTreeMap::new();
    for event in &log.events {
        match &event.body {
            Some(Body::RunFinished(_)) => {
                finished += 1;
                if log.events.last().is_some_and(|last| last.seq != event.seq) {
                    verdict.wrong.push(format!("run {run}: events follow its end"));
                }
            }
            Some(Body::TaskSettled(body)) => {
                *settled.entry((body.wave, body.task, body.activation)).or_default() += 1;
            }
            Some(body) => {
                if let Some(request) = request_of(body) {
                    *requests.entry(request).or_default() += 1;
                }
            }
            None => verdict.wrong.push(format!("run {run}: event {} cannot be read", event.seq)),
        }
    }
    if finished > 1 {
        verdict.doubled.push(format!("run {run} has {finished} ends"));
    }
    if log.is_finished() != (finished > 0) {
        verdict.wrong.push(format!("run {run}: its status and its log disagree about its end"));
    }
    for ((wave, task, activation), count) in settled {
        if count > 1 {
            let task = log.task_name(wave, task);
            verdict.doubled.push(format!("run {run}, task {task}, activation {activation} has {count} ends"));
        }
    }
    for (request, count) in requests {
        if count > 1 {
            verdict.doubled.push(format!("run {run}: request {request} was carried out {count} times"));
        }
    }
}

/// The request id of an event that a command has caused.
pub(super) fn request_of(body: &Body) -> Option<&str> {
    let request = match body {
        Body::RunPaused(body) => &body.request_id,
        Body::RunResumed(body) => &body.request_id,
        Body::RunCancelRequested(body) => &body.request_id,
        Body::TaskExtended(body) => &body.request_id,
        Body::TaskRolledBack(body) => &body.request_id,
        Body::PipelineRolledBack(body) => &body.request_id,
        Body::ModeCheckpointed(body) => &body.request_id,
        Body::ModeRolledBack(body) => &body.request_id,
        Body::QuestionAnswered(body) => &body.request_id,
        _ => return None,
    };
    (!request.is_empty()).then_some(request.as_str())
}

/// Fencing tokens grow, a task has one lease at a time, a run that is held has no new ones, and each refusal is told
/// once.
fn leases(run: &str, log: &Log, verdict: &mut Verdict) {
    let mut newest = 0;
    let mut is_paused = false;
    let mut is_cancelled = false;
    let mut live: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    let mut refused = BTreeSet::new();
    for event in &log.events {
        match &event.body {
            Some(Body::TaskLeased(body)) => {
                verdict.leases += 1;
                if body.lease <= newest {
                    let task = log.task_name(body.wave, body.task);
                    let text = format!("run {run}, task {task}: lease {} after lease {newest}", body.lease);
                    verdict.wrong.push(text);
                }
                newest = newest.max(body.lease);
                if is_paused || is_cancelled {
                    verdict.wrong.push(format!("run {run}: lease {} of a run that is held", body.lease));
                }
                if let Some(before) = live.insert((body.wave, body.task), body.lease) {
                    let text =
                        format!("run {run}: lease {} while lease {before} of the task lives", body.lease);
                    verdict.doubled.push(text);
                }
            }
            Some(Body::TaskLeaseLost(body)) => {
                *verdict.lost_leases.entry(reason(body.reason())).or_default() += 1;
                if live.remove(&(body.wave, body.task)) != Some(body.lease) {
                    verdict.wrong.push(format!("run {run}: lease {} is lost and was not live", body.lease));
                }
            }
            Some(Body::RunPaused(_)) => is_paused = true,
            Some(Body::RunResumed(_)) => is_paused = false,
            Some(Body::RunCancelRequested(_)) => is_cancelled = true,
            Some(Body::QuestionAsked(body)) => {
                // A task that must run at most once is asked about when its lease is lost.
                let purpose = body.question.as_ref().map(v1::Question::purpose);
                // The work of one whose time is over goes on until its grace is over, too.
                if let (Some(wave), Some(task)) = (body.wave, body.task)
                    && purpose != Some(v1::QuestionPurpose::Timeout)
                {
                    live.remove(&(wave, task));
                    verdict.questions += 1;
                    if let Some(tally) = verdict.tally(log.kind()) {
                        tally.questions += 1;
                    }
                }
            }
            Some(Body::TaskRolledBack(body)) => {
                verdict.taken_back += 1;
                live.retain(|(wave, task), _| {
                    !body.taken_back.iter().any(|taken| (taken.wave, taken.task) == (*wave, *task))
                });
            }
            Some(Body::TaskAttemptFailed(body)) => _ = live.remove(&(body.wave, body.task)),
            Some(Body::TaskSettled(body)) => {
                let held = live.remove(&(body.wave, body.task));
                if body.lease.is_some() && body.lease != held {
                    let task = log.task_name(body.wave, body.task);
                    verdict
                        .wrong
                        .push(format!("run {run}, task {task}: settled by a lease that was not live"));
                }
            }
            Some(Body::ResultRefused(body)) => {
                let stale = [v1::RefusalReason::StaleLease, v1::RefusalReason::AlreadySettled];
                verdict.stale_refused += u64::from(stale.contains(&body.reason()));
                if !refused.insert(body.lease) {
                    verdict
                        .doubled
                        .push(format!("run {run}: the refusal of lease {} is told twice", body.lease));
                }
            }
            _ => {}
        }
    }
}

pub(super) fn reason(reason: v1::LeaseLossReason) -> String {
    reason.as_str_name().trim_start_matches("LEASE_LOSS_REASON_").to_lowercase()
}

/// A task's output is what was answered under the lease that settled it, for this run and this task.
fn outputs(run: &str, log: &Log, verdict: &mut Verdict) {
    let Some(kind) = log.kind() else {
        return verdict.wrong.push(format!("run {run}: it does not begin with what it is to do"));
    };
    for body in log.bodies() {
        let Body::TaskSettled(body) = body else { continue };
        // Without a lease, a person has said that the task has succeeded, unless it is a run.
        let has_no_answer = body.lease.is_none() && !log.names_child(body.wave, body.task);
        if body.status != v1::ResultStatus::Success as i32 || has_no_answer {
            continue;
        }
        if !kind.workload().is_own_output(log, body) {
            let name = log.task_name(body.wave, body.task);
            verdict.wrong.push(format!("run {run}, task {name}: its output is not what its lease answered"));
        }
    }
}
