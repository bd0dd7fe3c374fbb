//! A script as its log tells it: which activity follows which, and what may be sent to a page again (CONTRACTS §3).

use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::v1::{self, AfterFailure, BrowserActivity};
use capataz_engine::TaskRef;

use super::ask::AskModel;
use super::log::{RunModel, Step, WaveModel, place};
use super::mode::ModeModel;
use super::page::{changes, once_only};
use super::pipeline::PipelineModel;
use crate::invariant::{Invariant, Violation};

/// What a script has where it says nothing (CONTRACTS §3, policies).
const MAX_STEPS: u32 = 100;
const SAME_STATE_REVISIT: u32 = 3;
const RETRY_LIMIT: u32 = 2;
const RECOVERY_LIMIT: u32 = 2;
pub(super) const IDLE_MS: i64 = 300_000;

/// Codes after which nothing is done again, whatever a policy lists (CONTRACTS §3).
const NEVER_AGAIN: [&str; 5] =
    ["INVALID_ACTIONSPEC", "POLICY_HALT", "ACTION_CRITICAL_BLOCKED", "BROWSER_LOST", "EVIDENCE_FAILED"];

/// What a run is for.
#[derive(Clone, Debug)]
pub enum Kind {
    Plan {
        /// It has, or had, its turn in its session.
        has_turn: bool,
    },
    Ask(Box<AskModel>),
    Script(Box<ScriptModel>),
    Pipeline(Box<PipelineModel>),
    Mode(Box<ModeModel>),
}

#[derive(Clone, Debug, Default)]
pub struct ScriptModel {
    pub script: v1::Script,
    /// One for each wave.
    works: Vec<Work>,
    retries: u32,
    recoveries: u32,
    halted: bool,
    pub closing: bool,
    /// Since when it waits for a proposal.
    idle_since: Option<i64>,
    /// When it is closed if none comes, as the newest event of its browser says.
    idle_until: Option<i64>,
    /// How often the page came into a state.
    arrivals: BTreeMap<String, u32>,
    state: String,
    pub(super) browser: Browser,
    /// Since when its browser waits for a person.
    put_away_since: Option<i64>,
    was_let_go: bool,
    /// What hosts said of the page, by their leases.
    pub(super) touched: BTreeMap<u64, bool>,
    /// Leases under which an action was really sent to the page, by its number.
    pub(super) performed: BTreeMap<u32, BTreeSet<u64>>,
}

/// What has become of the script's browser.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Browser {
    #[default]
    None,
    /// At this worker.
    Open(String),
    /// This worker has kept its state.
    Kept(String),
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct Work {
    activity: BrowserActivity,
    step: u32,
    /// Nothing is performed.
    decided: bool,
    after: Option<AfterFailure>,
    /// Its browser was gone before it had begun.
    taken_back: bool,
    /// An event says that the action, or the recovery, has succeeded.
    told: bool,
}

/// What has to come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Open,
    Wait,
    Act(u32),
    Recover(u32),
    /// The host is asked what the last activity has failed with.
    Explain(BrowserActivity, u32),
    Await,
    Close,
    /// The browser that was kept is opened again, for this step.
    Reopen(u32),
    /// What is next fails, for its browser is lost.
    Lost(BrowserActivity, u32),
    Finish,
}

impl ScriptModel {
    pub fn new(script: v1::Script) -> Self {
        Self { script, ..Self::default() }
    }

    /// Its browser was opened, whatever has become of it.
    pub(super) fn has_a_browser(&self) -> bool {
        self.browser != Browser::None || self.works.iter().any(|work| work.activity != BrowserActivity::Open)
    }

    fn policy(&self) -> v1::ScriptPolicy {
        self.script.policy.clone().unwrap_or_default()
    }

    pub(super) fn action(&self, step: u32) -> Option<&v1::Action> {
        self.script.actions.get(step as usize)
    }

