//! What clients and the people behind them want, and when.

use std::rc::Rc;

use capataz_contracts::v1;
use capataz_engine::{Answer as Told, Input as Command};
use capataz_shard::Input;
use capataz_store::RunId;

use crate::client::Wish;
use crate::invariant::Violation;
use crate::model::{QuestionModel, RunModel};
use crate::modes;
use crate::pipelines::PHASE;
use crate::plans::Template;
use crate::scenario::{SCARCE_BYTES, agent_name};
use crate::schedule::Action;
use crate::scripts;
use crate::worker::Job;
use crate::world::World;

/// Answers that lead to an end.
const CALM_ANSWERS: &[&str] = &["approve", "skip", "succeeded", "failed", "terminate", "abort"];

impl World {
    /// Clients start runs, look and command, until the faults stop.
    pub(crate) fn clients_act(&mut self) -> Result<(), Violation> {
        if self.is_calm() {
            return Ok(());
        }
        let pause = self.rng.between(1, self.scenario.client_pause * 2);
        self.after(pause, Action::Act);
        let starts = self.ops.iter().filter(|op| matches!(op.wish, Wish::Start { .. })).count();
        let idle = self.model.unfinished().next().is_none();
        if starts < self.scenario.runs && (idle || self.rng.percent(35)) || idle && self.rng.percent(50) {
            self.want_start(starts as u64);
            return Ok(());
        }
        if self.rng.per_mille(8) && self.daemon.ready && !self.daemon.draining && !self.stands_still() {
            return self.drain();
        }
        let suggests = self.model.sessions().any(|session| session.suggestions().next().is_some());
        if suggests && self.rng.percent(20) {
            self.want_transition();
            return Ok(());
        }
        let awaits = self.model.unfinished().any(RunModel::awaits_proposal);
        if awaits && self.rng.percent(15) {
            self.want_browser();
            return Ok(());
        }
        match self.rng.below(100) {
            0 => self.want(Wish::List, false),
            1 | 2 => {
                if let Some(run) = self.any_run() {
                    self.want(Wish::Health { run }, false);
                }
            }
            3..=4 => {
                let agents = vec![agent_name(0), "agnet-0".to_owned()];
                self.want(Wish::Check { agents }, false);
            }
            5..=7 => self.change_specs(),
            8..=11 => self.want_transition(),
            12 => self.want_mode(),
            13 => self.want_forgetting(),
            14..=15 => self.want_import(),
            16..=19 => self.want_fork(),
            20..=25 => self.want_browser(),
            26 => {
                self.retain()?;
                self.want_start_again();
            }
            27..=34 => {
                if let Some(run) = self.any_run() {
                    self.want(Wish::Wait { run }, false);
                }
            }
            _ => self.want_command(),
        }
        Ok(())
    }

    fn want_start(&mut self, number: u64) {
        let template = Template::draw(&mut self.rng, &self.scenario, number);
        // A session may be of another shard than the key, which is where two of them meet.
        let often = if template.session().is_some() && self.scenario.shards > 1 { 40 } else { 8 };
        let is_forged = template.key.is_some() && self.rng.percent(often);
        let forged = is_forged.then(|| template.forged(&mut self.rng, &self.scenario));
        let wait = self.rng.percent(25);
        self.want(Wish::Start { template: Rc::new(template), wait }, false);
        if let Some(forged) = forged {
            self.want(Wish::Start { template: Rc::new(forged), wait: false }, false);
        }
    }

    /// Where keys are forgotten, somebody repeats a start after a long time.
    fn want_start_again(&mut self) {
        if !self.scenario.forgets_keys {
            return;
        }
        let starts = self.ops.iter().filter(|op| op.done).filter_map(|op| match &op.wish {
            Wish::Start { template, .. } if template.key.is_some() => Some(Rc::clone(template)),
            _ => None,
        });
        let starts: Vec<Rc<Template>> = starts.collect();
        if let Some(template) = self.rng.pick(&starts).cloned() {
            self.want(Wish::Start { template, wait: false }, false);
        }
    }

    /// The daemon is told to drain and is replaced a little later.
    fn drain(&mut self) -> Result<(), Violation> {
        self.line(|| "daemon: drains".to_owned());
        self.daemon.draining = true;
        self.deliver(Input::Drain)
    }

