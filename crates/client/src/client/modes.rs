//! The calls of the daemon's ModeService.

use capataz_contracts::v1;
use capataz_contracts::v1::mode_service_client::ModeServiceClient;

use super::{Client, fill, repeated};
use crate::ClientError;

impl Client {
    /// Chooses the mode of a session's runs that name none.
    ///
    /// # Errors
    /// The session's name is not one, or the daemon is not reached.
    pub async fn choose_mode(
        &self,
        request: v1::ChooseModeRequest,
    ) -> Result<v1::ChooseModeResponse, ClientError> {
        let channel = self.channel();
        repeated(&self.retry, true, request, |request| {
            let mut modes = ModeServiceClient::new(channel.clone());
            async move { modes.choose_mode(request).await }
        })
        .await
    }

    /// Where an execution stands.
    ///
    /// # Errors
    /// There is no such run or event, or the daemon is not reached.
    pub async fn get_execution(
        &self,
        request: v1::GetExecutionRequest,
    ) -> Result<v1::GetExecutionResponse, ClientError> {
        let channel = self.channel();
        repeated(&self.retry, true, request, |request| {
            let mut modes = ModeServiceClient::new(channel.clone());
            async move { modes.get_execution(request).await }
        })
        .await
    }

    /// Makes a place to which an execution can go back.
    ///
    /// # Errors
    /// The run has ended, or is in no execution mode; or the daemon is not reached.
    pub async fn create_checkpoint(
        &self,
        mut request: v1::CreateCheckpointRequest,
    ) -> Result<v1::CreateCheckpointResponse, ClientError> {
        fill(&mut request.request_id);
        let channel = self.channel();
        repeated(&self.retry, true, request, |request| {
            let mut modes = ModeServiceClient::new(channel.clone());
            async move { modes.create_checkpoint(request).await }
        })
        .await
    }

    /// Goes back to a checkpoint of an execution.
    ///
    /// # Errors
    /// There is no such checkpoint (CHECKPOINT_NOT_FOUND), the run cannot go back there (ROLLBACK_NOT_POSSIBLE) or has
    /// ended; or the daemon is not reached.
    pub async fn rollback_execution(
        &self,
        mut request: v1::RollbackExecutionRequest,
    ) -> Result<v1::RollbackExecutionResponse, ClientError> {
        fill(&mut request.request_id);
        let channel = self.channel();
        repeated(&self.retry, true, request, |request| {
            let mut modes = ModeServiceClient::new(channel.clone());
            async move { modes.rollback_execution(request).await }
        })
        .await
    }

    /// How executions that have ended went, by mode.
    ///
    /// # Errors
    /// The daemon is not reached, or too many read at once.
    pub async fn get_analytics(
        &self,
        request: v1::GetAnalyticsRequest,
    ) -> Result<v1::GetAnalyticsResponse, ClientError> {
        let channel = self.channel();
        repeated(&self.retry, true, request, |request| {
            let mut modes = ModeServiceClient::new(channel.clone());
            async move { modes.get_analytics(request).await }
        })
        .await
    }

    /// How large and how risky a query looks, for information only.
    ///
    /// # Errors
    /// The query is blank or too long, or the daemon is not reached.
    pub async fn assess_risk(
        &self,
        request: v1::AssessRiskRequest,
    ) -> Result<v1::AssessRiskResponse, ClientError> {
        let channel = self.channel();
        repeated(&self.retry, true, request, |request| {
            let mut modes = ModeServiceClient::new(channel.clone());
            async move { modes.assess_risk(request).await }
        })
        .await
    }
}
