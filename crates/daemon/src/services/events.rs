//! EventService: cursors and filters in, stored bytes out.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::SHARD;
use capataz_contracts::v1::event_service_server::EventService;
use capataz_contracts::{v1, validate};
use capataz_policy::codes;
use capataz_runtime::{CursorError, Item, News, Runtime, Subscription};
use capataz_shard::feed::{Begin, Cursor, Damaged, Filter, Placed, Step, Unservable};
use capataz_shard::journal::go_on;
use capataz_shard::{LoadError, SESSION_LABEL};
use tonic::{Code, Request, Response, Status};

use super::Pages;
use super::follow::quarantined;
use super::runs::{self, answer, read_on};
use crate::status;

const MAX_BATCH: u32 = 256;

pub(super) struct Events {
    runtime: Runtime,
}

impl Events {
    pub(super) fn new(runtime: Runtime) -> Self {
        Self { runtime }
    }
}

#[tonic::async_trait]
impl EventService for Events {
    type SubscribeStream = Pages<v1::SubscribeResponse>;

    async fn subscribe(
        &self,
        request: Request<v1::SubscribeRequest>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let request = request.into_inner();
        let begin = begin_of(&request)?;
        let filter = filter_of(request.filter.unwrap_or_default())?;
        if request.until_finished && filter.run.is_none() {
            return Err(status::invalid_field(
                "until_finished",
                "only_with",
                "only with a filter that names a run",
            ));
        }
        let news = match (request.progress, request.logs) {
            (true, true) => News::ProgressAndLogs,
            (true, false) => News::Progress,
            (false, false) => News::None,
            (false, true) => return Err(status::invalid_field("logs", "only_with", "only with `progress`")),
        };
        // Read before the first event is: a run that ends from now on tells its end by an event of the stream.
        let mut had_ended = false;
        if let Some(run) = filter.run {
            let store = Arc::clone(self.runtime.store());
            let known = move || store.get_run(run).map_err(|error| status::store(&error));
            match answer(&self.runtime, known).await? {
                Some(row) => {
                    runs::refuse_quarantined(&row)?;
                    had_ended = row.summary.finished_at.is_some();
                }
                None => return Err(status::not_found(&run.to_string())),
            }
        }
        let max_batch = match request.max_batch {
            0 => MAX_BATCH,
            size => size.min(MAX_BATCH),
        };
        let subscription = Subscription::begin(&self.runtime, SHARD, filter, begin, max_batch as usize, news)
            .await
            .map_err(|error| refused(&error))?;
        let until = request.until_finished.then_some(Until { had_ended });
        let delivery = Delivery { subscription, runtime: self.runtime.clone(), until, caught_up: false };
        let responses =
            futures_util::stream::unfold(Some(delivery), |rest| async move { rest?.next().await });
        Ok(Response::new(Box::pin(responses)))
    }
}

/// What a subscriber gets, for as long as it takes what it gets.
struct Delivery {
    subscription: Subscription,
    runtime: Runtime,
    /// Where the end of the run that is subscribed to ends the stream.
    until: Option<Until>,
    caught_up: bool,
}

/// What is known of the run whose end ends a stream.
#[derive(Clone, Copy)]
struct Until {
    /// The run had ended before its first event was read: then the end of what is there is the end of all, also for whoever
    /// resumes behind its last event.
    had_ended: bool,
}

impl Until {
    fn is_reached(self, step: &Step) -> bool {
        step.finished || (self.had_ended && step.at_end)
    }
}

impl Delivery {
    /// The next response, and what follows it.
    async fn next(mut self) -> Option<(Result<v1::SubscribeResponse, Status>, Option<Self>)> {
        loop {
            match self.subscription.next(self.caught_up).await {
                Err(error) => {
                    let runtime = self.runtime.clone();
                    let told = read_on(&self.runtime, move || Ok(runs::unreadable(&runtime, &error))).await;
                    return Some((Err(told.unwrap_or_else(|error| error)), None));
                }
                Ok(Item::Quarantined(run)) => {
                    if let Err(error) = quarantined(&self.runtime, run).await {
                        return Some((Err(error), None));
                    }
                }
                Ok(Item::Missed(missed)) => {
                    let refusal = refused(&CursorError::Unservable(missed));
                    return Some((Err(refusal), None));
                }
                Ok(Item::Progress(frame)) => {
                    let progress = vec![frame];
                    let response = v1::SubscribeResponse { progress, ..v1::SubscribeResponse::default() };
                    return Some((Ok(response), Some(self)));
                }
                Ok(Item::Step(step, cursor)) => {
                    let (response, ends) = self.response(step, cursor);
                    return Some((Ok(response), (!ends).then_some(self)));
                }
            }
        }
    }

    /// What is said of a step, and whether it is the last one.
    fn response(&mut self, step: Step, cursor: Cursor) -> (v1::SubscribeResponse, bool) {
        let first_time = step.at_end && !self.caught_up;
        self.caught_up |= step.at_end;
        let ends = self.until.is_some_and(|until| until.is_reached(&step));
        look_into(&self.runtime, &step.damaged);
        let placed = self.subscription.marks();
        let damaged = step.damaged.iter().map(|damaged| v1::DamagedEvents {
            run_id: damaged.run.to_string(),
            first_seq: damaged.first_seq,
            count: damaged.count,
            position: damaged.position.0,
        });
        let damaged = damaged.collect();
        let events = step.events.into_iter().map(|event| v1::DeliveredEvent {
            run_id: event.run.to_string(),
            event: event.event,
            cursor: placed(event.cursor).encode(SHARD),
            inherited: event.inherited,
        });
        let response = v1::SubscribeResponse {
            events: events.collect(),
            cursor: placed(cursor).encode(SHARD),
            caught_up: first_time,
            progress: Vec::new(),
            damaged,
        };
        (response, ends)
    }
}