    fn any_run(&mut self) -> Option<RunId> {
        let count = self.model.unfinished().count();
        let pick = self.rng.below(count);
        let unfinished = self.model.unfinished().nth(pick).map(|run| run.run);
        match unfinished {
            Some(run) if !self.rng.percent(5) => Some(run),
            _ => {
                let count = self.model.runs().count();
                let pick = self.rng.below(count);
                self.model.runs().nth(pick).map(|run| run.run)
            }
        }
    }

    /// A user accepts what the answer to some ask has suggested, or what nobody has.
    fn want_transition(&mut self) {
        let open = self.model.sessions().flat_map(|session| {
            session.suggestions().map(|request_id| (session.name.clone(), request_id.clone()))
        });
        let open: Vec<(String, String)> = open.collect();
        let any = self.rng.pick(&open).cloned().filter(|_| !self.rng.percent(10));
        if let Some((session, _)) = any.as_ref().filter(|_| self.rng.percent(50)) {
            // Somebody goes through all of them: one is on its way to the disk when the next one comes.
            for (session, request_id) in open.iter().filter(|(of, _)| of == session) {
                self.want(Wish::Accept { session: session.clone(), request_id: request_id.clone() }, false);
            }
            return;
        }
        let (session, request_id) = any
            .unwrap_or_else(|| (format!("talk-{}", self.rng.below(4)), format!("ask-{}", self.rng.below(8))));
        self.want(Wish::Accept { session, request_id }, false);
    }

    /// Somebody gives a session the state of a file.
    fn want_import(&mut self) {
        let session = crate::asks::session(&mut self.rng, &self.scenario);
        let number = self.rng.below(6);
        let state = serde_json::json!({
            "version": "1.0.0",
            "updated_at": "2024-01-20T15:30:00Z",
            "context": { "project_type": format!("project {number}") },
            "history": [{ "command": "plan", "completed_at": "2024-01-20T14:50:00Z", "result": "created" }],
        });
        let mended = || vec![format!("SESSION_CORRUPTED: restored to project {number}")];
        let repairs = if self.rng.percent(40) { mended() } else { Vec::new() };
        self.want(Wish::Import { session, state: state.to_string(), repairs }, false);
    }

    /// A user chooses the mode of a session.
    fn want_mode(&mut self) {
        let session = crate::asks::session(&mut self.rng, &self.scenario);
        let mode = 1 + i32::try_from(self.rng.below(3)).unwrap_or(0);
        // Where there is little room, more is asked at once than has room.
        let times = if self.scenario.core.max_waiting_bytes == SCARCE_BYTES { 5 } else { 1 };
        for _ in 0..times {
            self.want(Wish::Choose { session: session.clone(), mode }, false);
        }
    }

    /// A user has some of what an execution remembers forgotten.
    fn want_forgetting(&mut self) {
        let remembered: Vec<(String, Vec<String>)> = self
            .model
            .runs()
            .filter_map(RunModel::memory)
            .filter(|(_, entries)| !entries.is_empty())
            .collect();
        let Some((session, entries)) = self.rng.pick(&remembered).cloned() else { return };
        let many = self.rng.percent(30);
        let wanted = entries.into_iter().filter(|_| many || self.rng.percent(40));
        // So few that they have room where there is little.
        let entry_ids = wanted.take(8).collect();
        self.want(Wish::Forget { session, entry_ids }, false);
    }

    /// Somebody proposes an action to an interactive script, or closes it.
    fn want_browser(&mut self) {
        let waiting: Vec<RunId> =
            self.model.unfinished().filter(|run| run.awaits_proposal()).map(|run| run.run).collect();
        let run = self.rng.pick(&waiting).copied().filter(|_| !self.rng.percent(10));
        let Some(run) = run.or_else(|| self.any_run()) else { return };
        let number = self.draw_id();
        let request_id = format!("r{number}");
        let input = if self.rng.percent(15) {
            Command::CloseBrowser { request_id }
        } else {
            Command::Propose {
                action: Box::new(scripts::action(&mut self.rng, &format!("p{number}"))),
                request_id,
            }
        };
        self.want(Wish::Command { run, if_seq: None, input: Box::new(input) }, false);
    }

