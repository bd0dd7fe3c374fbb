//! A daemon that does what the test tells it: each call waits for the test to answer it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use capataz_client::v1;
use capataz_contracts::v1::agent_service_server::{AgentService, AgentServiceServer};
use capataz_contracts::v1::blob_service_server::{BlobService, BlobServiceServer};
use capataz_contracts::v1::event_service_server::{EventService, EventServiceServer};
use capataz_contracts::v1::run_service_server::{RunService, RunServiceServer};
use capataz_contracts::v1::worker_service_server::{WorkerService, WorkerServiceServer};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_stream::{Stream, StreamExt};
use tonic::transport::Server;
use tonic::transport::server::Router;
use tonic::{Request, Response, Status, Streaming};

/// Fails the test instead of letting it hang.
#[track_caller]
pub fn soon<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let caller = std::panic::Location::caller();
    async move {
        tokio::time::timeout(Duration::from_secs(20), future)
            .await
            .unwrap_or_else(|_| panic!("nothing came at {caller}"))
    }
}

pub type Reply<R> = oneshot::Sender<Result<R, Status>>;

/// What a client has asked for.
#[derive(Debug)]
pub enum Call {
    Start(v1::StartRunRequest, Reply<v1::StartRunResponse>),
    StartMany(v1::StartRunsRequest, Reply<v1::StartRunsResponse>),
    Execute(v1::ExecuteRunRequest, Reply<v1::ExecuteRunResponse>),
    Wait(v1::WaitRunRequest, Reply<v1::WaitRunResponse>),
    Get(v1::GetRunRequest, Reply<v1::GetRunResponse>),
    Cancel(v1::CancelRunRequest, Reply<v1::CancelRunResponse>),
}

/// One subscription.
#[derive(Debug)]
pub struct Subscription {
    pub request: v1::SubscribeRequest,
    pub responses: mpsc::Sender<Result<v1::SubscribeResponse, Status>>,
}

/// One connection of a worker.
#[derive(Debug)]
pub struct Connection {
    frames: Streaming<v1::ConnectRequest>,
    responses: mpsc::Sender<Result<v1::ConnectResponse, Status>>,
}

pub struct Daemon {
    pub address: SocketAddr,
    runtime: Option<tokio::runtime::Runtime>,
    calls: mpsc::Receiver<Call>,
    subscriptions: mpsc::Receiver<Subscription>,
    workers: mpsc::Receiver<Connection>,
    pub blobs: Blobs,
}

pub type Blobs = Arc<Mutex<BTreeMap<String, Bytes>>>;

impl Daemon {
    pub async fn start() -> Self {
        Self::start_on("127.0.0.1:0".parse().unwrap()).await
    }

    pub async fn start_on(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap().into_std().unwrap();
        let address = listener.local_addr().unwrap();
        Self::serve(address, move |router| {
            let incoming = TcpListenerStream::new(TcpListener::from_std(listener).unwrap());
            router.serve_with_incoming(incoming)
        })
    }

    #[cfg(unix)]
    pub async fn start_on_socket(path: &std::path::Path) -> Self {
        let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
        listener.set_nonblocking(true).unwrap();
        Self::serve("127.0.0.1:0".parse().unwrap(), move |router| {
            let listener = tokio::net::UnixListener::from_std(listener).unwrap();
            router.serve_with_incoming(tokio_stream::wrappers::UnixListenerStream::new(listener))
        })
    }

