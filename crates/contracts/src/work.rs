//! The work of a run, in the messages that hold work of one kind each. Whoever has to do with one kind only reads it
//! here; the kinds are told apart where a start is parsed and where a result is shown.

use crate::v1;
use crate::v1::child_run::Work as Child;
use crate::v1::run_accepted::Work as Accepted;
use crate::v1::run_result::Work as Ended;
use crate::v1::start_run_request::Work as Started;

impl v1::RunResult {
    /// The blobs that the outputs of its tasks and its answer are.
    pub fn blobs(&self) -> impl Iterator<Item = &v1::BlobRef> {
        let outputs = self.tasks.iter().filter_map(|task| task.output.as_ref());
        let outputs = outputs.chain(self.ask().and_then(|ask| ask.response.as_ref()));
        outputs.filter_map(|output| match &output.data {
            Some(v1::payload::Data::Blob(blob)) => Some(blob),
            _ => None,
        })
    }
}

impl v1::RunResult {
    /// The same, as the result of this run, whose id its checkpoints have.
    #[must_use]
    pub fn of(mut self, run_id: &str) -> Self {
        if let Some(Ended::Pipeline(pipeline)) = &mut self.work {
            for checkpoint in &mut pipeline.checkpoints {
                run_id.clone_into(&mut checkpoint.run_id);
            }
        }
        self
    }
}

impl v1::StartRunRequest {
    /// The plan that is to be run, where it is one.
    #[must_use]
    pub fn plan(&self) -> Option<&v1::Plan> {
        match &self.work {
            Some(Started::Plan(plan)) => Some(plan),
            _ => None,
        }
    }

    /// The plan, to be changed.
    pub(crate) fn plan_mut(&mut self) -> Option<&mut v1::Plan> {
        match &mut self.work {
            Some(Started::Plan(plan)) => Some(plan),
            _ => None,
        }
    }

    /// Changes the ask that is to be run, or those among the tasks of the plan, at any depth.
    pub(crate) fn each_ask(&mut self, change: &mut impl FnMut(&mut v1::Ask)) {
        match &mut self.work {
            Some(Started::Ask(ask)) => change(ask),
            Some(Started::Plan(plan)) => each_ask_of(plan, change),
            Some(Started::Script(_) | Started::Pipeline(_) | Started::Mode(_)) | None => {}
        }
    }

    /// Whether the work stands before the other fields in the bytes under which a key is kept. By the numbers of the fields a
    /// plan comes first, an ask and a script last: keys outlive the version that wrote them.
    pub(crate) fn work_goes_first(&self) -> bool {
        matches!(self.work, Some(Started::Plan(_)))
    }

    /// The request that starts a plan.
    #[must_use]
    pub fn of_plan(plan: v1::Plan) -> Self {
        Self { work: Some(Started::Plan(plan)), ..Self::default() }
    }

    /// The request that starts an ask.
    #[must_use]
    pub fn of_ask(ask: v1::Ask) -> Self {
        Self { work: Some(Started::Ask(ask)), ..Self::default() }
    }

    /// The request that starts a script.
    #[must_use]
    pub fn of_script(script: v1::Script) -> Self {
        Self { work: Some(Started::Script(Box::new(script))), ..Self::default() }
    }
}

impl v1::StartRunRequest {
    /// The request that starts a pipeline.
    #[must_use]
    pub fn of_pipeline(pipeline: v1::Pipeline) -> Self {
        Self { work: Some(Started::Pipeline(pipeline)), ..Self::default() }
    }

    /// The request that starts an execution.
    #[must_use]
    pub fn of_mode(run: v1::ModeRun) -> Self {
        Self { work: Some(Started::Mode(run)), ..Self::default() }
    }
}

fn each_ask_of(plan: &mut v1::Plan, change: &mut impl FnMut(&mut v1::Ask)) {
    for run in plan.waves.iter_mut().flat_map(|wave| &mut wave.tasks).filter_map(|task| task.run.as_mut()) {
        match &mut run.work {
            Some(Child::Ask(ask)) => change(ask),
            Some(Child::Plan(plan)) => each_ask_of(plan, change),
            Some(Child::Script(_) | Child::Pipeline(_)) | None => {}
        }
    }
}

