//! What the process agent's commands did: none outlived its daemon, and none ran without a lease.

use std::collections::BTreeMap;

use capataz_contracts::v1::event::Body;

use super::Verdict;
use super::logs::Log;
use crate::records::CommandRecord;
use crate::workloads::Kind;

pub(crate) fn judge(journal: &[CommandRecord], logs: &BTreeMap<String, Log>, verdict: &mut Verdict) {
    let by_key: BTreeMap<&str, &Log> = logs.values().map(|log| (log.key(), log)).collect();
    let mut executions: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    // Which execution of a task each command is.
    let mut numbers: BTreeMap<u32, u64> = BTreeMap::new();
    for record in journal {
        match record {
            CommandRecord::Began { process, key, task, .. } => {
                verdict.commands_run += 1;
                if let Some(tally) = verdict.tally(Some(Kind::Plans)) {
                    tally.executions += 1;
                }
                let number = executions.entry((key, task)).or_default();
                *number += 1;
                numbers.insert(*process, *number);
            }
            CommandRecord::Ended { process, key, task, .. } => {
                let newest = executions.get(&(key.as_str(), task.as_str())).copied();
                if numbers.remove(process) != newest {
                    let text = format!("key {key}, task {task}: a command ended after its successor began");
                    verdict.doubled.push(text);
                }
            }
        }
    }
    for ((key, task), began) in executions {
        let Some(log) = by_key.get(key) else {
            verdict.lost.push(format!("key {key} was worked on by a command and is not there"));
            continue;
        };
        let leases = log.events.iter().filter(|event| match &event.body {
            Some(Body::TaskLeased(body)) => log.task_name(body.wave, body.task) == task,
            _ => false,
        });
        let leases = leases.count() as u64;
        if began > leases {
            let text = format!("key {key}, task {task}: {began} commands under {leases} leases");
            verdict.is_unexplained(Some(Kind::Plans), text);
        }
    }
}
