//! One run, as far as its spans need it.

use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::trace::{AWAITED, TraceContext, span_id};
use capataz_contracts::v1::{self, event::Body};

use crate::span::{Attribute, Draft, Span};

/// A task, by the places of its wave and of itself.
type Place = (u32, u32);

/// A run between its beginning and its end.
#[derive(Debug)]
pub(crate) struct Run {
    id: [u8; 16],
    /// Its first span, and its trace.
    root: TraceContext,
    /// The span that it belongs to.
    parent: Option<TraceContext>,
    title: String,
    /// When it was accepted, or forked, in Unix milliseconds.
    began_ms: i64,
    /// Number of the newest event that was looked at.
    seq: u64,
    /// What the run as a whole is at the end.
    whole: Draft,
    waves: Vec<Wave>,
    /// Groups of tasks that are at work: waves of plans, and phases, by their waves.
    groups: BTreeMap<u32, Box<Group>>,
    /// Attempts that have begun. A map of what is large has rooms for eleven of it.
    attempts: BTreeMap<Place, Box<Draft>>,
    /// Since when a task waits for a worker, where that is not the beginning of its wave. Unix milliseconds.
    waits: BTreeMap<Place, i64>,
    /// Bytes of the names in `waves`, and events that drafts have.
    names: usize,
    happened: usize,
}

/// Tasks that are parts of one span.
#[derive(Debug)]
struct Group {
    /// `wave` or `phase`.
    what: &'static str,
    /// Number of the event with which it begins.
    seq: u64,
    draft: Draft,
}

/// A wave, as far as it is known.
#[derive(Debug, Default)]
struct Wave {
    name: String,
    /// Name and agent of each task.
    tasks: Vec<(String, String)>,
    began_ms: i64,
    /// The span of which its attempts are parts.
    span: Option<[u8; 8]>,
}

impl Wave {
    /// Bytes of its names, about.
    fn size(&self) -> usize {
        self.tasks.iter().map(|(name, agent)| name.len() + agent.len() + 48).sum::<usize>() + self.name.len()
    }
}

impl Run {
    /// The run whose first event this is, and its first span; `None` where it is another event.
    pub(crate) fn begin(id: [u8; 16], event: &v1::Event) -> Option<(Self, Span)> {
        let Some(Body::RunAccepted(accepted)) = &event.body else { return None };
        let said = accepted.lineage.as_ref().map_or("", |lineage| &lineage.traceparent);
        let parent = TraceContext::parse(said);
        let root = TraceContext::of_run(id, parent);
        let kind = kind_of(accepted.kind());
        // What an execution is called is what somebody has asked for.
        let name = if accepted.query().is_some() { "" } else { accepted.name() };
        let mut title = format!("{kind} {name}");
        title.truncate(title.trim_end().len());
        let mut run = Self {
            id,
            root,
            parent,
            whole: Draft::new(root, &title, event.at_ms),
            title,
            began_ms: event.at_ms,
            seq: event.seq,
            waves: Vec::new(),
            groups: BTreeMap::new(),
            attempts: BTreeMap::new(),
            waits: BTreeMap::new(),
            names: 0,
            happened: 0,
        };
        for (place, wave) in accepted.plan().into_iter().flat_map(|plan| &plan.waves).enumerate() {
            run.declare(u32::try_from(place).unwrap_or(u32::MAX), wave);
        }
        let mut first = run.first().with("capataz.run.kind", kind);
        for (key, value) in &accepted.labels {
            first.set(&format!("capataz.label.{key}"), value.as_str());
        }
        let first = first.ended(event.at_ms);
        Some((run, first))
    }

    /// The number of the newest event that was looked at.
    pub(crate) fn seq(&self) -> u64 {
        self.seq
    }

    /// Whether whoever began the trace records it.
    pub(crate) fn is_recorded(&self) -> bool {
        self.root.sampled
    }

    /// The next event is none of its spans.
    pub(crate) fn pass(&mut self, seq: u64) {
        if self.seq + 1 == seq {
            self.seq = seq;
        }
    }

    /// Bytes that it takes, about.
    pub(crate) fn size(&self) -> usize {
        let drafts = self.attempts.len() + self.groups.len() + 1;
        self.names + drafts * 2_048 + self.happened * 256 + self.waits.len() * 64 + self.waves.len() * 96
    }

