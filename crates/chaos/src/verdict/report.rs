//! The verdict as text.

use std::fmt;

use super::{Demands, Verdict};
use crate::totals::KILLS;
use crate::workloads::Kind;

/// Lines that are printed of each kind of finding.
const SHOWN: usize = 12;
/// Of so many runs some are forked, and some executions have children and ask for approval.
const MANY: u64 = 100;

impl Verdict {
    /// What speaks against the daemon, by its kind.
    pub(crate) fn findings(&self) -> [(&'static str, &[String]); 6] {
        [
            ("lost", &self.lost),
            ("doubled", &self.doubled),
            ("gaps", &self.gaps),
            ("repeats", &self.repeats),
            ("unexplained", &self.unexplained),
            ("wrong", &self.wrong),
        ]
    }

    /// How often each fault came.
    pub(crate) fn faults(&self) -> [(&'static str, u64); 13] {
        [
            (KILLS, self.kills),
            ("daemon killed in flight", self.kills_in_flight),
            ("daemon killed with shims", self.kills_with_shims),
            ("shim killed", self.killed_shims),
            ("browser killed", self.killed_browsers),
            ("worker killed", self.killed_workers),
            ("worker silenced", self.silenced_workers),
            ("client killed", self.killed_clients),
            ("subscriber killed", self.killed_subscribers),
            ("connections cut", self.cut_connections),
            ("daemon stopped", self.stops),
            ("clock set", self.clock_steps),
            ("disk failed", self.disk_failures),
        ]
    }

    /// Everything that speaks against the daemon, or against the test itself.
    pub(crate) fn problems(&self, demands: &Demands) -> Vec<String> {
        let mut problems = Vec::new();
        for (kind, found) in self.findings() {
            problems.extend(found.iter().take(SHOWN).map(|text| format!("{kind}: {text}")));
            if found.len() > SHOWN {
                problems.push(format!("{kind}: and {} more", found.len() - SHOWN));
            }
        }
        let mut demand = |what: &str, found: u64, least: u64| {
            if found < least {
                problems.push(format!("not enough happened: {found} {what}, at least {least} are needed"));
            }
        };
        demand("acknowledged runs", self.acknowledged, demands.runs);
        for kind in &demands.kinds {
            let tally = self.kinds.get(kind).copied().unwrap_or_default();
            demand(&format!("{kind} that have succeeded"), tally.succeeded, 1);
            demand(&format!("executions of {kind}"), tally.executions, 1);
        }
        if demands.kinds.contains(&Kind::Asks) {
            demand("asks in sessions", self.turns, 1);
        }
        let are_many = demands.runs >= MANY;
        let have_tools = u64::from(are_many && demands.kinds.contains(&Kind::Modes));
        demand("children of modes", self.children_of_modes(), have_tools);
        demand("calls approved", self.approved, have_tools);
        let are_forked = [Kind::Plans, Kind::Pipelines].iter().any(|kind| demands.kinds.contains(kind));
        demand("forked runs", self.forked, u64::from(are_forked && are_many));
        demand("kills of the daemon", self.kills, demands.kills);
        demand("kills with a start or command unanswered", self.kills_in_flight, demands.kills_in_flight);
        // The forgetful worker serves plans.
        demand("stale results refused", self.stale_refused, u64::from(demands.kinds.contains(&Kind::Plans)));
        demand("killed workers", self.killed_workers, 1);
        demand("runs removed by retention", self.removed, demands.removed);
        demand("cut streams", self.cut_connections + self.dropped_streams, 1);
        problems
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, figure: u64, note: String| writeln!(f, "  {name:<24}{figure:>8}  {note}");
        row(
            "daemon killed",
            self.kills,
            format!("{} of them with a start or command unanswered", self.kills_in_flight),
        )?;
        row(
            "workers killed",
            self.killed_workers,
            format!(
                "and {} silenced; {} clients and {} subscribers killed",
                self.silenced_workers, self.killed_clients, self.killed_subscribers
            ),
        )?;
        row(
            "shims killed",
            self.killed_shims,
            format!(
                "alone, {} kills of the daemon with its shims; {} browsers killed",
                self.kills_with_shims, self.killed_browsers
            ),
        )?;
        row(
            "clock set",
            self.clock_steps,
            format!(
                "times, {} stops of the daemon; the disk failed {} times, in {} operations",
                self.stops, self.disk_failures, self.failed_operations
            ),
        )?;
        row("peak memory", self.peak_memory_kib / 1024, "MiB of one daemon".to_owned())?;
        row(
            "connections cut",
            self.cut_connections,
            format!("and {} streams dropped", self.dropped_streams),
        )?;
        row(
            "acknowledged",
            self.acknowledged,
            format!(
                "runs; {} calls broke, {} runs found again by their key",
                self.broken_calls, self.found_again
            ),
        )?;
        row("  commands", self.commands, format!("and {} refused: the run was over", self.refused_commands))?;
        row("  ends and results", self.told_ends + self.accepted_results, String::new())?;
        row(
            "finished",
            self.acknowledged_finished,
            format!("of {} runs in the log; {} were removed by retention", self.runs, self.removed),
        )?;
        for (kind, tally) in &self.kinds {
            row(
                &format!("  {kind}"),
                tally.finished,
                format!(
                    "of {} accepted, {} succeeded; {} questions; {} children; {} executions, {} unexplained",
                    tally.accepted,
                    tally.succeeded,
                    tally.questions,
                    tally.children,
                    tally.executions,
                    tally.unexplained
                ),
            )?;
        }
        if self.kinds.contains_key(&Kind::Scripts) {
            let note = "actions that the site saw, and whose outcome somebody was asked for";
            row("unknown outcomes", self.unknown_acts, note.to_owned())?;
        }
        if self.kinds.contains_key(&Kind::Modes) {
            let note = format!(
                "of a tool that needs it, {} approved with their plans, {} not approved",
                self.approved_with_plan, self.not_approved
            );
            row("calls approved", self.approved, note)?;
            let note = "to a checkpoint of an execution".to_owned();
            row("gone back", self.gone_back, note)?;
        }
        row(
            "sessions",
            self.sessions,
            format!(
                "with {} asks, {} automatic transitions and {} accepted ones",
                self.turns, self.transitions, self.accepted_transitions
            ),
        )?;
        row(
            "taken back",
            self.taken_back,
            format!(
                "and {} runs that went on where others had ended, {} from the middle of others",
                self.continued, self.forked
            ),
        )?;
        row("children", self.children, "whose ends their parents have heard, each once".to_owned())?;
        row("lost", self.lost.len() as u64, String::new())?;
        row("doubled", self.doubled.len() as u64, String::new())?;
        row(
            "gaps",
            self.gaps.len() as u64,
            format!(
                "in {} logs, {} sessions and {} subscriptions",
                self.runs, self.sessions, self.subscriptions
            ),
        )?;
        row("repeats", self.repeats.len() as u64, format!("in {} delivered events", self.delivered))?;
        row(
            "stale results refused",
            self.stale_refused,
            format!("in the log; {} refusals told to workers", self.told_refusals),
        )?;
        row(
            "repeated executions",
            self.repetitions.len() as u64,
            format!(
                "of {} and {} commands; {} unexplained",
                self.executions,
                self.commands_run,
                self.unexplained.len()
            ),
        )?;
        let reasons: Vec<String> =
            self.lost_leases.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        row(
            "lost leases",
            self.lost_leases.values().sum(),
            format!("of {}: {}; {} questions asked", self.leases, reasons.join(", "), self.questions),
        )?;
        for repetition in self.repetitions.iter().take(SHOWN) {
            writeln!(
                f,
                "    run {} task {} attempt {}: lease {} lost ({}), done again under lease {}",
                repetition.run,
                repetition.task,
                repetition.attempt,
                repetition.lost_lease,
                repetition.loss,
                repetition.lease,
            )?;
        }
        if self.repetitions.len() > SHOWN {
            let rest = self.repetitions.len() - SHOWN;
            writeln!(f, "    and {rest} more, each with its lost lease")?;
        }
        Ok(())
    }
}
