//! What each event adds to a story.

use capataz_contracts::v1;
use capataz_contracts::v1::event::Body;
use capataz_display::payload;

use super::super::kind::Kind;
use super::parts::Answered;
use super::{
    Asked, Browsed, By, End, Finished, Happened, MOST_MOMENTS, MOST_STEPS, Moment, Part, Settled, Story, Try,
    Wave, What,
};
use crate::watch::lines::is_withdrawn;

impl Story {
    /// Applies the next event of the run.
    pub fn apply(&mut self, event: &v1::Event) {
        let at_ms = event.at_ms;
        self.model.apply(event);
        let Some(body) = &event.body else { return };
        if let Body::RunAccepted(accepted) = body {
            self.accepted(at_ms, accepted);
        }
        for wave in self.model.waves.iter().skip(self.waves.len()) {
            self.waves.push(Wave::of(wave));
        }
        self.of_tasks(at_ms, body);
        self.of_waves(at_ms, body);
        self.of_people(at_ms, body);
        self.of_run(at_ms, body);
        self.of_execution(at_ms, body);
    }

    fn accepted(&mut self, at_ms: i64, accepted: &v1::RunAccepted) {
        self.began_at_ms = at_ms;
        self.labels.clone_from(&accepted.labels);
        self.parent.clone_from(&accepted.parent);
        self.kind = Kind::of(&self.model);
        let asked = accepted.ask().map(|ask| ask.text.as_str()).or(accepted.query());
        asked.unwrap_or_default().clone_into(&mut self.asked);
    }

    fn of_tasks(&mut self, at_ms: i64, body: &Body) {
        match body {
            Body::TaskLeased(leased) => {
                let by = By::Worker(leased.worker.clone());
                self.tried(at_ms, (leased.wave, leased.task), (leased.activation, leased.attempt), by);
            }
            Body::ChildNamed(named) => {
                let by = By::Run(named.run_id.clone());
                self.tried(at_ms, (named.wave, named.task), (0, named.attempt), by);
            }
            Body::TaskLeaseLost(lost) => {
                if let Some(task) = self.task(lost.wave, lost.task) {
                    task.end(at_ms, |tried| tried.end = End::Lost(lost.reason()));
                    task.begin(at_ms, What::Queued);
                }
            }
            Body::OutputRejected(rejected) => {
                let current = self.task(rejected.wave, rejected.task).and_then(super::Task::current);
                if let Some(current) = current {
                    current.violations.clone_from(&rejected.violations);
                }
            }
            Body::TaskAttemptFailed(failed) => self.attempt_failed(at_ms, failed),
            Body::TaskRetryDue(due) => {
                if let Some(task) = self.task(due.wave, due.task) {
                    task.begin(at_ms, What::Queued);
                }
            }
            Body::TaskSettled(settled) => self.settled(at_ms, settled),
            Body::TaskReactivated(again) => {
                self.drop_output((again.wave, again.task));
                if let Some(task) = self.task(again.wave, again.task) {
                    task.settled = None;
                    task.begin(at_ms, What::Queued);
                    task.remember(at_ms, Happened::RetriedByHand);
                }
            }
            Body::TaskRolledBack(back) => self.rolled_back(at_ms, back),
            Body::TaskCancelRequested(cancel) => {
                self.remember_of(at_ms, cancel.wave, cancel.task, Happened::StopAsked(cancel.reason()));
            }
            Body::ChildCancelRequested(cancel) => {
                self.remember_of(at_ms, cancel.wave, cancel.task, Happened::StopAsked(cancel.reason()));
            }
            Body::TaskExtended(extended) => {
                let by_ms = extended.by_ms;
                self.remember_of(at_ms, extended.wave, extended.task, Happened::Extended { by_ms });
            }
            Body::ResultRefused(late) => {
                let worker = late.worker.clone();
                let what = match &late.error {
                    Some(error) => Happened::CompletionRefused { worker, why: error.message.clone() },
                    None => Happened::LateResult { worker },
                };
                self.remember_of(at_ms, late.wave, late.task, what);
            }
            Body::PartialOutputKept(kept) => {
                self.remember_of(at_ms, kept.wave, kept.task, Happened::PartialKept);
            }
            Body::Notice(notice) => {
                let place = notice.wave.zip(notice.task);
                if let Some((wave, task)) = place
                    && notice.kind() == v1::NoticeKind::TimeoutImminent
                {
                    self.remember_of(at_ms, wave, task, Happened::TimeoutImminent);
                }
            }
            _ => {}
        }
    }

