//! Any plan, any inputs: what holds after every step.

use proptest::prelude::*;

use super::any::{CODES, Step, WORKERS, any_plan, step};
use super::*;

const STEPS: usize = 200;

impl Bench {
    /// Takes the step, where there is anything that it can be done to.
    #[track_caller]
    fn take(mut self, step: &Step) -> Self {
        if let Step::Fork { later } = *step {
            return if self.state.may_be_forked() { self.forks_later(later) } else { self };
        }
        let input = match *step {
            Step::Pass { milliseconds, tick } => {
                self.now = self.now.plus(milliseconds);
                tick.then(|| Input::Tick { observed: BTreeMap::new() })
            }
            Step::Meet => self.state.next_deadline().map(|next| {
                self.now = self.now.max(next);
                let observed =
                    Observed { last_frame: Some(self.now), partial_output: Some(json("\"part\"")) };
                let due = self.state.due(self.now).map(|task| (task, observed.clone())).collect();
                Input::Tick { observed: due }
            }),
            ref other => self.translate(other),
        };
        match input {
            Some(input) => self.both(input),
            None => self,
        }
    }

    /// The state that was read from a snapshot does the same with the input.
    #[track_caller]
    fn both(self, input: Input) -> Self {
        let mut read = RunState::from_snapshot(&snapshot(&self.state)).expect("the snapshot can be read");
        let was_finished = self.state.is_finished();
        let bench = self.input(input.clone());
        assert_eq!(decide(&mut read, input, bench.moment()), bench.last, "a snapshot continues the same");
        assert_eq!(snapshot(&read), snapshot(&bench.state));
        if was_finished && let Ok(decision) = &bench.last {
            assert_eq!(decision.count, 0, "a finished run does nothing more");
        }
        bench
    }

    fn translate(&self, step: &Step) -> Option<Input> {
        let references: Vec<TaskRef> = self.state.plan().references().map(|(task, _)| task).collect();
        let any = |index: u8| references[usize::from(index) % references.len()];
        let name = |index: u8| {
            let declared = self.state.plan().task(any(index)).unwrap();
            if index == 15 { "no-such-task".to_owned() } else { declared.name.clone() }
        };
        let leases: Vec<(TaskRef, u64, String)> =
            self.state.leases().map(|(task, token, worker)| (task, token, worker.to_owned())).collect();
        let held = |index: u8| {
            let chosen = leases.get(usize::from(index) % leases.len().max(1));
            chosen.cloned()
        };
        let report = |index: u8, report: Report| {
            held(index).map(|(task, lease, worker)| reported(task, lease, &worker, report))
        };
        let request_id = |request: u8| if request < 30 { String::new() } else { format!("r{request}") };
        Some(match *step {
            Step::Lease { task, worker } => Input::Lease {
                output_schema: None,
                cancel_is_final: task % 2 == 1,
                mark: 0,
                task: any(task),
                worker: WORKERS[usize::from(worker)].to_owned(),
            },
            Step::LeaseWaiting { task, worker } => {
                let waiting: Vec<TaskRef> = self.state.queued().collect();
                let task = *waiting.get(usize::from(task) % waiting.len().max(1))?;
                Input::Lease {
                    output_schema: None,
                    cancel_is_final: worker % 2 == 1,
                    mark: 0,
                    task,
                    worker: WORKERS[usize::from(worker)].to_owned(),
                }
            }
            Step::Complete { task } => report(task, Report::Completed(json("{\"n\":1}")))?,
            Step::Fail { task, code, retry_after_ms } => {
                let error = v1::Error { retry_after_ms, ..failure(CODES[usize::from(code)]) };
                report(task, Report::Failed(error))?
            }
            Step::Stop { task, partial } => {
                report(task, Report::Cancelled(partial.then(|| json("\"half\""))))?
            }
            Step::Claim { task, token, worker } => {
                let report = Report::Completed(json("\"stolen\""));
                reported(any(task), self.some_token(token), WORKERS[usize::from(worker)], report)
            }
            Step::Lose { task, reason } => {
                let (task, lease, _) = held(task)?;
                let reason = v1::LeaseLossReason::try_from(reason).unwrap_or_default();
                Input::LeaseLost { task, lease, reason }
            }
            Step::LoseAny { task, token } => {
                let reason = v1::LeaseLossReason::Silent;
                Input::LeaseLost { task: any(task), lease: self.some_token(token), reason }
            }
            Step::Absent { task } => Input::AgentAbsent { task: any(task) },
            Step::Pause { request } => Input::Pause { request_id: request_id(request) },
            Step::Resume { request } => Input::Resume { request_id: request_id(request) },
            Step::Cancel { force, request } => {
                Input::Cancel { reason: "enough".to_owned(), force, request_id: request_id(request) }
            }
            Step::Extend { task, by_ms, request } => extend(&name(task), by_ms, &request_id(request)),
            Step::Retry { task, request } => retry(&name(task), &request_id(request)),
            Step::RollBack { task, cascade, request } => rollback(&name(task), cascade, &request_id(request)),
            Step::Answer { question, answer, request } => {
                let asked =
                    self.state.questions.get(usize::from(question) % self.state.questions.len().max(1))?;
                let options = &asked.question.options;
                let answer = options.get(usize::from(answer)).map_or("nonsense", String::as_str);
                resolve(&asked.question.question_id, answer, &request_id(request))
            }
            Step::Pass { .. } | Step::Meet | Step::Fork { .. } => return None,
        })
    }

