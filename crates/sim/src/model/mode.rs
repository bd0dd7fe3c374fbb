//! What executions may do (seed 004; CONTRACTS §5): errors, deviations, revisions and approvals are counted here by hand, from
//! what planners and tools said and people answered.

use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::browser::{BROWSER_AGENT, TOOL_PREFIX};
use capataz_contracts::v1::{self, ExecutionMode, PlannerDecision, ReplanReason, event::Body};
use capataz_engine::{CHILD_AGENT, TaskRef};

use super::log::{RunModel, Step};
use super::mode_browser::ModeBrowser;
use super::script::Kind;
use crate::invariant::{Invariant, Violation};
use crate::modes::{CONTAINED, PLAN_RUN, TO_FAIL};

#[derive(Clone, Debug)]
pub struct ModeModel {
    pub run: v1::ModeRun,
    /// The mode that its session had chosen when it began.
    chosen: ExecutionMode,
    mode: Option<ExecutionMode>,
    stage: Stage,
    now: Counted,
    /// Checkpoints by their ids: the number of their event, what there was then, and whether it can be gone back to.
    kept: BTreeMap<String, (u64, Counted, bool)>,
    revisions: u32,
    /// What the planner was asked for.
    asked: Vec<i32>,
    memory: Memory,
    /// A plan was made anew, and its checkpoint is to follow.
    owes_checkpoint: bool,
    pub completed: bool,
    /// Tools that nobody served when the newest prompt was made.
    absent: BTreeSet<String>,
    pub(super) browser: ModeBrowser,
}

/// A vote: the event and its place in it, the entry, and the quarters of its relevance.
pub type Vote = (u64, u32, String, i64);

/// What is remembered (seed 004, `memory_entries`), by the numbers of the events that said so.
#[derive(Clone, Debug, Default)]
struct Memory {
    /// With the time of the event.
    entries: BTreeMap<u64, (i64, v1::Remembered)>,
    /// By event and place: the entry, and the quarters of its relevance.
    votes: BTreeMap<(u64, u32), (String, i64)>,
}

impl Memory {
    /// What an event remembers, and which entries it found useful.
    fn add(
        &mut self,
        (run, session): (&str, &str),
        (seq, at): (u64, i64),
        remembered: &v1::Remembered,
        useful: &[String],
    ) {
        // A fork begins with no memory: what it has of another run is that one's.
        if remembered.session != session {
            return;
        }
        self.entries.insert(seq, (at, remembered.clone()));
        let said = match remembered.positive {
            Some(true) => 2,
            Some(false) => -2,
            None => 0,
        };
        let said = remembered.related_to.iter().filter(|_| said != 0).map(|entry| (entry, said));
        let own = |entry: &String| {
            session != run || entry.strip_prefix(run).is_some_and(|rest| rest.starts_with('-'))
        };
        let votes = said.chain(useful.iter().map(|entry| (entry, 1))).filter(|(entry, _)| own(entry));
        for (n, (entry, quarters)) in (1..).zip(votes) {
            self.votes.insert((seq, n), (entry.clone(), quarters));
        }
    }
}

/// What a prompt may be given of memory: entries by their ids, with their times; and votes for them, in quarters.
#[derive(Debug, Default)]
pub struct Pool {
    entries: BTreeMap<String, (i64, v1::Remembered)>,
    votes: Vec<(String, i64)>,
}

impl Pool {
    pub fn forget(&mut self, is_forgotten: impl Fn(&str) -> bool) {
        self.entries.retain(|id, _| !is_forgotten(id));
    }

    pub fn has_old(&self, at: i64) -> bool {
        self.entries.values().any(|(made, _)| at - made >= 86_400_000)
    }

    fn relevance(&self, id: &str) -> i64 {
        let votes: i64 =
            self.votes.iter().filter(|(entry, _)| entry == id).map(|(_, quarters)| quarters).sum();
        (4 + votes).clamp(0, 20)
    }