    /// In a runtime of its own, so that it can be killed with all of its connections.
    fn serve<S>(address: SocketAddr, serve: impl FnOnce(Router) -> S + Send + 'static) -> Self
    where
        S: Future<Output = Result<(), tonic::transport::Error>> + Send,
    {
        let (calls_in, calls) = mpsc::channel(64);
        let (subscriptions_in, subscriptions) = mpsc::channel(64);
        let (workers_in, workers) = mpsc::channel(64);
        let blobs = Blobs::default();
        let fake = Fake {
            calls: calls_in,
            subscriptions: subscriptions_in,
            workers: workers_in,
            blobs: Arc::clone(&blobs),
        };
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.spawn(async move {
            let router = Server::builder()
                .add_service(RunServiceServer::new(fake.clone()))
                .add_service(EventServiceServer::new(fake.clone()))
                .add_service(WorkerServiceServer::new(fake.clone()))
                .add_service(AgentServiceServer::new(fake.clone()))
                .add_service(BlobServiceServer::new(fake));
            serve(router).await.unwrap();
        });
        Self { address, runtime: Some(runtime), calls, subscriptions, workers, blobs }
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    #[track_caller]
    pub fn call(&mut self) -> impl Future<Output = Call> {
        let call = soon(self.calls.recv());
        async { call.await.unwrap() }
    }

    /// Whether nobody has called since the last call was taken.
    pub fn is_quiet(&mut self) -> bool {
        self.calls.try_recv().is_err()
    }

    #[track_caller]
    pub fn subscription(&mut self) -> impl Future<Output = Subscription> {
        let subscription = soon(self.subscriptions.recv());
        async { subscription.await.unwrap() }
    }

    #[track_caller]
    pub fn worker(&mut self) -> impl Future<Output = Connection> {
        let worker = soon(self.workers.recv());
        async { worker.await.unwrap() }
    }

    /// Ends it in the middle of whatever it does.
    pub async fn kill(mut self) {
        let runtime = self.runtime.take().unwrap();
        let killed = tokio::task::spawn_blocking(|| runtime.shutdown_timeout(Duration::from_secs(20)));
        killed.await.unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Connection {
    /// The next frame; a heartbeat is skipped.
    #[track_caller]
    pub fn frame(&mut self) -> impl Future<Output = v1::connect_request::Frame> {
        soon(async {
            loop {
                match self.frames.message().await.unwrap().expect("the worker closed").frame.unwrap() {
                    v1::connect_request::Frame::Heartbeat(_) => {}
                    frame => return frame,
                }
            }
        })
    }

    #[track_caller]
    pub fn hello(&mut self) -> impl Future<Output = v1::Hello> {
        let frame = self.frame();
        async {
            match frame.await {
                v1::connect_request::Frame::Hello(hello) => hello,
                other => panic!("no hello: {other:?}"),
            }
        }
    }

    /// Waits until the worker has closed its side.
    #[track_caller]
    pub fn closed(&mut self) -> impl Future<Output = ()> {
        soon(async {
            while let Some(request) = self.frames.message().await.unwrap() {
                let frame = request.frame.unwrap();
                assert!(matches!(frame, v1::connect_request::Frame::Heartbeat(_)), "{frame:?}");
            }
        })
    }

    pub async fn send(&self, frame: v1::connect_response::Frame) {
        self.send_raw(v1::ConnectResponse { frame: Some(frame) }).await;
    }

    pub async fn send_raw(&self, response: v1::ConnectResponse) {
        self.responses.send(Ok(response)).await.unwrap();
    }

    pub async fn fail(self, status: Status) {
        self.responses.send(Err(status)).await.unwrap();
    }
}

#[derive(Clone)]
struct Fake {
    calls: mpsc::Sender<Call>,
    subscriptions: mpsc::Sender<Subscription>,
    workers: mpsc::Sender<Connection>,
    blobs: Blobs,
}

impl Fake {
    async fn ask<R>(&self, call: impl FnOnce(Reply<R>) -> Call) -> Result<Response<R>, Status> {
        let (reply, answer) = oneshot::channel();
        self.calls.send(call(reply)).await.unwrap();
        match answer.await {
            Ok(answer) => answer.map(Response::new),
            // The test lets the call hang.
            Err(_) => std::future::pending().await,
        }
    }
}

type Boxed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn not_faked<R>() -> Result<Response<R>, Status> {
    Err(Status::unimplemented("not faked"))
}

#[tonic::async_trait]
impl RunService for Fake {
    async fn start_run(
        &self,
        request: Request<v1::StartRunRequest>,
    ) -> Result<Response<v1::StartRunResponse>, Status> {
        self.ask(|reply| Call::Start(request.into_inner(), reply)).await
    }

    async fn execute_run(
        &self,
        request: Request<v1::ExecuteRunRequest>,
    ) -> Result<Response<v1::ExecuteRunResponse>, Status> {
        self.ask(|reply| Call::Execute(request.into_inner(), reply)).await
    }

    async fn start_runs(
        &self,
        request: Request<v1::StartRunsRequest>,
    ) -> Result<Response<v1::StartRunsResponse>, Status> {
        self.ask(|reply| Call::StartMany(request.into_inner(), reply)).await
    }

    async fn wait_run(
        &self,
        request: Request<v1::WaitRunRequest>,
    ) -> Result<Response<v1::WaitRunResponse>, Status> {
        self.ask(|reply| Call::Wait(request.into_inner(), reply)).await
    }

    async fn get_run(
        &self,
        request: Request<v1::GetRunRequest>,
    ) -> Result<Response<v1::GetRunResponse>, Status> {
        self.ask(|reply| Call::Get(request.into_inner(), reply)).await
    }

    async fn list_runs(
        &self,
        _: Request<v1::ListRunsRequest>,
    ) -> Result<Response<v1::ListRunsResponse>, Status> {
        not_faked()
    }

    async fn cancel_run(
        &self,
        request: Request<v1::CancelRunRequest>,
    ) -> Result<Response<v1::CancelRunResponse>, Status> {
        self.ask(|reply| Call::Cancel(request.into_inner(), reply)).await
    }

    async fn delete_run(
        &self,
        _: Request<v1::DeleteRunRequest>,
    ) -> Result<Response<v1::DeleteRunResponse>, Status> {
        not_faked()
    }

    async fn render_report(
        &self,
        _: Request<v1::RenderReportRequest>,
    ) -> Result<Response<v1::RenderReportResponse>, Status> {
        not_faked()
    }

    async fn replay_run(
        &self,
        _: Request<v1::ReplayRunRequest>,
    ) -> Result<Response<v1::ReplayRunResponse>, Status> {
        not_faked()
    }

    async fn release_run(
        &self,
        _: Request<v1::ReleaseRunRequest>,
    ) -> Result<Response<v1::ReleaseRunResponse>, Status> {
        not_faked()
    }

    async fn pause_run(
        &self,
        _: Request<v1::PauseRunRequest>,
    ) -> Result<Response<v1::PauseRunResponse>, Status> {
        not_faked()
    }

    async fn resume_run(
        &self,
        _: Request<v1::ResumeRunRequest>,
    ) -> Result<Response<v1::ResumeRunResponse>, Status> {
        not_faked()
    }

    async fn extend_task(
        &self,
        _: Request<v1::ExtendTaskRequest>,
    ) -> Result<Response<v1::ExtendTaskResponse>, Status> {
        not_faked()
    }

    async fn continue_run(
        &self,
        _: Request<v1::ContinueRunRequest>,
    ) -> Result<Response<v1::ContinueRunResponse>, Status> {
        unreachable!("no test goes on with a run")
    }

    async fn fork_run(
        &self,
        _: Request<v1::ForkRunRequest>,
    ) -> Result<Response<v1::ForkRunResponse>, Status> {
        unreachable!("no test forks a run")
    }

    async fn rollback_task(
        &self,
        _: Request<v1::RollbackTaskRequest>,
    ) -> Result<Response<v1::RollbackTaskResponse>, Status> {
        unreachable!("no test takes a task back")
    }

    async fn retry_task(
        &self,
        _: Request<v1::RetryTaskRequest>,
    ) -> Result<Response<v1::RetryTaskResponse>, Status> {
        not_faked()
    }

    async fn resolve(&self, _: Request<v1::ResolveRequest>) -> Result<Response<v1::ResolveResponse>, Status> {
        not_faked()
    }

    type ExportRunStream = Boxed<v1::ExportRunResponse>;

    async fn export_run(
        &self,
        _: Request<v1::ExportRunRequest>,
    ) -> Result<Response<Self::ExportRunStream>, Status> {
        let page = |seqs: &[u64]| {
            let events = seqs.iter().map(|&seq| encoded_event(seq)).collect();
            Ok(v1::ExportRunResponse { events })
        };
        let pages = [page(&[1, 2]), page(&[]), page(&[3])];
        Ok(Response::new(Box::pin(tokio_stream::iter(pages))))
    }
}

pub fn encoded_event(seq: u64) -> Bytes {
    prost::Message::encode_to_vec(&v1::Event { seq, ..v1::Event::default() }).into()
}

#[tonic::async_trait]
impl EventService for Fake {
    type SubscribeStream = Boxed<v1::SubscribeResponse>;

    async fn subscribe(
        &self,
        request: Request<v1::SubscribeRequest>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let (responses, stream) = mpsc::channel(64);
        self.subscriptions.send(Subscription { request: request.into_inner(), responses }).await.unwrap();
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

#[tonic::async_trait]
impl WorkerService for Fake {
    type ConnectStream = Boxed<v1::ConnectResponse>;

    async fn connect(
        &self,
        request: Request<Streaming<v1::ConnectRequest>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        let (responses, stream) = mpsc::channel(64);
        self.workers.send(Connection { frames: request.into_inner(), responses }).await.unwrap();
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

#[tonic::async_trait]
impl AgentService for Fake {
    async fn list_agents(
        &self,
        request: Request<v1::ListAgentsRequest>,
    ) -> Result<Response<v1::ListAgentsResponse>, Status> {
        // Two pages, the second of which has nothing.
        let is_first = request.into_inner().page_token.is_empty();
        let agents = vec![v1::AgentStatus { workers: 3, ..v1::AgentStatus::default() }];
        Ok(Response::new(match is_first {
            true => v1::ListAgentsResponse { agents, next_page_token: "more".to_owned() },
            false => v1::ListAgentsResponse::default(),
        }))
    }

    async fn check_agents(
        &self,
        request: Request<v1::CheckAgentsRequest>,
    ) -> Result<Response<v1::CheckAgentsResponse>, Status> {
        let total = u32::try_from(request.into_inner().agents.len()).unwrap();
        Ok(Response::new(v1::CheckAgentsResponse { total, ..v1::CheckAgentsResponse::default() }))
    }
}

#[tonic::async_trait]
impl BlobService for Fake {
    async fn put_blob(
        &self,
        request: Request<Streaming<v1::PutBlobRequest>>,
    ) -> Result<Response<v1::PutBlobResponse>, Status> {
        let mut chunks = request.into_inner();
        let mut content = Vec::new();
        while let Some(request) = chunks.next().await {
            content.extend_from_slice(&request?.chunk);
        }
        let mut blobs = self.blobs.lock().unwrap();
        let blob = v1::BlobRef::new(format!("{:064x}", blobs.len()), content.len() as u64);
        blobs.insert(blob.blake3.clone(), content.into());
        Ok(Response::new(v1::PutBlobResponse { blob: Some(blob) }))
    }

    type GetBlobStream = Boxed<v1::GetBlobResponse>;

    async fn get_blob(
        &self,
        request: Request<v1::GetBlobRequest>,
    ) -> Result<Response<Self::GetBlobStream>, Status> {
        let blobs = self.blobs.lock().unwrap();
        let content =
            blobs.get(&request.into_inner().blake3).ok_or_else(|| Status::not_found("no such blob"))?;
        let chunks: Vec<_> = content
            .chunks(100_000)
            .map(|chunk| Ok(v1::GetBlobResponse { chunk: Bytes::copy_from_slice(chunk) }))
            .collect();
        Ok(Response::new(Box::pin(tokio_stream::iter(chunks))))
    }
}