    fn tried(&mut self, at_ms: i64, place: (u32, u32), number: (u32, u32), by: By) {
        let Some(task) = self.task(place.0, place.1) else { return };
        let tried = Try {
            activation: number.0,
            attempt: number.1,
            by,
            end: End::Open,
            error: None,
            log: String::new(),
            violations: Vec::new(),
        };
        task.begin(at_ms, What::Tried(Box::new(tried)));
    }

    fn attempt_failed(&mut self, at_ms: i64, failed: &v1::TaskAttemptFailed) {
        self.spent.extend(&failed.usage);
        let log = self.room_for_log(&failed.log);
        let Some(task) = self.task(failed.wave, failed.task) else { return };
        task.spent.extend(&failed.usage);
        let is_timeout = failed.error.as_ref().is_some_and(is_timeout);
        task.end(at_ms, |tried| {
            tried.end = if is_timeout { End::TimedOut } else { End::Failed };
            tried.error = failed.error.as_ref().map(without_output);
            tried.log = log;
        });
        task.begin(at_ms, What::BackOff);
    }

    fn settled(&mut self, at_ms: i64, settled: &v1::TaskSettled) {
        self.spent.extend(&settled.usage);
        let is_good = settled.status() == v1::ResultStatus::Success;
        let log = if is_good { String::new() } else { self.room_for_log(&settled.log) };
        let output = settled.output.as_ref().filter(|output| payload::size(output) > 0);
        let kept = output.filter(|output| self.has_room_for((settled.wave, settled.task), output)).cloned();
        let output_bytes = output.map_or(0, payload::size);
        let Some(task) = self.task(settled.wave, settled.task) else { return };
        task.spent.extend(&settled.usage);
        let error = settled.error.as_ref().map(without_output);
        task.end(at_ms, |tried| {
            tried.end = match settled.status() {
                v1::ResultStatus::Success => End::Succeeded,
                v1::ResultStatus::Timeout => End::TimedOut,
                v1::ResultStatus::Cancelled => End::Cancelled,
                v1::ResultStatus::Error | v1::ResultStatus::Unspecified => End::Failed,
            };
            tried.error.clone_from(&error);
        });
        task.settled = Some(Settled {
            at_ms,
            status: settled.status(),
            attempts: settled.attempts,
            duration_ms: settled.duration_ms,
            error,
            severity: settled.severity(),
            log,
            output: kept,
            output_bytes,
            taken_over: settled.taken_over,
        });
    }

    fn rolled_back(&mut self, at_ms: i64, back: &v1::TaskRolledBack) {
        for taken in &back.taken_back {
            let is_named = (taken.wave, taken.task) == (back.wave, back.task);
            self.drop_output((taken.wave, taken.task));
            let Some(task) = self.task(taken.wave, taken.task) else { continue };
            task.end(at_ms, |tried| tried.end = End::TakenBack);
            task.settled = None;
            task.remember(at_ms, Happened::TakenBack);
            if is_named {
                task.begin(at_ms, What::Queued);
            }
        }
        // What waited in later waves waits no more: they begin again when their turn comes.
        for wave in self.waves.iter_mut().skip(back.wave as usize + 1) {
            wave.evaluation = None;
            wave.tasks.iter_mut().for_each(|task| task.end(at_ms, |_| {}));
        }
    }

