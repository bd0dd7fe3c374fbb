//! Starts of runs: what is asked for is validated, its defaults are filled in, and its run gets an id.

use std::collections::{BTreeMap, BTreeSet};

use capataz_contracts::trace::TraceContext;
use capataz_contracts::v1::child_run::Work as Child;
use capataz_contracts::v1::run_accepted::Work as Accepted;
use capataz_contracts::v1::start_run_request::Work as Asked;
use capataz_contracts::validate::{self, PlanLimits};
use capataz_contracts::{Violation, canonical, free, json, reference, v1};
use capataz_engine::{
    BROWSER_AGENT, MAX_DEPTH, MAX_PLAN_BYTES, Plan, RunState, StartRun, Work, materialise_pipeline,
};
use capataz_hosts::browsers::Browsers;
use capataz_policy::codes;
use capataz_policy::registry::Sort;
use capataz_shard::{StartRequest, place, run_id, session_stream};
use capataz_store::{IdempotencyKey, RunId, RunRow};
use prost::Message;
use tonic::{Code, Status};

use super::executor;
use crate::specs::Specs;
use crate::status;

/// The label by which the runs of a product are found.
pub(super) const PRODUCT_LABEL: &str = "capataz.product";

/// Violations of policies in one answer, beside those of the structure.
const MAX_POLICY_VIOLATIONS: usize = 100;

/// Holds a start against what is there now: specs, and a browser that it needs.
pub(super) async fn check(specs: &Specs, browsers: &Browsers, start: &StartRequest) -> Result<(), Status> {
    if start.agents.contains(BROWSER_AGENT) {
        browsers.ready().await.map_err(|error| {
            status::status(Code::FailedPrecondition, codes::BROWSER_NOT_FOUND, error.to_string())
        })?;
    }
    check_specs(specs, &asks_of(&start.start.work))
}

/// The specs that these asks name exist.
fn check_specs(specs: &Specs, asks: &[&v1::Ask]) -> Result<(), Status> {
    if asks.is_empty() {
        return Ok(());
    }
    let router = specs.current();
    let catalogue = router.catalogue();
    if catalogue.specs().is_empty() {
        return Err(status::no_specs());
    }
    let mut named = asks.iter().filter_map(|ask| ask.spec.as_deref());
    match named.find(|spec| catalogue.find(spec).is_none()) {
        Some(spec) => {
            let known = catalogue.specs().iter().map(|spec| spec.id.as_str());
            Err(status::spec_not_found(spec, known))
        }
        None => Ok(()),
    }
}

/// Whether the outputs of the run's tasks are answers of specs.
pub(super) fn asks_specs(row: &RunRow) -> bool {
    row.kind == v1::RunKind::Ask as i32
}

/// The ask that a run is, or those among its tasks, at any depth.
fn asks_of(work: &Work) -> Vec<&v1::Ask> {
    let mut asks = Vec::new();
    match work {
        Work::Ask(ask) => asks.push(ask),
        Work::Plan(plan) => asks_of_plan(plan, &mut asks),
        // The specs of a fork were there when the run that it was began.
        Work::Script(_) | Work::Pipeline(_) | Work::Mode(_) | Work::Fork(_) => {}
    }
    asks
}

fn asks_of_plan<'p>(plan: &'p v1::Plan, asks: &mut Vec<&'p v1::Ask>) {
    for run in plan.waves.iter().flat_map(|wave| &wave.tasks).filter_map(|task| task.run.as_ref()) {
        match &run.work {
            Some(Child::Ask(ask)) => asks.push(ask),
            Some(Child::Plan(plan)) => asks_of_plan(plan, asks),
            Some(Child::Script(_) | Child::Pipeline(_)) | None => {}
        }
    }
}

/// Why a start is not taken, whatever there is.
pub(super) enum Refused {
    Because(Status),
    /// It may name what there is not, too.
    Plan(Places, Vec<Violation>),
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self::Because(status)
    }
}