/// Finds out beside the stream whether the runs that damaged rows name are what is damaged, and tells the shards.
fn look_into(runtime: &Runtime, damaged: &[Damaged]) {
    for run in damaged.iter().map(|damaged| damaged.run).collect::<BTreeSet<_>>() {
        let (runtime, reads) = (runtime.clone(), Arc::clone(runtime.reads()));
        let look = move || {
            let store = runtime.store();
            let known = store.get_run(run).ok().flatten();
            if known.is_some_and(|row| row.quarantine.is_none())
                && let Err(LoadError::Damaged(damage)) = go_on(&**store, run, None)
            {
                runtime.found_damaged(&damage);
            }
        };
        tokio::spawn(async move { reads.stream(look).await });
    }
}

fn begin_of(request: &v1::SubscribeRequest) -> Result<Begin, Status> {
    if request.cursor.is_empty() {
        return Ok(if request.from_now { Begin::Now } else { Begin::Oldest });
    }
    if request.from_now {
        return Err(status::invalid_field("from_now", "only_with", "not together with a cursor"));
    }
    let wrong = || status::invalid_field("cursor", "cursor", "is not a cursor of this daemon");
    Placed::decode(&request.cursor, SHARD).map(Begin::After).ok_or_else(wrong)
}

fn filter_of(filter: v1::EventFilter) -> Result<Filter, Status> {
    let violations = validate::event_filter(&filter);
    if !violations.is_empty() {
        return Err(status::invalid(&violations));
    }
    let mut labels = filter.labels;
    if let Some(session) = filter.session {
        let violations = validate::session(&session);
        if !violations.is_empty() {
            let under = violations.into_iter().map(|violation| violation.under("filter"));
            return Err(status::invalid(&under.collect::<Vec<_>>()));
        }
        labels.insert(SESSION_LABEL.to_owned(), session);
    }
    let run = match filter.run_id {
        None => None,
        Some(id) => Some(id.parse().map_err(|_| {
            status::invalid_field("filter.run_id", "uuid", format!("{id:?} is not a run id"))
        })?),
    };
    Ok(Filter { run, labels, kind: filter.kind, min_severity: filter.min_severity.unwrap_or(0) })
}

fn refused(error: &CursorError) -> Status {
    let unservable = |code, key: &'static str, works: &Placed| {
        let mut refusal = status::status(Code::OutOfRange, code, error.to_string());
        let works = tonic::metadata::MetadataValue::from_bytes(&works.encode(SHARD));
        refusal.metadata_mut().insert_bin(key, works);
        refusal
    };
    match error {
        CursorError::Unservable(Unservable::TooOld { works }) => {
            unservable(codes::CURSOR_TOO_OLD, "capataz-oldest-cursor-bin", works)
        }
        CursorError::Unservable(Unservable::OtherHistory { valid }) => {
            unservable(codes::CURSOR_UNKNOWN, "capataz-valid-cursor-bin", valid)
        }
        CursorError::Store(error) => status::store(error),
    }
}

#[cfg(test)]
mod tests {
    use capataz_store::{Mark, Position, Removals};
    use tonic_types::StatusExt;

    use super::*;

    #[track_caller]
    fn check(unservable: Unservable, code: &str, key: &str, works: Placed) {
        let refusal = refused(&CursorError::Unservable(unservable));
        assert_eq!(refusal.code(), Code::OutOfRange);
        let reason = refusal.get_details_error_info().map(|info| info.reason);
        assert_eq!(reason.as_deref(), Some(code));
        let given = refusal.metadata().get_bin(key).and_then(|value| value.to_bytes().ok());
        assert_eq!(given.and_then(|bytes| Placed::decode(&bytes, SHARD)), Some(works));
    }

    #[test]
    fn a_stream_ends_with_the_runs_last_event_or_with_what_is_there_of_a_run_that_had_ended() {
        let step = |at_end, finished| Step { at_end, finished, ..Step::default() };
        for had_ended in [false, true] {
            let until = Until { had_ended };
            assert!(until.is_reached(&step(false, true)));
            assert!(!until.is_reached(&step(false, false)), "there is more to read");
            // A run that has ended meanwhile has an event more.
            assert_eq!(until.is_reached(&step(true, false)), had_ended);
        }
    }

    #[test]
    fn a_cursor_that_cannot_be_served_is_refused_by_its_reason_with_one_that_can() {
        let cursor = Cursor::behind(Position(5));
        let works = Placed { cursor, mark: Mark(7), removals: Removals(2) };
        check(Unservable::TooOld { works }, "CURSOR_TOO_OLD", "capataz-oldest-cursor-bin", works);
        check(Unservable::OtherHistory { valid: works }, "CURSOR_UNKNOWN", "capataz-valid-cursor-bin", works);
    }
}
