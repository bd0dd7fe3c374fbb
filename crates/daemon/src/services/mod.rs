//! The gRPC services, and the port that they share with health and reflection.

mod agents;
mod analytics;
mod blobs;
mod continued;
mod demo;
mod events;
mod executor;
mod export;
mod family;
mod follow;
mod forks;
mod listing;
mod memory;
mod modes;
pub(crate) mod named;
mod news;
mod pipelines;
mod probes;
mod reports;
mod router;
mod runs;
mod session_repairs;
mod sessions;
mod starts;
mod workers;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use capataz_contracts::FILE_DESCRIPTOR_SET;
use capataz_contracts::trace::TraceContext;
use capataz_contracts::v1::agent_service_server::AgentServiceServer;
use capataz_contracts::v1::blob_service_server::BlobServiceServer;
use capataz_contracts::v1::event_service_server::EventServiceServer;
use capataz_contracts::v1::executor_service_server::ExecutorServiceServer;
use capataz_contracts::v1::memory_service_server::MemoryServiceServer;
use capataz_contracts::v1::mode_service_server::ModeServiceServer;
use capataz_contracts::v1::pipeline_service_server::PipelineServiceServer;
use capataz_contracts::v1::router_service_server::RouterServiceServer;
use capataz_contracts::v1::run_service_server::RunServiceServer;
use capataz_contracts::v1::session_service_server::SessionServiceServer;
use capataz_contracts::v1::worker_service_server::WorkerServiceServer;
use capataz_contracts::validate::FRAME_MAX;
use capataz_hosts::browsers::Browsers;
use capataz_runtime::Runtime;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_stream::Stream;
use tonic::Status;
use tonic::server::NamedService;
use tonic::service::{Routes, RoutesBuilder};
use tonic::transport::Server;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::HealthReporter;

use crate::DaemonError;
use crate::guard::GuardLayer;
use crate::heard::HearingLayer;
use crate::listener::Listener;
use crate::specs::Specs;
use crate::unread::CountingLayer;

pub use starts::Places;
pub(crate) use starts::{check_pipeline, check_plan};

/// An answer of many pages, each of which is made when the reader takes it: nothing waits for one that does not read.
type Pages<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Calls at once over one connection. Further ones wait at the client until one of them has ended, so that there are more than
/// any client waits for at once.
const MAX_STREAMS: u32 = 1_000;
/// Bytes of a call that are taken in before anybody reads them. A connection has eight times as many.
const STREAM_WINDOW: u32 = 128 * 1024;

/// What the health service calls retention.
const RETENTION: &str = "capataz.retention";

/// What callers of the health service are told.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    reporter: HealthReporter,
    drains: Arc<AtomicBool>,
}

impl Health {
    pub(crate) async fn serves() -> (Self, HealthServer<impl tonic_health::pb::health_server::Health>) {
        let (reporter, service) = tonic_health::server::health_reporter();
        let health = Self { reporter, drains: Arc::default() };
        health.say(ServingStatus::Serving).await;
        health.retains(true).await;
        (health, service)
    }

    /// Nothing new is begun: whoever looks for a daemon looks for another one.
    pub(crate) async fn drains(&self) {
        self.drains.store(true, Ordering::Release);
        self.say(ServingStatus::NotServing).await;
    }

    fn is_draining(&self) -> bool {
        self.drains.load(Ordering::Acquire)
    }

    /// Whether retention removes what the clock on the wall makes old.
    pub(crate) async fn retains(&self, is_going: bool) {
        let status = if is_going { ServingStatus::Serving } else { ServingStatus::NotServing };
        self.reporter.set_service_status(RETENTION, status).await;
    }

    async fn say(&self, status: ServingStatus) {
        let names = [
            "",
            RunServiceServer::<runs::Runs>::NAME,
            WorkerServiceServer::<workers::Workers>::NAME,
            EventServiceServer::<events::Events>::NAME,
            RouterServiceServer::<router::Routing>::NAME,
            ExecutorServiceServer::<executor::Executor>::NAME,
        ];
        for name in names {
            self.reporter.set_service_status(name, status).await;
        }
    }
}

/// What is served beside the API.
#[derive(Debug)]
pub(crate) struct Extras {
    /// A form to try a browser on.
    pub(crate) demo: bool,
    /// Each call that belongs to somebody's trace is a span.
    pub(crate) traced: bool,
    /// The daemon in numbers.
    pub(crate) metrics: axum::Router,
}

