//! The work: a [`Workload`] for each kind of run, and the mix of them that clients start.
//!
//! Whatever is drawn is the same for the same seed, client and number, so that a client that was killed repeats its
//! requests to the letter. Nothing outside of this folder asks for the kind of a run: it asks the kind's workload.

mod asks;
mod modes;
mod pipelines;
mod plans;
mod scripts;

use std::fmt;
use std::str::FromStr;

use capataz_client::worker::Worker;
use capataz_contracts::v1;

use crate::Outcome;
use crate::children::Programs;
use crate::journal::Journal;
use crate::verdict::{Facts, Log, Verdict};

pub(crate) use asks::SESSIONS;
pub use plans::command;
pub(crate) use plans::{AGENT, TaskInput, TaskOutput};
pub(crate) use scripts::{SEEN_BY_THE_SITE, act_of};

/// The answer to a question by which a task of unknown outcome is done again.
pub(crate) const RETRY: &str = "retry";
/// The tool that is called only where a person has approved that, and the answer that does.
pub(crate) const ASKED: &str = "chaos-asked";
pub(crate) const APPROVE: &str = "approve";
/// The answer by which a call of a tool is not made.
pub(crate) const REJECT: &str = "reject";
/// The label that all of a client's runs have.
pub(crate) const CLIENT_LABEL: &str = "client";
/// The label that repeats the idempotency key, so that two runs for one key would show.
pub(crate) const KEY_LABEL: &str = "key";

/// One kind of work: how it is made up, who does it, and what it promises beyond what holds for all kinds.
pub(crate) trait Workload: Sync {
    /// How many runs are of this kind, in proportion to the shares of the others.
    fn share(&self) -> u64;

    /// What the daemon's configuration has to say; other files go to the folder of the test.
    fn configuration(&self, programs: &Programs) -> Outcome<String>;

    /// Adds what workers serve of it.
    fn serve(&self, worker: Worker, _journal: &Journal) -> Worker {
        worker
    }

    /// The work of one run.
    fn draft(&self, rng: &mut fastrand::Rng, occasion: &Occasion<'_>) -> Outcome<Draft>;

    /// Whether an output in the log is what was answered under its lease, for its run and its task.
    fn is_own_output(&self, log: &Log, settled: &v1::TaskSettled) -> bool;

    /// Holds what only this kind promises against the facts.
    fn judge(&self, facts: &Facts, verdict: &mut Verdict);
}

/// Which run a draft is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occasion<'a> {
    pub(crate) index: u64,
    pub(crate) key: &'a str,
    /// Host and port of the site that scripts work on.
    pub(crate) site: &'a str,
}

/// The work of one run.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) request: v1::StartRunRequest,
    /// It has tasks of its own, which may get more time, and may be taken back.
    pub(crate) has_tasks: bool,
}

/// A kind of run that takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Waves of tasks for workers and for a process agent.
    Plans,
    /// Texts for specs, most of them in sessions.
    Asks,
    /// Actions of a browser.
    Scripts,
    /// Phases for workers, whose outputs are judged.
    Pipelines,
    /// Queries for a planner and tools.
    Modes,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] = [Self::Plans, Self::Asks, Self::Scripts, Self::Pipelines, Self::Modes];

    pub(crate) fn workload(self) -> &'static dyn Workload {
        match self {
            Self::Plans => &plans::Plans,
            Self::Asks => &asks::Asks,
            Self::Scripts => &scripts::Scripts,
            Self::Pipelines => &pipelines::Pipelines,
            Self::Modes => &modes::Modes,
        }
    }

    pub(crate) fn of(accepted: &v1::RunAccepted) -> Option<Self> {
        match accepted.work.as_ref()? {
            v1::run_accepted::Work::Plan(_) => Some(Self::Plans),
            v1::run_accepted::Work::Ask(_) => Some(Self::Asks),
            v1::run_accepted::Work::Script(_) => Some(Self::Scripts),
            v1::run_accepted::Work::Pipeline(_) => Some(Self::Pipelines),
            v1::run_accepted::Work::Mode(_) => Some(Self::Modes),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Plans => "plans",
            Self::Asks => "asks",
            Self::Scripts => "scripts",
            Self::Pipelines => "pipelines",
            Self::Modes => "modes",
        })
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.to_string() == text);
        found.ok_or_else(|| format!("{text} is none of plans, asks, scripts, pipelines, modes"))
    }
}

