//! Starts of runs: what is asked for is validated, its defaults are filled in, and its run gets an id.

use std::collections::BTreeSet;

use capataz_contracts::v1::start_run_request::Work as Asked;
use capataz_contracts::validate::{self, PlanLimits};
use capataz_contracts::{Violation, canonical, v1};
use capataz_engine::{BROWSER_AGENT, Plan, StartRun, Work};
use capataz_hosts::browsers::Browsers;
use capataz_shard::{SESSION_LABEL, StartRequest, blob_hash, run_id};
use capataz_store::{IdempotencyKey, RunId};
use prost::Message;
use tonic::{Code, Status};

use super::executor;
use crate::specs::Specs;
use crate::status;

/// Bytes of an accepted plan: its event has to fit into one message.
const MAX_PLAN_BYTES: usize = 3 * 1024 * 1024;
/// Violations of policies in one answer, beside those of the structure.
const MAX_POLICY_VIOLATIONS: usize = 100;

/// Validates a start and fills its defaults in. Nothing is stored where it is refused.
pub(super) async fn prepare(
    specs: &Specs,
    browsers: &Browsers,
    request: v1::StartRunRequest,
    wait: bool,
) -> Result<StartRequest, Status> {
    let start = parse(request, wait)?;
    if matches!(start.start.work, Work::Script(_)) {
        browsers.ready().await.map_err(|error| {
            status::status(Code::FailedPrecondition, "BROWSER_NOT_FOUND", error.to_string())
        })?;
    }
    if let Work::Ask(ask) = &start.start.work {
        let router = specs.current();
        let catalogue = router.catalogue();
        if catalogue.specs().is_empty() {
            return Err(status::no_specs());
        }
        if let Some(spec) = ask.spec.as_deref().filter(|spec| catalogue.find(spec).is_none()) {
            let known = catalogue.specs().iter().map(|spec| spec.id.as_str());
            return Err(status::spec_not_found(spec, known));
        }
    }
    Ok(start)
}

fn parse(mut request: v1::StartRunRequest, wait: bool) -> Result<StartRequest, Status> {
    let violations = validate::start_run(&request, &PlanLimits::default());
    let canonical = request.idempotency_key.as_ref().map(|_| canonical(&request));
    match request.work.take() {
        Some(Asked::Plan(plan)) => prepare_plan(request, plan, violations, canonical.as_deref(), wait),
        Some(Asked::Ask(ask)) => prepare_ask(request, ask, &violations, canonical.as_deref(), wait),
        Some(Asked::Script(script)) => {
            prepare_script(request, *script, &violations, canonical.as_deref(), wait)
        }
        None => Err(status::invalid(&violations)),
    }
}

fn prepare_plan(
    request: v1::StartRunRequest,
    mut plan: v1::Plan,
    mut violations: Vec<Violation>,
    canonical: Option<&[u8]>,
    wait: bool,
) -> Result<StartRequest, Status> {
    let of_policies = materialise(&mut plan);
    add(&mut violations, of_policies.into_iter().map(|violation| violation.under("plan")).collect());
    if !violations.is_empty() {
        return Err(status::invalid(&violations));
    }
    let tasks = plan.waves.iter().flat_map(|wave| &wave.tasks);
    let agents: BTreeSet<String> = tasks.clone().map(|task| task.agent.clone()).collect();
    let blobs = tasks.filter_map(|task| match &task.input.as_ref()?.data {
        Some(v1::payload::Data::Blob(blob)) => blob_hash(blob),
        _ => None,
    });
    let blobs = blobs.collect();
    let key = key_of(request.idempotency_key, canonical);
    Ok(StartRequest {
        run: new_run(None, key.as_ref()),
        agents,
        commands: plan.commands.clone(),
        resources: plan.resources.clone(),
        start: StartRun { work: Work::Plan(plan), labels: request.labels, parent: request.parent },
        session: None,
        key,
        wait,
        blobs,
    })
}

fn prepare_ask(
    mut request: v1::StartRunRequest,
    mut ask: v1::Ask,
    violations: &[Violation],
    canonical: Option<&[u8]>,
    wait: bool,
) -> Result<StartRequest, Status> {
    if !violations.is_empty() {
        return Err(status::invalid(violations));
    }
    let key = key_of(request.idempotency_key, canonical);
    let run = new_run(ask.session.as_deref(), key.as_ref());
    ask.request_id.get_or_insert_with(|| run.to_string());
    if let Some(session) = &ask.session {
        request.labels.insert(SESSION_LABEL.to_owned(), session.clone());
    }
    Ok(StartRequest {
        run,
        // Whether the agent of a spec is known is seen when the spec is called: another spec may answer instead.
        agents: BTreeSet::new(),
        commands: Vec::new(),
        resources: Vec::new(),
        session: ask.session.clone(),
        start: StartRun { work: Work::Ask(ask), labels: request.labels, parent: request.parent },
        key,
        wait,
        blobs: Vec::new(),
    })
}

fn prepare_script(
    request: v1::StartRunRequest,
    mut script: v1::Script,
    violations: &[Violation],
    canonical: Option<&[u8]>,
    wait: bool,
) -> Result<StartRequest, Status> {
    if !violations.is_empty() {
        return Err(status::invalid(violations));
    }
    let key = key_of(request.idempotency_key, canonical);
    let run = new_run(None, key.as_ref());
    executor::prepare_script(&mut script, run)?;
    Ok(StartRequest {
        run,
        agents: BTreeSet::from([BROWSER_AGENT.to_owned()]),
        commands: Vec::new(),
        resources: Vec::new(),
        start: StartRun {
            work: Work::Script(Box::new(script)),
            labels: request.labels,
            parent: request.parent,
        },
        session: None,
        key,
        wait,
        blobs: Vec::new(),
    })
}

fn new_run(session: Option<&str>, key: Option<&IdempotencyKey>) -> RunId {
    run_id(RunId(uuid::Uuid::now_v7()), session, key.map(|key| &*key.key))
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
    let size = plan.encoded_len();
    if size <= MAX_PLAN_BYTES {
        return Vec::new();
    }
    let message = format!("{size} bytes with its defaults, at most {MAX_PLAN_BYTES}");
    vec![Violation::new("", "size", message)]
}