    fn follow(&self, step: u32) -> Next {
        match self.action(step) {
            _ if self.halted => Next::Finish,
            Some(_) => Next::Act(step),
            None if self.script.interactive && !self.closing => Next::Await,
            None => Next::Close,
        }
    }

    fn next(&self, wave: Option<&WaveModel>) -> Next {
        let next = self.next_in_browser(wave);
        match (next, &self.browser) {
            (Next::Act(step) | Next::Recover(step), Browser::Kept(_)) => Next::Reopen(step),
            // No script here has a name for its state.
            (Next::Close, Browser::Kept(_)) => Next::Finish,
            (Next::Act(step), Browser::Lost) => Next::Lost(BrowserActivity::Action, step),
            (Next::Recover(step), Browser::Lost) => Next::Lost(BrowserActivity::Recovery, step),
            (Next::Close | Next::Await, Browser::Lost) => Next::Lost(BrowserActivity::Close, 0),
            (next, _) => next,
        }
    }

    fn next_in_browser(&self, wave: Option<&WaveModel>) -> Next {
        let (Some(wave), Some(work)) = (wave, self.works.last()) else { return Next::Open };
        let result = wave.tasks.first().filter(|task| task.step == Step::Settled);
        let Some(result) = result.and_then(|task| task.result.as_ref()) else { return Next::Wait };
        let succeeded = result.status == v1::ResultStatus::Success as i32;
        match (work.activity, succeeded) {
            (BrowserActivity::Recovery, _) => return Next::Act(work.step),
            (BrowserActivity::Open, true) => return self.follow(work.step),
            (BrowserActivity::Action, true) => return self.follow(work.step + 1),
            (BrowserActivity::Close, true) => return Next::Finish,
            (BrowserActivity::Action, false) if work.taken_back && self.is_kept() => {
                return Next::Act(work.step);
            }
            (BrowserActivity::Close, false) if work.taken_back && self.is_kept() => return Next::Close,
            _ => {}
        }
        match work.after {
            Some(AfterFailure::Recover) => Next::Recover(work.step),
            Some(AfterFailure::Continue) => self.follow(work.step + 1),
            Some(AfterFailure::Halt) => Next::Finish,
            _ if work.decided => Next::Finish,
            _ => Next::Explain(work.activity, work.step),
        }
    }

    fn is_kept(&self) -> bool {
        matches!(self.browser, Browser::Kept(_))
    }

    fn has_begun(&self, step: u32) -> bool {
        let last = self.works.iter().rev().find(|work| work.activity == BrowserActivity::Action);
        last.is_some_and(|work| work.step == step)
    }

    /// The limit that keeps an action from beginning, by counting.
    fn limit(&self, step: u32) -> Option<&'static str> {
        if self.has_begun(step) {
            return None;
        }
        let policy = self.policy();
        if step >= policy.max_steps.unwrap_or(MAX_STEPS) {
            return Some("max_steps");
        }
        let revisits = self.arrivals.get(&self.state).copied().unwrap_or(0).saturating_sub(1);
        let too_often = revisits > policy.same_state_revisit.unwrap_or(SAME_STATE_REVISIT);
        (too_often && self.action(step).is_some_and(changes)).then_some("same_state_revisit")
    }

    /// What has to follow from a failure of an activity.
    fn after(&self, work: Work, code: &str, lost: bool, touched: bool) -> AfterFailure {
        let lost = lost || work.decided;
        if work.activity == BrowserActivity::Recovery && !lost {
            return AfterFailure::Retry;
        }
        let Some(action) =
            self.action(work.step).filter(|_| work.activity == BrowserActivity::Action && !lost)
        else {
            return AfterFailure::Halt;
        };
        let policy = self.policy();
        let again = !NEVER_AGAIN.contains(&code) && (!touched || !once_only(action));
        let recovers = policy.recovery.iter().any(|rule| rule.on.iter().any(|on| on == code));
        let own = action.retry.clone().unwrap_or_default();
        let on = if own.on.is_empty() { &policy.retry_on } else { &own.on };
        let most = own.limit.or(policy.retry_limit).unwrap_or(RETRY_LIMIT);
        let (done, limit, goes_on) = if again && recovers {
            let limit = policy.recovery_limit.unwrap_or(RECOVERY_LIMIT);
            (self.recoveries, limit, AfterFailure::Recover)
        } else if again && on.iter().any(|on| on == code) {
            (self.retries, most, AfterFailure::Retry)
        } else {
            (0, 0, AfterFailure::Halt)
        };
        if done < limit {
            return goes_on;
        }
        // A limit that is reached is a halt, which nothing passes over.
        if limit > 0 {
            return AfterFailure::Halt;
        }
        let passes = self.script.interactive || action.on_failure == Some(v1::OnFailure::Continue as i32);
        if passes { AfterFailure::Continue } else { AfterFailure::Halt }
    }

    fn see(
        &mut self,
        before: Option<&v1::StateSignature>,
        after: Option<&v1::StateSignature>,
        arrives: bool,
    ) {
        if let Some(after) = after.filter(|_| arrives) {
            *self.arrivals.entry(after.url.clone()).or_default() += 1;
        }
        if let Some(seen) = after.or(before) {
            self.state.clone_from(&seen.url);
        }
    }

    /// A person has said that the action may be performed again.
    pub(super) fn forgive(&mut self) {
        if let Some(work) = self.works.last() {
            self.performed.remove(&work.step);
        }
    }
}

