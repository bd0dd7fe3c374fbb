//! `capataz runs diff` and `capataz runs replay`: what was, and whether what is stored is what the events say.

use capataz_contracts::json::{self, Difference, differences};
use capataz_contracts::v1;
use capataz_display::frame::visible;
use capataz_display::paint::Tone;
use capataz_display::words::{fill, words};
use serde_json::{Value, json};

use super::fetch;
use super::{Daemon, Outcome};
use crate::args::Moment;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;

/// Differences that are shown at most.
const MAX_SHOWN: usize = 1000;
/// Characters of a value that are shown to people at most.
const MAX_VALUE_CHARS: usize = 200;

/// Values of tasks and of people, below which names mean what their authors want.
const OF_OTHERS: [&str; 5] = ["output", "partial_output", "proposed", "answer_value", "labels"];

pub async fn diff(daemon: &Daemon, before: &Moment, after: &Moment, all: bool, out: &mut Output) -> Outcome {
    let before_id = fetch::run_id(daemon, &before.run).await?;
    // What `latest` means is found out once.
    let after_id = match after.run == before.run {
        true => before_id.clone(),
        false => fetch::run_id(daemon, &after.run).await?,
    };
    // A run as it stands is read at its newest event: all of its pages are of one moment, and nothing is shown of it that is
    // left out of the past.
    let read = async |id: &str, at: Option<u64>| {
        let at = match at {
            Some(at) => at,
            None => fetch::newest_event(daemon, id).await?,
        };
        let run = fetch::run_at(daemon, id, Some(at), true).await?;
        Ok::<_, Failure>(json::print("capataz.v1.Run", &run))
    };
    let mut left = read(&before_id, before.at).await?;
    let mut right = read(&after_id, after.at).await?;
    let is_partial = before_id != after_id && !all;
    if is_partial {
        leave_out_own(&mut left);
        leave_out_own(&mut right);
    }
    let named = |id: &str, at: Option<u64>| match at {
        Some(at) => format!("{id}@{at}"),
        None => id.to_owned(),
    };
    let names = [named(&before_id, before.at), named(&after_id, after.at)];
    let exit = tell(&left, &right, Some(&names), out)?;
    if is_partial && !out.json {
        out.note(words().time_travel.left_aside);
    }
    Ok(exit)
}

/// Tells in what two values differ, under the names that they have. Exit code 0 where they do not.
pub fn tell(left: &Value, right: &Value, names: Option<&[String; 2]>, out: &mut Output) -> Outcome {
    // One more than is shown tells that there are more.
    let mut found = differences(left, right, MAX_SHOWN + 1);
    let more = found.len() > MAX_SHOWN;
    found.truncate(MAX_SHOWN);
    let exit = if found.is_empty() { Exit::Ok } else { Exit::Failed };
    if out.json {
        let told = |at: &Difference<'_>| json!({ "path": at.path, "before": at.left, "after": at.right });
        let found: Vec<Value> = found.iter().map(told).collect();
        out.document(&json!({ "differences": found, "more": more }));
        return Ok(exit);
    }
    let words = &words().time_travel;
    if found.is_empty() {
        out.line(words.same);
    } else if let Some([before, after]) = names {
        out.line(&format!("--- {before}"));
        out.line(&format!("+++ {after}"));
    }
    for Difference { path, left, right } in found {
        show(&path, left.map(Value::to_string), right.map(Value::to_string), out);
    }
    if more {
        out.note(&fill(words.more, &[&MAX_SHOWN.to_string()]));
    }
    Ok(exit)
}

pub async fn replay(daemon: &Daemon, run: &str, out: &mut Output) -> Outcome {
    let run_id = fetch::run_id(daemon, run).await?;
    let request = v1::ReplayRunRequest { run_id: run_id.clone() };
    let replayed = daemon.client.replay_run(request).await.map_err(|error| daemon.failure(error))?;
    let exit = if replayed.differences.is_empty() { Exit::Ok } else { Exit::Failed };
    if out.json {
        let mut document = json::print("capataz.v1.ReplayRunResponse", &replayed);
        // Protobuf's JSON form omits empty lists, but an empty list is the answer here.
        if let Some(object) = document.as_object_mut() {
            object.entry("differences").or_insert_with(|| json!([]));
        }
        out.document(&document);
        return Ok(exit);
    }
    let words = &words().time_travel;
    out.line(&fill(words.replayed, &[&replayed.events.to_string()]));
    if replayed.differences.is_empty() {
        out.line(&match replayed.snapshot_seq {
            Some(seq) => fill(words.agrees_both, &[&seq.to_string()]),
            None => words.agrees.to_owned(),
        });
        return Ok(exit);
    }
    out.line(words.differs);
    for difference in replayed.differences {
        show(&difference.path, difference.stored, difference.folded, out);
    }
    if replayed.more {
        out.note(words.not_all);
    }
    out.note(&fill(words.truth, &[&run_id]));
    Ok(exit)
}

fn show(path: &str, before: Option<String>, after: Option<String>, out: &mut Output) {
    out.line(&out.paint.text(Tone::Strong, &visible(path)));
    for (sign, value) in [("-", before), ("+", after)] {
        let Some(value) = value else { continue };
        let mut text: String = value.chars().take(MAX_VALUE_CHARS).collect();
        if text.len() < value.len() {
            text.push('…');
        }
        out.line(&format!("  {sign} {}", visible(&text)));
    }
}

/// What two runs never have in common: ids, times, workers, leases and numbers of events. Durations that somebody has
/// configured or asked for are no times of the run.
fn is_own(key: &str) -> bool {
    match key {
        "run_id" | "question_id" | "continues" | "forked_from" | "child" | "worker" | "lease" | "seq"
        | "health_checks" => true,
        "configured_timeout_ms" | "retry_after_ms" => false,
        key => key.ends_with("_ms"),
    }
}

/// Removes what two runs never have in common.
fn leave_out_own(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|key, _| !is_own(key));
            for (key, value) in object.iter_mut() {
                if !OF_OTHERS.contains(&&**key) {
                    leave_out_own(value);
                }
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(leave_out_own),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_runs_never_share_is_left_out_but_not_below_what_others_wrote() {
        let mut run = json!({
            "run_id": "7f3a", "created_at_ms": 1, "seq": 9, "name": "plan", "continues": "7f3b",
            "error": { "timeout": { "configured_timeout_ms": 60_000, "elapsed_ms": 60_003 } },
            "waves": [{ "tasks": [{
                "name": "lint", "worker": "w", "started_at_ms": 2, "state": "COMPLETE",
                "output": { "elapsed_ms": 7, "run_id": "of the task" },
            }] }],
            "labels": { "worker": "one" },
        });
        leave_out_own(&mut run);
        let left = json!({
            "name": "plan",
            "error": { "timeout": { "configured_timeout_ms": 60_000 } },
            "waves": [{ "tasks": [{
                "name": "lint", "state": "COMPLETE", "output": { "elapsed_ms": 7, "run_id": "of the task" },
            }] }],
            "labels": { "worker": "one" },
        });
        assert_eq!(run, left);
    }
}
