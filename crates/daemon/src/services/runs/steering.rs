//! What users tell runs at work, and what is held against it first.

use capataz_contracts::{Violation, v1, validate};
use capataz_engine::Input;
use capataz_shard::{CommandReply, blob_hash};
use tonic::{Code, Status};

use super::Runs;
use super::reading::parse_run;
use crate::services::{named, pipelines};
use crate::status;

impl Runs {
    /// Carries a user's command out. A request that was carried out before has the answer that it had then, also after its run's
    /// end.
    pub(in crate::services) async fn command(
        &self,
        run_id: &str,
        request_id: &str,
        if_seq: Option<u64>,
        input: Input,
    ) -> Result<(u64, i64, u32), Status> {
        let run = parse_run(run_id)?;
        if request_id.is_empty() || request_id.len() > 256 {
            return Err(status::invalid_field(
                "request_id",
                "length",
                "1 to 256 bytes; choose a new one for each request",
            ));
        }
        if request_id.starts_with("capataz.") {
            let message = "request ids that begin with `capataz.` are the daemon's own";
            return Err(status::invalid_field("request_id", "reserved", message));
        }
        let asked = input.clone();
        match self.runtime.command(run, if_seq, input).await {
            Ok(CommandReply::Done { seq, repeated: true, .. }) => {
                self.first_answer(run_id, &asked, seq).await
            }
            Ok(CommandReply::Done { seq, deadline_ms, activation, .. }) => Ok((seq, deadline_ms, activation)),
            Ok(answer @ CommandReply::NotActive { .. }) => {
                // Finished, or never there.
                let row = self.whole(run).await?;
                if row.summary.finished_at.is_none() {
                    return Err(status::unavailable());
                }
                // The state is let go before the answer is read: of large ones, one is held at a time.
                let repeated = self.fold(&row).await?.repeated(&asked);
                match repeated {
                    Ok(Some(seq)) => self.first_answer(run_id, &asked, seq).await,
                    Ok(None) => Err(status::command(&answer)),
                    Err(refusal) => Err(status::command(&CommandReply::Refused(refusal))),
                }
            }
            Ok(refused) => Err(status::command(&refused)),
            Err(declined) => Err(status::declined(&declined)),
        }
    }

    /// What a request was answered when it was carried out, which event `seq` records: of its task, as it was then.
    async fn first_answer(&self, run_id: &str, asked: &Input, seq: u64) -> Result<(u64, i64, u32), Status> {
        let Some(name) = asked.task() else { return Ok((seq, 0, 0)) };
        let then = self.state_at(run_id, Some(seq)).await?;
        let (deadline_ms, activation) = then.plan().find(name).map_or((0, 0), |task| then.told_of(task));
        Ok((seq, deadline_ms, activation))
    }

    /// Number of the event that records this very request, where it was carried out before: whether it would still be taken is not
    /// the question.
    pub(super) async fn carried_out(&self, run_id: &str, asked: &Input) -> Option<u64> {
        let state = self.state_at(run_id, None).await.ok()?;
        state.repeated(asked).ok().flatten()
    }

    /// Holds the value of an answer against what there is now.
    pub(super) async fn check_value(&self, run_id: &str, value: &v1::Payload) -> Result<(), Status> {
        self.judge(value).await?;
        self.check_agent(run_id, value).await
    }

    /// The agent with which a blocked phase is to go on has to be known, as every agent at a start.
    async fn check_agent(&self, run_id: &str, value: &v1::Payload) -> Result<(), Status> {
        let Some(agent) = pipelines::named_agent(value) else { return Ok(()) };
        if self.row(parse_run(run_id)?).await?.kind != v1::RunKind::Pipeline as i32 {
            return Ok(());
        }
        let checked = self.runtime.check_agents(vec![agent], Vec::new(), Vec::new()).await;
        let batch = checked.map_err(|declined| status::declined(&declined))?;
        match batch.details.first() {
            Some(error) => Err(status::contract(Code::NotFound, error, |_| Some("value.agent".to_owned()))),
            None => Ok(()),
        }
    }

    /// Judges the value of an answer by itself. What type is asked for, the run knows.
    async fn judge(&self, value: &v1::Payload) -> Result<(), Status> {
        let mut violations = validate::payload(value, validate::INLINE_MAX);
        if value.data.is_none() {
            violations.push(Violation::new("", "required", "a value has content"));
        }
        let under_value = violations.into_iter().map(|violation| violation.under("value"));
        let violations: Vec<Violation> = under_value.collect();
        if !violations.is_empty() {
            return Err(status::invalid(&violations));
        }
        let Some(v1::payload::Data::Blob(blob)) = &value.data else { return Ok(()) };
        let Some(hash) = blob_hash(blob) else { return Err(status::blob_not_found(&blob.blake3)) };
        named::keep(&self.runtime, &[hash]).await
    }
}