impl v1::RunAccepted {
    /// What people call the run: the name of its plan, script or pipeline, the beginning of its query, or `ask`.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.work {
            Some(Accepted::Plan(plan)) => &plan.name,
            Some(Accepted::Script(script)) => &script.name,
            Some(Accepted::Pipeline(pipeline)) => &pipeline.name,
            Some(Accepted::Ask(_)) => "ask",
            Some(Accepted::Mode(run)) => run.title(),
            None => "",
        }
    }

    /// The query of the execution that was accepted; `None` where it is something else.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        match &self.work {
            Some(Accepted::Mode(run)) => Some(&run.query),
            _ => None,
        }
    }

    /// The phases of the pipeline that was accepted; none where it is something else.
    pub fn phases(&self) -> impl Iterator<Item = &v1::Phase> {
        let phases = match &self.work {
            Some(Accepted::Pipeline(pipeline)) => pipeline.phases.as_slice(),
            _ => &[],
        };
        phases.iter()
    }

    /// The plan that was accepted, where it is one.
    #[must_use]
    pub fn plan(&self) -> Option<&v1::Plan> {
        match &self.work {
            Some(Accepted::Plan(plan)) => Some(plan),
            _ => None,
        }
    }

    /// The ask that was accepted, where it is one.
    #[must_use]
    pub fn ask(&self) -> Option<&v1::Ask> {
        match &self.work {
            Some(Accepted::Ask(ask)) => Some(ask),
            _ => None,
        }
    }

    /// The script that was accepted, where it is one.
    #[must_use]
    pub fn script(&self) -> Option<&v1::Script> {
        match &self.work {
            Some(Accepted::Script(script)) => Some(script),
            _ => None,
        }
    }
}

impl v1::ChildRun {
    /// The plan that the task is, where it is one.
    #[must_use]
    pub fn plan(&self) -> Option<&v1::Plan> {
        match &self.work {
            Some(Child::Plan(plan)) => Some(plan),
            _ => None,
        }
    }

    /// The plan, to be changed.
    pub fn plan_mut(&mut self) -> Option<&mut v1::Plan> {
        match &mut self.work {
            Some(Child::Plan(plan)) => Some(plan),
            _ => None,
        }
    }

    /// The ask that the task is, where it is one.
    #[must_use]
    pub fn ask(&self) -> Option<&v1::Ask> {
        match &self.work {
            Some(Child::Ask(ask)) => Some(ask),
            _ => None,
        }
    }
}

impl v1::RunResult {
    /// What an ask has come to.
    #[must_use]
    pub fn ask(&self) -> Option<&v1::AskResult> {
        match &self.work {
            Some(Ended::Ask(ask)) => Some(ask),
            _ => None,
        }
    }

    /// What an ask has come to, to be changed.
    pub fn ask_mut(&mut self) -> Option<&mut v1::AskResult> {
        match &mut self.work {
            Some(Ended::Ask(ask)) => Some(ask),
            _ => None,
        }
    }

    /// Counts the names of what was left out of a session instead of telling them. Whether there were any.
    pub fn count_left_out(&mut self) -> bool {
        let Some(ask) = self.ask_mut() else { return false };
        let Some(left_out) = ask.left_out.as_mut().filter(|left_out| !left_out.keys.is_empty()) else {
            return false;
        };
        let names = u32::try_from(left_out.keys.len()).unwrap_or(u32::MAX);
        left_out.keys.clear();
        left_out.more = left_out.more.saturating_add(names);
        true
    }

    /// What a script has come to.
    #[must_use]
    pub fn script(&self) -> Option<&v1::ScriptResult> {
        match &self.work {
            Some(Ended::Script(script)) => Some(script),
            _ => None,
        }
    }
}

impl v1::BlobRef {
    /// The name of a content of so many bytes.
    #[must_use]
    pub fn new(blake3: String, size: u64) -> Self {
        Self { blake3, size, answer: None }
    }
}

impl v1::ChildRun {
    /// The run of a plan.
    #[must_use]
    pub fn of_plan(plan: v1::Plan) -> Self {
        Self { work: Some(Child::Plan(plan)), ..Self::default() }
    }

    /// A question to the specs.
    #[must_use]
    pub fn of_ask(ask: v1::Ask) -> Self {
        Self { work: Some(Child::Ask(ask)), ..Self::default() }
    }

    /// The run of a pipeline.
    #[must_use]
    pub fn of_pipeline(pipeline: v1::Pipeline) -> Self {
        Self { work: Some(Child::Pipeline(pipeline)), ..Self::default() }
    }
}

/// Bytes of a query by which people know the run.
const TITLE_MAX: usize = 64;

impl v1::ModeRun {
    /// What people call the run: the first line of its query, at most 64 bytes of it.
    #[must_use]
    pub fn title(&self) -> &str {
        let line = self.query.trim_start().lines().next().unwrap_or_default();
        line.get(..line.floor_char_boundary(TITLE_MAX)).unwrap_or_default().trim_end()
    }
}