/// A start by itself: all that it breaks, with every default filled in. Its run belongs to the span of the caller.
pub(super) fn parse(
    mut request: v1::StartRunRequest,
    wait: bool,
    caller: Option<TraceContext>,
) -> Result<StartRequest, Refused> {
    let mut violations = validate::start_run(&request, &PlanLimits::default());
    if violations.is_empty() {
        free::tidy(&mut request);
    }
    let canonical = request.idempotency_key.as_ref().map(|_| canonical(&request));
    let key = key_of(request.idempotency_key, canonical.as_deref());
    let drawn = |session: Option<&str>| {
        run_id(RunId(uuid::Uuid::now_v7()), session, key.as_ref().map(|key| &*key.key))
    };
    let (run, work) = match request.work.take() {
        Some(Asked::Plan(mut plan)) => {
            let of_policies = materialise(&mut plan);
            let under_plan = of_policies.into_iter().map(|violation| violation.under("plan"));
            add(&mut violations, under_plan.collect());
            if !violations.is_empty() {
                return Err(Refused::Plan(Places::of_plan(&plan, "plan"), violations));
            }
            prepare_children(&mut plan, "plan")?;
            (drawn(plan.session.as_deref()), Work::Plan(plan))
        }
        Some(Asked::Ask(mut ask)) => {
            refuse(&violations)?;
            let run = drawn(ask.session.as_deref());
            ask.request_id.get_or_insert_with(|| run.to_string());
            (run, Work::Ask(ask))
        }
        Some(Asked::Script(mut script)) => {
            refuse(&violations)?;
            let run = drawn(None);
            executor::prepare_script(&mut script)?;
            script.run_id = run.to_string();
            (run, Work::Script(script))
        }
        Some(Asked::Pipeline(mut pipeline)) => {
            let under =
                prepare_pipeline(&mut pipeline).into_iter().map(|violation| violation.under("pipeline"));
            add(&mut violations, under.collect());
            refuse(&violations)?;
            (drawn(None), Work::Pipeline(pipeline))
        }
        Some(Asked::Mode(mut of_mode)) => {
            refuse(&violations)?;
            let run = drawn(of_mode.session.as_deref());
            of_mode.run_id = run.to_string();
            (run, Work::Mode(Box::new(of_mode)))
        }
        None => return Err(status::invalid(&violations).into()),
    };
    let mut labels = request.labels;
    if let Work::Pipeline(v1::Pipeline { product_id: Some(product), .. }) = &work {
        labels.insert(PRODUCT_LABEL.to_owned(), product.clone());
    }
    let lineage = within(caller);
    let start = StartRun { work, labels, parent: request.parent, lineage };
    Ok(StartRequest { key, wait, ..StartRequest::new(run, start) })
}

/// The span that a caller says its call belongs to. One that cannot be read is none: the run begins a trace of its own (W3C
/// Trace Context, section 3.2.2.3).
pub(super) fn caller_of<T>(request: &tonic::Request<T>) -> Option<TraceContext> {
    TraceContext::parse(request.metadata().get("traceparent")?.to_str().ok()?)
}

/// What a run has of whoever starts it, where that is not another run.
pub(super) fn within(caller: Option<TraceContext>) -> Option<v1::Lineage> {
    caller.map(|caller| v1::Lineage { traceparent: caller.to_string(), ..v1::Lineage::default() })
}

/// Fills in every default of a pipeline, and returns what is wrong with its policies and schemas.
fn prepare_pipeline(pipeline: &mut v1::Pipeline) -> Vec<Violation> {
    let mut wrong = materialise_pipeline(pipeline).err().unwrap_or_default();
    wrong.extend(schemas_of(pipeline));
    wrong
}

/// What is wrong with the schemas of a pipeline's phases.
fn schemas_of(pipeline: &v1::Pipeline) -> Vec<Violation> {
    let mut found = Vec::new();
    for (place, phase) in pipeline.phases.iter().enumerate() {
        let Some(schema) = phase.output.as_ref().and_then(|output| output.schema.as_ref()) else { continue };
        for violation in capataz_judge::Schema::compile(schema).err().unwrap_or_default() {
            let path = format!("phases[{place}].output.schema{}", violation.path);
            found.push(Violation::new(path, "schema", capataz_judge::shown(&violation)));
            if found.len() >= MAX_POLICY_VIOLATIONS {
                return found;
            }
        }
    }
    found
}

