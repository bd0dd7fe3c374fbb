//! Answers to clients: each tells of something durable, and the same request gets the same answer.

use capataz_contracts::v1::{self, event::Body};
use capataz_engine::{Input, Refusal, TaskRef};
use capataz_shard::{
    Answer, CommandReply, Declined, ImportReply, StartReply, TransitionReply, WaitReply, session_stream,
};
use capataz_store::RunId;
use prost::Message;

use super::Model;
use super::log::RunModel;
use crate::client::{Asked, Wish};
use crate::invariant::{Invariant, Violation};
use crate::schemas::passes;

impl Model {
    /// Holds an answer to `wish` against the log.
    pub fn check_answer(&mut self, wish: &Wish, asked: &Asked, answer: &Answer) -> Result<(), Violation> {
        let created = asked.created;
        let told =
            |holds: bool| Invariant::NoEffectBeforeCommit.check(holds, || format!("{answer:?} to {wish:?}"));
        match (wish, answer) {
            (Wish::Start { .. }, Answer::Start(Err(_)))
            | (Wish::Wait { .. }, Answer::Wait(Err(Declined::Overloaded { .. } | Declined::Unavailable)))
            | (
                Wish::Command { .. },
                Answer::Command(Err(Declined::Overloaded { .. } | Declined::Unavailable)),
            )
            | (
                Wish::Accept { .. },
                Answer::Transition(Err(Declined::Overloaded { .. } | Declined::Unavailable)),
            ) => Ok(()),
            (Wish::Start { template, .. }, Answer::Start(Ok(StartReply::Started { run }))) => {
                self.check_key(template.key.as_ref(), *run)?;
                told(created == Some(*run) && self.run(*run).is_some())
            }
            (Wish::Start { template, .. }, Answer::Start(Ok(StartReply::Existing { run }))) => {
                self.check_key(template.key.as_ref(), *run)?;
                told(self.run(*run).is_some())
            }
            // The key may be registered for a run that is not made yet, and that its own caller may never ask for again.
            (Wish::Start { template, .. }, Answer::Start(Ok(StartReply::KeyReused { run }))) => {
                self.check_key(template.key.as_ref(), *run)
            }
            (Wish::Start { template, .. }, Answer::Start(Ok(StartReply::BaseGone))) => {
                let base = template.fork.as_ref().and_then(|of| self.run(of.run));
                told(base.is_none_or(|base| base.removed))
            }
            (Wish::Start { template, .. }, Answer::Start(Ok(StartReply::UnknownAgents { .. }))) => {
                let may_be_unknown =
                    |agent: &String| agent.contains("unknown") || asked.unnamed == Some(agent.as_str());
                told(template.agents.iter().any(may_be_unknown))
            }
            (Wish::Start { .. }, Answer::Start(Ok(StartReply::Finished { run, result })))
            | (Wish::Wait { .. }, Answer::Wait(Ok(WaitReply::Finished { run, result }))) => {
                let told_of = created.or(wish.run());
                let finished = self.run(*run).and_then(|run| run.finished);
                told(told_of == Some(*run) && finished == Some(result.outcome))
            }
            (Wish::Wait { run }, Answer::Wait(Ok(WaitReply::NotActive { run: told_of })))
            | (Wish::Command { run, .. }, Answer::Command(Ok(CommandReply::NotActive { run: told_of }))) => {
                told(run == told_of && self.run(*run).is_none_or(|run| run.finished.is_some()))
            }
            // A session that closes already needs no second request.
            (Wish::Command { run, input, .. }, Answer::Command(Ok(CommandReply::Done { seq, .. })))
                if matches!(**input, Input::CloseBrowser { .. })
                    && self.run(*run).is_some_and(|run| run.is_closing() && run.seq() >= *seq) =>
            {
                Ok(())
            }
            (Wish::Command { run, input, .. }, Answer::Command(Ok(CommandReply::Done { seq, .. }))) => {
                let event = self.run(*run).and_then(|run| run.event(*seq));
                if let (Some(Body::QuestionAnswered(event)), Input::Resolve { answer, .. }) =
                    (event.as_ref().and_then(|event| event.body.as_ref()), &**input)
                {
                    // What its sender has seen is not part of a request: it may be that of one before.
                    let seen = asked.is_reused || answer.revision.is_none_or(|seen| seen == event.revision);
                    Invariant::AnswersWhatIsAsked.check(seen, || format!("{answer:?} to {wish:?}"))?;
                }
                told(event.is_some_and(|event| carries_out(&event, input)))?;
                let by_id = self.run(*run).and_then(|run| run.requests.get(input.request_id()).copied());
                let same = input.request_id().is_empty() || by_id == Some(*seq);
                Invariant::OneEventPerRequest
                    .check(same, || format!("{answer:?} to {wish:?}, event {by_id:?}"))
            }
            (Wish::Command { run, input, .. }, Answer::Command(Ok(CommandReply::SeqMismatch { actual }))) => {
                let repeated =
                    self.run(*run).is_some_and(|run| run.requests.contains_key(input.request_id()));
                Invariant::OneEventPerRequest
                    .check(!repeated, || format!("{answer:?} to {wish:?}, which was carried out"))?;
                told(self.run(*run).is_some_and(|run| run.seq() >= *actual))
            }
            (Wish::Command { run, input, .. }, Answer::Command(Ok(CommandReply::Refused(refusal)))) => {
                told(self.run(*run).is_some_and(|run| run.refuses(input, refusal)))
            }
            (
                Wish::Accept { session, request_id, .. },
                Answer::Transition(Ok(TransitionReply::Accepted(accepted))),
            ) => {
                let session = self.session(session_stream(session));
                told(session.is_none_or(|session| {
                    session.accepted.get(request_id) == Some(&accepted.seq) && accepted.seq <= session.seq()
                }))
            }
            (Wish::Accept { session, .. }, Answer::Transition(Ok(TransitionReply::SessionNotFound))) => {
                told(!asked.knew_session || self.session(session_stream(session)).is_none())
            }
            (Wish::Accept { session, .. }, Answer::Transition(Ok(TransitionReply::TransitionNotFound))) => {
                told(!asked.knew_suggestion || self.session(session_stream(session)).is_none())
            }
            (
                Wish::Import { session, state, repairs },
                Answer::Imported(Ok(ImportReply::Imported { seq, .. })),
            ) => {
                let session = self.session(session_stream(session));
                told(session.is_none_or(|session| *seq <= session.seq() && session.work.had(state, repairs)))
            }
            // It may have ended since.
            (Wish::Import { session, .. }, Answer::Imported(Ok(ImportReply::Busy { run }))) => {
                told(self.run(*run).is_some_and(|run| run.session() == Some(session)))
            }
            (Wish::Choose { session, mode }, Answer::Chosen(Ok(chosen))) => {
                let session = self.session(session_stream(session));
                told(session.is_none_or(|session| {
                    chosen.seq <= session.seq() && session.has_chosen(chosen.seq, *mode, chosen.before)
                }))
            }
            (Wish::Forget { session, entry_ids }, Answer::Forgotten(Ok(seq))) => {
                let session = self.session(session_stream(session));
                told(session.is_some_and(|session| {
                    *seq <= session.seq() && entry_ids.iter().all(|id| session.forgotten.contains_key(id))
                }))
            }
            (
                Wish::Choose { .. },
                Answer::Chosen(Err(Declined::Overloaded { .. } | Declined::Unavailable | Declined::Draining)),
            )
            | (
                Wish::Forget { .. },
                Answer::Forgotten(Err(
                    Declined::Overloaded { .. } | Declined::Unavailable | Declined::Draining,
                )),
            ) => Ok(()),
            (
                Wish::Import { .. },
                Answer::Imported(Err(Declined::Overloaded { .. } | Declined::Unavailable)),
            ) => Ok(()),
            (
                Wish::Health { .. },
                Answer::Health(Err(Declined::Overloaded { .. } | Declined::Unavailable)),
            ) => Ok(()),
            // Each task has been leased by then.
            (Wish::Health { run }, Answer::Health(Ok(health))) => {
                let is_so = |(task, health): &(TaskRef, v1::HealthChecks)| {
                    let known = self.run(*run).is_some_and(|run| run.was_leased(*task));
                    known && health.time_used >= 0.0
                };
                told(health.iter().all(is_so))
            }
            (Wish::List, Answer::Agents(..)) | (Wish::Check { .. }, Answer::Checked(_)) => Ok(()),
            _ => Invariant::EveryRequestAnswered.broken(format!("{answer:?} is not an answer to {wish:?}")),
        }
    }

