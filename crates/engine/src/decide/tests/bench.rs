//! The language in which the tests tell their runs.

use super::*;

/// A run, the hands that drive it, and the eye that checks every step of it.
pub(super) struct Bench {
    pub(super) state: RunState,
    pub(super) ledger: Ledger,
    /// By the run's own clock.
    pub(super) now: Timestamp,
    /// What the clock on the wall is ahead of the run's own, because somebody has set it.
    pub(super) ahead: i64,
    /// What the last input did.
    pub(super) last: Result<Decision, Refusal>,
    /// True when each step is compared with the fold of the log.
    pub(super) small: bool,
}

/// Beginnings.
impl Bench {
    #[track_caller]
    pub(super) fn plan(line: &str) -> Self {
        Self::with(line, |_| ())
    }

    #[track_caller]
    pub(super) fn with(line: &str, edit: impl FnOnce(&mut v1::Plan)) -> Self {
        let mut plan = plan(line);
        edit(&mut plan);
        Self::start(plan, true)
    }

    #[track_caller]
    pub(super) fn start(mut plan: v1::Plan, small: bool) -> Self {
        Plan::materialise(&mut plan).expect("the plan is valid");
        let request =
            StartRun { work: Work::Plan(plan), labels: BTreeMap::new(), parent: None, lineage: None };
        let now = Timestamp(START);
        let (state, decision) = start(SEED, request, Wall(START)).expect("the run starts");
        let mut ledger = Ledger::default();
        ledger.observe(&state, &decision);
        ledger.compare_fold(&state);
        Self { state, ledger, now, ahead: 0, last: Ok(decision), small }
    }
}

/// Steps.
impl Bench {
    pub(super) fn moment(&self) -> Moment {
        Moment { clock: self.now, wall: Wall(self.now.0.saturating_add(self.ahead)) }
    }

    /// Somebody sets the clock on the wall.
    pub(super) fn wall_jumps(mut self, milliseconds: i64) -> Self {
        self.ahead = self.ahead.saturating_add(milliseconds);
        self
    }

    /// The same run, to try another way from here.
    pub(super) fn clone_run(&self) -> Self {
        Self {
            state: self.state.clone(),
            ledger: self.ledger.clone(),
            now: self.now,
            ahead: self.ahead,
            last: self.last.clone(),
            small: self.small,
        }
    }

    #[track_caller]
    pub(super) fn input(mut self, input: Input) -> Self {
        let before = self.small.then(|| snapshot(&self.state));
        let now = self.moment();
        self.last = decide(&mut self.state, input, now);
        match &self.last {
            Ok(decision) => {
                self.ledger.observe(&self.state, decision);
                if self.small {
                    self.ledger.compare_fold(&self.state);
                }
            }
            Err(Refusal::Corrupt(corrupt)) => panic!("{corrupt}"),
            Err(_) => {
                assert_eq!(before, self.small.then(|| snapshot(&self.state)), "a refusal changes nothing")
            }
        }
        self
    }

    /// An input that must not be refused.
    #[track_caller]
    pub(super) fn does(self, input: Input) -> Self {
        let bench = self.input(input);
        if let Err(refusal) = &bench.last {
            panic!("refused: {refusal}");
        }
        bench
    }

    #[track_caller]
    pub(super) fn lease(self, task: &str, worker: &str) -> Self {
        let task = self.at(task);
        self.does(Input::Lease {
            output_schema: None,
            cancel_is_final: false,
            mark: 0,
            task,
            worker: worker.to_owned(),
        })
    }

    /// Every task that waits is taken, each by the worker of its own name.
    #[track_caller]
    pub(super) fn lease_all(mut self) -> Self {
        let queued: Vec<TaskRef> = self.state.queued().collect();
        for task in queued {
            let worker = self.state.plan().task(task).unwrap().name.clone();
            self = self.does(Input::Lease {
                output_schema: None,
                cancel_is_final: false,
                mark: 0,
                task,
                worker,
            });
        }
        self
    }

    #[track_caller]
    pub(super) fn report(self, task: &str, report: Report) -> Self {
        let task = self.at(task);
        let (lease, worker) = self.state.lease_of(task).expect("the task is leased");
        let input = reported(task, lease, worker, report);
        self.does(input)
    }

    #[track_caller]
    pub(super) fn completes(self, task: &str) -> Self {
        self.completes_with(task, "\"done\"")
    }

    #[track_caller]
    pub(super) fn completes_with(self, task: &str, output: &str) -> Self {
        self.report(task, Report::Completed(json(output)))
    }

