//! What callers ask of sessions, and what becomes of it.

use capataz_contracts::v1;
use capataz_engine::Wall;
use capataz_engine::planted::{self, Fault};
use capataz_engine::session::{self, SessionDecision};
use capataz_store::RunId;

use super::{Loaded, SLOT_BYTES, Sessions, Slot};
use crate::ReplyId;
use crate::api::{Answer, Declined, ImportReply, ImportSession, ModeChosen, TransitionReply};
use crate::outbox::AppendId;

/// What a session of which too much is asked has its callers wait. Milliseconds.
pub(crate) const RETRY_AFTER_MS: i64 = 1_000;

/// What a caller asks of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionCommand {
    /// The transition that the answer to this request has suggested.
    Accept {
        request_id: String,
    },
    Import(Box<ImportSession>),
    /// The mode of its runs, a value of the contract's `ExecutionMode`.
    Choose {
        session: String,
        mode: i32,
    },
    /// Entries of its memory are wanted no more.
    Forget {
        session: String,
        entry_ids: Vec<String>,
    },
}

impl SessionCommand {
    /// What the caller hears where nothing was done, or nobody knows.
    pub(crate) fn declined(&self, declined: Declined) -> Answer {
        match self {
            Self::Accept { .. } => Answer::Transition(Err(declined)),
            Self::Import(_) => Answer::Imported(Err(declined)),
            Self::Choose { .. } => Answer::Chosen(Err(declined)),
            Self::Forget { .. } => Answer::Forgotten(Err(declined)),
        }
    }

    /// The bytes that it keeps in memory until it is carried out, with those of the session that is read for it.
    fn bytes(&self) -> u64 {
        let sum = |texts: &[String]| texts.iter().map(|text| size_of::<String>() + text.len()).sum::<usize>();
        let texts = match self {
            Self::Accept { request_id } => request_id.len(),
            Self::Import(import) => import.session.len() + import.state.len() + sum(&import.repairs),
            Self::Choose { session, .. } => session.len(),
            Self::Forget { session, entry_ids } => session.len() + sum(entry_ids),
        };
        SLOT_BYTES + (size_of::<(ReplyId, Self)>() + texts) as u64
    }
}

/// How much may be asked of sessions that were not read yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MostAsked {
    /// Commands of one session.
    pub(crate) commands: usize,
    /// The bytes of the commands of all sessions.
    pub(crate) bytes: u64,
}

/// What became of a caller's command.
pub(crate) enum Commanded {
    /// The answer, once the decision is durable; without one, once what it rests on is.
    Done { answer: Answer, decision: Option<SessionDecision>, last_append: AppendId },
    /// The answer, for nothing was done.
    Refused(Answer),
    /// The answer names this run, of which nothing may be durable yet.
    With { run: RunId, answer: Answer },
    /// It is carried out when the session has been read.
    Waits,
}

impl Sessions {
    /// A caller asks something of the session.
    pub(crate) fn command(
        &mut self,
        stream: RunId,
        reply: ReplyId,
        command: SessionCommand,
        now: Wall,
        most: MostAsked,
    ) -> Commanded {
        let waiting = match self.slots.get(&stream) {
            Some(Slot { state: Loaded::Ready(_), .. }) => return self.carry_out(stream, command, now),
            Some(Slot { state: Loaded::Damaged(damage), .. }) => {
                return Commanded::Refused(command.declined(Declined::Damaged(Box::new(damage.clone()))));
            }
            Some(Slot { state: Loaded::Loading, commands, .. }) => commands.len(),
            // It is read only for what has room.
            None => 0,
        };
        let is_full = waiting >= most.commands;
        let has_room = self.commands_bytes.saturating_add(command.bytes()) <= most.bytes
            || planted::is(Fault::CommandsWithoutBound);
        if is_full || !has_room {
            let declined = Declined::Overloaded { retry_after_ms: RETRY_AFTER_MS };
            return Commanded::Refused(command.declined(declined));
        }
        self.commands_bytes = self.commands_bytes.saturating_add(command.bytes());
        self.slot(stream).commands.push((reply, command));
        Commanded::Waits
    }