    fn want_command(&mut self) {
        let Some(run) = self.any_run() else { return };
        let number = self.draw_id();
        let reused =
            self.rng.percent(3).then(|| self.model.run(run)?.requests.keys().next().cloned()).flatten();
        let request_id = reused
            .unwrap_or_else(|| if number.is_multiple_of(20) { String::new() } else { format!("r{number}") });
        let task = self.draw_task(run);
        let Some(model) = self.model.run(run) else { return };
        let seq = model.seq();
        let question = model.open_questions().next().or(model.questions.first_key_value());
        let question = question.map(asked);
        if let Some(question) = question.as_ref().filter(|question| question.is_typed)
            && self.rng.percent(20)
        {
            let question_id = question.question_id.clone();
            return self.want_two_outputs(run, &question_id);
        }
        let is_pipeline = task.starts_with(PHASE);
        // One that is not there, the one in work, or one of the first.
        let phase = match self.rng.below(6) {
            0 => "nowhere".to_owned(),
            1..=3 => String::new(),
            place => format!("{PHASE}{}", place - 3),
        };
        let goes_back = is_pipeline && self.rng.percent(30);
        let (is_mode, back) = (self.model.run(run).is_some_and(RunModel::is_mode), self.rng.below(100));
        let input = match self.rng.below(100) {
            _ if goes_back => Command::RollbackPipeline { phase, request_id },
            _ if is_mode && back < 20 => Command::Checkpoint { reason: format!("wish {number}"), request_id },
            _ if is_mode && back < 45 => {
                Command::RollbackExecution { checkpoint: format!("c{}", 1 + back % 4), request_id }
            }
            0..=14 => Command::Pause { request_id },
            15..=34 => Command::Resume { request_id },
            35..=39 => {
                Command::Cancel { reason: "as wished".to_owned(), force: self.rng.percent(30), request_id }
            }
            40..=64 => Command::Extend { task, by_ms: self.rng.between(1, 20_000), request_id },
            65..=76 => Command::Retry { task, request_id },
            77..=80 => Command::Rollback { task, cascade: self.rng.percent(60), request_id },
            _ => {
                let Asked { question_id, options, revision, .. } = question.unwrap_or_else(|| Asked {
                    question_id: "q0".to_owned(),
                    options: Vec::new(),
                    revision: 1,
                    is_typed: false,
                });
                let any = self.rng.pick(&options).cloned();
                let option = any.filter(|_| !self.rng.percent(5)).unwrap_or_else(|| "perhaps".to_owned());
                let revision = self.draw_revision(revision);
                let likely = if option == "succeeded" { 60 } else { 20 };
                let value = match option.as_str() {
                    "edit" => {
                        self.rng.percent(80).then(|| modes::edited(&mut self.rng, self.scenario.agents))
                    }
                    _ => self.rng.percent(likely).then(|| told(number)),
                };
                let answer = Told { value, revision, ..Told::from(option.as_str()) };
                Command::Resolve { question_id, answer, request_id }
            }
        };
        let if_seq =
            self.rng.percent(12).then(|| if self.rng.percent(80) { seq } else { seq.saturating_sub(1) });
        self.want(Wish::Command { run, if_seq, input: Box::new(input) }, false);
    }

    /// Two people say at the same time what a task has given back, and one of them says what its agent never would.
    fn want_two_outputs(&mut self, run: RunId, question_id: &str) {
        let number = self.draw_id();
        for value in [number, number + 1] {
            let answer = Told { value: Some(told(value)), ..Told::from("succeeded") };
            let request_id = format!("r{}", self.draw_id());
            let input = Command::Resolve { question_id: question_id.to_owned(), answer, request_id };
            self.want(Wish::Command { run, if_seq: None, input: Box::new(input) }, false);
        }
    }

    /// The revision that a user names who has seen this one, or an older one, or knows of none.
    fn draw_revision(&mut self, seen: u32) -> Option<u32> {
        match self.rng.below(10) {
            0..=5 => Some(seen),
            6..=7 => Some(seen.saturating_sub(1)),
            _ => None,
        }
    }

    fn draw_task(&mut self, run: RunId) -> String {
        let known = self.model.run(run).and_then(|run| Some((run.waves.len().checked_sub(1)?, run)));
        let Some((wave, model)) = known.filter(|_| !self.rng.percent(4)) else { return "nothing".to_owned() };
        let tasks = model.plan.waves.get(wave).map(|wave| wave.tasks.as_slice()).unwrap_or_default();
        self.rng.pick(tasks).map_or_else(|| "nothing".to_owned(), |task| task.name.clone())
    }