impl RunModel {
    fn in_script(&mut self, what: impl std::fmt::Display) -> Result<&mut ScriptModel, Violation> {
        let text = self.at(format!("{what}, and it is no script"));
        match &mut self.kind {
            Kind::Script(script) => Ok(script),
            _ => Invariant::ScriptInOrder.broken(text),
        }
    }

    fn next_of_script(&self) -> Option<Next> {
        match &self.kind {
            Kind::Script(script) => Some(script.next(self.waves.last())),
            _ => None,
        }
    }

    pub(super) fn activity_started(&mut self, event: v1::BrowserActivityStarted) -> Result<(), Violation> {
        let next = self.next_of_script();
        let step = event.step_index.unwrap_or_default();
        let failure =
            event.failure.as_ref().map(|failure| (failure.error_code.as_str(), failure.message.as_str()));
        let text = self.at(format!("{:?} {step} begins, {failure:?}, next is {next:?}", event.activity()));
        let free = self.ending.is_none() && self.open_questions().next().is_none();
        let number = event.number as usize == self.waves.len();
        let script = self.in_script("an activity")?;
        let expected = match (next, event.activity()) {
            (Some(Next::Open), BrowserActivity::Open) | (Some(Next::Close), BrowserActivity::Close) => {
                failure.is_none()
            }
            (Some(Next::Act(due)), BrowserActivity::Action) => {
                let limit = script.limit(due);
                let same = match (failure, limit) {
                    (None, None) => true,
                    (Some(("POLICY_HALT", message)), Some(limit)) => message.starts_with(limit),
                    _ => false,
                };
                due == step && same
            }
            (Some(Next::Recover(due)), BrowserActivity::Recovery) => due == step && failure.is_none(),
            (Some(Next::Reopen(due)), BrowserActivity::Open) => due == step && failure.is_none(),
            (Some(Next::Lost(activity, due)), again) => {
                activity == again && due == step && matches!(failure, Some(("BROWSER_LOST", _)))
            }
            (Some(Next::Explain(activity, due)), again) => {
                let same = activity == again && (again != BrowserActivity::Action || due == step);
                same && matches!(failure, Some(("BROWSER_LOST", _)))
            }
            _ => false,
        };
        Invariant::ScriptInOrder.check(free && number && expected, || text.clone())?;
        let once = event.activity() == BrowserActivity::Action
            && failure.is_none()
            && script.action(step).is_some_and(once_only);
        let effect = event.wave.as_ref().and_then(|wave| wave.tasks.first()?.effect);
        let marked = (effect == Some(v1::Effect::AtMostOnce as i32)) == once;
        Invariant::AtMostOnce.check(marked, || text)?;
        if event.activity() == BrowserActivity::Action && !script.has_begun(step) {
            script.retries = 0;
            script.recoveries = 0;
        }
        script.works.push(Work {
            activity: event.activity(),
            step,
            decided: failure.is_some(),
            after: None,
            taken_back: false,
            told: false,
        });
        script.idle_until = None;
        self.open_wave(event.wave.unwrap_or_default());
        Ok(())
    }