    /// The commands that waited for the session to be read, which wait no more.
    pub(super) fn take_commands(&mut self, stream: RunId) -> Vec<(ReplyId, SessionCommand)> {
        let commands = self.slots.get_mut(&stream).map(|slot| std::mem::take(&mut slot.commands));
        let commands = commands.unwrap_or_default();
        let bytes: u64 = commands.iter().map(|(_, command)| command.bytes()).sum();
        self.commands_bytes = self.commands_bytes.saturating_sub(bytes);
        commands
    }

    /// The bytes of all commands that wait for their sessions to be read, counted anew; for invariant checks.
    pub(crate) fn command_bytes(&self) -> u64 {
        let commands = self.slots.values().flat_map(|slot| &slot.commands);
        commands.map(|(_, command)| command.bytes()).sum()
    }

    /// Carries out what a caller asks of a session that was read.
    pub(crate) fn carry_out(&mut self, stream: RunId, command: SessionCommand, now: Wall) -> Commanded {
        let slot = self.slots.get_mut(&stream);
        let Some(Slot { state: Loaded::Ready(session), active, last_append, .. }) = slot else {
            return Commanded::Refused(command.declined(Declined::Unavailable));
        };
        let last_append = *last_append;
        match command {
            SessionCommand::Accept { request_id } => {
                let Some(session) = session else {
                    return Commanded::Refused(TransitionReply::SessionNotFound.into());
                };
                match session.accept(&request_id, now) {
                    Err(_) => Commanded::Refused(TransitionReply::TransitionNotFound.into()),
                    Ok((accepted, decision)) => {
                        let answer = TransitionReply::Accepted(accepted).into();
                        Commanded::Done { answer, decision, last_append }
                    }
                }
            }
            SessionCommand::Import(import) => {
                let ImportSession { session: name, state, repairs } = *import;
                let at_work = session.as_ref().and_then(|session| session.plan_at_work());
                if let Some(run) = active.filter(|run| at_work == Some(run.to_string().as_str())) {
                    return Commanded::With { run, answer: ImportReply::Busy { run }.into() };
                }
                match session::import(session, &name, &state, repairs, now) {
                    Some(imported) => {
                        let changed = imported.decision.is_some();
                        let answer = ImportReply::Imported { seq: imported.seq, changed }.into();
                        Commanded::Done { answer, decision: imported.decision, last_append }
                    }
                    None => Commanded::Refused(Answer::Imported(Err(Declined::Unavailable))),
                }
            }
            SessionCommand::Choose { session: name, mode } => {
                let mode = v1::ExecutionMode::try_from(mode).unwrap_or_default();
                match session::choose_mode(session, &name, mode, now) {
                    Some(chosen) => {
                        let reply = ModeChosen { seq: chosen.seq, before: chosen.before.into() };
                        let answer = Answer::Chosen(Ok(reply));
                        Commanded::Done { answer, decision: chosen.decision, last_append }
                    }
                    None => Commanded::Refused(Answer::Chosen(Err(Declined::Unavailable))),
                }
            }
            SessionCommand::Forget { session: name, entry_ids } => {
                match session::forget(session, &name, entry_ids, now) {
                    Some(session::Forgotten { seq, decision }) => Commanded::Done {
                        answer: Answer::Forgotten(Ok(seq)),
                        decision: Some(decision),
                        last_append,
                    },
                    None => Commanded::Refused(Answer::Forgotten(Err(Declined::Unavailable))),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_counts_its_texts_and_for_each_one_of_a_list_its_place_there() {
        let least = SessionCommand::Accept { request_id: String::new() }.bytes();
        let accept = SessionCommand::Accept { request_id: "abc".to_owned() };
        let entry_ids = vec!["ab".to_owned(), "cdefg".to_owned()];
        let forget = SessionCommand::Forget { session: "shop".to_owned(), entry_ids };
        let place = size_of::<String>() as u64;
        // The session's name has 4 bytes, the ids have 2 and 5.
        assert_eq!([accept.bytes(), forget.bytes()], [least + 3, least + 11 + 2 * place]);
    }
}