/// What the key of a run has behind that of the one that it continues.
pub(crate) const CONTINUED: &str = "/continued";

/// What the key of a run has behind that of the one that it is forked from.
pub(crate) const FORKED: &str = "/forked";

/// The key by which the work was done of which this run has the outputs, in its inputs.
pub(crate) fn key_of_work(log: &Log) -> &str {
    log.key().trim_end_matches(CONTINUED).trim_end_matches(FORKED)
}

/// How a run is steered once it is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Steering {
    None,
    /// Pause, wait so many milliseconds, resume.
    Pause(u64),
    /// Cancel after so many milliseconds.
    Cancel(u64),
    /// Give the first task more time after so many milliseconds.
    Extend(u64),
    /// Take the first task back after so many milliseconds.
    TakeBack(u64),
    /// Go back after so many milliseconds: to the checkpoint before the phase in work, or to the first one of an execution.
    GoBack(u64),
}

/// One client's run.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) index: u64,
    pub(crate) key: String,
    pub(crate) request: v1::StartRunRequest,
    pub(crate) steering: Steering,
    pub(crate) executes: bool,
    /// It is forked when it has ended.
    pub(crate) fork: Option<ForkAt>,
}

/// Where a run is forked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForkAt {
    Newest,
    /// After this event, or where the daemon says that it may be.
    Near(u64),
}

impl Piece {
    /// The label and key of the run that goes on where this one's has ended; `None` where what was done for it would be
    /// taken for that of this one.
    pub(crate) fn of_continued(&self) -> Option<Self> {
        self.is_done_by_workers().then(|| self.as_another(CONTINUED))
    }

    /// The label and key of the run that is forked from this one, and where; `None` as above.
    pub(crate) fn of_forked(&self) -> Option<(Self, ForkAt)> {
        let is_pipeline = matches!(self.request.work, Some(v1::start_run_request::Work::Pipeline(_)));
        let at = self.fork.filter(|_| is_pipeline || self.is_done_by_workers())?;
        Some((self.as_another(FORKED), at))
    }

    /// Whether it is a plan whose tasks workers do, who know of which run they are.
    fn is_done_by_workers(&self) -> bool {
        let Some(v1::start_run_request::Work::Plan(plan)) = &self.request.work else { return false };
        plan.waves.iter().flat_map(|wave| &wave.tasks).all(|task| task.agent == plans::AGENT)
    }

    pub(crate) fn is_execution(&self) -> bool {
        matches!(self.request.work, Some(v1::start_run_request::Work::Mode(_)))
    }

    fn as_another(&self, suffix: &str) -> Self {
        Self {
            key: format!("{}{suffix}", self.key),
            steering: Steering::None,
            executes: false,
            fork: None,
            ..self.clone()
        }
    }

    /// The session of an ask.
    pub(crate) fn session(&self) -> Option<&str> {
        match self.request.work.as_ref()? {
            v1::start_run_request::Work::Ask(ask) => ask.session.as_deref(),
            _ => None,
        }
    }
}

/// The kinds that take part, in their shares.
#[derive(Clone, Debug)]
pub(crate) struct Mix {
    pub(crate) kinds: Vec<Kind>,
    /// Host and port of the site that scripts work on; empty where none take part.
    pub(crate) site: String,
}