    /// A token that was given, or a number that is not a token.
    fn some_token(&self, choice: u8) -> u64 {
        let given = self.ledger.events.iter().filter_map(|event| match event.body.as_ref()? {
            Body::TaskLeased(leased) => Some(leased.lease),
            _ => None,
        });
        let given: Vec<u64> = given.collect();
        match given.get(usize::from(choice) % (given.len() + 1)) {
            Some(token) => *token,
            None => u64::from(choice),
        }
    }

    /// People answer, workers work, time passes.
    #[track_caller]
    fn drive_to_the_end(mut self) -> Self {
        let tasks = self.state.plan().task_count() as usize;
        for _ in 0..10 * tasks + 20 {
            if self.state.is_finished() {
                return self;
            }
            if self.state.status() == v1::RunStatus::Paused {
                self = self.both(Input::Resume { request_id: String::new() });
            }
            for question_id in self.open() {
                let asked =
                    self.state.open_questions().find(|asked| asked.question.question_id == question_id);
                let options = asked.map(|asked| asked.question.options.clone()).unwrap_or_default();
                let calm = ["skip", "terminate", "succeeded"];
                let answer = calm.into_iter().find(|calm| options.iter().any(|option| option == calm));
                self = self.both(resolve(&question_id, answer.expect("there is a calm answer"), ""));
            }
            let queued: Vec<TaskRef> = self.state.queued().filter(|_| self.state.may_lease()).collect();
            for task in queued {
                self = self.both(Input::Lease {
                    output_schema: None,
                    cancel_is_final: false,
                    mark: 0,
                    task,
                    worker: "w0".to_owned(),
                });
            }
            let leases: Vec<(TaskRef, u64, String)> =
                self.state.leases().map(|(task, token, worker)| (task, token, worker.to_owned())).collect();
            for (task, lease, worker) in leases {
                let report = Report::Completed(json("{\"n\":1}"));
                self = self.both(reported(task, lease, &worker, report));
            }
            if let Some(next) = self.state.next_deadline() {
                self.now = self.now.max(next);
                self = self.both(Input::Tick { observed: BTreeMap::new() });
            }
        }
        panic!("the run does not come to its end: {:?}", self.run());
    }
}

proptest! {
    #[test]
    fn every_run_keeps_the_rules_and_comes_to_its_end(
        plan in any_plan(),
        steps in prop::collection::vec(step(), 0..STEPS),
    ) {
        let mut bench = Bench::start(plan, true);
        for step in &steps {
            bench = bench.take(step);
        }
        bench = bench.drive_to_the_end();
        for step in steps.iter().take(20) {
            bench = bench.take(step);
        }
    }

    #[test]
    fn no_log_makes_the_fold_panic(
        plan in any_plan(),
        steps in prop::collection::vec(step(), 0..40),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..6),
        more in prop::collection::vec(step(), 0..20),
    ) {
        let mut bench = Bench::start(plan, true);
        for step in &steps {
            bench = bench.take(step);
        }
        // A log that nobody wrote: bodies exchanged between events.
        let mut events = bench.ledger.events.clone();
        for (one, other) in edits {
            let (one, other) = (one.index(events.len()), other.index(events.len()));
            if one > 0 && other > 0 {
                let body = events[one].body.clone();
                events[one].body = std::mem::replace(&mut events[other].body, body);
            }
        }
        if let Ok(state) = RunState::fold(SEED, events) {
            bench.state = state;
            let _ = bench.run();
            let _ = bench.state.outstanding();
            for step in &more {
                let input = match step {
                    Step::Pass { .. } | Step::Meet => Some(Input::Tick { observed: BTreeMap::new() }),
                    other => bench.translate(other),
                };
                bench.now = bench.now.plus(SECOND);
                if let Some(input) = input {
                    let now = bench.moment();
                    let _ = decide(&mut bench.state, input, now);
                }
            }
        }
    }

    #[test]
    fn no_bytes_make_the_reading_of_a_snapshot_panic(
        plan in any_plan(),
        at in any::<prop::sample::Index>(),
        byte: u8,
    ) {
        let bench = Bench::start(plan, true);
        let mut bytes = snapshot(&bench.state);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = RunState::from_snapshot(&bytes);
        let _ = RunState::from_snapshot(&bytes[..at]);
    }
}
