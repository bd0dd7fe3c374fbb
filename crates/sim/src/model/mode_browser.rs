//! The browser of an execution: one, opened by the first call that needs it, and used by calls of `browser.*` alone
//! (CONTRACTS §5).

use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::browser::{BROWSER_AGENT, TOOL_PREFIX};
use capataz_contracts::v1::{self, AfterFailure, payload::Data};
use capataz_engine::TaskRef;
use prost::Message;

use super::log::{RunModel, Step, WaveModel};
use super::mode::ModeModel;
use super::script::{Browser, IDLE_MS, Kind};
use crate::invariant::{Invariant, Violation};

#[derive(Clone, Debug, Default)]
pub struct ModeBrowser {
    pub(super) browser: Browser,
    /// Since when it waits for a person.
    put_away_since: Option<i64>,
    /// It was put away, or lost: a worker that comes with it has no use for it.
    pub(super) was_let_go: bool,
    /// Leases under which an action that may not be repeated was really sent to the page, by the waves of the calls.
    pub(super) performed: BTreeMap<u32, BTreeSet<u64>>,
}

impl RunModel {
    /// The browser of an execution; `None` of any other run.
    fn mode_browser(&mut self) -> Option<&mut ModeBrowser> {
        match &mut self.kind {
            Kind::Mode(mode) => Some(&mut mode.browser),
            _ => None,
        }
    }

    pub(super) fn is_in_browser(&self, task: TaskRef) -> bool {
        self.declared(task).is_some_and(|declared| declared.agent == BROWSER_AGENT)
    }

    /// The task opens its browser itself.
    fn opens(&self, task: TaskRef) -> bool {
        let input = self.declared(task).and_then(|declared| declared.input.clone());
        match input.and_then(|input| input.data) {
            Some(Data::Inline(bytes)) => v1::BrowserTask::decode(bytes).is_ok_and(|task| task.open),
            _ => false,
        }
    }

    /// The lease of the host that does a call of an execution.
    fn host_at_work(&self, what: &str) -> Result<(TaskRef, u64, u32), Violation> {
        let Kind::Mode(mode) = &self.kind else {
            return Invariant::ModesKeepTheirRules.broken(self.at(format!("{what} of no execution")));
        };
        let called = mode.called().filter(|(_, call)| call.tool.starts_with(TOOL_PREFIX));
        let task = called.map(|(wave, _)| TaskRef { wave, task: 0 });
        match task.and_then(|task| Some((task, self.live(task)?.0))) {
            Some((task, token)) => Ok((task, token, mode.actions())),
            None => Invariant::ModesKeepTheirRules.broken(self.at(format!("{what}, and no host is at work"))),
        }
    }

    pub(super) fn mode_browser_opened(&mut self, event: &v1::BrowserOpened) -> Result<(), Violation> {
        let text = self.at(format!("{event:?}"));
        let (task, token, _) = self.host_at_work("an opening")?;
        let by_holder = self.leases.get(&token).is_some_and(|lease| lease.worker == event.worker);
        let opens = self.opens(task);
        let Some(own) = self.mode_browser() else { return Ok(()) };
        let restored = matches!(own.browser, Browser::Kept(_)) == event.restored;
        let is_new = !matches!(own.browser, Browser::Open(_));
        own.browser = Browser::Open(event.worker.clone());
        Invariant::BrowserIsTheRuns.check(by_holder && restored && opens && is_new, || text)
    }

    pub(super) fn mode_browser_closed(&mut self, event: &v1::BrowserClosed) -> Result<(), Violation> {
        let (at, text) = (self.elapsed, self.at(format!("{event:?}")));
        let Some(own) = self.mode_browser() else { return Ok(()) };
        let idle = own.put_away_since.is_some_and(|since| at - since >= IDLE_MS);
        let Browser::Open(worker) = std::mem::take(&mut own.browser) else {
            return Invariant::BrowserIsTheRuns.broken(text);
        };
        own.browser = Browser::Kept(worker);
        own.was_let_go = true;
        Invariant::BrowserIsTheRuns.check(idle && event.kept, || text)
    }

