//! A collector of spans: OTLP's own service, on a port of its own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Request, Response, Status};

/// A span by its trace and its own id.
pub type Id = (Vec<u8>, Vec<u8>);

#[derive(Default)]
struct Shelf {
    spans: Mutex<BTreeMap<Id, Span>>,
    /// Spans that had the id of another one.
    doubles: Mutex<Vec<Span>>,
    /// What the senders have said of themselves, and the headers of the last call.
    said: Mutex<(BTreeMap<String, String>, BTreeMap<String, String>)>,
    /// What each call is answered with; not at all while it hangs.
    answer: AtomicI32,
    hangs: AtomicBool,
    /// Calls wait until they are let through.
    holds: AtomicBool,
    let_through: Notify,
    /// Spans that a call may have; 0: any number of them.
    most: AtomicU64,
    /// Spans of each call that are said to have been rejected.
    rejects: AtomicI64,
    calls: AtomicU64,
    changed: Notify,
}

#[derive(Clone)]
pub struct Collector {
    shelf: Arc<Shelf>,
    address: SocketAddr,
    server: Arc<tokio::task::AbortHandle>,
    /// The connections through its wire.
    wires: Arc<Mutex<JoinSet<()>>>,
}

struct Service(Arc<Shelf>);

#[tonic::async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        self.0.changed.notify_waiters();
        if self.0.hangs.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        loop {
            let let_through = self.0.let_through.notified();
            if !self.0.holds.load(Ordering::SeqCst) {
                break;
            }
            let_through.await;
        }
        let spans = request.get_ref().resource_spans.iter().flat_map(|of_resource| &of_resource.scope_spans);
        let count = spans.map(|scope| scope.spans.len() as u64).sum::<u64>();
        let most = self.0.most.load(Ordering::SeqCst);
        if most > 0 && count > most {
            return Err(Status::new(Code::ResourceExhausted, "too many at once"));
        }
        let code = Code::from_i32(self.0.answer.load(Ordering::SeqCst));
        if code != Code::Ok {
            return Err(Status::new(code, "as it was told to"));
        }
        let headers = request.metadata().clone().into_headers();
        let headers = headers
            .iter()
            .map(|(key, value)| (key.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
        self.0.said.lock().unwrap().1 = headers.collect();
        for of_resource in request.into_inner().resource_spans {
            let attributes = of_resource.resource.unwrap_or_default().attributes;
            self.0.said.lock().unwrap().0.extend(attributes.into_iter().map(|attribute| {
                let value = match attribute.value.and_then(|value| value.value) {
                    Some(Value::StringValue(text)) => text,
                    other => format!("{other:?}"),
                };
                (attribute.key, value)
            }));
            for span in of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                let id = (span.trace_id.clone(), span.span_id.clone());
                let before = self.0.spans.lock().unwrap().insert(id, span.clone());
                let double = before.filter(|before| *before != span);
                self.0.doubles.lock().unwrap().extend(double);
            }
        }
        self.0.changed.notify_waiters();
        let rejected_spans = self.0.rejects.load(Ordering::SeqCst);
        let partial = ExportTracePartialSuccess { rejected_spans, error_message: String::new() };
        Ok(Response::new(ExportTraceServiceResponse {
            partial_success: (rejected_spans > 0).then_some(partial),
        }))
    }
}

impl Collector {
    pub async fn start() -> Self {
        Self::listen("127.0.0.1:0".parse().unwrap(), Arc::default()).await
    }

    async fn listen(address: SocketAddr, shelf: Arc<Shelf>) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = TraceServiceServer::new(Service(Arc::clone(&shelf)));
        let serving = Server::builder().add_service(service).serve_with_incoming(TcpIncoming::from(listener));
        let server = tokio::spawn(async move { serving.await.unwrap() }).abort_handle();
        Self { shelf, address, server: Arc::new(server), wires: Arc::default() }
    }

    /// It is reached through a wire that can be cut.
    pub async fn start_behind_a_wire() -> Self {
        let there = Self::start().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, wires, far) = (listener.local_addr().unwrap(), Arc::clone(&there.wires), there.address);
        tokio::spawn(async move {
            loop {
                let (mut near, _) = listener.accept().await.unwrap();
                wires.lock().unwrap().spawn(async move {
                    let mut far = TcpStream::connect(far).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                });
            }
        });
        Self { address, ..there }
    }

    /// Its connections end, in the middle of whatever is said on them.
    pub fn breaks_off(&self) {
        self.wires.lock().unwrap().abort_all();
    }

    /// Nobody listens at its address any more.
    pub fn leaves(&self) {
        self.server.abort();
    }

    /// It listens at its address again.
    pub async fn comes_back(&self) -> Self {
        Self::listen(self.address, Arc::clone(&self.shelf)).await
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every call is answered so from now on.
    pub fn answers(&self, code: Code) {
        self.shelf.answer.store(code as i32, Ordering::SeqCst);
    }

    /// Whether calls from now on are not answered at all.
    pub fn hangs(&self, hangs: bool) {
        self.shelf.hangs.store(hangs, Ordering::SeqCst);
    }

    /// Whether calls are answered only when this is said to be over.
    pub fn holds(&self, holds: bool) {
        self.shelf.holds.store(holds, Ordering::SeqCst);
        self.shelf.let_through.notify_waiters();
    }

    /// A call with more spans than these is refused from now on.
    pub fn takes_at_most(&self, spans: u64) {
        self.shelf.most.store(spans, Ordering::SeqCst);
    }

    /// Each call is said to have had so many spans that were rejected.
    pub fn rejects(&self, spans: i64) {
        self.shelf.rejects.store(spans, Ordering::SeqCst);
    }

    pub fn calls(&self) -> u64 {
        self.shelf.calls.load(Ordering::SeqCst)
    }

    /// What the senders have said of themselves.
    pub fn resource(&self) -> BTreeMap<String, String> {
        self.shelf.said.lock().unwrap().0.clone()
    }

    /// The headers of the last call that was taken.
    pub fn headers(&self) -> BTreeMap<String, String> {
        self.shelf.said.lock().unwrap().1.clone()
    }

    /// None of them had the id of another one.
    pub fn spans(&self) -> Vec<Span> {
        assert_eq!(*self.shelf.doubles.lock().unwrap(), []);
        self.shelf.spans.lock().unwrap().values().cloned().collect()
    }

    /// Waits until this is so of the spans and of the number of calls.
    pub async fn until(&self, mut is_so: impl FnMut(&[Span], u64) -> bool) {
        let waiting = async {
            loop {
                let changed = self.shelf.changed.notified();
                if is_so(&self.spans(), self.calls()) {
                    return;
                }
                changed.await;
            }
        };
        let patience = super::kills::PATIENCE;
        assert!(tokio::time::timeout(patience, waiting).await.is_ok(), "{:#?}", self.spans());
    }
}
