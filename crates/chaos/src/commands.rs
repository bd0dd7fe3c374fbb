//! Commands that steer a run or a session.

use capataz_client::{Client, ClientError, v1};

use crate::journal::now_us;
use crate::records::{Call, ClientRecord};

/// A call that changes a run, or a session.
pub(crate) enum Command {
    Pause,
    Resume,
    Cancel,
    Extend,
    /// Take the first task back, and all that was built on it.
    TakeBack,
    /// Go back to the checkpoint before the phase in work.
    GoBack,
    /// Make a checkpoint of an execution.
    Checkpoint,
    /// Go back to the first checkpoint of an execution.
    GoBackToFirst,
    Resolve {
        question_id: String,
        answer: &'static str,
    },
    /// Accept what the answer to this request has suggested for the session.
    Accept {
        session: String,
        request_id: String,
    },
}

impl Command {
    pub(crate) fn call(&self) -> Call {
        match self {
            Self::Pause => Call::Pause,
            Self::Resume => Call::Resume,
            Self::Cancel => Call::Cancel,
            Self::Extend => Call::Extend,
            Self::TakeBack => Call::TakeBack,
            Self::GoBack | Self::GoBackToFirst => Call::GoBack,
            Self::Checkpoint => Call::Checkpoint,
            Self::Resolve { .. } => Call::Resolve,
            Self::Accept { .. } => Call::Accept,
        }
    }

    /// What is written down of an acknowledgement.
    pub(crate) fn done(&self, key: String, run: String, seq: u64) -> ClientRecord {
        let at = now_us();
        match self {
            Self::Accept { session, request_id } => {
                let (session, request) = (session.clone(), request_id.clone());
                ClientRecord::Accepted { at, key, session, request, seq }
            }
            _ => ClientRecord::Done { at, key, run, seq },
        }
    }

    /// The number of the event that it has caused.
    pub(crate) async fn send(
        &self,
        client: &Client,
        run_id: String,
        request_id: String,
    ) -> Result<u64, ClientError> {
        match self {
            Self::Pause => {
                let request = v1::PauseRunRequest { run_id, request_id, if_seq: None };
                client.pause_run(request).await.map(|response| response.seq)
            }
            Self::Resume => {
                let request = v1::ResumeRunRequest { run_id, request_id, if_seq: None };
                client.resume_run(request).await.map(|response| response.seq)
            }
            Self::Cancel => {
                let reason = "chaos".to_owned();
                let request = v1::CancelRunRequest { run_id, request_id, reason, ..Default::default() };
                client.cancel_run(request).await.map(|response| response.seq)
            }
            Self::Extend => {
                let (task, by_ms) = ("a".to_owned(), Some(60_000));
                let request = v1::ExtendTaskRequest { run_id, task, request_id, if_seq: None, by_ms };
                client.extend_task(request).await.map(|response| response.seq)
            }
            Self::TakeBack => {
                let task = "a".to_owned();
                let request =
                    v1::RollbackTaskRequest { run_id, task, request_id, if_seq: None, cascade: true };
                client.rollback_task(request).await.map(|response| response.seq)
            }
            Self::GoBack => {
                let phase = String::new();
                let request = v1::RollbackPipelineRequest { run_id, phase, request_id, if_seq: None };
                client.rollback_pipeline(request).await.map(|response| response.seq)
            }
            Self::Checkpoint => {
                let reason = "chaos".to_owned();
                let request = v1::CreateCheckpointRequest { run_id, reason, request_id, if_seq: None };
                client.create_checkpoint(request).await.map(|response| response.seq)
            }
            Self::GoBackToFirst => {
                let checkpoint_id = "c1".to_owned();
                let request =
                    v1::RollbackExecutionRequest { run_id, checkpoint_id, request_id, if_seq: None };
                client.rollback_execution(request).await.map(|response| response.seq)
            }
            Self::Resolve { question_id, answer } => {
                let (question_id, answer) = (question_id.clone(), (*answer).to_owned());
                let request = v1::ResolveRequest {
                    run_id,
                    question_id,
                    answer,
                    request_id,
                    ..v1::ResolveRequest::default()
                };
                client.resolve(request).await.map(|response| response.seq)
            }
            Self::Accept { session, request_id } => {
                client.accept_transition(session, request_id).await.map(|response| response.seq)
            }
        }
    }
}
