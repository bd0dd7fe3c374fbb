//! Browser actions: scripts that are checked, and sessions to which actions are proposed one at a time. A whole script is
//! started with [`Client::start_run`].

use capataz_contracts::v1;
use capataz_contracts::v1::executor_service_client::ExecutorServiceClient;
use tonic::transport::Channel;

use crate::client::{fill, repeated};
use crate::{Client, ClientError};

impl Client {
    /// Every violation of a script; nothing is started. Empty where the script is valid.
    ///
    /// # Errors
    /// The daemon is not reached. Violations are not an error.
    pub async fn check_script(&self, script: v1::Script) -> Result<Vec<v1::ScriptViolation>, ClientError> {
        let request = v1::CheckScriptRequest { script: Some(script) };
        Ok(self.executor().check_script(request).await?.into_inner().violations)
    }

    /// Opens a browser to which actions are proposed; answers when it is open. Repeated only with an idempotency key.
    ///
    /// # Errors
    /// The policy breaks rules, there is no browser or no room for another one, or the daemon is not reached.
    pub async fn open_browser(
        &self,
        request: v1::OpenBrowserRequest,
    ) -> Result<v1::OpenBrowserResponse, ClientError> {
        let keyed = request.idempotency_key.is_some();
        let call = |request| async move { self.executor().open_browser(self.traced(request)).await };
        Box::pin(repeated(&self.retry, keyed, request, call)).await
    }

    /// What is on the page of a session now. Nothing is changed or recorded.
    ///
    /// # Errors
    /// There is no such session, an action is being performed in it, or the daemon is not reached.
    pub async fn observe(&self, request: v1::ObserveRequest) -> Result<v1::ObserveResponse, ClientError> {
        Ok(self.executor().observe(request).await?.into_inner())
    }

    /// Performs one action in a session. With its `request_id`, which is made up where there is none, it is performed once
    /// however often the call is repeated. A failure of the action is not an error of the call; the response contains it.
    ///
    /// # Errors
    /// The run is not an interactive session, an action is being performed in it, it has ended, or the daemon is not reached.
    pub async fn propose(&self, mut request: v1::ProposeRequest) -> Result<v1::ProposeResponse, ClientError> {
        fill(&mut request.request_id);
        let call = |request| async move { self.executor().propose(request).await };
        // Actions and what becomes of them are large.
        Box::pin(repeated(&self.retry, true, request, call)).await
    }

    /// Closes a session's browser, which ends its run.
    ///
    /// # Errors
    /// The run is not an interactive session, or the daemon is not reached.
    pub async fn close_browser(
        &self,
        mut request: v1::CloseBrowserRequest,
    ) -> Result<v1::CloseBrowserResponse, ClientError> {
        fill(&mut request.request_id);
        let call = |request| async move { self.executor().close_browser(request).await };
        Box::pin(repeated(&self.retry, true, request, call)).await
    }

    /// The browsers that are open now, and how many may be.
    ///
    /// # Errors
    /// The daemon is not reached.
    pub async fn list_browsers(&self) -> Result<v1::ListBrowsersResponse, ClientError> {
        Ok(self.executor().list_browsers(v1::ListBrowsersRequest {}).await?.into_inner())
    }

    /// The browser that the daemon would start, or the reason why it would start none.
    ///
    /// # Errors
    /// The daemon is not reached. That there is no browser is not an error: the response says so.
    pub async fn describe_browser(&self) -> Result<v1::DescribeBrowserResponse, ClientError> {
        Ok(self.executor().describe_browser(v1::DescribeBrowserRequest {}).await?.into_inner())
    }

    /// The storage states that the daemon keeps, without their contents.
    ///
    /// # Errors
    /// The daemon is not reached.
    pub async fn list_storage_states(&self) -> Result<Vec<v1::StorageStateInfo>, ClientError> {
        let response = self.executor().list_storage_states(v1::ListStorageStatesRequest {}).await?;
        Ok(response.into_inner().states)
    }

    /// Deletes a storage state; whether it was there.
    ///
    /// # Errors
    /// The daemon is not reached.
    pub async fn delete_storage_state(&self, name: &str) -> Result<bool, ClientError> {
        let request = v1::DeleteStorageStateRequest { name: name.to_owned() };
        Ok(self.executor().delete_storage_state(request).await?.into_inner().deleted)
    }

    fn executor(&self) -> ExecutorServiceClient<Channel> {
        ExecutorServiceClient::new(self.channel())
    }
}
