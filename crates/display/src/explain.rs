//! The cascade of a run as a list: which contract decided what, and on which numbers (seed 000).
//!
//! A pure fold of the run's events. It judges nothing again: what it tells is what was decided, and the rule of a severity or
//! of a retry is found as the decision has found it.

use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::v1::{self, event::Body};
use capataz_policy::retry::{self, Listing, RetryPolicy};
use capataz_policy::severity::{self, Rule, Severity};
use serde_json::{Map, Value, json};

use crate::classified::rule_in_words;
use crate::error::one_line;
use crate::format;
use crate::frame::visible;
use crate::paint::{Paint, Tone};
use crate::run::{outcome_name, state_name};
use crate::wave::policy_name;
use crate::words::messages::message;
use crate::words::{counted, fill, words};

/// The contracts of the seed, in the order of its cascade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contract {
    Session,
    Registry,
    Lifecycle,
    Timeout,
    Retry,
    Severity,
    Aggregation,
}

/// What is said of a run that goes on from the middle of another one.
const FORKED: &str = "forked";

impl Contract {
    /// The name for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Registry => "registry",
            Self::Lifecycle => "lifecycle",
            Self::Timeout => "timeout",
            Self::Retry => "retry",
            Self::Severity => "severity",
            Self::Aggregation => "aggregation",
        }
    }

    fn in_words(self) -> &'static str {
        let texts = &words().cascade;
        match self {
            Self::Session => texts.session,
            Self::Registry => texts.registry,
            Self::Lifecycle => texts.lifecycle,
            Self::Timeout => texts.timeout,
            Self::Retry => texts.retry,
            Self::Severity => texts.severity,
            Self::Aggregation => texts.aggregation,
        }
    }
}

/// One decision of one contract.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub contract: Contract,
    /// The event that has it.
    pub seq: u64,
    pub at_ms: i64,
    /// The task or the wave that it is about; empty for the run.
    pub subject: String,
    /// What was decided, for programs.
    pub verdict: &'static str,
    /// The numbers and names by which it was decided.
    pub numbers: Map<String, Value>,
    /// The decision in words.
    pub text: String,
}

impl Decision {
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "seq": self.seq,
            "at_ms": self.at_ms,
            "contract": self.contract.name(),
            "subject": self.subject,
            "decision": self.verdict,
            "numbers": self.numbers,
            "text": self.text,
        })
    }
}

/// The decisions of a run, in the order of its events; those of one event in the order of the cascade.
#[must_use]
pub fn explain(events: &[v1::Event]) -> Vec<Decision> {
    let mut fold = Fold::default();
    events.iter().for_each(|event| fold.apply(event));
    fold.decisions
}