impl Mix {
    /// Each kind has its share of any few numbers in a row, so that a short test meets all of them.
    pub(crate) fn kind_of(&self, client: &str, index: u64) -> Option<Kind> {
        let total: u64 = self.kinds.iter().map(|kind| kind.workload().share()).sum();
        let offset: u64 = client.bytes().map(u64::from).sum();
        // The pace shares no factor with the sum of the shares.
        let pace = if total.is_multiple_of(11) { 13 } else { 11 };
        let mut place = (index + offset).wrapping_mul(pace) % total.max(1);
        self.kinds.iter().copied().find(|kind| {
            let share = kind.workload().share();
            let found = place < share;
            place = place.saturating_sub(share);
            found
        })
    }

    pub(crate) fn piece(&self, seed: u64, client: &str, index: u64) -> Outcome<Piece> {
        let key = format!("{seed}-{client}-{index}");
        let salt =
            key.bytes().fold(seed, |salt, byte| (salt ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3));
        let mut rng = fastrand::Rng::with_seed(salt);
        let kind = self.kind_of(client, index).ok_or("no kind takes part")?;
        let occasion = Occasion { index, key: &key, site: &self.site };
        let Draft { mut request, has_tasks } = kind.workload().draft(&mut rng, &occasion)?;
        let labels = [(CLIENT_LABEL, client), (KEY_LABEL, key.as_str())];
        request.labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        request.idempotency_key = Some(key.clone());
        let executes = rng.u32(0..100) < 10;
        let steering = match rng.u32(0..100) {
            _ if executes => Steering::None,
            0..=9 => Steering::Pause(rng.u64(100..1_500)),
            10..=16 => Steering::Cancel(rng.u64(0..1_500)),
            17..=22 if has_tasks => Steering::Extend(rng.u64(0..400)),
            23..=32 if has_tasks => Steering::TakeBack(rng.u64(0..1_500)),
            17..=40 if kind == Kind::Pipelines => Steering::GoBack(rng.u64(0..1_500)),
            17..=49 if kind == Kind::Modes => Steering::GoBack(rng.u64(0..600)),
            _ => Steering::None,
        };
        let fork = match rng.u32(0..100) {
            0..=9 => Some(ForkAt::Newest),
            10..=24 => Some(ForkAt::Near(rng.u64(2..20))),
            _ => None,
        };
        Ok(Piece { index, key, request, steering, executes, fork })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix() -> Mix {
        Mix { kinds: Kind::ALL.to_vec(), site: "127.0.0.1:9".to_owned() }
    }

    #[test]
    fn a_piece_is_the_same_again_and_others_are_not() -> Outcome<()> {
        for index in 0..50 {
            let piece = |index| mix().piece(7, "c1", index).map(|piece| piece.request);
            assert_eq!(piece(index)?, piece(index)?);
            assert_ne!(piece(index)?, piece(index + 1)?);
        }
        Ok(())
    }

    #[test]
    fn every_kind_has_its_share_of_any_few_runs() -> Outcome<()> {
        let choices: [&[Kind]; 6] = [
            &Kind::ALL,
            &[Kind::Plans, Kind::Asks, Kind::Pipelines],
            &[Kind::Asks, Kind::Scripts, Kind::Modes],
            &[Kind::Plans, Kind::Asks],
            &[Kind::Asks, Kind::Scripts],
            &[Kind::Scripts],
        ];
        for kinds in choices {
            let mix = Mix { kinds: kinds.to_vec(), ..mix() };
            let total: u64 = kinds.iter().map(|kind| kind.workload().share()).sum();
            for first in [0, 5, 40] {
                let drawn: Vec<Option<Kind>> =
                    (first..first + total).map(|index| mix.kind_of("client-2", index)).collect();
                for kind in kinds {
                    let found = drawn.iter().filter(|drawn| **drawn == Some(*kind)).count();
                    assert_eq!(found as u64, kind.workload().share(), "{kind} of {kinds:?} from {first}");
                }
            }
        }
        Ok(())
    }
}