/// The work of a run that takes over what succeeded in this one, which was accepted so.
pub(super) fn going_on(run: RunId, accepted: v1::RunAccepted, before: &RunState) -> Result<Work, Status> {
    let Some(Accepted::Plan(mut plan)) = accepted.work else {
        return Err(not_continued(format!("run {run} is not continued: it is not the run of a plan")));
    };
    plan.continues = Some(run.to_string());
    // A fork has left the session of the run that it was.
    plan.session = before.session().map(str::to_owned);
    // The tasks that are done again. A task refers to tasks of earlier waves only.
    let mut left = BTreeSet::new();
    for task in plan.waves.iter_mut().flat_map(|wave| &mut wave.tasks) {
        let stands = |before: &v1::TakenOver| before.refers_to.iter().all(|name| !left.contains(name));
        task.taken_over = taken_over(task, before).filter(stands);
        if task.taken_over.is_none() {
            left.insert(task.name.clone());
        }
    }
    if left.is_empty() {
        return Err(not_continued(format!("run {run} is not continued: all of its tasks have succeeded")));
    }
    let bytes = plan.encoded_len();
    if bytes > MAX_PLAN_BYTES {
        return Err(not_continued(format!(
            "run {run} is not continued: its plan has {bytes} bytes with the outputs of its tasks, at most {MAX_PLAN_BYTES}"
        )));
    }
    Ok(Work::Plan(plan))
}

/// What the task has given, where it has succeeded.
fn taken_over(task: &v1::Task, before: &RunState) -> Option<v1::TakenOver> {
    let output = before.success_of(&task.name)?.cloned();
    let refers_to = task.input.as_ref().map(reference::tasks_of).unwrap_or_default();
    let blobs = match output.as_ref().and_then(|output| output.data.as_ref()) {
        Some(v1::payload::Data::Blob(blob)) => vec![blob.clone()],
        // The result of a run names the blobs that its tasks have given.
        Some(v1::payload::Data::Inline(bytes)) if task.run.is_some() => blobs_of_result(bytes),
        Some(v1::payload::Data::Inline(_)) | None => Vec::new(),
    };
    Some(v1::TakenOver { output, refers_to: refers_to.into_iter().collect(), blobs })
}

fn blobs_of_result(result: &[u8]) -> Vec<v1::BlobRef> {
    let read: Option<serde_json::Value> = serde_json::from_slice(result).ok();
    let result: Option<v1::RunResult> =
        read.and_then(|value| json::parse("capataz.v1.RunResult", &value).ok());
    result.iter().flat_map(v1::RunResult::blobs).cloned().collect()
}

pub(super) fn not_continued(message: String) -> Status {
    status::status(Code::FailedPrecondition, codes::RUN_NOT_CONTINUED, message)
}

pub(super) fn refuse(violations: &[Violation]) -> Result<(), Status> {
    if violations.is_empty() { Ok(()) } else { Err(status::invalid(violations)) }
}

/// The place of a session, where its runs live.
fn place_of(session: &str) -> u32 {
    u32::from(place(session_stream(session)))
}

/// Fills in what the runs among a plan's tasks need beside their policies.
fn prepare_children(plan: &mut v1::Plan, path: &str) -> Result<(), Status> {
    let waves = plan.waves.iter_mut().enumerate();
    let tasks = waves.flat_map(|(wave, of)| of.tasks.iter_mut().enumerate().map(move |task| (wave, task)));
    for (wave, (place, task)) in tasks {
        let Some(run) = task.run.as_mut() else { continue };
        let path = format!("{path}.waves[{wave}].tasks[{place}].run");
        match &mut run.work {
            Some(Child::Plan(plan)) => {
                run.place = plan.session.as_deref().map(place_of);
                prepare_children(plan, &format!("{path}.plan"))?;
            }
            Some(Child::Pipeline(pipeline)) => {
                let path = format!("{path}.pipeline");
                let under = prepare_pipeline(pipeline).into_iter().map(|violation| violation.under(&path));
                refuse(&under.collect::<Vec<_>>())?;
            }
            Some(Child::Ask(ask)) => {
                run.place = ask.session.as_deref().map(place_of);
            }
            Some(Child::Script(script)) => executor::prepare_script(script)?,
            None => {}
        }
    }
    Ok(())
}