    /// The activity in work, and the lease of its host.
    fn activity_in_work(&mut self, what: &str) -> Result<(Work, u64, &mut ScriptModel), Violation> {
        let task = place(u32::try_from(self.waves.len()).unwrap_or(0).saturating_sub(1), 0);
        let live = self.live(task).map(|(token, _)| token);
        let text = self.at(format!("{what}, and no host is at work"));
        let script = self.in_script(what)?;
        match (script.works.last().copied(), live) {
            (Some(work), Some(token)) => Ok((work, token, script)),
            _ => Invariant::ScriptInOrder.broken(text),
        }
    }

    /// Whether a person has just said that the activity in work is done.
    fn is_vouched_for(&self) -> bool {
        let task = place(u32::try_from(self.waves.len()).unwrap_or(0).saturating_sub(1), 0);
        self.task(task).is_some_and(|task| task.vouched && task.step == Step::Asking)
    }

    pub(super) fn browser_changed(&mut self, expected: BrowserActivity) -> Result<(), Violation> {
        let text = self.at(format!("{expected:?} has succeeded"));
        let (work, ..) = self.activity_in_work("a browser's event")?;
        Invariant::ScriptInOrder.check(work.activity == expected && !work.decided, || text)
    }

    pub(super) fn browser_opened(&mut self, event: &v1::BrowserOpened) -> Result<(), Violation> {
        if self.is_mode() {
            return self.mode_browser_opened(event);
        }
        self.browser_changed(BrowserActivity::Open)?;
        let text = self.at(format!("{event:?}"));
        let (_, token, _) = self.activity_in_work("an opening")?;
        let by_holder = self.leases.get(&token).is_some_and(|lease| lease.worker == event.worker);
        let until = event.idle_in_ms.map(|wait| self.elapsed + wait);
        let script = self.in_script("an opening")?;
        script.idle_until = until;
        let restored = script.is_kept() == event.restored;
        script.browser = Browser::Open(event.worker.clone());
        Invariant::BrowserIsTheRuns.check(by_holder && restored, || text)
    }

    pub(super) fn browser_closed(&mut self, event: &v1::BrowserClosed) -> Result<(), Violation> {
        if self.is_mode() {
            return self.mode_browser_closed(event);
        }
        if !event.kept {
            self.browser_changed(BrowserActivity::Close)?;
            self.in_script("a closing")?.browser = Browser::None;
            return Ok(());
        }
        let (at, text) = (self.elapsed, self.at(format!("{event:?}")));
        let script = self.in_script("a closing")?;
        let patience = script.script.idle_timeout_ms.unwrap_or(IDLE_MS);
        let idle = script.put_away_since.is_some_and(|since| at - since >= patience);
        let before = std::mem::take(&mut script.browser);
        let Browser::Open(worker) = before else { return Invariant::BrowserIsTheRuns.broken(text) };
        script.browser = Browser::Kept(worker);
        script.was_let_go = true;
        Invariant::BrowserIsTheRuns.check(idle, || text)
    }

    pub(super) fn browser_lost(&mut self, event: v1::BrowserLost) -> Result<(), Violation> {
        if self.is_mode() {
            return self.mode_browser_lost(&event);
        }
        let text = self.at(format!("{event:?}"));
        let script = self.in_script("a loss")?;
        let was_there = match std::mem::replace(&mut script.browser, Browser::Lost) {
            Browser::Open(worker) | Browser::Kept(worker) => worker == event.worker,
            Browser::None | Browser::Lost => false,
        };
        script.was_let_go = true;
        Invariant::BrowserIsTheRuns.check(was_there, || text)
    }

