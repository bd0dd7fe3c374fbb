//! Calls about browsers: what is repeated, and under which id.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use capataz_client::{Client, RetryOptions, v1};
use capataz_contracts::v1::executor_service_server::{ExecutorService, ExecutorServiceServer};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Code, Request, Response, Status};

use super::daemon::soon;

/// Refuses the first call of each kind because it is still starting, and answers the next one.
#[derive(Clone, Default)]
struct Starting {
    /// `method id`, in order.
    calls: Arc<Mutex<Vec<String>>>,
}

impl Starting {
    fn answer<R: Default>(&self, method: &str, id: &str) -> Result<Response<R>, Status> {
        let mut calls = self.calls.lock().unwrap();
        let again = calls.iter().any(|call| call.starts_with(method));
        calls.push(format!("{method} {id}"));
        if again { Ok(Response::new(R::default())) } else { Err(Status::unavailable("starting")) }
    }

    fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }
}

macro_rules! answered {
    ($($method:ident($request:ident) -> $response:ident { $id:expr })*) => {
        #[tonic::async_trait]
        impl ExecutorService for Starting {
            $(async fn $method(&self, request: Request<v1::$request>) -> Result<Response<v1::$response>, Status> {
                let id: fn(v1::$request) -> String = $id;
                self.answer(stringify!($method), &id(request.into_inner()))
            })*
        }
    };
}

answered! {
    check_script(CheckScriptRequest) -> CheckScriptResponse { |_| String::new() }
    open_browser(OpenBrowserRequest) -> OpenBrowserResponse { |open| open.idempotency_key.unwrap_or_default() }
    observe(ObserveRequest) -> ObserveResponse { |observe| observe.run_id }
    propose(ProposeRequest) -> ProposeResponse { |propose| propose.request_id }
    close_browser(CloseBrowserRequest) -> CloseBrowserResponse { |close| close.request_id }
    list_browsers(ListBrowsersRequest) -> ListBrowsersResponse { |_| String::new() }
    describe_browser(DescribeBrowserRequest) -> DescribeBrowserResponse { |_| String::new() }
    list_storage_states(ListStorageStatesRequest) -> ListStorageStatesResponse { |_| String::new() }
    delete_storage_state(DeleteStorageStateRequest) -> DeleteStorageStateResponse { |delete| delete.name }
}

async fn starting() -> (Starting, Client) {
    let daemon = Starting::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let service = ExecutorServiceServer::new(daemon.clone());
    let server = tonic::transport::Server::builder().add_service(service);
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    let at_once = RetryOptions { base_delay: Duration::from_millis(1), ..RetryOptions::default() };
    (daemon, Client::connect(&endpoint).await.unwrap().with_retry(at_once))
}

#[tokio::test]
async fn an_action_is_proposed_again_under_the_same_id_that_is_made_up_once() {
    let (daemon, client) = starting().await;
    soon(client.propose(v1::ProposeRequest::default())).await.unwrap();
    let calls = daemon.calls();
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert_eq!(calls[0], calls[1]);
    assert!(calls[0].len() > "propose ".len(), "{calls:?}");
    let own = v1::ProposeRequest { request_id: "mine".to_owned(), ..v1::ProposeRequest::default() };
    soon(client.propose(own)).await.unwrap();
    assert_eq!(daemon.calls().last().map(String::as_str), Some("propose mine"));
}

#[tokio::test]
async fn closing_is_repeated_and_opening_only_with_a_key() {
    let (daemon, client) = starting().await;
    soon(client.close_browser(v1::CloseBrowserRequest::default())).await.unwrap();
    let refused = soon(client.open_browser(v1::OpenBrowserRequest::default())).await.unwrap_err();
    assert_eq!(refused.grpc_code(), Code::Unavailable);
    let (daemon_of_key, client) = starting().await;
    let keyed =
        v1::OpenBrowserRequest { idempotency_key: Some("k".to_owned()), ..v1::OpenBrowserRequest::default() };
    soon(client.open_browser(keyed)).await.unwrap();
    assert_eq!(daemon.calls().len(), 3);
    assert_eq!(daemon_of_key.calls(), ["open_browser k", "open_browser k"]);
}

#[tokio::test]
async fn what_only_looks_is_asked_once() {
    let (daemon, client) = starting().await;
    let observe = v1::ObserveRequest { run_id: "r".to_owned(), ..v1::ObserveRequest::default() };
    soon(client.observe(observe)).await.unwrap_err();
    soon(client.list_browsers()).await.unwrap_err();
    soon(client.describe_browser()).await.unwrap_err();
    soon(client.check_script(v1::Script::default())).await.unwrap_err();
    soon(client.list_storage_states()).await.unwrap_err();
    soon(client.delete_storage_state("shop")).await.unwrap_err();
    assert_eq!(
        daemon.calls(),
        [
            "observe r",
            "list_browsers ",
            "describe_browser ",
            "check_script ",
            "list_storage_states ",
            "delete_storage_state shop"
        ]
    );
}