/// What a run has of its ancestors that somebody starts for a task of `parent`.
pub(super) fn lineage(
    run: RunId,
    parent: &RunState,
    of: &v1::ParentRef,
    caller: Option<TraceContext>,
) -> Result<v1::Lineage, Status> {
    if parent.plan().find(&of.task).is_none() {
        let message = format!("run {} has no task {:?}", of.run_id, of.task);
        return Err(status::invalid_field("parent.task", "reference", message));
    }
    let lineage = parent.lineage_of_children();
    if lineage.depth > MAX_DEPTH {
        let message = format!("a run has at most {MAX_DEPTH} ancestors");
        return Err(status::status(Code::FailedPrecondition, codes::CHILD_TOO_DEEP, message));
    }
    let traceparent = caller.unwrap_or_else(|| span_for(run, parent, of)).to_string();
    Ok(v1::Lineage { traceparent, ..lineage })
}

/// The span of the lease for which somebody starts a run, else that of the lease's run.
fn span_for(run: RunId, parent: &RunState, of: &v1::ParentRef) -> TraceContext {
    let run = run.0.into_bytes();
    let context = TraceContext::of_run(run, TraceContext::parse(parent.traceparent()));
    if of.lease == 0 { context } else { context.at(run, of.lease) }
}

/// Refuses a run in a session in which an ancestor has its turn, and waits.
pub(super) fn refuse_held_session(start: &StartRequest) -> Result<(), Status> {
    let held = start.start.lineage.iter().flat_map(|lineage| &lineage.sessions);
    match start.session.as_ref().filter(|session| held.into_iter().any(|held| held == *session)) {
        Some(session) => {
            let message = format!("an ancestor of the run has its turn in session {session:?}");
            Err(status::status(Code::FailedPrecondition, codes::SESSION_HELD, message))
        }
        None => Ok(()),
    }
}

fn key_of(key: Option<String>, canonical: Option<&[u8]>) -> Option<IdempotencyKey> {
    key.zip(canonical).map(|(key, canonical)| IdempotencyKey {
        key: key.into_bytes().into(),
        request: *blake3::hash(canonical).as_bytes(),
    })
}

/// Everything that is wrong with a plan by itself, with paths from the plan.
pub(crate) fn check_plan(plan: &v1::Plan) -> Vec<Violation> {
    let mut violations = validate::plan(plan, &PlanLimits::default());
    add(&mut violations, materialise(&mut plan.clone()));
    violations
}

/// Everything that is wrong with a pipeline by itself, with paths from the pipeline.
pub(crate) fn check_pipeline(pipeline: &v1::Pipeline) -> Vec<Violation> {
    let mut violations = validate::pipeline(pipeline);
    let mut pipeline = pipeline.clone();
    let more = prepare_pipeline(&mut pipeline);
    add(&mut violations, more);
    violations
}

/// Adds what is not known of a path yet.
fn add(violations: &mut Vec<Violation>, more: Vec<Violation>) {
    for violation in more.into_iter().take(MAX_POLICY_VIOLATIONS) {
        if violations.iter().all(|known| known.path != violation.path) {
            violations.push(violation);
        }
    }
}

/// Fills a plan's defaults in; what is wrong with its policies, and with its size after that.
fn materialise(plan: &mut v1::Plan) -> Vec<Violation> {
    if let Err(violations) = Plan::materialise(plan) {
        return violations;
    }
    too_large(&*plan).into_iter().collect()
}

/// What is wrong with the size of work whose defaults are filled in: all of it is in one event, which every subscriber takes.
pub(super) fn too_large(work: &impl Message) -> Option<Violation> {
    let size = work.encoded_len();
    let message = format!("{size} bytes with its defaults, at most {MAX_PLAN_BYTES}");
    (size > MAX_PLAN_BYTES).then(|| Violation::new("", "size", message))
}

/// Where a start names what the daemon may not know: the path of the first place of each name.
#[derive(Debug, Default)]
pub struct Places(BTreeMap<(Sort, String), String>);

impl Places {
    pub(super) fn of(work: &Work) -> Self {
        let mut places = Self::default();
        match work {
            Work::Plan(plan) => places.add_plan(plan, "plan"),
            Work::Pipeline(pipeline) => places.add_pipeline(pipeline, "pipeline"),
            Work::Mode(run) => places.add_mode(run),
            // These name no agent: a script needs a browser, an ask has a spec, and a fork has what its run was started with.
            Work::Script(_) | Work::Ask(_) | Work::Fork(_) => {}
        }
        places
    }