    /// A worker gets an activity: where the browser is open, or kept, the one that has it.
    pub(super) fn taken_by(&self, worker: &str, task: TaskRef) -> Result<(), Violation> {
        if self.is_mode() {
            return self.mode_taken_by(worker, task);
        }
        let Kind::Script(script) = &self.kind else { return Ok(()) };
        let mine = match &script.browser {
            Browser::Open(has) | Browser::Kept(has) => has == worker,
            Browser::None => true,
            // Anybody may say so, and nobody does anything.
            Browser::Lost => script.works.last().is_some_and(|work| work.decided),
        };
        Invariant::BrowserIsTheRuns.check(mine, || {
            self.at(format!("{worker} gets an activity of a browser that is {:?}", script.browser))
        })
    }

    /// Whether what waits has failed because its browser is not there.
    pub(super) fn is_taken_back(&mut self, code: &str) -> bool {
        if self.is_mode() {
            return self.is_call_taken_back(code);
        }
        let Kind::Script(script) = &mut self.kind else { return false };
        let away = matches!(script.browser, Browser::Kept(_) | Browser::Lost);
        let Some(work) = script.works.last_mut().filter(|_| code == "BROWSER_LOST" && away) else {
            return false;
        };
        work.taken_back = !work.decided;
        work.taken_back
    }

    /// Whether its browser was put away at some time, while it waited for a person, or was lost.
    #[must_use]
    pub fn was_let_go(&self) -> bool {
        match &self.kind {
            Kind::Script(script) => script.was_let_go,
            // One that was never said to be open may be at the worker that was to open it.
            Kind::Mode(mode) => mode.browser.was_let_go || matches!(mode.browser.browser, Browser::None),
            Kind::Plan { .. } | Kind::Ask(_) | Kind::Pipeline(_) => false,
        }
    }

    pub(super) fn stage_finished(&mut self, event: &v1::StageFinished) -> Result<(), Violation> {
        if self.is_mode() {
            return self.mode_stage_finished(event);
        }
        let text = self.at(format!("{event:?}"));
        let (work, ..) = self.activity_in_work("a stage")?;
        Invariant::ScriptInOrder.check(event.step_index == work.step, || text)
    }

    pub(super) fn action_finished(&mut self, event: &v1::ActionFinished) -> Result<(), Violation> {
        if self.is_mode() {
            return self.mode_action_finished(event);
        }
        let text = self.at(format!("{event:?}"));
        let until = event.idle_in_ms.map(|wait| self.elapsed + wait);
        let vouched = self.is_vouched_for();
        let work = match vouched {
            true => self.in_script("an action's end")?.works.last().copied(),
            false => Some(self.activity_in_work("an action's end")?.0),
        };
        let script = self.in_script("an action's end")?;
        let Some(work) = work else { return Invariant::ScriptInOrder.broken(text) };
        let same = event.step_index == work.step && event.activity() == work.activity && !work.decided;
        let arrives =
            work.activity == BrowserActivity::Action && script.action(work.step).is_some_and(changes);
        script.see(event.state_before.as_ref(), event.state_after.as_ref(), arrives);
        script.idle_until = until;
        if let Some(work) = script.works.last_mut() {
            work.told = true;
        }
        let acts = match work.activity {
            BrowserActivity::Action => !vouched || is_unseen(event),
            BrowserActivity::Recovery => !vouched,
            _ => false,
        };
        Invariant::ScriptInOrder.check(same && acts && !work.told, || text)
    }