    /// Looks at the next event; whether it is the last one. What has ended with it is among `spans` then.
    pub(crate) fn apply(&mut self, event: &v1::Event, spans: &mut Vec<Span>) -> bool {
        self.seq = event.seq;
        let (seq, at) = (event.seq, event.at_ms);
        let Some(body) = &event.body else { return false };
        match body {
            Body::RunForked(forked) => spans.push(self.forked(forked, at)),
            Body::WaveStarted(started) => spans.extend(self.wave_started(started.wave, seq, at)),
            Body::WaveFinished(finished) => {
                spans.extend(
                    self.groups.remove(&finished.wave).map(|group| judged(group.draft, finished).ended(at)),
                );
            }
            Body::AskRouted(routed) => self.step(routed.call, routed.wave.as_ref(), at),
            Body::BrowserActivityStarted(started) => self.step(started.number, started.wave.as_ref(), at),
            Body::PlannerAsked(asked) => self.step(asked.wave, asked.tasks.as_ref(), at),
            Body::ToolCalled(called) => self.step(called.wave, called.tasks.as_ref(), at),
            Body::PhaseStarted(started) => {
                self.step(started.wave, started.tasks.as_ref(), at);
                spans.extend(self.group(started.wave, "phase", seq, at));
            }
            Body::PhaseCompleted(_) => spans.extend(self.phases_end(at, Draft::succeeded)),
            Body::PhaseBlocked(blocked) => {
                spans.extend(
                    self.phases_end(at, |phase| phase.failed(blocked.error.as_ref(), "PHASE_BLOCKED")),
                );
            }
            Body::PipelineRolledBack(_) => {
                spans.extend(self.phases_end(at, |phase| phase.set("capataz.rolled_back", true)));
                self.of_run(at, "pipeline rolled back", None);
            }
            Body::TaskLeased(leased) => spans.extend(self.leased(leased, at)),
            Body::ChildNamed(named) => spans.extend(self.child_named(named, at)),
            Body::ChildEnded(ended) => {
                let outcome = ended.outcome.map_or("detached", |_| outcome_of(ended.outcome()));
                if let Some(attempt) = self.attempts.get_mut(&(ended.wave, ended.task)) {
                    attempt.set("capataz.child.outcome", outcome);
                }
            }
            Body::TaskLeaseLost(lost) => spans.extend(self.lease_lost(lost, at)),
            Body::TaskAttemptFailed(failed) => spans.extend(self.attempt_failed(failed, at)),
            Body::TaskRetryDue(due) => {
                spans.extend(self.given_up((due.wave, due.task), "OUTCOME_UNKNOWN", at));
                self.waits.insert((due.wave, due.task), at);
            }
            Body::TaskRolledBack(back) => spans.extend(self.rolled_back(back, at)),
            Body::TaskReactivated(anew) => {
                spans.extend(self.given_up((anew.wave, anew.task), "OUTCOME_UNKNOWN", at));
                self.waits.insert((anew.wave, anew.task), at);
                let name = self.name((anew.wave, anew.task)).to_owned();
                self.of_run(at, "task begins anew", Some(("capataz.task", (&name).into())));
            }
            Body::TaskSettled(settled) => spans.push(self.settled(settled, seq, at)),
            Body::RunFinished(finished) => {
                self.end(finished, seq, at, spans);
                return true;
            }
            other => self.happened(other, at),
        }
        false
    }

    /// What happens to an attempt, or to the run, while it goes on.
    fn happened(&mut self, body: &Body, at: i64) {
        match body {
            Body::TaskCancelRequested(event) => {
                self.of_attempt((event.wave, event.task), at, "cancel requested");
            }
            Body::TaskExtended(event) => self.of_attempt((event.wave, event.task), at, "deadline extended"),
            Body::ResultRefused(event) => {
                self.of_attempt((event.wave, event.task), at, "late result refused")
            }
            Body::OutputRejected(event) => self.of_attempt((event.wave, event.task), at, "output rejected"),
            Body::QuestionAsked(event) => {
                let id = event.question.as_ref().map_or("", |question| &question.question_id);
                self.of_run(at, "question asked", Some(("capataz.question.id", id.into())));
            }
            Body::QuestionAnswered(event) => {
                let id = (&event.question_id).into();
                self.of_run(at, "question answered", Some(("capataz.question.id", id)));
            }
            Body::Notice(event) => {
                let code = event.notice.as_ref().map_or("", |notice| &notice.code);
                self.of_run(at, "notice", Some(("capataz.code", code.into())));
            }
            Body::RunPaused(_) => self.of_run(at, "paused", None),
            Body::RunResumed(_) => self.of_run(at, "resumed", None),
            Body::RunCancelRequested(_) => self.of_run(at, "cancel requested", None),
            Body::BrowserLost(_) => self.of_run(at, "browser lost", None),
            Body::ModeRolledBack(_) => self.of_run(at, "execution went back", None),
            _ => {}
        }
    }