    pub(super) fn mode_browser_lost(&mut self, event: &v1::BrowserLost) -> Result<(), Violation> {
        let text = self.at(format!("{event:?}"));
        let Some(own) = self.mode_browser() else { return Ok(()) };
        let was_there = match std::mem::replace(&mut own.browser, Browser::Lost) {
            Browser::Open(worker) | Browser::Kept(worker) => worker == event.worker,
            Browser::None | Browser::Lost => false,
        };
        own.was_let_go = true;
        Invariant::BrowserIsTheRuns.check(was_there, || text)
    }

    /// A worker gets a call: where the browser is open, or kept, the one that has it; where it is neither, only what opens one.
    pub(super) fn mode_taken_by(&self, worker: &str, task: TaskRef) -> Result<(), Violation> {
        let Kind::Mode(mode) = &self.kind else { return Ok(()) };
        if !self.is_in_browser(task) {
            return Ok(());
        }
        let mine = match &mode.browser.browser {
            Browser::Open(has) | Browser::Kept(has) => has == worker,
            Browser::None | Browser::Lost => self.opens(task),
        };
        Invariant::BrowserIsTheRuns.check(mine, || {
            self.at(format!("{worker} gets {task} of a browser that is {:?}", mode.browser.browser))
        })
    }

    /// Whether a call that waits has failed because its browser is not there.
    pub(super) fn is_call_taken_back(&self, code: &str) -> bool {
        let Kind::Mode(mode) = &self.kind else { return false };
        let away = matches!(mode.browser.browser, Browser::Kept(_) | Browser::Lost);
        let task = mode.called().map(|(wave, _)| TaskRef { wave, task: 0 });
        code == "BROWSER_LOST"
            && away
            && task.is_some_and(|task| self.is_in_browser(task) && !self.opens(task))
    }

    pub(super) fn mode_stage_finished(&mut self, event: &v1::StageFinished) -> Result<(), Violation> {
        let text = self.at(format!("{event:?}"));
        let (_, _, number) = self.host_at_work("a stage")?;
        Invariant::ModesKeepTheirRules.check(event.step_index == number, || text)
    }

    pub(super) fn mode_action_finished(&mut self, event: &v1::ActionFinished) -> Result<(), Violation> {
        let text = self.at(format!("{event:?}"));
        let (_, _, number) = self.host_at_work("an action's end")?;
        let plain = event.step_index == number && event.output.is_none();
        Invariant::ModesKeepTheirRules.check(plain, || text)
    }

    pub(super) fn mode_action_failed(&mut self, event: &v1::ActionFailed) -> Result<(), Violation> {
        let (text, seq) = (self.at(format!("{event:?}")), self.seq());
        let (_, token, _) = self.host_at_work("an action's failure")?;
        if let Some(error) = &event.error {
            self.recorded_error(token, error)?;
        }
        let numbered = event.error.as_ref().is_some_and(|error| error.seq == seq);
        // The planner decides what follows.
        let goes_on = event.next() == AfterFailure::Continue;
        Invariant::ModesKeepTheirRules.check(numbered && goes_on, || text)
    }

    /// After every event: does the browser wait for a person?
    pub(super) fn look_at_mode_browser(&mut self) {
        let at = self.elapsed;
        let leased = |wave: &WaveModel| wave.tasks.iter().any(|task| matches!(task.step, Step::Leased(_)));
        let rests = self.is_held() && !self.waves.last().is_some_and(leased);
        if let Some(own) = self.mode_browser() {
            let away = rests && matches!(own.browser, Browser::Open(_));
            own.put_away_since = if away { own.put_away_since.or(Some(at)) } else { None };
        }
    }

    /// An action of an execution was really sent to a page.
    pub(super) fn mode_performed(&mut self, task: TaskRef, token: u64) -> Result<(), Violation> {
        let live = self.live(task).is_some_and(|(live, _)| live == token);
        let once = self.declared(task).is_some_and(|task| task.effect == Some(v1::Effect::AtMostOnce as i32));
        let text = self.at(format!("the call of {task} is performed again under lease {token}"));
        let Some(own) = self.mode_browser().filter(|_| live && once) else { return Ok(()) };
        let before = own.performed.entry(task.wave).or_default();
        let first = before.iter().all(|other| *other == token);
        before.insert(token);
        Invariant::ActionsOnce.check(first, || format!("{text}: {before:?}"))
    }
}

impl ModeModel {
    /// A person has said that the call may be done again.
    pub(super) fn forgive(&mut self, wave: u32) {
        self.browser.performed.remove(&wave);
    }
}