    #[track_caller]
    pub(super) fn fails(self, task: &str, code: &str) -> Self {
        self.report(task, Report::Failed(failure(code)))
    }

    /// The worker answers a cancel.
    #[track_caller]
    pub(super) fn stops(self, task: &str) -> Self {
        self.report(task, Report::Cancelled(None))
    }

    #[track_caller]
    pub(super) fn loses(self, task: &str) -> Self {
        self.loses_because(task, v1::LeaseLossReason::Disconnected)
    }

    #[track_caller]
    pub(super) fn loses_because(self, task: &str, reason: v1::LeaseLossReason) -> Self {
        let lease = self.token(task);
        let task = self.at(task);
        self.does(Input::LeaseLost { task, lease, reason })
    }

    /// Time passes, and every deadline on the way is met to the millisecond.
    #[track_caller]
    pub(super) fn after(mut self, milliseconds: i64) -> Self {
        let end = self.now.plus(milliseconds);
        while let Some(next) = self.state.next_deadline().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self = self.tick();
        }
        self.now = end;
        self
    }

    /// Time passes, and nobody looks until then.
    #[track_caller]
    pub(super) fn away(mut self, milliseconds: i64) -> Self {
        self.now = self.now.plus(milliseconds);
        self.tick()
    }

    #[track_caller]
    pub(super) fn tick(self) -> Self {
        self.does(Input::Tick { observed: BTreeMap::new() })
    }

    #[track_caller]
    pub(super) fn tick_seeing(self, task: &str, observed: Observed) -> Self {
        let task = self.at(task);
        self.does(Input::Tick { observed: BTreeMap::from([(task, observed)]) })
    }

    #[track_caller]
    pub(super) fn pause(self) -> Self {
        self.does(Input::Pause { request_id: String::new() })
    }

    #[track_caller]
    pub(super) fn resume(self) -> Self {
        self.does(Input::Resume { request_id: String::new() })
    }

    #[track_caller]
    pub(super) fn cancel(self) -> Self {
        self.does(Input::Cancel { reason: "enough".to_owned(), force: false, request_id: String::new() })
    }

    #[track_caller]
    pub(super) fn cancel_by_force(self) -> Self {
        self.does(Input::Cancel { reason: "enough".to_owned(), force: true, request_id: String::new() })
    }

    #[track_caller]
    pub(super) fn extend(self, task: &str, by_ms: i64) -> Self {
        self.does(extend(task, by_ms, ""))
    }

    #[track_caller]
    pub(super) fn retry(self, task: &str) -> Self {
        self.does(retry(task, ""))
    }

    #[track_caller]
    pub(super) fn roll_back(self, task: &str) -> Self {
        self.does(rollback(task, false, ""))
    }

    /// With all that was built on it.
    #[track_caller]
    pub(super) fn roll_back_all(self, task: &str) -> Self {
        self.does(rollback(task, true, ""))
    }

    /// Answers the only open question.
    #[track_caller]
    pub(super) fn answer(self, answer: &str) -> Self {
        let [question_id] = self.open().try_into().expect("one question is open");
        self.does(resolve(&question_id, answer, ""))
    }
}

/// Forks.
impl Bench {
    /// The run from here on as another one, which begins so long after this one's newest event.
    #[track_caller]
    pub(super) fn forks_later(self, milliseconds: i64) -> Self {
        self.forks_with(milliseconds, None)
    }

    #[track_caller]
    pub(super) fn forks_with(self, milliseconds: i64, input: Option<v1::Payload>) -> Self {
        let last = self.state.last();
        let wall = Wall(last.wall.0.saturating_add(milliseconds));
        let (state, decision) = start(SEED, self.forked(input), wall).expect("it may be forked");
        let mut ledger = self.ledger.of_a_fork();
        ledger.observe(&state, &decision);
        if self.small {
            ledger.compare_fold(&state);
        }
        // Its own clock goes on where it stood.
        let ahead = wall.0.saturating_sub(last.clock.0);
        Self { state, ledger, now: last.clock, ahead, last: Ok(decision), small: self.small }
    }

    /// What starts a fork of the run.
    pub(super) fn forked(&self, input: Option<v1::Payload>) -> StartRun {
        let fork = Fork {
            of: "run".to_owned(),
            run_id: "fork".to_owned(),
            state: Box::new(self.state.clone()),
            input,
        };
        let labels = BTreeMap::from([("of".to_owned(), "a fork".to_owned())]);
        StartRun { work: Work::Fork(Box::new(fork)), labels, parent: None, lineage: None }
    }
}

