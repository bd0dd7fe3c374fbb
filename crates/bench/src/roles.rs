//! What the benchmark's other processes do.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io::Read;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use bytes::Bytes;
use capataz_client::worker::{Task, TaskError, TaskOutput, Worker};
use capataz_contracts::v1;
use capataz_contracts::v1::agent_service_server::{AgentService, AgentServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::SERVICE_NAME;
use serde_json::{Value, json};
use tokio::sync::watch;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::Outcome;

/// The agent of all plans: gives its input back.
pub(crate) const AGENT: &str = "echo";

/// The planner of all executions: its query is the number of the actions that it wants.
pub(crate) const PLANNER: &str = "bench.planner";
/// Their tool: gives its input back.
pub(crate) const TOOL: &str = "bench.tool";
/// Actions of an execution.
pub(crate) const ACTIONS: u32 = 10;

/// What a query begins with whose last action goes on until it is told to end.
pub(crate) const HOLDS: &str = "hold ";

/// What the planner answers, by the contract that the keys of the prompt tell.
fn answer(prompt: &Value) -> Value {
    if let Some(step) = prompt.pointer("/adherenceCheck/planStep") {
        return json!({
            "decision": "continue", "planAdherence": 1, "reasoning": "the next one", "confidence": 1,
            "nextAction": { "tool": step["tool"], "parameters": step["parameters"], "justification": "" },
        });
    }
    if prompt.get("progress").is_some() { next_step(prompt) } else { next_action(prompt) }
}

/// Of a plan with so many steps as the query wants, one after the other.
fn next_step(prompt: &Value) -> Value {
    let wanted = prompt["query"].as_str().and_then(|query| query.parse().ok()).unwrap_or(ACTIONS);
    let step = prompt["step"].as_u64().unwrap_or_default();
    let mut answer = json!({
        "nextAction": { "tool": TOOL, "parameters": { "n": step }, "stepIndex": step },
        "replanRequired": false, "reasoning": "the next one", "confidence": 1,
    });
    if prompt.get("currentPlan").is_none_or(Value::is_null) {
        let steps = (0..wanted).map(|n| {
            json!({
                "id": format!("s{n}"), "description": "", "tool": TOOL, "parameters": { "n": n },
                "expected": { "success": true }, "dependsOn": [],
            })
        });
        answer["planUpdate"] = json!({
            "type": "create", "steps": steps.collect::<Vec<_>>(), "estimatedTime": 0, "checkpoints": [],
        });
    }
    answer
}

/// By the contract of the mode `simple`.
fn next_action(prompt: &Value) -> Value {
    let query = prompt["query"].as_str().unwrap_or_default();
    let wanted: u64 = query.trim_start_matches(HOLDS).parse().unwrap_or_default();
    let step = prompt["step"].as_u64().unwrap_or_default();
    let is_last = step + 1 >= wanted;
    json!({
        "action": { "tool": TOOL, "parameters": { "n": step, "holds": is_last && query.starts_with(HOLDS) } },
        "reasoning": "the next one", "continue": !is_last, "confidence": 1,
    })
}

fn of_executions(name: &str, kind: v1::AgentKind) -> v1::Agent {
    v1::Agent {
        name: name.to_owned(),
        kind: kind.into(),
        undoable: true,
        max_concurrency: u32::MAX,
        ..v1::Agent::default()
    }
}

/// Serves the agent until it is told to stop. With `hold`, tasks end only when the standard input is closed.
///
/// # Errors
/// The daemon refuses the worker.
pub async fn worker(endpoint: String, slots: u32, hold: bool) -> Outcome<()> {
    let (release, released) = watch::channel(!hold);
    if hold {
        let wait = move || {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            release.send_replace(true);
        };
        std::thread::Builder::new().name("release".to_owned()).spawn(wait)?;
    }
    let echo = move |task: Task| {
        let mut released = released.clone();
        async move {
            // Once released, the sender is gone; the value stays.
            let _ = released.wait_for(|released| *released).await;
            Ok::<_, TaskError>(TaskOutput::from(task.input().clone()))
        }
    };
    let plan = |task: Task| async move { Ok::<_, TaskError>(answer(&task.input_json()?)) };
    let act = |task: Task| async move {
        if task.input_json::<serde_json::Value>()?["holds"] == true {
            std::future::pending::<()>().await;
        }
        Ok::<_, TaskError>(TaskOutput::from(task.input().clone()))
    };
    let worker = Worker::new(endpoint).id("bench-worker").slots(slots).agent(AGENT, echo);
    let worker = worker.agent_with(of_executions(PLANNER, v1::AgentKind::Planner), plan);
    worker.agent_with(of_executions(TOOL, v1::AgentKind::Tool), act).run().await?;
    Ok(())
}

/// Serves one unary method of the contract that gives back what it gets: what gRPC itself costs.
///
/// # Errors
/// The address cannot be listened on.
pub async fn echo_server(listen: SocketAddr) -> Outcome<()> {
    let server = tonic::transport::Server::builder().add_service(AgentServiceServer::new(Echo));
    server.serve(listen).await?;
    Ok(())
}

/// Serves a collector that forgets what it gets.
///
/// # Errors
/// The address cannot be listened on.
pub async fn collector(listen: SocketAddr) -> Outcome<()> {
    // By the other service it is seen to be up.
    let server =
        tonic::transport::Server::builder().add_service(Forgetful).add_service(AgentServiceServer::new(Echo));
    server.serve(listen).await?;
    Ok(())
}

/// `ExportTraceServiceRequest`, of which nothing is read: what a collector does with spans is not the daemon's cost.
#[derive(Clone, PartialEq, prost::Message)]
struct Unread {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    resource_spans: Vec<Bytes>,
}

/// `TraceService`.
#[derive(Clone)]
struct Forgetful;

impl NamedService for Forgetful {
    const NAME: &'static str = SERVICE_NAME;
}

impl UnaryService<Unread> for Forgetful {
    type Response = ExportTraceServiceResponse;
    type Future = Ready<Result<Response<Self::Response>, Status>>;

    fn call(&mut self, _: Request<Unread>) -> Self::Future {
        ready(Ok(Response::new(ExportTraceServiceResponse::default())))
    }
}

impl Service<http::Request<Body>> for Forgetful {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            let codec = ProstCodec::<ExportTraceServiceResponse, Unread>::default();
            let mut grpc = Grpc::new(codec).max_decoding_message_size(usize::MAX);
            Ok(grpc.unary(Self, request).await)
        })
    }
}

struct Echo;

#[tonic::async_trait]
impl AgentService for Echo {
    async fn list_agents(
        &self,
        _: Request<v1::ListAgentsRequest>,
    ) -> Result<Response<v1::ListAgentsResponse>, Status> {
        Ok(Response::new(v1::ListAgentsResponse::default()))
    }

    async fn check_agents(
        &self,
        request: Request<v1::CheckAgentsRequest>,
    ) -> Result<Response<v1::CheckAgentsResponse>, Status> {
        let names = request.into_inner().agents.into_iter();
        let details = names.map(|name| v1::NameCheck { name, ..v1::NameCheck::default() }).collect();
        Ok(Response::new(v1::CheckAgentsResponse { details, ..v1::CheckAgentsResponse::default() }))
    }
}