    /// The run that the key names, by the log and by what was told before.
    fn check_key(&mut self, key: Option<&bytes::Bytes>, run: RunId) -> Result<(), Violation> {
        match key.and_then(|key| std::str::from_utf8(key).ok()) {
            Some(key) => self.keys.is_told(key, run, &self.runs),
            None => Ok(()),
        }
    }
}

impl RunModel {
    fn event(&self, seq: u64) -> Option<v1::Event> {
        let index = usize::try_from(seq.checked_sub(1)?).ok()?;
        v1::Event::decode(self.events.get(index)?.clone()).ok()
    }

    /// Whether the log gives a reason for the refusal.
    fn refuses(&self, input: &Input, refusal: &Refusal) -> bool {
        match refusal {
            Refusal::RunFinished => self.finished.is_some(),
            Refusal::Rule(error) if error.code == "TASK_NOT_FOUND" => true,
            // What a task's state allowed then, it may not show any more.
            Refusal::Rule(_) => matches!(
                input,
                Input::Retry { .. }
                    | Input::Rollback { .. }
                    | Input::RollbackPipeline { .. }
                    | Input::Checkpoint { .. }
                    | Input::RollbackExecution { .. }
                    | Input::Extend { .. }
                    | Input::Resolve { .. }
                    | Input::Propose { .. }
                    | Input::CloseBrowser { .. }
            ),
            Refusal::QuestionNotFound { question_id } => !self.questions.contains_key(question_id),
            Refusal::QuestionAnswered { question_id, .. } => {
                self.questions.get(question_id).is_some_and(|question| !question.open)
            }
            Refusal::NotAnOption { .. } => match input {
                Input::Resolve { question_id, answer, .. } => self
                    .questions
                    .get(question_id)
                    .is_some_and(|question| !question.options.contains(&answer.option)),
                _ => false,
            },
            Refusal::WrongValue { .. } => {
                matches!(input, Input::Resolve { answer, .. } if answer.value.is_some() || answer.option == "edit")
            }
            Refusal::QuestionRevised { question_id, revision } => match input {
                Input::Resolve { answer, .. } => self.questions.get(question_id).is_some_and(|question| {
                    question.revision >= *revision && answer.revision.is_some_and(|seen| seen != *revision)
                }),
                _ => false,
            },
            Refusal::BreaksSchema { .. } => match input {
                Input::Resolve { question_id, answer, .. } => {
                    self.questions.get(question_id).is_some_and(|question| {
                        question.is_typed && !passes(answer.value.as_ref())
                            || question.about_phase && (answer.value.is_some() || answer.option == "edit")
                    })
                }
                _ => false,
            },
            Refusal::RequestReused { request_id } => self.requests.contains_key(request_id),
            Refusal::Unjudged | Refusal::Outdated | Refusal::Corrupt(_) => false,
        }
    }
}