    fn of_waves(&mut self, at_ms: i64, body: &Body) {
        match body {
            Body::WaveStarted(started) => self.wave_began(at_ms, started.wave, Part::Wave),
            Body::BrowserActivityStarted(started) => self.wave_began(at_ms, started.number, Part::Wave),
            Body::AskRouted(routed) => {
                let call = v1::AskRouted { wave: None, ..routed.clone() };
                self.wave_began(at_ms, routed.call, Part::Call(Box::new(call)));
            }
            Body::PhaseStarted(started) => {
                let place = started.phase;
                let is_same = |wave: &Wave| matches!(wave.part, Part::Phase { place: of, .. } if of == place);
                let again = self.waves.iter().any(is_same);
                self.wave_began(at_ms, started.wave, Part::Phase { place, again });
            }
            Body::PlannerAsked(asked) => {
                let question = v1::PlannerAsked { tasks: None, ..asked.clone() };
                self.wave_began(at_ms, asked.wave, Part::Planner(Box::new(question)));
            }
            Body::ToolCalled(called) => {
                self.wave_began(at_ms, called.wave, Part::Tool { step: called.step_index });
            }
            Body::WaveDecided(v1::WaveDecided { wave, evaluation })
            | Body::WaveFinished(v1::WaveFinished { wave, evaluation }) => {
                if let Some(wave) = self.waves.get_mut(*wave as usize) {
                    wave.evaluation.clone_from(evaluation);
                }
            }
            _ => {}
        }
    }

    fn wave_began(&mut self, at_ms: i64, wave: u32, part: Part) {
        let Some(wave) = self.waves.get_mut(wave as usize) else { return };
        wave.part = part;
        wave.began_at_ms.get_or_insert(at_ms);
        for task in wave.tasks.iter_mut().filter(|task| task.settled.is_none() && !task.is_open()) {
            task.begin(at_ms, What::Queued);
        }
    }

    fn of_people(&mut self, at_ms: i64, body: &Body) {
        match body {
            Body::QuestionAsked(asked) => {
                let Some(question) = asked.question.clone() else { return };
                if self.questions.len() == MOST_MOMENTS {
                    return;
                }
                let place = asked.wave.zip(asked.task).map(|(wave, task)| (wave as usize, task as usize));
                self.questions.push(Asked { question, asked_at_ms: at_ms, place, answered: None });
            }
            Body::QuestionRevised(revised) => {
                let Some(now) = &revised.question else { return };
                if let Some(asked) = self.open_question(&now.question_id) {
                    asked.question.clone_from(now);
                }
            }
            Body::QuestionAnswered(answered) => {
                if let Some(asked) = self.open_question(&answered.question_id) {
                    asked.answered = Some(Answered {
                        at_ms,
                        answer: answered.answer.clone(),
                        is_withdrawn: is_withdrawn(answered),
                        value: answered.value.clone(),
                    });
                }
            }
            Body::RunPaused(_) if self.pauses.len() < MOST_MOMENTS => self.pauses.push((at_ms, None)),
            Body::RunResumed(_) | Body::RunFinished(_) => {
                if let Some((_, until @ None)) = self.pauses.last_mut() {
                    *until = Some(at_ms);
                }
            }
            _ => {}
        }
    }

    fn open_question(&mut self, id: &str) -> Option<&mut Asked> {
        let mut asked = self.questions.iter_mut();
        asked.find(|asked| asked.question.question_id == id && asked.answered.is_none())
    }

    fn of_run(&mut self, at_ms: i64, body: &Body) {
        match body {
            Body::RunForked(forked) => {
                self.labels.clone_from(&forked.labels);
                self.parent = None;
                let what = Happened::Forked { run_id: forked.run_id.clone(), seq: forked.seq };
                self.remember(at_ms, what);
            }
            Body::RunCancelRequested(cancel) if cancel.error.is_none() => {
                self.remember(at_ms, Happened::RunCancelled { reason: cancel.reason.clone() });
            }
            Body::PipelineRolledBack(back) => {
                let phase = self.model.phases.get(back.phase as usize);
                let phase = phase.map(|phase| phase.checkpoint.phase.clone()).unwrap_or_default();
                self.remember(at_ms, Happened::PhaseRolledBack { phase });
            }
            Body::TransitionConsidered(considered) if self.transitions.len() < MOST_MOMENTS => {
                self.transitions.extend(considered.transition.clone());
            }
            Body::RunFinished(finished) => {
                self.finished = Some(Finished {
                    at_ms,
                    outcome: finished.outcome(),
                    error: finished.error.as_ref().map(without_output),
                    not_started: finished.not_started,
                });
                // What waited to the end has waited in vain.
                let tasks = self.waves.iter_mut().flat_map(|wave| &mut wave.tasks);
                tasks.for_each(|task| task.end(at_ms, |_| {}));
            }
            _ => {}
        }
    }