    /// The ids that are looked at for a prompt, in their order.
    fn recalled(&self, mode: ExecutionMode) -> Vec<&String> {
        let wanted: &[&str] = match mode {
            ExecutionMode::Planner => &["success", "pattern"],
            ExecutionMode::Supervised => {
                &["tool_result", "error", "success", "plan", "user_feedback", "solution", "pattern"]
            }
            _ => &["error", "solution"],
        };
        let entries = self.entries.iter().filter(|(_, (_, entry))| wanted.contains(&entry.r#type.as_str()));
        let mut found: Vec<(i64, &String)> = entries
            .map(|(id, (at, _))| (if mode == ExecutionMode::Planner { -self.relevance(id) } else { -at }, id))
            .collect();
        found.sort();
        found.into_iter().map(|(_, id)| id).take(10).collect()
    }

    /// What the planner is told in whole, what in few words, and what not; a token is a word here.
    pub fn told(&self, mode: ExecutionMode) -> [Vec<String>; 3] {
        let mut room = match mode {
            ExecutionMode::Planner => 200,
            ExecutionMode::Supervised => 300,
            _ => 100,
        };
        let words = |text: &str| text.split_whitespace().count();
        let mut told: [Vec<String>; 3] = Default::default();
        for id in self.recalled(mode) {
            let Some((_, entry)) = self.entries.get(id) else { continue };
            let (whole, digest) = (words(&entry.content), words(&entry.digest));
            if whole <= room {
                room -= whole;
                told[0].push(id.clone());
            } else if digest <= room && !entry.digest.is_empty() {
                room -= digest;
                told[0].push(id.clone());
                told[1].push(id.clone());
            } else {
                told[2].push(id.clone());
            }
        }
        told
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
enum Stage {
    #[default]
    Begins,
    Plans,
    Asked(u32),
    Proposed,
    Rejected,
    /// A call, and whether a person has approved it.
    Wanted(v1::ToolCall, bool, bool),
    Called(u32, v1::ToolCall, bool),
    Escalated(Option<(v1::ToolCall, bool)>),
}

/// What a checkpoint keeps.
#[derive(Clone, Debug, Default, PartialEq)]
struct Counted {
    step: u32,
    errors: u32,
    ended: bool,
    plan: Option<v1::ModePlan>,
    /// By step: done, failed, or neither.
    steps: Vec<Option<bool>>,
    done: u32,
    missed: u32,
    approved: bool,
    replans: u32,
    /// Of them, those that a person knows of.
    allowed: u32,
    last_failed: bool,
    /// The last result is an error that was not to be one.
    erred: bool,
    /// Of those that miss, how many a person knows of.
    known: u32,
    /// A plan was made anew before, and its checkpoint is to follow.
    owes_checkpoint: bool,
}

impl Counted {
    fn deviation(&self) -> f64 {
        if self.done == 0 { 0.0 } else { f64::from(self.missed) / f64::from(self.done) }
    }

    fn is_complete(&self) -> bool {
        self.plan.is_some() && self.steps.iter().all(|step| *step == Some(true))
    }

    /// Every step has succeeded, and the results do not depart from the plan so far that another one is due.
    fn is_done(&self) -> bool {
        self.is_complete() && self.deviation() <= 0.4
    }

    fn begins(&mut self, plan: v1::ModePlan, keeps: bool) {
        let before: BTreeMap<String, Option<bool>> = match &self.plan {
            Some(before) if keeps => {
                before.steps.iter().map(|step| step.id.clone()).zip(self.steps.iter().copied()).collect()
            }
            _ => BTreeMap::new(),
        };
        let was_done = |step: &v1::PlanStep| before.get(&step.id).copied().flatten().filter(|done| *done);
        self.steps = plan.steps.iter().map(was_done).collect();
        (self.done, self.missed, self.approved, self.known) = (0, 0, false, 0);
        self.plan = Some(plan);
    }
}

/// The failure is what the tool has said, whatever was tried and concluded after it.
fn is_of_the_tool(error: &v1::Error) -> bool {
    let concluded = ["RETRY_EXHAUSTED", "NON_RETRYABLE_ERROR", "TOTAL_TIMEOUT_EXCEEDED"];
    match &error.cause {
        Some(cause) if concluded.contains(&error.code.as_str()) => is_of_the_tool(cause),
        _ => ![
            "TASK_TIMEOUT",
            "TIMEOUT",
            "TOTAL_TIMEOUT_EXCEEDED",
            "SCHEDULE_TO_START_TIMEOUT",
            "WORKER_LOST",
            "OUTCOME_UNKNOWN",
            "TASK_CANCELLED",
            "BROWSER_LOST",
            "EVIDENCE_FAILED",
            "INVALID_OUTPUT",
            "OUTPUT_TOO_LARGE",
            "INPUT_TOO_LARGE",
            "INPUT_UNRESOLVED",
            "RUN_LIMIT_EXCEEDED",
        ]
        .contains(&error.code.as_str()),
    }
}

impl ModeModel {
    pub fn new(run: v1::ModeRun) -> Self {
        Self {
            run,
            chosen: ExecutionMode::Unspecified,
            mode: None,
            stage: Stage::Begins,
            now: Counted::default(),
            kept: BTreeMap::new(),
            absent: BTreeSet::new(),
            revisions: 0,
            asked: Vec::new(),
            memory: Memory::default(),
            owes_checkpoint: false,
            completed: false,
            browser: ModeBrowser::default(),
        }
    }

    /// The wave and the call that are at work.
    pub(super) fn called(&self) -> Option<(u32, &v1::ToolCall)> {
        match &self.stage {
            Stage::Called(wave, call, _) => Some((*wave, call)),
            _ => None,
        }
    }

    /// Actions that were done.
    pub(super) fn actions(&self) -> u32 {
        self.now.step
    }

    /// A fork belongs to no session, and remembers nothing.
    pub(super) fn leaves_session(&mut self) {
        self.run.session = None;
        self.memory = Memory::default();
    }

    fn tool(&self, name: &str) -> Option<&v1::ModeTool> {
        self.run.tools.iter().find(|tool| tool.name == name)
    }

    /// Why the plan is to be made anew, by the order of the contract.
    fn reasons(&self) -> Vec<i32> {
        let Some(plan) = self.now.plan.as_ref().filter(|_| self.mode == Some(ExecutionMode::Planner)) else {
            return Vec::new();
        };
        let stands = |id: &str| {
            let place = plan.steps.iter().position(|step| step.id == id);
            place.and_then(|place| self.now.steps.get(place).copied().flatten())
        };
        let open = || plan.steps.iter().zip(&self.now.steps).filter(|(_, stands)| **stands != Some(true));
        let needs_failed = |step: &v1::PlanStep| {
            let mut wanted: Vec<&str> = step.depends_on.iter().map(String::as_str).collect();
            let mut met = Vec::new();
            while let Some(id) = wanted.pop() {
                if stands(id) == Some(false) {
                    return true;
                }
                if stands(id).is_none() && !met.contains(&id) {
                    met.push(id);
                    let step = plan.steps.iter().find(|step| step.id == id);
                    wanted.extend(step.into_iter().flat_map(|step| &step.depends_on).map(String::as_str));
                }
            }
            false
        };
        let found = [
            (self.now.deviation() > 0.4, ReplanReason::Deviation),
            (self.now.errors >= 3, ReplanReason::Errors),
            (open().any(|(step, _)| self.is_missing(&step.tool)), ReplanReason::ResourcesUnavailable),
            (
                open().any(|(step, stands)| stands.is_none() && needs_failed(step)),
                ReplanReason::InvalidatedSteps,
            ),
        ];
        found.into_iter().filter(|(holds, _)| *holds).map(|(_, reason)| reason.into()).collect()
    }

    /// Nobody could do a step with it.
    fn is_missing(&self, tool: &str) -> bool {
        self.tool(tool).is_none() || self.absent.contains(tool)
    }

    /// The results keep to the approved plan, or a person knows that they do not.
    fn keeps_to_plan(&self) -> bool {
        self.now.deviation() <= self.run.autonomy_level.unwrap_or(0.3) || self.now.missed <= self.now.known
    }

    /// A person decides, or the run is at its end, before the planner is asked again.
    fn may_ask(&self) -> bool {
        let steps = self.run.max_steps.unwrap_or(50);
        let rules = match self.mode {
            Some(ExecutionMode::Simple) => self.now.errors < 3 && !self.now.ended,
            Some(ExecutionMode::Planner) => !self.now.is_done(),
            Some(ExecutionMode::Supervised) if self.now.approved => {
                !self.now.is_complete() && self.keeps_to_plan()
            }
            Some(ExecutionMode::Supervised) => true,
            Some(ExecutionMode::Unspecified) | None => false,
        };
        rules && self.now.step < steps && !self.owes_checkpoint
    }

    /// Why a run that has ended by itself has not succeeded.
    fn has_failed(&self, planner_failed: bool) -> bool {
        let is_simple = self.mode == Some(ExecutionMode::Simple);
        let by_rule = is_simple && (self.now.errors >= 3 || self.now.ended && self.now.last_failed)
            || self.now.step >= self.run.max_steps.unwrap_or(50);
        by_rule || planner_failed
    }

    fn needs_approval(&self, call: &v1::ToolCall, approved: bool) -> bool {
        let demanded = self.tool(&call.tool).is_some_and(|tool| tool.needs_approval);
        let planned = call.step_index.and_then(|place| self.now.plan.as_ref()?.steps.get(place as usize));
        let as_planned = planned.is_some_and(|step| step.parameters == call.parameters);
        demanded
            && !approved
            && !(self.mode == Some(ExecutionMode::Supervised) && self.now.approved && as_planned)
    }
}

impl RunModel {
    fn mode(&mut self) -> Result<&mut ModeModel, Violation> {
        let text = self.at("something of an execution in another run");
        match &mut self.kind {
            Kind::Mode(mode) => Ok(mode),
            _ => Invariant::ModesKeepTheirRules.broken(text),
        }
    }

    /// A person has let the run go on: who is there is looked at anew.
    pub(super) fn mode_resumed(&mut self) {
        if let Kind::Mode(mode) = &mut self.kind {
            mode.absent.clear();
        }
    }

    pub fn is_mode(&self) -> bool {
        matches!(self.kind, Kind::Mode(_))
    }

    pub(super) fn mode_outcome(&self) -> Option<v1::RunOutcome> {
        let Kind::Mode(mode) = &self.kind else { return None };
        let failed = |wave: u32| {
            let task = self.task(TaskRef { wave, task: 0 })?;
            Some(task.result.as_ref()?.status != v1::ResultStatus::Success as i32)
        };
        let planner_failed = matches!(mode.stage, Stage::Asked(wave) if failed(wave) == Some(true));
        let rejected = mode.stage == Stage::Rejected;
        match () {
            () if mode.completed => Some(v1::RunOutcome::Succeeded),
            () if rejected => Some(v1::RunOutcome::Cancelled),
            // What cannot be computed ends it as well: then it neither asks nor looks.
            () if mode.has_failed(planner_failed) || self.could_not_be_computed() => {
                Some(v1::RunOutcome::Failed)
            }
            () => None,
        }
    }

    /// A query was open, whose answer may have been that there is none.
    fn could_not_be_computed(&self) -> bool {
        let Kind::Mode(mode) = &self.kind else { return false };
        match mode.stage {
            Stage::Plans => mode.may_ask(),
            Stage::Called(wave, ..) => {
                self.task(TaskRef { wave, task: 0 }).is_some_and(|task| task.step == Step::Settled)
            }
            _ => false,
        }
    }

    /// The run has its turn in a session that has chosen this mode.
    pub fn has_its_turn_in(&mut self, chosen: ExecutionMode) {
        if let Kind::Mode(mode) = &mut self.kind {
            mode.chosen = chosen;
        }
    }

    pub fn had_its_turn_in(&self) -> ExecutionMode {
        match &self.kind {
            Kind::Mode(mode) => mode.chosen,
            _ => ExecutionMode::Unspecified,
        }
    }

    /// The session whose memory it uses, its own where it belongs to none, and its mode, once it has begun.
    #[must_use]
    pub fn memory_of(&self) -> Option<(String, ExecutionMode)> {
        let Kind::Mode(mode) = &self.kind else { return None };
        Some((mode.run.session.clone().unwrap_or_else(|| self.run.to_string()), mode.mode?))
    }

    /// The same with the ids of its entries.
    #[must_use]
    pub fn memory(&self) -> Option<(String, Vec<String>)> {
        let Kind::Mode(mode) = &self.kind else { return None };
        let ids = mode.memory.entries.keys().map(|seq| format!("{}-{seq}-0", self.run));
        Some((self.memory_of()?.0, ids.collect()))
    }

    /// Adds what it has in memory.
    pub fn add_to(&self, pool: &mut Pool) {
        let Kind::Mode(mode) = &self.kind else { return };
        for (seq, entry) in &mode.memory.entries {
            pool.entries.insert(format!("{}-{seq}-0", self.run), entry.clone());
        }
        pool.votes.extend(mode.memory.votes.values().cloned());
    }

    /// What the run has in memory, by the numbers of its events: entries, and votes.
    pub fn remembers(&self) -> (Vec<u64>, Vec<Vote>) {
        let Kind::Mode(mode) = &self.kind else { return Default::default() };
        let votes = mode.memory.votes.iter().map(|((seq, n), (entry, by))| (*seq, *n, entry.clone(), *by));
        (mode.memory.entries.keys().copied().collect(), votes.collect())
    }

    /// What the event leaves in memory, and what it was recalled for.
    fn remember(&mut self, body: &Body) -> Result<(), Violation> {
        let (run, at, text) =
            (self.run.to_string(), (self.seq(), self.last_at), self.at(format!("{body:?}")));
        let mode = self.mode()?;
        let (remembered, useful): (_, &[String]) = match body {
            Body::PlannerAnswered(event) => (&event.remembered, &[]),
            Body::PlanEdited(event) => (&event.remembered, &[]),
            Body::PlanApproved(event) => (&event.remembered, &[]),
            Body::PlanRejected(event) => (&event.remembered, &[]),
            Body::ToolApproved(event) => (&event.remembered, &[]),
            Body::EscalationAnswered(event) => (&event.remembered, &[]),
            Body::ModeCompleted(event) => (&event.remembered, &[]),
            Body::ToolObserved(event) => {
                let planned = event.step_index.is_some() && mode.now.plan.is_some();
                let failed = event.error.is_some() && !event.as_expected;
                let expected = match (failed, mode.now.erred) {
                    // What a person says of a call is feedback.
                    _ if event.wave.is_none()
                        && event.error.as_ref().is_some_and(|error| error.code == "TOOL_REJECTED") =>
                    {
                        "user_feedback"
                    }
                    (true, _) => "error",
                    (false, true) => "solution",
                    (false, false) if planned && event.as_expected => "success",
                    (false, false) => "tool_result",
                };
                let kind = event.remembered.as_ref().map_or("", |remembered| &remembered.r#type);
                Invariant::MemoryFollows
                    .check(kind == expected, || format!("{text}: expected {expected}"))?;
                (&event.remembered, &event.useful)
            }
            Body::ModeRolledBack(event) => {
                mode.memory.entries.retain(|seq, _| *seq <= event.to_seq);
                mode.memory.votes.retain(|(seq, _), _| *seq <= event.to_seq);
                return Ok(());
            }
            _ => return Ok(()),
        };
        if let Some(remembered) = remembered {
            let session = mode.run.session.clone().unwrap_or_else(|| run.clone());
            mode.memory.add((&run, &session), at, remembered, useful);
        }
        Ok(())
    }

    pub(super) fn execution(&mut self, body: Body) -> Result<(), Violation> {
        self.remember(&body)?;
        let text = self.at(format!("{body:?}"));
        let held = self.is_held() || self.ending.is_some();
        let seq = self.seq();
        let rule =
            |holds: bool, why: &str| Invariant::ModesKeepTheirRules.check(holds, || format!("{text}: {why}"));
        match body {
            Body::ModeBegun(event) => {
                let mode = self.mode()?;
                let named = mode.run.mode();
                let expected = match (named, mode.chosen) {
                    (ExecutionMode::Unspecified, ExecutionMode::Unspecified) => ExecutionMode::Simple,
                    (ExecutionMode::Unspecified, chosen) => chosen,
                    (named, _) => named,
                };
                rule(mode.stage == Stage::Begins && event.mode() == expected, "another mode, or twice")?;
                (mode.mode, mode.stage) = (Some(expected), Stage::Plans);
            }
            Body::PlannerAsked(event) => {
                let wave = event.tasks.unwrap_or_default();
                let is_next = event.wave as usize == self.waves.len();
                let mode = self.mode()?;
                let asks = wave.tasks.iter().all(|task| task.agent == mode.run.planner);
                let reasons = mode.reasons();
                rule(!held && is_next && asks && mode.stage == Stage::Plans, "nobody is to be asked now")?;
                rule(mode.may_ask(), "a rule comes before")?;
                rule(event.reasons == reasons, &format!("expected the reasons {reasons:?}"))?;
                let first = mode.now.plan.is_none() && mode.mode == Some(ExecutionMode::Planner);
                let proposes = mode.mode == Some(ExecutionMode::Supervised) && !mode.now.approved;
                let wanted = first || proposes || !reasons.is_empty();
                rule(event.plan_wanted == wanted, "a plan is wanted, or not")?;
                (mode.stage, mode.asked) = (Stage::Asked(event.wave), reasons);
                self.open_wave(wave);
            }
            Body::PlannerAnswered(event) => {
                let mode = self.mode()?;
                rule(mode.stage == Stage::Asked(event.wave), "nobody was asked")?;
                let decision = event.decision();
                if let Some(plan) = event.plan {
                    mode.revisions += 1;
                    rule(plan.revision == mode.revisions, "another revision")?;
                    let is_another = mode.now.plan.is_some() && mode.mode == Some(ExecutionMode::Planner);
                    let by_planner = vec![i32::from(ReplanReason::Planner)];
                    let expected = match (is_another, mode.asked.is_empty()) {
                        (false, _) => Vec::new(),
                        (true, true) => by_planner,
                        (true, false) => mode.asked.clone(),
                    };
                    rule(event.reasons == expected, &format!("expected the reasons {expected:?}"))?;
                    mode.now.begins(plan, event.keeps_done);
                    if is_another {
                        mode.now.replans += 1;
                        mode.now.errors = 0;
                        (mode.owes_checkpoint, mode.now.owes_checkpoint) = (true, true);
                    }
                }
                let known = event.call.as_ref().is_none_or(|call| mode.tool(&call.tool).is_some());
                rule(known, "a tool that is not there")?;
                let call = event.call.map(|call| (call, event.goes_on));
                mode.stage = match (decision, call) {
                    (PlannerDecision::Propose, _) => Stage::Proposed,
                    (PlannerDecision::Pause, _) => Stage::Plans,
                    (PlannerDecision::Escalate | PlannerDecision::Complete, then) => Stage::Escalated(then),
                    (_, Some((call, goes_on))) => Stage::Wanted(call, false, goes_on),
                    (_, None) => return rule(false, "there is no call"),
                };
            }
            Body::PlanEdited(event) => {
                let answered = self.answered_with("edit");
                let mode = self.mode()?;
                mode.revisions += 1;
                let plan = event.plan.unwrap_or_default();
                rule(answered && mode.stage == Stage::Proposed, "nobody has edited it")?;
                rule(plan.revision == mode.revisions, "another revision")?;
                mode.now.begins(plan, true);
            }
            Body::PlanApproved(event) => {
                let answered = self.answered_with("approve");
                let mode = self.mode()?;
                let is_newest = mode.now.plan.as_ref().is_some_and(|plan| plan.revision == event.revision);
                rule(answered && is_newest && mode.stage == Stage::Proposed, "nobody has approved it")?;
                mode.now.approved = true;
                mode.stage = Stage::Plans;
            }
            Body::PlanRejected(event) => {
                let answered = self.answered_with("reject");
                let mode = self.mode()?;
                let is_newest = mode.now.plan.as_ref().is_some_and(|plan| plan.revision == event.revision);
                rule(answered && is_newest && mode.stage == Stage::Proposed, "nobody has rejected it")?;
                mode.stage = Stage::Rejected;
            }
            Body::ToolApproved(event) => {
                let answered = self.answered_with("approve");
                let mode = self.mode()?;
                match (&mut mode.stage, event.call) {
                    (Stage::Wanted(call, approved, _), Some(of)) if answered && *call == of => {
                        *approved = true
                    }
                    _ => return rule(false, "nobody has approved it"),
                }
            }
            Body::ToolCalled(event) => {
                let wave = event.tasks.unwrap_or_default();
                let is_next = event.wave as usize == self.waves.len();
                let mode = self.mode()?;
                let Stage::Wanted(call, approved, goes_on) = mode.stage.clone() else {
                    return rule(false, "no call is wanted");
                };
                let served = match call.tool.as_str() {
                    tool if tool.starts_with(TOOL_PREFIX) => BROWSER_AGENT,
                    PLAN_RUN => CHILD_AGENT,
                    tool => tool,
                };
                let is_call = wave.tasks.iter().all(|task| task.agent == served);
                rule(!held && is_next && is_call, "another call, or not now")?;
                rule(!mode.needs_approval(&call, approved), "a person has to approve it")?;
                rule(!mode.owes_checkpoint, "a checkpoint comes before")?;
                let supervised = mode.mode == Some(ExecutionMode::Supervised);
                rule(!supervised || mode.now.approved, "the plan is not approved")?;
                let undoable = mode.tool(&call.tool).is_some_and(|tool| tool.undoable);
                rule(event.irreversible != undoable, "it can be undone, or not")?;
                if !undoable {
                    mode.kept.values_mut().for_each(|(.., may)| *may = false);
                }
                rule(!mode.absent.contains(&call.tool), "nobody serves the tool")?;
                rule(
                    mode.now.replans.saturating_sub(mode.now.allowed) <= 10,
                    "a person is asked after ten new plans",
                )?;
                mode.stage = Stage::Called(event.wave, call, goes_on);
                self.open_wave(wave);
            }
            Body::ToolObserved(event) => {
                let task = event.wave.and_then(|wave| self.task(TaskRef { wave, task: 0 }));
                // What a person says that it has given back is another text.
                let vouched = task.is_some_and(|task| task.vouched);
                let status = task.and_then(|task| task.result.as_ref()).map(|result| result.status);
                let succeeded = status == Some(v1::ResultStatus::Success as i32);
                let rejected = event.wave.is_none() && self.answered_with("reject");
                let mode = self.mode()?;
                let missed = event.wave.is_none() && mode.absent.contains(&event.tool);
                let rejected = rejected && !missed;
                let (call, goes_on) = match &mode.stage {
                    Stage::Called(wave, call, goes_on) if event.wave == Some(*wave) && status.is_some() => {
                        (call.clone(), *goes_on)
                    }
                    Stage::Wanted(call, _, goes_on) if rejected => (call.clone(), *goes_on),
                    Stage::Wanted(call, _, goes_on) if missed && call.tool == event.tool => {
                        (call.clone(), *goes_on)
                    }
                    _ => return rule(false, "nothing was called"),
                };
                rule(
                    event.error.is_none() == (succeeded && !rejected && !missed),
                    "it failed, or it did not",
                )?;
                rule(event.step == mode.now.step + 1, "actions are counted")?;
                rule(
                    mode.now.replans.saturating_sub(mode.now.allowed) <= 10,
                    "a person is asked after ten new plans",
                )?;
                let planned = call.step_index.and_then(|place| {
                    Some((
                        place as usize,
                        mode.now.plan.as_ref()?.steps.get(place as usize)?.expected.clone(),
                    ))
                });
                // Everything that a tool of this world gives back contains this word, and no other.
                let expected = planned.as_ref().map_or(CONTAINED, |(_, expected)| expected.as_str());
                let as_expected = match expected.contains(TO_FAIL) {
                    // A tool that a person has rejected has not failed, nor has one that was not reached or not waited for.
                    true => event.wave.is_some() && event.error.as_ref().is_some_and(is_of_the_tool),
                    false => event.error.is_none() && expected.contains(CONTAINED),
                };
                // What the run of a plan gives back depends on how its tasks went.
                let unknown = vouched || call.tool == PLAN_RUN;
                rule(unknown || event.as_expected == as_expected, "it is as expected, or not")?;
                mode.now.step = event.step;
                // What was to fail, and has, went as planned.
                let failed = event.error.is_some() && !event.as_expected;
                mode.now.last_failed = event.error.is_some();
                mode.now.erred = failed;
                mode.now.errors = if failed { mode.now.errors + 1 } else { 0 };
                if let Some((place, _)) = planned {
                    // A call that was not made is no step that was done, but a refused one departs from an approved plan.
                    let counts = event.wave.is_some() || mode.mode == Some(ExecutionMode::Supervised);
                    mode.now.done += u32::from(counts);
                    mode.now.missed += u32::from(counts && !event.as_expected);
                    if let Some(step) = mode.now.steps.get_mut(place) {
                        *step = Some(!failed);
                    }
                }
                mode.now.ended = mode.mode == Some(ExecutionMode::Simple) && !goes_on;
                mode.stage = Stage::Plans;
            }
            Body::ToolsMissed(event) => {
                let mode = self.mode()?;
                let tools: BTreeSet<String> = event.tools.iter().cloned().collect();
                let planned = mode.mode == Some(ExecutionMode::Planner) && mode.stage == Stage::Plans;
                let known = tools.iter().all(|tool| mode.tool(tool).is_some());
                rule(!held && planned && known && tools != mode.absent, "no other tools are missed")?;
                mode.absent = tools;
            }
            Body::EscalationAnswered(event) => {
                let mode = self.mode()?;
                rule((event.deviation - mode.now.deviation()).abs() < 1e-9, "another deviation")?;
                mode.now.known = mode.now.missed;
                mode.now.allowed = mode.now.replans;
                mode.absent.clear();
                mode.stage = match std::mem::take(&mut mode.stage) {
                    Stage::Escalated(Some((call, goes_on))) => Stage::Wanted(call, false, goes_on),
                    Stage::Wanted(call, approved, goes_on) => Stage::Wanted(call, approved, goes_on),
                    Stage::Escalated(None) | Stage::Plans | Stage::Asked(_) => Stage::Plans,
                    _ => return rule(false, "nobody was asked"),
                };
            }
            Body::ModeCheckpointed(event) => {
                self.request(event.request_id.clone())?;
                let mode = self.mode()?;
                rule(mode.mode.is_some(), "it has not begun")?;
                (mode.owes_checkpoint, mode.now.owes_checkpoint) = (false, false);
                // What cannot be undone is at work: to go back to this moment would be to do it twice.
                let at_work = match &mode.stage {
                    Stage::Called(_, call, _) => mode.tool(&call.tool),
                    _ => None,
                };
                let may = at_work.is_none_or(|tool| tool.undoable);
                let kept = (seq, mode.now.clone(), may);
                rule(mode.kept.insert(event.checkpoint_id, kept).is_none(), "another one has its name")?;
            }
            Body::ModeRolledBack(event) => {
                let settled =
                    self.waves.iter().flat_map(|wave| &wave.tasks).all(|task| task.step == Step::Settled);
                let live = self.leases.values().any(|lease| lease.end.is_none());
                Invariant::RollbackEndsWork
                    .check(settled && !live, || format!("{text} with work that goes on"))?;
                self.request(event.request_id.clone())?;
                let mode = self.mode()?;
                let Some((made, then, may)) = mode.kept.get(&event.checkpoint_id).cloned() else {
                    return rule(false, "there is no such checkpoint");
                };
                rule(may && event.to_seq == made, "it cannot go back there")?;
                mode.kept.retain(|_, (seq, ..)| *seq <= made);
                mode.owes_checkpoint = then.owes_checkpoint;
                let proposes =
                    mode.mode == Some(ExecutionMode::Supervised) && then.plan.is_some() && !then.approved;
                mode.stage = if proposes { Stage::Proposed } else { Stage::Plans };
                mode.now = then;
            }
            Body::ModeCompleted(event) => {
                let said_so = self.answered_with("complete");
                let mode = self.mode()?;
                rule(
                    event.remembered.is_some() == mode.now.is_complete(),
                    "a plan that was done is a pattern",
                )?;
                let by_rule = match mode.mode {
                    Some(ExecutionMode::Simple) => mode.now.ended && !mode.now.last_failed,
                    Some(ExecutionMode::Planner) => mode.now.is_done(),
                    _ => mode.now.is_complete() && mode.keeps_to_plan(),
                };
                let by_person = said_so && matches!(mode.stage, Stage::Escalated(_));
                // A person may say so while the run is held.
                rule(!held && by_rule && mode.stage == Stage::Plans || by_person, "it is not done")?;
                mode.completed = true;
            }
            other => return Invariant::GaplessSeq.broken(self.at(format!("{other:?} in a run"))),
        }
        Ok(())
    }

    /// Whether somebody has answered a question so; the newest event that names a question is its answer.
    fn answered_with(&self, answer: &str) -> bool {
        self.questions.values().any(|question| question.answer.as_deref() == Some(answer))
    }
}