/// Looks.
impl Bench {
    #[track_caller]
    pub(super) fn at(&self, task: &str) -> TaskRef {
        self.state.plan().find(task).expect("the task is in the plan")
    }

    #[track_caller]
    pub(super) fn token(&self, task: &str) -> u64 {
        self.state.lease_of(self.at(task)).expect("the task is leased").0
    }

    pub(super) fn open(&self) -> Vec<String> {
        self.state.open_questions().map(|asked| asked.question.question_id.clone()).collect()
    }

    pub(super) fn run(&self) -> v1::Run {
        let options = ViewOptions { tasks: true, outputs: true, offset: 0, limit: usize::MAX };
        self.state.view("run".to_owned(), options)
    }

    #[track_caller]
    pub(super) fn task(&self, name: &str) -> v1::TaskView {
        let tasks = self.run().waves.into_iter().flat_map(|wave| wave.tasks);
        tasks.into_iter().find(|task| task.name == name).expect("the task is in the view")
    }

    #[track_caller]
    pub(super) fn error(&self, task: &str) -> v1::Error {
        self.task(task).error.expect("the task has an error")
    }

    pub(super) fn effects(&self) -> &[Effect] {
        self.last.as_ref().map_or(&[], |decision| &decision.effects)
    }

    /// Kinds of the events of the last input.
    pub(super) fn kinds(&self) -> Vec<&'static str> {
        self.last.as_ref().map_or(Vec::new(), |decision| events_of(decision).iter().map(kind).collect())
    }

    /// How many events of this kind the run has.
    pub(super) fn count(&self, wanted: &str) -> usize {
        self.ledger.events.iter().filter(|event| kind(event) == wanted).count()
    }

    /// Every notice with this code.
    pub(super) fn notices(&self, code: &str) -> Vec<v1::Notice> {
        let bodies = self.ledger.events.iter().filter_map(|event| event.body.as_ref());
        let notices = bodies.filter_map(|body| match body {
            Body::Notice(notice) => Some(notice.clone()),
            _ => None,
        });
        notices.filter(|notice| notice.notice.as_ref().is_some_and(|error| error.code == code)).collect()
    }
}

/// Expectations.
impl Bench {
    #[track_caller]
    pub(super) fn expect_kinds(self, expected: &[&str]) -> Self {
        assert_eq!(self.kinds(), expected);
        self
    }

    #[track_caller]
    pub(super) fn expect_task(self, task: &str, state: v1::TaskState, status: v1::ResultStatus) -> Self {
        let view = self.task(task);
        assert_eq!((view.state, view.status), (state as i32, Some(status as i32)), "{task}: {view:?}");
        self
    }

    #[track_caller]
    pub(super) fn expect_succeeded(self, task: &str) -> Self {
        self.expect_task(task, v1::TaskState::Complete, v1::ResultStatus::Success)
    }

    #[track_caller]
    pub(super) fn expect_failed(self, task: &str, code: &str) -> Self {
        let bench = self.expect_task(task, v1::TaskState::Failed, v1::ResultStatus::Error);
        assert_eq!(bench.error(task).code, code);
        bench
    }

    #[track_caller]
    pub(super) fn expect_timed_out(self, task: &str) -> Self {
        let bench = self.expect_task(task, v1::TaskState::Failed, v1::ResultStatus::Timeout);
        assert_eq!(bench.error(task).code, "TASK_TIMEOUT");
        bench
    }

    /// In work, or on the way to it.
    #[track_caller]
    pub(super) fn expect_unsettled(self, task: &str) -> Self {
        assert_eq!(self.task(task).status, None, "{task}");
        self
    }

    #[track_caller]
    pub(super) fn expect_status(self, status: v1::RunStatus) -> Self {
        assert_eq!(self.state.status(), status);
        self
    }

    #[track_caller]
    pub(super) fn expect_outcome(self, outcome: v1::RunOutcome) -> Self {
        assert_eq!(self.state.outcome(), Some(outcome));
        assert_eq!(self.effects().last(), Some(&Effect::Finish));
        self
    }

    #[track_caller]
    pub(super) fn expect_run_error(self, code: &str) -> Self {
        assert_eq!(self.run().error.expect("the run has an error").code, code);
        self
    }

    #[track_caller]
    pub(super) fn expect_refusal(self) -> Refusal {
        self.last.expect_err("the input is refused")
    }

    /// The input breaks a rule: its error.
    #[track_caller]
    pub(super) fn expect_rule(self) -> v1::Error {
        match self.last {
            Err(Refusal::Rule(error)) => *error,
            other => panic!("no rule was broken: {other:?}"),
        }
    }
}
