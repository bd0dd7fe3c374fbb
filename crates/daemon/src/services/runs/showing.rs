//! Runs as they are shown: one, its report, and pages of them.

use std::sync::Arc;

use capataz_contracts::{v1, validate};
use capataz_engine::{ViewOptions, without_values};
use capataz_store::{Millis, QuarantineReason, RunQuery, RunRow, StoreError};
use prost::Message;
use tonic::Status;

use super::Runs;
use super::reading::{answer, parse_run, unreadable};
use crate::services::listing::MAX_ANSWER_BYTES;
use crate::services::news::News;
use crate::services::{family, listing, reports, session_repairs};
use crate::status;

const MAX_TASK_PAGE: u32 = 1_000;
const DEFAULT_PAGE: u32 = 50;
const MAX_PAGE: u32 = 500;

impl Runs {
    /// A run as it stands, or as it was after an event.
    pub(super) async fn get(&self, request: v1::GetRunRequest) -> Result<v1::GetRunResponse, Status> {
        let run = parse_run(&request.run_id)?;
        let wanted = match request.task_limit {
            0 => MAX_TASK_PAGE,
            limit => limit.min(MAX_TASK_PAGE),
        };
        let row = self.whole(run).await?;
        let state = match request.at_seq {
            Some(at) => self.fold_at(&row, at).await?,
            None => self.fold(&row).await?,
        };
        // What no event tells is known of the present only.
        let with_news = !request.summary_only && request.at_seq.is_none();
        let news = match with_news {
            true => News::of(&self.runtime, &self.health, &row, &state, request.include_logs).await,
            false => News::default(),
        };
        let runtime = self.runtime.clone();
        answer(&self.runtime, move || {
            let store = &**runtime.store();
            let mut limit = wanted as usize;
            let children = match with_news {
                true => family::shown(store, run).map_err(|error| status::store(&error))?,
                false => Vec::new(),
            };
            let repaired = match with_news {
                true => session_repairs::of(store, &run.to_string(), &state)
                    .map_err(|error| unreadable(&runtime, &error))?,
                false => None,
            };
            loop {
                let options = ViewOptions {
                    tasks: !request.summary_only,
                    outputs: request.include_outputs,
                    offset: request.task_offset as usize,
                    limit,
                };
                let mut view = state.view(run.to_string(), options);
                view.children.clone_from(&children);
                news.add(&mut view, &state);
                view.session_repaired.clone_from(&repaired);
                // A page of large outputs is a shorter page.
                if view.encoded_len() > MAX_ANSWER_BYTES && limit > 1 {
                    limit /= 2;
                    continue;
                }
                if view.encoded_len() > MAX_ANSWER_BYTES {
                    view.questions.iter_mut().for_each(without_values);
                }
                let shown = request.task_offset.saturating_add(u32::try_from(limit).unwrap_or(u32::MAX));
                let more = !request.summary_only && shown < view.tasks_total;
                return Ok(v1::GetRunResponse { run: Some(view), next_task_offset: more.then_some(shown) });
            }
        })
        .await
    }

    /// The report of a run for people.
    pub(super) async fn report(
        &self,
        request: v1::RenderReportRequest,
    ) -> Result<v1::RenderReportResponse, Status> {
        let run = parse_run(&request.run_id)?;
        let wanted = reports::Wanted::read(&request)?;
        let row = self.whole(run).await?;
        let state = self.fold(&row).await?;
        let news = News::of(&self.runtime, &self.health, &row, &state, false).await;
        let runtime = self.runtime.clone();
        let rendered = answer(&self.runtime, move || {
            let mut view = state.view(run.to_string(), reports::VIEW);
            news.add(&mut view, &state);
            view.session_repaired = session_repairs::of(&**runtime.store(), &view.run_id, &state)
                .map_err(|error| unreadable(&runtime, &error))?;
            let (result, refused) = (state.result(0), state.has_refused_completions());
            drop(state);
            let events = reports::events(&**runtime.store(), run, &view, refused)
                .map_err(|error| unreadable(&runtime, &error))?;
            Ok(wanted.render(&view, &events, result.as_ref(), runtime.now().wall.0))
        });
        rendered.await
    }