/// Whether the event is what the request asked for.
fn carries_out(event: &v1::Event, input: &Input) -> bool {
    match (input, &event.body) {
        (Input::Cancel { request_id, .. }, Some(Body::RunCancelRequested(body))) => {
            body.request_id == *request_id
        }
        (Input::Pause { request_id }, Some(Body::RunPaused(body))) => body.request_id == *request_id,
        (Input::Resume { request_id }, Some(Body::RunResumed(body))) => body.request_id == *request_id,
        (Input::Extend { request_id, by_ms, .. }, Some(Body::TaskExtended(body))) => {
            body.request_id == *request_id && body.by_ms == *by_ms
        }
        (Input::Retry { request_id, .. }, Some(Body::TaskReactivated(body))) => {
            body.request_id == *request_id
        }
        (Input::Rollback { request_id, cascade, .. }, Some(Body::TaskRolledBack(body))) => {
            body.request_id == *request_id && body.cascade == *cascade
        }
        (Input::RollbackPipeline { request_id, phase }, Some(Body::PipelineRolledBack(body))) => {
            body.request_id == *request_id && body.requested == *phase
        }
        (Input::Checkpoint { request_id, reason }, Some(Body::ModeCheckpointed(body))) => {
            body.request_id == *request_id && body.reason == *reason
        }
        (Input::RollbackExecution { request_id, checkpoint }, Some(Body::ModeRolledBack(body))) => {
            body.request_id == *request_id && body.checkpoint_id == *checkpoint
        }
        (Input::Propose { request_id, action }, Some(Body::ActionProposed(body))) => {
            body.request_id == *request_id && body.action.as_ref() == Some(&**action)
        }
        (Input::CloseBrowser { request_id }, Some(Body::BrowserCloseRequested(body))) => {
            body.request_id == *request_id
        }
        (Input::Resolve { request_id, answer, .. }, Some(Body::QuestionAnswered(body))) => {
            body.request_id == *request_id && body.answer == answer.option && body.value == answer.value
        }
        _ => false,
    }
}