    /// What an action, or a recovery, that has succeeded has done is said by its host, or by a person.
    pub(super) fn success_is_told(&self, text: &str) -> Result<(), Violation> {
        let Kind::Script(script) = &self.kind else { return Ok(()) };
        let acts = |work: &&Work| {
            matches!(work.activity, BrowserActivity::Action | BrowserActivity::Recovery) && !work.told
        };
        let untold = script.works.last().filter(acts);
        Invariant::ScriptInOrder
            .check(untold.is_none(), || format!("{text}, and nobody has said so: {untold:?}"))
    }

    pub(super) fn action_failed(&mut self, event: &v1::ActionFailed) -> Result<(), Violation> {
        if self.is_mode() {
            return self.mode_action_failed(event);
        }
        let text = self.at(format!("{event:?}"));
        let seq = self.seq();
        let until = event.idle_in_ms.map(|wait| self.elapsed + wait);
        let (work, token, _) = self.activity_in_work("an action's failure")?;
        let Some(error) = &event.error else { return Invariant::ScriptInOrder.broken(text) };
        self.recorded_error(token, error)?;
        let lost = self.told_lost(token);
        let script = self.in_script("an action's failure")?;
        script.idle_until = until;
        let numbered = error.seq == seq && event.activity() == work.activity;
        Invariant::ScriptInOrder.check(numbered, || text.clone())?;
        let arrives =
            work.activity == BrowserActivity::Action && script.action(work.step).is_some_and(changes);
        script.see(error.state_before.as_ref(), error.state_after.as_ref(), arrives);
        // A limit that is reached with a failure has an event of its own, with the same consequence.
        let halt_after = error.error_code == "POLICY_HALT" && !work.decided;
        let touched = script.touched.get(&token).copied().unwrap_or(false);
        let expected = if halt_after && work.after.is_some() {
            work.after.unwrap_or_default()
        } else {
            script.after(work, &error.error_code, lost, touched)
        };
        Invariant::ScriptFailures.check(event.next() == expected, || {
            format!("{text}, expected {expected:?}, touched {touched}")
        })?;
        match expected {
            AfterFailure::Retry if work.activity == BrowserActivity::Action => script.retries += 1,
            AfterFailure::Recover => script.recoveries += 1,
            AfterFailure::Halt => script.halted = true,
            _ => {}
        }
        if !touched {
            script.performed.entry(work.step).or_default().remove(&token);
        }
        if let Some(work) = script.works.last_mut() {
            work.after = Some(expected);
        }
        Ok(())
    }

    pub(super) fn proposed(&mut self, event: v1::ActionProposed) -> Result<(), Violation> {
        let next = self.next_of_script();
        let text = self.at(format!("{event:?}, next is {next:?}"));
        let free = self.ending.is_none() && self.open_questions().next().is_none();
        let script = self.in_script("a proposal")?;
        let last = event.step_index as usize == script.script.actions.len();
        Invariant::ScriptInOrder.check(free && last && next == Some(Next::Await), || text)?;
        script.script.actions.extend(event.action);
        self.request(event.request_id)
    }

    pub(super) fn close_requested(&mut self, event: v1::BrowserCloseRequested) -> Result<(), Violation> {
        let text = self.at(format!("{event:?}"));
        let at = self.elapsed;
        let script = self.in_script("a close")?;
        let patience = script.script.idle_timeout_ms.unwrap_or(IDLE_MS);
        let idle = script.idle_since.is_some_and(|since| at - since >= patience);
        let allowed = script.script.interactive && !script.closing && (!event.idle || idle);
        Invariant::ScriptInOrder.check(allowed, || format!("{text}, idle since {:?}", script.idle_since))?;
        script.closing = true;
        self.request(event.request_id)
    }