    /// One page of runs, newest first.
    pub(super) async fn list(&self, request: v1::ListRunsRequest) -> Result<v1::ListRunsResponse, Status> {
        let violations = validate::list_runs(&request);
        if !violations.is_empty() {
            return Err(status::invalid(&violations));
        }
        let name = listing::name(request.name.as_deref())?;
        let labels = listing::labels(request.labels, request.session)?;
        let before = match request.page_token.as_str() {
            "" => None,
            token => Some(
                token
                    .parse()
                    .map_err(|_| status::invalid_field("page_token", "token", "is not a page token"))?,
            ),
        };
        let size = if request.page_size == 0 { DEFAULT_PAGE } else { request.page_size.min(MAX_PAGE) };
        let query = RunQuery {
            labels,
            status: request.status,
            outcome: request.outcome,
            kind: request.kind,
            except_kind: Some(v1::RunKind::Session as i32),
            unfinished: listing::is_unfinished(request.status),
            name,
            since: request.since_ms.map(Millis),
            until: request.until_ms.map(Millis),
            before,
            from: None,
            limit: size,
        };
        let store = Arc::clone(self.runtime.store());
        let parent = match &request.parent {
            Some(parent) => Some(parse_run(parent)?),
            None => None,
        };
        let page = answer(&self.runtime, move || {
            let page = match parent {
                Some(parent) => listing::of_children(&*store, parent, query, listing::LOOKED_AT),
                None => listing::of_runs(&*store, query, listing::LOOKED_AT),
            };
            let with_parent = |row: RunRow| Ok((family::parent(&*store, row.run)?, row));
            page.and_then(|(rows, next)| {
                let rows = rows.into_iter().map(with_parent).collect::<Result<Vec<_>, StoreError>>()?;
                Ok((rows, next))
            })
            .map_err(|error| status::store(&error))
        });
        let (rows, next) = page.await?;
        let runs = rows.into_iter().map(|(parent, row)| v1::Run { parent, ..summary(row) });
        let (runs, more) = listing::fitting(runs, size as usize, MAX_ANSWER_BYTES);
        // Runs for which there is no room begin the next page.
        let last = runs.last().filter(|_| more).map(|last| last.run_id.clone());
        let next_page_token = last.or_else(|| next.map(|next| next.to_string())).unwrap_or_default();
        Ok(v1::ListRunsResponse { runs, next_page_token })
    }
}

fn reason(reason: QuarantineReason) -> v1::QuarantineReason {
    match reason {
        QuarantineReason::Damaged => v1::QuarantineReason::Damaged,
        QuarantineReason::Panicked => v1::QuarantineReason::Panicked,
        QuarantineReason::Conflicted => v1::QuarantineReason::Conflicted,
    }
}

fn summary(row: RunRow) -> v1::Run {
    let outcome = Some(row.summary.outcome).filter(|outcome| *outcome != 0);
    v1::Run {
        run_id: row.run.to_string(),
        kind: row.kind,
        name: row.name,
        status: row.summary.status,
        outcome,
        labels: row.labels,
        created_at_ms: row.created_at.0,
        updated_at_ms: row.summary.updated_at.0,
        finished_at_ms: row.summary.finished_at.map(|at| at.0),
        seq: row.last_seq,
        tasks_total: row.summary.tasks_total,
        tasks_settled: row.summary.tasks_settled,
        quarantine: row.quarantine.map(|quarantine| v1::Quarantine {
            reason: reason(quarantine.reason).into(),
            seq: quarantine.seq,
            position: quarantine.position.map(|position| position.0),
            detail: quarantine.detail,
            at_ms: quarantine.at.0,
        }),
        ..v1::Run::default()
    }
}