    /// Those of a plan at this path, and of the runs among its tasks.
    #[must_use]
    pub fn of_plan(plan: &v1::Plan, path: &str) -> Self {
        let mut places = Self::default();
        places.add_plan(plan, path);
        places
    }

    /// Those of a pipeline at this path.
    #[must_use]
    pub fn of_pipeline(pipeline: &v1::Pipeline, path: &str) -> Self {
        let mut places = Self::default();
        places.add_pipeline(pipeline, path);
        places
    }

    /// The names: agents, commands and resources.
    #[must_use]
    pub fn names(&self) -> v1::CheckAgentsRequest {
        let mut names = v1::CheckAgentsRequest::default();
        // A name that is missing is a violation by itself.
        for (sort, name) in self.0.keys().filter(|(_, name)| !name.is_empty()) {
            let of_sort = match sort {
                Sort::Agent => &mut names.agents,
                Sort::Command => &mut names.commands,
                Sort::Resource => &mut names.resources,
            };
            of_sort.push(name.clone());
        }
        names
    }

    /// Those that a daemon does not know, each at its first place: at most a hundred.
    #[must_use]
    pub fn unknown(&self, checked: &v1::CheckAgentsResponse) -> Vec<Violation> {
        let unknown = checked.details.iter().filter(|check| !check.valid).filter_map(|check| {
            let sort = [Sort::Agent, Sort::Command, Sort::Resource]
                .into_iter()
                .find(|sort| sort.word() == check.kind)?;
            let path = self.0.get(&(sort, check.name.clone()))?;
            let near = match check.suggestions.as_slice() {
                [] => String::new(),
                names => format!("; similar: {}", names.join(", ")),
            };
            Some(Violation::new(path, sort.code().as_str(), format!("{}{near}", sort.not_known(&check.name))))
        });
        unknown.take(MAX_POLICY_VIOLATIONS).collect()
    }

    pub(super) fn of_mode(run: &v1::ModeRun) -> Self {
        let mut places = Self::default();
        places.add_mode(run);
        places
    }

    /// The same by the messages of errors that say that a name is not known.
    pub(super) fn by_error(self) -> BTreeMap<String, String> {
        self.0.into_iter().map(|((sort, name), path)| (sort.not_known(&name), path)).collect()
    }

    fn add(&mut self, sort: Sort, name: &str, path: impl FnOnce() -> String) {
        self.0.entry((sort, name.to_owned())).or_insert_with(path);
    }

    fn add_plan(&mut self, plan: &v1::Plan, path: &str) {
        let lists =
            [(Sort::Command, "commands", &plan.commands), (Sort::Resource, "resources", &plan.resources)];
        for (sort, key, names) in lists {
            for (index, name) in names.iter().enumerate() {
                self.add(sort, name, || below(path, &format!("{key}[{index}]")));
            }
        }
        for (wave, of) in plan.waves.iter().enumerate() {
            for (index, task) in of.tasks.iter().enumerate() {
                let path = || below(path, &format!("waves[{wave}].tasks[{index}]"));
                match task.run.as_ref().map(|run| run.work.as_ref()) {
                    None => self.add(Sort::Agent, &task.agent, || format!("{}.agent", path())),
                    Some(Some(Child::Plan(plan))) => self.add_plan(plan, &format!("{}.run.plan", path())),
                    Some(Some(Child::Pipeline(pipeline))) => {
                        self.add_pipeline(pipeline, &format!("{}.run.pipeline", path()));
                    }
                    Some(Some(Child::Script(_) | Child::Ask(_)) | None) => {}
                }
            }
        }
    }

    fn add_pipeline(&mut self, pipeline: &v1::Pipeline, path: &str) {
        for (index, phase) in pipeline.phases.iter().enumerate() {
            self.add(Sort::Agent, &phase.agent, || below(path, &format!("phases[{index}].agent")));
        }
    }

    fn add_mode(&mut self, run: &v1::ModeRun) {
        self.add(Sort::Agent, &run.planner, || "mode.planner".to_owned());
        for (index, tool) in run.tools.iter().enumerate() {
            self.add(Sort::Agent, &tool.name, || format!("mode.tools[{index}].name"));
        }
    }
}

fn below(path: &str, rest: &str) -> String {
    if path.is_empty() { rest.to_owned() } else { format!("{path}.{rest}") }
}