/// The decisions as lines: `+  1.204s  retry        lint  again in 2s: …`.
#[must_use]
pub fn text(decisions: &[Decision], paint: Paint) -> String {
    let Some(first) = decisions.first() else { return words().cascade.nothing.to_owned() };
    let width =
        decisions.iter().map(|decision| decision.contract.in_words().chars().count()).max().unwrap_or(0);
    let mut from_ms = first.at_ms;
    let lines = decisions.iter().map(|decision| {
        // What follows is this run's own, from here on.
        if decision.verdict == FORKED {
            from_ms = decision.at_ms;
        }
        let name = format!("{:<width$}", decision.contract.in_words());
        let subject = match decision.subject.as_str() {
            "" => String::new(),
            subject => format!("{}: ", visible(subject)),
        };
        let at = paint.text(Tone::Faint, &format::offset(decision.at_ms.saturating_sub(from_ms)));
        format!("{at}  {}  {subject}{}", paint.text(Tone::Strong, &name), visible(&decision.text))
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[derive(Default)]
struct Fold {
    decisions: Vec<Decision>,
    plan: v1::Plan,
    /// The tasks that were leased, by wave and task.
    begun: BTreeSet<(u32, u32)>,
    /// The tasks that open questions are about.
    asked: BTreeMap<String, (u32, u32)>,
    /// The session has given the run its turn, which is over with the run.
    has_turn: bool,
    at: (u64, i64),
}

impl Fold {
    fn tell(
        &mut self,
        contract: Contract,
        subject: String,
        verdict: &'static str,
        numbers: Value,
        text: String,
    ) {
        let numbers = match numbers {
            Value::Object(numbers) => numbers,
            _ => Map::new(),
        };
        let (seq, at_ms) = self.at;
        self.decisions.push(Decision { contract, seq, at_ms, subject, verdict, numbers, text });
    }

    fn task(&self, wave: u32, task: u32) -> String {
        let named = self.plan.waves.get(wave as usize).and_then(|wave| wave.tasks.get(task as usize));
        named.map_or_else(|| format!("waves[{wave}].tasks[{task}]"), |task| task.name.clone())
    }

    fn wave(&self, wave: u32) -> String {
        let named = self.plan.waves.get(wave as usize).and_then(|wave| wave.name.clone());
        named.unwrap_or_else(|| format!("wave-{}", wave + 1))
    }

    fn policy(&self, wave: u32, task: u32) -> RetryPolicy {
        let of_task = self.plan.waves.get(wave as usize).and_then(|wave| wave.tasks.get(task as usize));
        let written = of_task.and_then(|task| task.retry.clone()).or_else(|| self.plan.retry.clone());
        written.and_then(RetryPolicy::recorded).unwrap_or_default()
    }

    fn apply(&mut self, event: &v1::Event) {
        let texts = &words().cascade;
        self.at = (event.seq, event.at_ms);
        let Some(body) = &event.body else { return };
        match body {
            Body::RunAccepted(accepted) => {
                self.plan = accepted.plan().cloned().unwrap_or_default();
                if let Some(session) = self.plan.session.clone() {
                    let text = fill(texts.in_line, &[&session]);
                    let numbers = json!({ "session": session });
                    self.tell(Contract::Session, String::new(), "in_line", numbers, text);
                }
                self.accepted();
            }
            Body::AskRouted(routed) => self.plan.waves.extend(routed.wave.clone()),
            Body::BrowserActivityStarted(started) => self.plan.waves.extend(started.wave.clone()),
            Body::PlanBegun(_) | Body::AskBegun(_) => {
                self.has_turn = true;
                let text = texts.turn.to_owned();
                self.tell(Contract::Session, String::new(), "turn", Value::Null, text);
            }
            Body::RunForked(forked) => {
                let numbers = json!({ "from": forked.run_id, "seq": forked.seq });
                let text = fill(texts.forked, &[&forked.run_id, &forked.seq.to_string()]);
                self.tell(Contract::Lifecycle, String::new(), FORKED, numbers, text);
            }
            Body::TaskLeased(leased) => self.leased(leased),
            Body::TaskLeaseLost(lost) => {
                let subject = self.task(lost.wave, lost.task);
                let text = match lost.reason() {
                    v1::LeaseLossReason::Forked => texts.begun_anew.to_owned(),
                    _ => fill(texts.lease_lost, &[&lost.losses.to_string()]),
                };
                self.tell(Contract::Lifecycle, subject, "lease_lost", json!({ "losses": lost.losses }), text);
            }
            Body::TaskAttemptFailed(failed) => self.attempt_failed(failed),
            Body::TaskCancelRequested(cancel) if cancel.reason() == v1::CancelReason::Timeout => {
                let subject = self.task(cancel.wave, cancel.task);
                let text = fill(texts.exceeded, &[&format::exactly(cancel.grace_ms)]);
                let numbers = json!({ "grace_ms": cancel.grace_ms });
                self.tell(Contract::Timeout, subject, "cancelled", numbers, text);
            }
            Body::TaskExtended(extended) => {
                let subject = self.task(extended.wave, extended.task);
                let by = format::exactly(extended.by_ms);
                let text = match extended.cancel_withdrawn {
                    true => fill(texts.extended_in_grace, &[&by]),
                    false => fill(texts.extended, &[&by]),
                };
                let numbers = json!({ "by_ms": extended.by_ms, "left_ms": extended.deadline_in_ms });
                self.tell(Contract::Timeout, subject, "extended", numbers, text);
            }
            Body::Notice(notice) => self.noticed(notice),
            Body::TaskSettled(settled) => self.settled(settled),
            Body::TaskReactivated(again) => {
                let subject = self.task(again.wave, again.task);
                let text = fill(texts.reactivated, &[&again.activation.to_string()]);
                let numbers = json!({ "activation": again.activation });
                self.tell(Contract::Lifecycle, subject, "reactivated", numbers, text);
            }
            Body::TaskRolledBack(back) => {
                for taken in &back.taken_back {
                    self.begun.remove(&(taken.wave, taken.task));
                    let subject = self.task(taken.wave, taken.task);
                    let states: Vec<&str> = taken.states().map(state_name).collect();
                    let text =
                        fill(texts.rolled_back, &[&states.join(" -> "), &taken.activation.to_string()]);
                    let numbers = json!({ "activation": taken.activation, "cascade": back.cascade });
                    self.tell(Contract::Lifecycle, subject, "rolled_back", numbers, text);
                }
            }
            Body::WaveDecided(decided) => {
                self.judged(decided.wave, decided.evaluation.as_ref(), true);
            }
            Body::WaveFinished(finished) => {
                self.judged(finished.wave, finished.evaluation.as_ref(), false);
            }
            Body::QuestionAsked(asked) => {
                let question = asked.question.clone().unwrap_or_default();
                if let Some(place) = asked.wave.zip(asked.task) {
                    self.asked.insert(question.question_id.clone(), place);
                }
                let contract = match question.purpose() {
                    v1::QuestionPurpose::Timeout => Contract::Timeout,
                    v1::QuestionPurpose::Failure => Contract::Severity,
                    _ => Contract::Lifecycle,
                };
                let text = fill(texts.asked, &[&question.question_id, &question.options.join(", ")]);
                let numbers = json!({ "question_id": question.question_id, "options": question.options });
                self.tell(contract, question.task.unwrap_or_default(), "asked", numbers, text);
            }
            Body::QuestionAnswered(answered) => {
                let text = fill(texts.answered, &[&answered.question_id, &answered.answer]);
                let numbers = json!({ "question_id": answered.question_id, "answer": answered.answer });
                self.tell(Contract::Lifecycle, String::new(), "answered", numbers, text);
                if let Some((wave, task)) = self.asked.remove(&answered.question_id)
                    && answered.gives_up
                {
                    let subject = self.task(wave, task);
                    self.tell(Contract::Lifecycle, subject, "given_up", json!({}), texts.given_up.to_owned());
                }
            }
            Body::RunFinished(finished) => {
                self.finished(finished);
                // What the session has of it is an event of the session, in a log of its own.
                if self.has_turn {
                    let text = texts.turn_over.to_owned();
                    self.tell(Contract::Session, String::new(), "turn_over", Value::Null, text);
                }
            }
            _ => {}
        }
    }

    fn accepted(&mut self) {
        let mut agents: Vec<&str> =
            self.plan.waves.iter().flat_map(|wave| &wave.tasks).map(|task| task.agent.as_str()).collect();
        agents.sort_unstable();
        agents.dedup();
        if agents.is_empty() {
            return;
        }
        let (count, names) = (self.plan.commands.len(), self.plan.resources.len());
        let numbers = json!({ "agents": agents.len(), "commands": count, "resources": names });
        let texts = &words().cascade;
        let text = counted(agents.len() as u64, texts.known_one, texts.known_many);
        self.tell(Contract::Registry, String::new(), "accepted", numbers, text);
    }

    fn leased(&mut self, leased: &v1::TaskLeased) {
        let texts = &words().cascade;
        let subject = self.task(leased.wave, leased.task);
        let numbers = json!({ "attempt": leased.attempt, "worker": leased.worker });
        let is_first = self.begun.insert((leased.wave, leased.task));
        let (verdict, text) = match is_first {
            true => ("active", fill(texts.active, &[&leased.worker])),
            false => ("leased_again", fill(texts.again, &[&leased.attempt.to_string(), &leased.worker])),
        };
        self.tell(Contract::Lifecycle, subject.clone(), verdict, numbers, text);
        let Some(deadline) = leased.deadline_in_ms else { return };
        let text = fill(texts.deadline, &[&format::exactly(deadline)]);
        let numbers = json!({ "timeout_ms": deadline, "warn_before_ms": leased.warn_before_ms });
        self.tell(Contract::Timeout, subject, "armed", numbers, text);
    }

    fn attempt_failed(&mut self, failed: &v1::TaskAttemptFailed) {
        let texts = &words().cascade;
        let subject = self.task(failed.wave, failed.task);
        let error = failed.error.clone().unwrap_or_default();
        let policy = self.policy(failed.wave, failed.task);
        let entry = match policy.listing(&error.code) {
            Listing::Retryable(entry) => entry.to_owned(),
            _ => error.code.clone(),
        };
        let most = policy.max_attempts();
        let text = fill(
            texts.retried,
            &[
                &failed.attempt.to_string(),
                &most.to_string(),
                &one_line(&error),
                &entry,
                &format::exactly(failed.delay_ms),
            ],
        );
        let numbers = json!({
            "attempt": failed.attempt,
            "max_attempts": most,
            "code": error.code,
            "entry": entry,
            "delay_ms": failed.delay_ms,
        });
        self.tell(Contract::Retry, subject.clone(), "again", numbers, text);
        self.classified(subject, &error);
    }

    fn classified(&mut self, subject: String, error: &v1::Error) {
        let original = retry::original(error);
        let Some(decided) = Severity::from_proto(error.severity) else { return };
        let (by_rule, rule) = severity::decided(None, &original.code, &original.message);
        // What no rule would have decided like this was declared.
        let rule = if by_rule == decided { rule } else { Rule::Declared };
        let numbers = match rule {
            Rule::Declared => json!({ "severity": decided.as_str(), "rule": "declared" }),
            Rule::Code => json!({ "severity": decided.as_str(), "rule": "code", "code": original.code }),
            Rule::Pattern { number, .. } => {
                json!({ "severity": decided.as_str(), "rule": "pattern", "number": number })
            }
            Rule::Unknown => json!({ "severity": decided.as_str(), "rule": "unknown" }),
        };
        let text = fill(words().classified.rule, &[decided.as_str(), &rule_in_words(rule)]);
        self.tell(Contract::Severity, subject, "classified", numbers, text);
    }

    fn noticed(&mut self, told: &v1::Notice) {
        let Some(error) = &told.notice else { return };
        let contract = match error.code.as_str() {
            "TIMEOUT_IMMINENT" => Contract::Timeout,
            "RETRY_SUCCESS" => Contract::Retry,
            "UNCLASSIFIED" => Contract::Severity,
            "OPTIONAL_AGENT_FAILED" | "CRITICAL_AGENT_FAILED" | "QUORUM_NOT_MET" | "PARTIAL_SUCCESS" => {
                Contract::Aggregation
            }
            _ => Contract::Lifecycle,
        };
        let subject = told.wave.zip(told.task).map(|(wave, task)| self.task(wave, task)).unwrap_or_default();
        self.tell(contract, subject, "noticed", json!({ "code": error.code }), one_line(error));
    }

    fn settled(&mut self, settled: &v1::TaskSettled) {
        let texts = &words().cascade;
        let subject = self.task(settled.wave, settled.task);
        if let Some(error) = &settled.error {
            match error.code.as_str() {
                "TASK_TIMEOUT" => {
                    let detail = error.timeout.clone().unwrap_or_default();
                    let (configured, elapsed) = (detail.configured_timeout_ms, detail.elapsed_ms);
                    let text = fill(texts.timed_out, &[&format::clock(elapsed), &format::clock(configured)]);
                    let numbers = json!({ "configured_timeout_ms": configured, "elapsed_ms": elapsed });
                    self.tell(Contract::Timeout, subject.clone(), "ended", numbers, text);
                }
                "RETRY_EXHAUSTED" | "NON_RETRYABLE_ERROR" | "TOTAL_TIMEOUT_EXCEEDED" => {
                    let reason = error.reason.as_deref().unwrap_or(&error.message);
                    let attempts = settled.attempts.to_string();
                    let text = fill(texts.not_retried, &[&attempts, &error.code, &message(reason)]);
                    let numbers = json!({ "attempts": settled.attempts, "code": error.code });
                    self.tell(Contract::Retry, subject.clone(), "given_up", numbers, text);
                }
                _ => {}
            }
            self.classified(subject.clone(), error);
        }
        let state = state_name(settled.state());
        let numbers = json!({
            "state": state,
            "attempts": settled.attempts,
            "duration_ms": settled.duration_ms,
        });
        let took = format::took(settled.duration_ms);
        let (verdict, text) = match settled.taken_over {
            true => ("taken_over", fill(texts.taken_over, &[self.plan.continues()])),
            false => ("settled", fill(texts.settled, &[state, &settled.attempts.to_string(), &took])),
        };
        self.tell(Contract::Lifecycle, subject, verdict, numbers, text);
        if let Some(evaluation) = &settled.evaluation {
            let wave = self.wave(settled.wave);
            self.evaluated(wave, evaluation, "so_far", texts.so_far);
        }
    }

    fn judged(&mut self, wave: u32, evaluation: Option<&v1::Evaluation>, early: bool) {
        let Some(evaluation) = evaluation else { return };
        let texts = &words().cascade;
        let (verdict, text) = match (early, evaluation.should_continue) {
            (true, _) => ("decided_early", texts.decided_early),
            (false, true) => ("continues", texts.continues),
            (false, false) => ("stops", texts.stops),
        };
        let wave = self.wave(wave);
        self.evaluated(wave, evaluation, verdict, text);
    }

    fn evaluated(&mut self, wave: String, evaluation: &v1::Evaluation, verdict: &'static str, text: &str) {
        let share = format::share(u64::from(evaluation.successes), u64::from(evaluation.total));
        let reason = message(&evaluation.reason).into_owned();
        let policy = policy_name(evaluation.policy());
        let numbers = json!({
            "policy": policy,
            "successes": evaluation.successes,
            "total": evaluation.total,
            "threshold": evaluation.threshold,
            "should_continue": evaluation.should_continue,
        });
        let text = fill(text, &[policy, &share, &reason]);
        self.tell(Contract::Aggregation, wave, verdict, numbers, text);
    }

    fn finished(&mut self, finished: &v1::RunFinished) {
        let texts = &words().cascade;
        if let Some(summary) = &finished.summary {
            let count = |number: u32| number.to_string();
            let numbers = json!({
                "total": summary.total,
                "critical": summary.critical,
                "high": summary.high,
                "medium": summary.medium,
                "low": summary.low,
            });
            let text = fill(
                texts.summary,
                &[
                    &count(summary.total),
                    &count(summary.critical),
                    &count(summary.high),
                    &count(summary.medium),
                    &count(summary.low),
                ],
            );
            self.tell(Contract::Aggregation, String::new(), "summary", numbers, text);
        }
        let outcome = outcome_name(finished.outcome());
        let numbers =
            json!({ "outcome": outcome_id(finished.outcome()), "not_started": finished.not_started });
        let text = match &finished.error {
            Some(error) => fill(texts.ended_with, &[outcome, &one_line(error)]),
            None => fill(texts.ended, &[outcome]),
        };
        self.tell(Contract::Lifecycle, String::new(), "finished", numbers, text);
    }
}

/// The outcome as the contract spells it.
fn outcome_id(outcome: v1::RunOutcome) -> String {
    outcome.as_str_name().trim_start_matches("RUN_OUTCOME_").to_ascii_lowercase()
}

#[cfg(test)]
mod tests;