    fn of_execution(&mut self, at_ms: i64, body: &Body) {
        let happened = match body {
            Body::ModeCheckpointed(made) => Some(Happened::Checkpoint { id: made.checkpoint_id.clone() }),
            Body::ModeRolledBack(back) => Some(Happened::WentBack { id: back.checkpoint_id.clone() }),
            Body::PlanEdited(edited) => {
                let revision = edited.plan.as_ref().map_or(0, |plan| plan.revision);
                Some(Happened::PlanChanged { revision })
            }
            Body::PlanApproved(approved) => Some(Happened::PlanApproved { revision: approved.revision }),
            Body::PlanRejected(rejected) => Some(Happened::PlanRejected { revision: rejected.revision }),
            _ => None,
        };
        if let Some(happened) = happened {
            self.remember(at_ms, happened);
        }
        let (evidence, target) = match body {
            Body::ActionFinished(finished) => (&finished.evidence, &finished.resolution),
            Body::ActionFailed(failed) => match &failed.error {
                Some(error) => (&error.evidence_refs, &failed.resolution),
                None => return,
            },
            _ => return self.step(at_ms, body),
        };
        // A script has a fold of its own actions.
        if self.model.script.is_none() && self.browsed.len() < MOST_MOMENTS {
            let wave = self.waves.len().saturating_sub(1);
            self.browsed.push((wave, Browsed { evidence: evidence.clone(), target: target.clone() }));
        }
    }

    fn step(&mut self, at_ms: i64, body: &Body) {
        let is_step = matches!(
            body,
            Body::ModeBegun(_)
                | Body::PlannerAnswered(_)
                | Body::PlanEdited(_)
                | Body::PlanApproved(_)
                | Body::PlanRejected(_)
                | Body::ToolsMissed(_)
                | Body::ToolApproved(_)
                | Body::ToolObserved(_)
                | Body::EscalationAnswered(_)
                | Body::ModeCheckpointed(_)
                | Body::ModeRolledBack(_)
                | Body::ModeCompleted(_)
        );
        if is_step && self.steps.len() < MOST_STEPS {
            self.steps.push((at_ms, body.clone()));
        }
    }

    fn remember(&mut self, at_ms: i64, what: Happened) {
        if self.moments.len() < MOST_MOMENTS {
            self.moments.push(Moment { at_ms, what });
        }
    }

    fn remember_of(&mut self, at_ms: i64, wave: u32, task: u32, what: Happened) {
        if let Some(task) = self.task(wave, task) {
            task.remember(at_ms, what);
        }
    }

    fn room_for_log(&mut self, log: &str) -> String {
        let Some(left) = self.room.logs.checked_sub(log.len()) else { return String::new() };
        self.room.logs = left;
        log.to_owned()
    }

    /// Outputs of earlier waves give way: what a run has come to stands in its last ones.
    fn has_room_for(&mut self, place: (u32, u32), output: &v1::Payload) -> bool {
        let inline = match &output.data {
            Some(v1::payload::Data::Inline(bytes)) => bytes.len(),
            Some(v1::payload::Data::Blob(_)) | None => 0,
        };
        while inline > self.room.outputs {
            let first = self.room.kept.keys().next().copied();
            let Some(earlier) = first.filter(|first| first.0 < place.0) else { return false };
            self.drop_output(earlier);
        }
        self.room.outputs -= inline;
        self.room.kept.insert(place, inline);
        true
    }

    /// Leaves of the task's output nothing but its size.
    fn drop_output(&mut self, place: (u32, u32)) {
        self.room.outputs += self.room.kept.remove(&place).unwrap_or(0);
        if let Some(settled) = self.task(place.0, place.1).and_then(|task| task.settled.as_mut()) {
            settled.output = None;
        }
    }
}

fn is_timeout(error: &v1::Error) -> bool {
    matches!(error.code.as_str(), "TIMEOUT" | "TASK_TIMEOUT")
}

/// The error without the partial output that it has.
fn without_output(error: &v1::Error) -> v1::Error {
    let mut error = error.clone();
    if let Some(timeout) = &mut error.timeout {
        timeout.partial_output = None;
    }
    error
}