    /// People resume what is paused and answer what is asked: now and then at first, always once the faults have stopped.
    pub(crate) fn operate(&mut self) {
        if self.daemon.draining && self.rng.percent(10) {
            self.line(|| "-- the drained daemon stops".to_owned());
            self.crash();
        }
        let calm = self.is_calm();
        let held: Vec<(RunId, Option<Asked>)> = self
            .model
            .unfinished()
            .filter(|run| run.is_held() || calm && run.awaits_proposal())
            .map(|run| (run.run, first_question(run)))
            .collect();
        for (run, question) in held {
            if self.strikes(100) {
                self.lost_worker_speaks(run);
            }
            let cared_for = self.ops.iter().any(|op| op.caring && !op.done && op.wish.run() == Some(run));
            if cared_for || !(calm || self.rng.percent(8)) {
                continue;
            }
            if let Some(question) = question.as_ref().filter(|question| question.is_typed && !calm)
                && self.strikes(500)
            {
                self.want_two_outputs(run, &question.question_id);
                continue;
            }
            let request_id = format!("r{}", self.draw_id());
            let idle = self.model.run(run).is_some_and(|run| !run.is_held());
            let input = match question {
                None if idle => Command::CloseBrowser { request_id },
                None => Command::Resume { request_id },
                Some(Asked { question_id, options, revision, is_typed }) => {
                    let calm_answer = options.iter().find(|option| CALM_ANSWERS.contains(&option.as_str()));
                    let any = if calm { calm_answer } else { self.rng.pick(&options) };
                    let option = any.cloned().unwrap_or_default();
                    let revision = if calm { None } else { self.draw_revision(revision) };
                    // Once the faults have stopped, nobody says what cannot be accepted.
                    let value = match option.as_str() {
                        "edit" => Some(modes::edited(&mut self.rng, self.scenario.agents)),
                        option => (calm && is_typed && option == "succeeded").then(|| told(0)),
                    };
                    let answer = Told { value, revision, ..Told::from(option.as_str()) };
                    Command::Resolve { question_id, answer, request_id }
                }
            };
            self.want(Wish::Command { run, if_seq: None, input: Box::new(input) }, true);
        }
    }
}

impl World {
    /// A worker hears that the time of a task is over, and so does somebody who may say what becomes of it.
    pub(crate) fn answer_deadline(&mut self, run: RunId) {
        let Some(model) = self.model.run(run) else { return };
        let Some((id, question)) = model.open_questions().find(|(_, question)| question.at_deadline) else {
            return;
        };
        let (question_id, options) = (id.clone(), question.options.clone());
        if !self.strikes(700) {
            return;
        }
        let any = self.rng.pick(&options).cloned().unwrap_or_default();
        let option = if self.rng.percent(60) { "terminate".to_owned() } else { any };
        let request_id = format!("r{}", self.draw_id());
        let input = Command::Resolve { question_id, answer: option.as_str().into(), request_id };
        self.want(Wish::Command { run, if_seq: None, input: Box::new(input) }, false);
    }
}

impl World {
    /// The worker of work whose outcome a person is asked for has done it all the same.
    fn lost_worker_speaks(&mut self, run: RunId) {
        let Some(model) = self.model.run(run) else { return };
        let asked = model.open_questions().find(|(_, question)| question.outcome_unknown);
        let Some(task) = asked.and_then(|(_, question)| question.task) else { return };
        let of_task = model.leases.iter().rev().find(|(_, lease)| lease.task == task);
        let Some((token, lease)) = of_task.map(|(token, lease)| (*token, &lease.worker)) else { return };
        if let Some(index) = self.workers.iter().position(|worker| worker.id == *lease) {
            self.job(index, 100, Job::Stale((run, task, token)));
        }
    }
}

/// A question as somebody has seen it.
struct Asked {
    question_id: String,
    options: Vec<String>,
    revision: u32,
    /// Its value has to pass a schema.
    is_typed: bool,
}

fn asked((id, question): (&String, &QuestionModel)) -> Asked {
    Asked {
        question_id: id.clone(),
        options: question.options.clone(),
        revision: question.revision,
        is_typed: question.is_typed,
    }
}

fn first_question(run: &RunModel) -> Option<Asked> {
    run.holding_questions().next().map(asked)
}

/// What somebody says that a task has given back.
fn told(number: u64) -> v1::Payload {
    v1::Payload {
        media_type: "application/json".to_owned(),
        data: Some(v1::payload::Data::Inline(format!("{{\"told\":{number}}}").into())),
    }
}
