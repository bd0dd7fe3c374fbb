//! The calls of the daemon's SessionService.

use capataz_contracts::v1;
use capataz_contracts::v1::session_service_client::SessionServiceClient;

use super::{Client, repeated};
use crate::ClientError;

impl Client {
    /// A session as it stands.
    ///
    /// # Errors
    /// Nothing was ever said in it, or the daemon is not reached.
    pub async fn get_session(&self, session: &str) -> Result<v1::Session, ClientError> {
        let request = v1::GetSessionRequest { session: session.to_owned() };
        let response = SessionServiceClient::new(self.channel()).get_session(request).await?.into_inner();
        Ok(response.session.unwrap_or_default())
    }

    /// Gives a session the state of a file. The same state once more changes nothing, so the call is repeated like one with
    /// a key.
    ///
    /// # Errors
    /// The state is not valid (SESSION_VALIDATION_FAILED), a plan of the session is at work (SESSION_BUSY), or the daemon is
    /// not reached.
    pub async fn import_session(
        &self,
        request: v1::ImportSessionRequest,
    ) -> Result<v1::ImportSessionResponse, ClientError> {
        let channel = self.channel();
        repeated(&self.retry, true, request, |request| {
            let mut sessions = SessionServiceClient::new(channel.clone());
            async move { sessions.import_session(request).await }
        })
        .await
    }

    /// A page of the sessions, without their conversations. It may be short, or empty, though there are more: the last one
    /// has no token.
    ///
    /// # Errors
    /// The daemon is not reached.
    pub async fn list_sessions(
        &self,
        request: v1::ListSessionsRequest,
    ) -> Result<v1::ListSessionsResponse, ClientError> {
        Ok(SessionServiceClient::new(self.channel()).list_sessions(request).await?.into_inner())
    }
}