/// The span of a call, in the trace of whoever calls. One that belongs to no trace has none: it would be a trace of a single
/// span.
fn call(request: &http::Request<()>) -> tracing::Span {
    let traceparent = request.headers().get("traceparent").and_then(|value| value.to_str().ok());
    let Some(caller) = traceparent.and_then(TraceContext::parse) else { return tracing::Span::none() };
    if !request.uri().path().starts_with("/capataz.v1.") {
        return tracing::Span::none();
    }
    let span = tracing::info_span!(
        target: "capataz",
        "call",
        otel.name = request.uri().path().trim_start_matches('/'),
        otel.kind = "server",
        rpc.system = "grpc",
        trace_id = tracing::field::Empty,
    );
    capataz_telemetry::belongs_to(&span, caller);
    span
}

/// Listens and serves until `stopped` turns true.
pub(crate) async fn serve(
    address: SocketAddr,
    runtime: Runtime,
    specs: Specs,
    browsers: Arc<Browsers>,
    extras: Extras,
    mut stopped: watch::Receiver<bool>,
) -> Result<(SocketAddr, Health, JoinHandle<Result<(), tonic::transport::Error>>), DaemonError> {
    let listen = |source| DaemonError::Listen { address: address.to_string(), source };
    let listener = TcpListener::bind(address).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let incoming = Listener::new(listener);

    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let set_up = |error: tonic_reflection::server::Error| DaemonError::Server(error.into());
    let reflection_v1 = reflection().build_v1().map_err(set_up)?;
    // Python's client and others still ask for the older one.
    let reflection_v1alpha = reflection().build_v1alpha().map_err(set_up)?;
    let (health, health_service) = Health::serves().await;

    let probes = probes::routes(runtime.clone(), health.clone());
    let runs =
        Arc::new(runs::Runs::new(runtime.clone(), specs.clone(), Arc::clone(&browsers), health.clone()));
    let mut routes = RoutesBuilder::default();
    routes
        .add_service(RunServiceServer::from_arc(Arc::clone(&runs)))
        .add_service(PipelineServiceServer::new(pipelines::Pipelines::new(Arc::clone(&runs))))
        .add_service(ModeServiceServer::new(modes::Modes::new(Arc::clone(&runs))))
        .add_service(MemoryServiceServer::new(memory::Memory::new(runtime.clone())))
        .add_service(ExecutorServiceServer::new(executor::Executor::new(runtime.clone(), runs, browsers)))
        .add_service(RouterServiceServer::new(router::Routing::new(runtime.clone(), specs)))
        .add_service(SessionServiceServer::new(sessions::Sessions::new(runtime.clone())))
        .add_service(EventServiceServer::new(events::Events::new(runtime.clone())))
        .add_service(
            WorkerServiceServer::new(workers::Workers::new(runtime.clone()))
                .max_decoding_message_size(FRAME_MAX),
        )
        .add_service(AgentServiceServer::new(agents::Agents::new(runtime.clone())))
        .add_service(BlobServiceServer::new(blobs::Blobs::new(runtime)))
        .add_service(health_service)
        .add_service(reflection_v1)
        .add_service(reflection_v1alpha);
    let mut pages = routes.routes().into_axum_router().merge(extras.metrics).merge(probes);
    if extras.demo {
        pages = pages.merge(demo::routes());
    }
    let routes = Routes::from(pages);
    let server = Server::builder();
    let server = if extras.traced { server.trace_fn(call) } else { server };
    let router = server
        // Pages and metrics are asked for with HTTP/1.1.
        .accept_http1(true)
        .http2_keepalive_interval(Some(Duration::from_secs(10)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
        .max_concurrent_streams(MAX_STREAMS)
        // A call that waits for its place holds up only its part of what a connection may send.
        .initial_stream_window_size(STREAM_WINDOW)
        .layer(CountingLayer::default())
        .layer(HearingLayer::default())
        .layer(GuardLayer)
        .add_routes(routes);
    let server = tokio::spawn(async move {
        router
            .serve_with_incoming_shutdown(incoming, async move {
                let _ = stopped.wait_for(|stopped| *stopped).await;
            })
            .await
    });
    Ok((address, health, server))
}