    /// After every event: does the script wait for a proposal, and is it said for how long?
    pub(super) fn look_at_idleness(&mut self) -> Result<(), Violation> {
        self.look_at_mode_browser();
        let free = self.ending.is_none() && self.finished.is_none() && self.open_questions().next().is_none();
        let waits = free && self.next_of_script() == Some(Next::Await);
        let at = self.elapsed;
        let leased = |wave: &WaveModel| wave.tasks.iter().any(|task| matches!(task.step, Step::Leased(_)));
        let rests = self.is_held() && !self.waves.last().is_some_and(leased);
        let Kind::Script(script) = &mut self.kind else { return Ok(()) };
        script.idle_since = if waits { script.idle_since.or(Some(at)) } else { None };
        let away = rests && matches!(script.browser, Browser::Open(_));
        script.put_away_since = if away { script.put_away_since.or(Some(at)) } else { None };
        let patience = script.script.idle_timeout_ms.unwrap_or(IDLE_MS);
        let (since, until) = (script.idle_since, script.idle_until);
        let has_an_end = since.is_none_or(|since| until == Some(since + patience));
        Invariant::SessionsHaveAnEnd.check(has_an_end, || {
            self.at(format!("it waits for a proposal since {since:?}, and is closed at {until:?}"))
        })
    }

    /// Whether somebody has to propose something, or to close it.
    #[must_use]
    pub fn awaits_proposal(&self) -> bool {
        matches!(&self.kind, Kind::Script(script) if script.idle_since.is_some())
    }

    #[must_use]
    pub fn is_closing(&self) -> bool {
        matches!(&self.kind, Kind::Script(script) if script.closing)
    }

    /// The outcome that a script ends with which nobody has ended.
    pub(super) fn script_outcome(&self) -> Option<v1::RunOutcome> {
        let Kind::Script(script) = &self.kind else { return None };
        if script.next(self.waves.last()) != Next::Finish {
            return None;
        }
        let last = self.waves.last().and_then(|wave| wave.tasks.first()?.result.as_ref());
        let failed = last.is_some_and(|result| result.status != v1::ResultStatus::Success as i32);
        // A browser that was put away is not closed once more: what failed last is an action after which the script went on,
        // or a closing that was taken back.
        let put_away = script.is_kept() && script.next_in_browser(self.waves.last()) == Next::Close;
        let failed = failed && !put_away;
        let ended = |work: &&Work| {
            work.activity == BrowserActivity::Action
                && matches!(work.after, Some(AfterFailure::Continue | AfterFailure::Halt))
        };
        Some(if script.halted || failed {
            v1::RunOutcome::Failed
        } else if script.works.iter().any(|work| ended(&work)) {
            v1::RunOutcome::SucceededWithFailures
        } else {
            v1::RunOutcome::Succeeded
        })
    }

    pub(super) fn is_script(&self) -> bool {
        matches!(self.kind, Kind::Script(_))
    }

    /// The session that the run belongs to.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        match &self.kind {
            Kind::Ask(ask) => ask.ask.session.as_deref(),
            Kind::Plan { .. } => self.plan.session.as_deref(),
            Kind::Mode(mode) => mode.run.session.as_deref(),
            Kind::Script(_) | Kind::Pipeline(_) => None,
        }
    }

    /// Whether it is a plan that belongs neither to a session nor to another run.
    #[must_use]
    pub fn is_plan_of_its_own(&self) -> bool {
        matches!(self.kind, Kind::Plan { .. }) && self.plan.session.is_none() && self.parent.is_none()
    }

    /// Whether it is a plan that has, or had, its turn in its session.
    #[must_use]
    pub fn plan_has_turn(&self) -> bool {
        matches!(self.kind, Kind::Plan { has_turn: true })
    }

    #[must_use]
    pub fn ask(&self) -> Option<&AskModel> {
        match &self.kind {
            Kind::Ask(ask) => Some(ask),
            _ => None,
        }
    }

    pub(super) fn ask_mut(&mut self) -> Option<&mut AskModel> {
        match &mut self.kind {
            Kind::Ask(ask) => Some(ask),
            _ => None,
        }
    }
}

/// Whether it tells nothing of the page.
fn is_unseen(event: &v1::ActionFinished) -> bool {
    let states = event.state_before.is_some() || event.state_after.is_some();
    let found = event.resolution.is_some() || event.changes.is_some() || event.output.is_some();
    !states && !found && event.evidence.is_empty()
}
