//! Any plan, any inputs: what holds after every step.

use proptest::prelude::*;

use super::*;

const WORKERS: [&str; 3] = ["w0", "w1", "w2"];
const CODES: [&str; 8] = [
    "NETWORK_ERROR",
    "RATE_LIMIT",
    "VALIDATION_ERROR",
    "TESTS_FAILED",
    "COVERAGE_LOW",
    "STATE_CORRUPTED",
    "NOBODY_KNOWS_THIS",
    "",
];
const STEPS: usize = 200;

/// One thing that happens. The numbers choose among what there is when it happens; some choose what there is not.
#[derive(Clone, Debug)]
enum Step {
    Lease {
        task: u8,
        worker: u8,
    },
    LeaseWaiting {
        task: u8,
        worker: u8,
    },
    Complete {
        task: u8,
    },
    Fail {
        task: u8,
        code: u8,
        retry_after_ms: Option<i64>,
    },
    Stop {
        task: u8,
        partial: bool,
    },
    /// A report with any token by any worker.
    Claim {
        task: u8,
        token: u8,
        worker: u8,
    },
    Lose {
        task: u8,
        reason: i32,
    },
    LoseAny {
        task: u8,
        token: u8,
    },
    Absent {
        task: u8,
    },
    /// Time passes, or goes backwards, with a tick or without one.
    Pass {
        milliseconds: i64,
        tick: bool,
    },
    /// To the next deadline.
    Meet,
    Pause {
        request: u8,
    },
    Resume {
        request: u8,
    },
    Cancel {
        force: bool,
        request: u8,
    },
    Extend {
        task: u8,
        by_ms: i64,
        request: u8,
    },
    Retry {
        task: u8,
        request: u8,
    },
    Answer {
        question: u8,
        answer: u8,
        request: u8,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let task = 0u8..16;
    let worker = 0u8..3;
    let request = 0u8..40;
    prop_oneof![
        40 => (task.clone(), worker.clone()).prop_map(|(task, worker)| Step::LeaseWaiting { task, worker }),
        3 => (task.clone(), worker.clone()).prop_map(|(task, worker)| Step::Lease { task, worker }),
        10 => task.clone().prop_map(|task| Step::Complete { task }),
        30 => (task.clone(), prop_oneof![30 => 0u8..5, 1 => 5u8..8], prop::option::weighted(0.1, any::<i64>()))
            .prop_map(|(task, code, retry_after_ms)| Step::Fail { task, code, retry_after_ms }),
        10 => (task.clone(), any::<bool>()).prop_map(|(task, partial)| Step::Stop { task, partial }),
        10 => (task.clone(), any::<u8>(), worker).prop_map(|(task, token, worker)| Step::Claim { task, token, worker }),
        20 => (task.clone(), 0i32..6).prop_map(|(task, reason)| Step::Lose { task, reason }),
        4 => (task.clone(), any::<u8>()).prop_map(|(task, token)| Step::LoseAny { task, token }),
        3 => task.clone().prop_map(|task| Step::Absent { task }),
        20 => (prop_oneof![9 => -2_000i64..4_000, 1 => -MINUTE..60 * MINUTE], any::<bool>())
            .prop_map(|(milliseconds, tick)| Step::Pass { milliseconds, tick }),
        15 => Just(Step::Meet),
        4 => request.clone().prop_map(|request| Step::Pause { request }),
        10 => request.clone().prop_map(|request| Step::Resume { request }),
        1 => (any::<bool>(), request.clone()).prop_map(|(force, request)| Step::Cancel { force, request }),
        10 => (task.clone(), prop_oneof![4 => Just(15 * MINUTE), 1 => any::<i64>()], request.clone())
            .prop_map(|(task, by_ms, request)| Step::Extend { task, by_ms, request }),
        15 => (task, request.clone()).prop_map(|(task, request)| Step::Retry { task, request }),
        30 => (any::<u8>(), prop_oneof![20 => 0u8..3, 1 => 3u8..6], request)
            .prop_map(|(question, answer, request)| Step::Answer { question, answer, request }),
    ]
}

fn policy() -> impl Strategy<Value = v1::AggregationPolicy> {
    (1i32..=4, prop::option::of(0.01f64..=1.0), prop::option::of(any::<bool>())).prop_map(
        |(kind, quorum_threshold, stop_when_decided)| v1::AggregationPolicy {
            kind,
            quorum_threshold: quorum_threshold.filter(|_| kind == v1::AggregationKind::Quorum as i32),
            stop_when_decided,
        },
    )
}

fn timeouts() -> impl Strategy<Value = v1::TimeoutPolicy> {
    let timeout = prop::option::of(prop_oneof![1 => 1i64..5_000, 3 => MINUTE..10 * MINUTE]);
    (timeout, prop::option::of(0i64..20_000), prop::option::weighted(0.2, 1i64..30_000)).prop_map(
        |(timeout_ms, grace_ms, schedule_to_start_ms)| v1::TimeoutPolicy {
            timeout_ms,
            grace_ms,
            schedule_to_start_ms,
        },
    )
}

fn retries() -> impl Strategy<Value = v1::RetryPolicy> {
    let limits = (prop::option::of(1i64..5_000), prop::option::weighted(0.2, 1i64..60_000));
    let delays = prop::collection::vec(0i64..3_000, 0..3);
    (prop::option::of(1u32..5), prop::option::of(0i64..1_000), limits, any::<bool>(), delays).prop_map(
        |(max_attempts, base_delay_ms, (timeout_per_attempt_ms, total_timeout_ms), jitter, delays_ms)| {
            v1::RetryPolicy {
                max_attempts,
                base_delay_ms,
                timeout_per_attempt_ms,
                total_timeout_ms,
                jitter: Some(jitter),
                delays_ms,
                ..v1::RetryPolicy::default()
            }
        },
    )
}

/// A task without its name. The number chooses the earlier task that its input refers to, if any.
fn task() -> impl Strategy<Value = (v1::Task, Option<(u8, u8)>)> {
    let flags = (any::<bool>(), prop::bool::weighted(0.3), prop::option::weighted(0.2, 1i32..=4));
    let own = (prop::option::weighted(0.3, timeouts()), prop::option::weighted(0.3, retries()));
    let reference = prop::option::weighted(0.5, (any::<u8>(), 0u8..4));
    (flags, own, reference).prop_map(|((critical, once, severity), (timeouts, retry), reference)| {
        let effect = once.then_some(v1::Effect::AtMostOnce as i32);
        (v1::Task { critical, effect, severity, timeouts, retry, ..v1::Task::default() }, reference)
    })
}

fn any_plan() -> impl Strategy<Value = v1::Plan> {
    let wave = (prop::collection::vec(task(), 1..5), prop::option::weighted(0.3, policy()));
    let waves = prop::collection::vec(wave, 1..4);
    let defaults = (
        prop::option::of(policy()),
        prop::option::weighted(0.4, timeouts()),
        prop::option::of(retries()),
        prop::option::of(1i32..=2),
    );
    (waves, defaults).prop_map(|(waves, (policy, timeouts, retry, on_high))| {
        let mut earlier: Vec<String> = Vec::new();
        let mut count = 0;
        let waves = waves.into_iter().map(|(tasks, policy)| {
            let mut names = Vec::new();
            let tasks = tasks.into_iter().map(|(mut task, reference)| {
                task.name = format!("t{count}");
                task.agent = format!("agent-{}", count % 3);
                count += 1;
                if let (Some((target, form)), false) = (reference, earlier.is_empty()) {
                    let target = &earlier[usize::from(target) % earlier.len()];
                    task.input = Some(json(&match form {
                        0 => format!("\"${{tasks.{target}.output}}\""),
                        1 => format!("[\"${{tasks.{target}.output.n}}\"]"),
                        2 => format!("\"${{tasks.{target}.output.missing}}\""),
                        _ => "{\"plain\":true}".to_owned(),
                    }));
                }
                names.push(task.name.clone());
                task
            });
            let wave = v1::Wave { name: None, tasks: tasks.collect(), policy };
            earlier.append(&mut names);
            wave
        });
        let waves = waves.collect();
        v1::Plan { name: "any".to_owned(), waves, policy, timeouts, retry, on_high, ..v1::Plan::default() }
    })
}

impl Bench {
    /// Takes the step, where there is anything that it can be done to.
    #[track_caller]
    fn take(mut self, step: &Step) -> Self {
        let input = match *step {
            Step::Pass { milliseconds, tick } => {
                self.now = self.now.plus(milliseconds);
                tick.then(|| Input::Tick { observed: BTreeMap::new() })
            }
            Step::Meet => self.state.next_deadline().map(|next| {
                self.now = self.now.max(next);
                let observed =
                    Observed { last_frame_ms: Some(self.now.0), partial_output: Some(json("\"part\"")) };
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
        assert_eq!(decide(&mut read, input, bench.now), bench.last, "a snapshot continues the same");
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
            Step::Lease { task, worker } => {
                Input::Lease { task: any(task), worker: WORKERS[usize::from(worker)].to_owned() }
            }
            Step::LeaseWaiting { task, worker } => {
                let waiting: Vec<TaskRef> = self.state.queued().collect();
                let task = *waiting.get(usize::from(task) % waiting.len().max(1))?;
                Input::Lease { task, worker: WORKERS[usize::from(worker)].to_owned() }
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
            Step::Answer { question, answer, request } => {
                let asked =
                    self.state.questions.get(usize::from(question) % self.state.questions.len().max(1))?;
                let options = &asked.question.options;
                let answer = options.get(usize::from(answer)).map_or("nonsense", String::as_str);
                resolve(&asked.question.question_id, answer, &request_id(request))
            }
            Step::Pass { .. } | Step::Meet => return None,
        })
    }

    /// A token that was given, or a number that is none.
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
                self = self.both(Input::Lease { task, worker: "w0".to_owned() });
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
                    let _ = decide(&mut bench.state, input, bench.now);
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