    fn of_run(&mut self, at: i64, name: &str, attribute: Option<(&str, Attribute<'_>)>) {
        self.happened += 1;
        self.whole.event(at, name, attribute);
    }

    fn of_attempt(&mut self, place: Place, at: i64, name: &str) {
        if let Some(attempt) = self.attempts.get_mut(&place) {
            self.happened += 1;
            attempt.event(at, name, None);
        }
    }

    /// The span at whose end nothing has happened yet: whoever looks at a run that goes on sees where it belongs.
    fn first(&self) -> Draft {
        let first = with_id(Draft::new(self.root, &self.title, self.began_ms), self.id);
        match self.parent {
            Some(parent) => first.under_remote(parent.span_id),
            None => first,
        }
    }

    /// What came before was another run's: nothing of it is at work here.
    fn forked(&mut self, forked: &v1::RunForked, at: i64) -> Span {
        (self.parent, self.root, self.began_ms) = (None, TraceContext::of_run(self.id, None), at);
        self.whole = Draft::new(self.root, &self.title, at);
        self.attempts.clear();
        // What ended before has no span here.
        self.waves.iter_mut().for_each(|wave| wave.span = None);
        for (wave, group) in std::mem::take(&mut self.groups) {
            self.group(wave, group.what, group.seq, at);
        }
        let base = forked.run_id.as_str();
        self.first().with("capataz.run.forked_from", base).with("capataz.run.forked_at", forked.seq).ended(at)
    }

    fn declare(&mut self, place: u32, wave: &v1::Wave) {
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        // Waves are numbered without gaps; a number that is not the next one is that of a wave that begins again.
        if place > self.waves.len() {
            return;
        }
        let tasks = wave.tasks.iter().map(|task| (task.name.clone(), task.agent.clone())).collect();
        let wave = Wave { name: wave.name().to_owned(), tasks, ..Wave::default() };
        let gone = self.waves.drain(place..).map(|wave| wave.size()).sum::<usize>();
        self.names = (self.names + wave.size()).saturating_sub(gone);
        self.waves.push(wave);
    }

    fn wave(&self, place: u32) -> Option<&Wave> {
        self.waves.get(usize::try_from(place).ok()?)
    }

    fn name(&self, (wave, task): Place) -> &str {
        self.task((wave, task)).map_or("", |(name, _)| name)
    }

    fn task(&self, (wave, task): Place) -> Option<&(String, String)> {
        self.wave(wave)?.tasks.get(usize::try_from(task).ok()?)
    }

    /// A wave that the run itself makes up begins.
    fn step(&mut self, place: u32, wave: Option<&v1::Wave>, at: i64) {
        if let Some(wave) = wave {
            self.declare(place, wave);
        }
        // A run that makes up its waves is in one at a time, and may make up very many.
        let before = usize::try_from(place).ok().and_then(|place| self.waves.get_mut(place.checked_sub(1)?));
        if let Some(before) = before {
            self.names = self.names.saturating_sub(before.size());
            *before = Wave::default();
        }
        self.wave_begins(place, at);
    }

    fn wave_begins(&mut self, place: u32, at: i64) {
        self.waits.retain(|(wave, _), _| *wave != place);
        if let Some(wave) = usize::try_from(place).ok().and_then(|place| self.waves.get_mut(place)) {
            (wave.began_ms, wave.span) = (at, None);
        }
    }

    fn wave_started(&mut self, place: u32, seq: u64, at: i64) -> Option<Span> {
        self.wave_begins(place, at);
        self.group(place, "wave", seq, at)
    }

    /// The attempts of a wave are parts of a span of their own from here on; the one before it, where there is one, ends.
    fn group(&mut self, place: u32, what: &'static str, seq: u64, at: i64) -> Option<Span> {
        let own = self.root.at(self.id, seq);
        let wave = usize::try_from(place).ok().and_then(|place| self.waves.get_mut(place))?;
        wave.span = Some(own.span_id);
        let draft = Draft::new(own, &format!("{what} {}", wave.name), at).under(self.root.span_id);
        let draft = draft.with("capataz.tasks", wave.tasks.len() as u64);
        let Group { mut draft, .. } = *self.groups.insert(place, Box::new(Group { what, seq, draft }))?;
        draft.failed(None, "ROLLED_BACK");
        Some(draft.ended(at))
    }

    fn phases_end(&mut self, at: i64, how: impl Fn(&mut Draft)) -> Vec<Span> {
        let phases = std::mem::take(&mut self.groups).into_values();
        phases
            .map(|mut group| {
                how(&mut group.draft);
                group.draft.ended(at)
            })
            .collect()
    }

    /// The span of an attempt of this task.
    fn attempt(&mut self, place: Place, span: [u8; 8], at: i64) -> Draft {
        let since = self.waits.remove(&place).or_else(|| self.wave(place.0).map(|wave| wave.began_ms));
        let (name, agent) = self.task(place).map_or(("", ""), |(name, agent)| (name, agent));
        let parent = self.wave(place.0).and_then(|wave| wave.span).unwrap_or(self.root.span_id);
        let draft = Draft::new(TraceContext { span_id: span, ..self.root }, name, at).under(parent);
        let mut draft = draft.with("capataz.task", name);
        if !agent.is_empty() {
            draft.set("capataz.agent", agent);
        }
        draft.with("capataz.waited_ms", at.saturating_sub(since.unwrap_or(at)).max(0))
    }

    fn leased(&mut self, leased: &v1::TaskLeased, at: i64) -> Option<Span> {
        let place = (leased.wave, leased.task);
        let before = self.given_up(place, "OUTCOME_UNKNOWN", at);
        let attempt = self.attempt(place, span_id(self.id, leased.lease), at);
        let attempt = attempt
            .with("capataz.attempt", leased.attempt)
            .with("capataz.activation", leased.activation)
            .with("capataz.worker", leased.worker.as_str());
        self.attempts.insert(place, Box::new(attempt));
        before
    }

    fn child_named(&mut self, named: &v1::ChildNamed, at: i64) -> Option<Span> {
        let place = (named.wave, named.task);
        let before = self.given_up(place, "OUTCOME_UNKNOWN", at);
        let span = bytes_of(&named.run_id).map_or([0; 8], |child| span_id(child, AWAITED));
        let attempt = self.attempt(place, span, at);
        let attempt = attempt
            .with("capataz.attempt", named.attempt)
            .with("capataz.child.run.id", named.run_id.as_str());
        self.attempts.insert(place, Box::new(attempt));
        before
    }

    /// An attempt of which nothing more is heard, where there is one: nobody knows what became of lost work that must not be
    /// done twice, and what is taken back is not waited for.
    fn given_up(&mut self, place: Place, code: &str, at: i64) -> Option<Span> {
        let mut attempt = self.attempts.remove(&place)?;
        attempt.failed(None, code);
        Some(attempt.ended(at))
    }

    /// Tasks begin anew, and all waves after theirs.
    fn rolled_back(&mut self, back: &v1::TaskRolledBack, at: i64) -> Vec<Span> {
        self.of_run(at, "tasks taken back", None);
        let taken: Vec<Place> = back.taken_back.iter().map(|task| (task.wave, task.task)).collect();
        let later = self.attempts.keys().filter(|(wave, _)| *wave > back.wave);
        let ends: BTreeSet<Place> = later.copied().chain(taken.iter().copied()).collect();
        let mut spans: Vec<Span> =
            ends.into_iter().filter_map(|place| self.given_up(place, "ROLLED_BACK", at)).collect();
        let groups = self.groups.split_off(&back.wave.saturating_add(1));
        spans.extend(groups.into_values().map(|mut group| {
            group.draft.failed(None, "ROLLED_BACK");
            group.draft.ended(at)
        }));
        self.waits.extend(taken.into_iter().map(|place| (place, at)));
        spans
    }

    fn lease_lost(&mut self, lost: &v1::TaskLeaseLost, at: i64) -> Option<Span> {
        let place = (lost.wave, lost.task);
        self.waits.insert(place, at);
        let mut attempt = self.attempts.remove(&place)?;
        attempt
            .set("capataz.lease.lost", lost.reason().as_str_name().trim_start_matches("LEASE_LOSS_REASON_"));
        attempt.failed(None, "WORKER_LOST");
        Some(attempt.ended(at))
    }

    fn attempt_failed(&mut self, failed: &v1::TaskAttemptFailed, at: i64) -> Option<Span> {
        let place = (failed.wave, failed.task);
        let mut attempt = self.attempts.remove(&place)?;
        attempt.failed(failed.error.as_ref(), "FAILED");
        attempt.set("capataz.retry_in_ms", failed.delay_ms);
        used(&mut attempt, failed.usage.as_ref());
        Some(attempt.ended(at))
    }

    /// The attempt that a task ends with; one that ends without any has a span all the same.
    fn settled(&mut self, settled: &v1::TaskSettled, seq: u64, at: i64) -> Span {
        let place = (settled.wave, settled.task);
        let mut attempt = match self.attempts.remove(&place) {
            Some(attempt) => *attempt,
            None => self.attempt(place, span_id(self.id, seq), at),
        };
        let status = settled.status();
        match status {
            v1::ResultStatus::Success => attempt.succeeded(),
            other => attempt
                .failed(settled.error.as_ref(), other.as_str_name().trim_start_matches("RESULT_STATUS_")),
        }
        if settled.taken_over {
            attempt.set("capataz.taken_over", true);
        }
        used(&mut attempt, settled.usage.as_ref());
        attempt.ended(at)
    }

    /// The run has ended: whatever was open ends with it, and the run as a whole follows.
    fn end(&mut self, finished: &v1::RunFinished, seq: u64, at: i64, spans: &mut Vec<Span>) {
        let open = std::mem::take(&mut self.attempts).into_values().map(|draft| *draft);
        let groups = std::mem::take(&mut self.groups).into_values().map(|group| group.draft);
        spans.extend(open.chain(groups).map(|draft| draft.ended(at)));
        let place = self.root.at(self.id, seq);
        let mut whole = std::mem::replace(&mut self.whole, Draft::new(self.root, "", at));
        whole.becomes(place);
        let mut whole = with_id(whole.under(self.root.span_id).linked_to(self.root), self.id);
        whole.set("capataz.run.outcome", outcome_of(finished.outcome()));
        match finished.outcome() {
            v1::RunOutcome::Succeeded | v1::RunOutcome::SucceededWithFailures => whole.succeeded(),
            other => whole.failed(finished.error.as_ref(), outcome_of(other)),
        }
        spans.push(whole.ended(at));
    }
}

/// What a wave's policy has said in the end.
fn judged(mut group: Draft, finished: &v1::WaveFinished) -> Draft {
    match finished.evaluation.as_ref() {
        Some(evaluation) if !evaluation.should_continue => {
            group.failed(None, "WAVE_FAILED");
            group.set("capataz.reason", evaluation.reason.as_str());
        }
        Some(_) | None => group.succeeded(),
    }
    group
}

/// What an attempt has used of a model.
fn used(attempt: &mut Draft, usage: Option<&v1::Usage>) {
    let Some(usage) = usage else { return };
    let counted = [
        ("gen_ai.usage.input_tokens", usage.input_tokens),
        ("gen_ai.usage.output_tokens", usage.output_tokens),
    ];
    for (key, count) in counted {
        count.into_iter().for_each(|count| attempt.set(key, count));
    }
}

fn kind_of(kind: v1::RunKind) -> &'static str {
    match kind {
        v1::RunKind::Plan => "plan",
        v1::RunKind::Ask => "ask",
        v1::RunKind::Script => "script",
        v1::RunKind::Pipeline => "pipeline",
        v1::RunKind::Mode => "mode",
        v1::RunKind::Session | v1::RunKind::Unspecified => "run",
    }
}

fn outcome_of(outcome: v1::RunOutcome) -> &'static str {
    match outcome {
        v1::RunOutcome::Succeeded => "succeeded",
        v1::RunOutcome::SucceededWithFailures => "succeeded_with_failures",
        v1::RunOutcome::Failed => "failed",
        v1::RunOutcome::Cancelled => "cancelled",
        v1::RunOutcome::Blocked => "blocked",
        v1::RunOutcome::Unspecified => "unknown",
    }
}

fn bytes_of(run: &str) -> Option<[u8; 16]> {
    Some(run.parse::<uuid::Uuid>().ok()?.into_bytes())
}

fn with_id(mut draft: Draft, run: [u8; 16]) -> Draft {
    let id = uuid::Uuid::from_bytes(run);
    let mut text = uuid::Uuid::encode_buffer();
    draft.set("capataz.run.id", &*id.hyphenated().encode_lower(&mut text));
    draft
}
