//! The calls of the daemon's PipelineService.

use capataz_contracts::v1;
use capataz_contracts::v1::pipeline_service_client::PipelineServiceClient;

use super::{Client, fill, repeated};
use crate::ClientError;

impl Client {
    /// The checkpoints of a pipeline's run, now or as they were after an event.
    ///
    /// # Errors
    /// There is no such run or event, or the daemon is not reached.
    pub async fn list_checkpoints(
        &self,
        request: v1::ListCheckpointsRequest,
    ) -> Result<v1::ListCheckpointsResponse, ClientError> {
        let channel = self.channel();
        repeated(&self.retry, true, request, |request| {
            let mut pipelines = PipelineServiceClient::new(channel.clone());
            async move { pipelines.list_checkpoints(request).await }
        })
        .await
    }

    /// Goes back to the newest completed checkpoint before a phase of a pipeline's run.
    ///
    /// # Errors
    /// There is no such checkpoint (CHECKPOINT_NOT_FOUND), the run has ended, or the daemon is not reached.
    pub async fn rollback_pipeline(
        &self,
        mut request: v1::RollbackPipelineRequest,
    ) -> Result<v1::RollbackPipelineResponse, ClientError> {
        fill(&mut request.request_id);
        let channel = self.channel();
        repeated(&self.retry, true, request, |request| {
            let mut pipelines = PipelineServiceClient::new(channel.clone());
            async move { pipelines.rollback_pipeline(request).await }
        })
        .await
    }
}
