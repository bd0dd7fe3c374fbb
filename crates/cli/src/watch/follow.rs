//! Follows a run's events until something ends the watching.

use std::future::pending;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use capataz_client::{Client, ClientError, Delivery};
use capataz_contracts::{json, v1};
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::lines::{self, Detail};
use super::live::{FRAME, Live};
use super::model::Run;
use super::screen;
use crate::display::format;
use crate::display::paint::Tone;
use crate::output::Output;
use crate::text::{fill, words};

/// How a run is shown while it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Silent,
    /// A line for each event.
    Lines(Detail),
    /// What has happened above, what is happening below.
    Live,
    /// Each event as a JSON document on a line of its own.
    Json,
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub style: Style,
    pub timeout: Option<Duration>,
    pub exit_on_question: bool,
}

/// Why the watching ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Finished,
    TimedOut,
    Question,
    /// Ctrl-C.
    Interrupted,
    /// Nobody reads our output any more.
    NoReader,
    /// The daemon was away for longer than we wait.
    Gone,
}

/// How long a daemon may be away before waiting for it is given up. It restarts within seconds; somebody who starts it
/// by hand needs a little longer.
const MOST_AWAY: Duration = Duration::from_secs(120);

/// Follows `run_id` from its first event.
///
/// # Errors
/// The daemon refuses: there is no such run.
pub async fn follow(
    client: &Client,
    run_id: &str,
    options: Options,
    out: &mut Output,
) -> Result<(Run, End), ClientError> {
    let mut stream = client.subscribe(v1::SubscribeRequest {
        filter: Some(v1::EventFilter { run_id: Some(run_id.to_owned()), ..v1::EventFilter::default() }),
        progress: options.style == Style::Live,
        until_finished: true,
        ..v1::SubscribeRequest::default()
    });
    let deadline = options.timeout.map(|timeout| Instant::now() + timeout);
    let mut watcher = Watcher::new(run_id, options.style);
    let mut frames = interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut away_since: Option<Instant> = None;
    let end = loop {
        if out.is_closed() {
            break End::NoReader;
        }
        let over = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => pending().await,
            }
        };
        tokio::select! {
            delivery = stream.next() => match delivery {
                None => break End::Finished,
                Some(Err(error)) => {
                    watcher.clear(out);
                    return Err(error);
                }
                Some(Ok(Delivery::Reconnecting { error, delay })) => {
                    let since = *away_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > MOST_AWAY {
                        break End::Gone;
                    }
                    watcher.away(&error, delay, out);
                }
                Some(Ok(delivery)) => {
                    away_since = None;
                    watcher.take(delivery, out);
                    if options.exit_on_question && watcher.caught_up && !watcher.run.questions.is_empty() {
                        break End::Question;
                    }
                }
            },
            _ = frames.tick(), if options.style == Style::Live => watcher.draw(out),
            () = over => break End::TimedOut,
            _ = tokio::signal::ctrl_c() => break End::Interrupted,
        }
    };
    watcher.clear(out);
    Ok((watcher.run, end))
}

struct Watcher<'r> {
    run_id: &'r str,
    style: Style,
    run: Run,
    live: Option<Live>,
    /// When the newest event came in, by this machine's clock.
    received: Instant,
    caught_up: bool,
    /// A lost connection is told once.
    told_away: bool,
}

impl<'r> Watcher<'r> {
    fn new(run_id: &'r str, style: Style) -> Self {
        Self {
            run_id,
            style,
            run: Run::default(),
            live: (style == Style::Live).then(Live::new),
            received: Instant::now(),
            caught_up: false,
            told_away: false,
        }
    }

    fn take(&mut self, delivery: Delivery, out: &mut Output) {
        self.told_away = false;
        match delivery {
            Delivery::Event { run_id, event, cursor } => {
                self.run.apply(&event);
                self.received = Instant::now();
                self.show(&run_id, &event, &cursor, out);
            }
            Delivery::Progress(frame) => self.run.progress(&frame),
            Delivery::CaughtUp => self.caught_up = true,
            Delivery::Reconnecting { .. } => {}
        }
    }

    fn show(&mut self, run_id: &str, event: &v1::Event, cursor: &Bytes, out: &mut Output) {
        match self.style {
            Style::Silent => {}
            Style::Json => out.record(&record(run_id, event, Some(cursor))),
            Style::Lines(detail) => {
                if let Some(line) = lines::render(&self.run, run_id, event, detail, out.paint) {
                    out.line(&line);
                    out.flush();
                }
            }
            Style::Live => {
                let line = lines::render(&self.run, run_id, event, Detail::Results, out.paint);
                if let (Some(live), Some(line)) = (&mut self.live, line) {
                    live.keep(line);
                }
            }
        }
    }

    fn away(&mut self, error: &ClientError, delay: Duration, out: &mut Output) {
        if self.told_away || self.style == Style::Silent {
            return;
        }
        self.told_away = true;
        let delay = format::took(i64::try_from(delay.as_millis()).unwrap_or(i64::MAX));
        let text = fill(words().watch.reconnecting, &[error.message(), &delay]);
        match &mut self.live {
            Some(live) => live.keep(out.paint.text(Tone::Warning, &text)),
            None => out.note(&text),
        }
    }

    fn draw(&mut self, out: &mut Output) {
        let Some(live) = &mut self.live else { return };
        let (rows, columns) = Live::size();
        // The daemon's clock may differ from ours: what it said last, and the time since then.
        let since = i64::try_from(self.received.elapsed().as_millis()).unwrap_or(0);
        // Of history only the end counts: the daemon's time is that of its newest event.
        let now_ms = if self.caught_up { self.run.at_ms + since } else { self.run.at_ms };
        // One row stays free for the cursor.
        let lines =
            screen::screen(&self.run, self.run_id, now_ms, rows.saturating_sub(1), columns, out.paint);
        live.draw(&lines, out);
    }

    fn clear(&mut self, out: &mut Output) {
        if let Some(live) = &mut self.live {
            live.clear(out);
        }
    }
}

/// An event as a line of JSON.
pub fn record(run_id: &str, event: &v1::Event, cursor: Option<&Bytes>) -> serde_json::Value {
    let mut record = json!({ "run_id": run_id, "event": json::print("capataz.v1.Event", event) });
    if let (Some(cursor), Some(object)) = (cursor, record.as_object_mut()) {
        object.insert("cursor".to_owned(), STANDARD.encode(cursor).into());
    }
    record
}

/// Unix milliseconds by this machine's clock.
#[expect(clippy::disallowed_methods, reason = "what is shown to a person is relative to now")]
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
