//! Follows a run's events until the run, the user or a limit ends the watching.

use std::collections::BTreeMap;
use std::future::pending;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use capataz_client::{Client, ClientError, Delivery};
use capataz_contracts::json;
use capataz_contracts::v1::{self, event::Body};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::asking::Asking;
use super::choosing::Choosing;
use super::keys::{self, Keys};
use super::lines::{self, Detail};
use super::live::{FRAME, Live};
use super::more_time::{self, MoreTime};
use super::view;
use crate::output::Output;
use capataz_display::at_once::{self, Told};
use capataz_display::format;
use capataz_display::model::Run;
use capataz_display::paint::Tone;
use capataz_display::words::{fill, words};

/// The form in which a running run is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Silent,
    /// A line for each event.
    Lines(Detail),
    /// What a person has to know above, running tasks below.
    Live,
    /// Each event as a JSON document on a line of its own.
    Json,
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub style: Style,
    pub timeout: Option<Duration>,
    pub exit_on_question: bool,
    /// True if JSON and lines have the progress of tasks among the events; the live view has it in any case.
    pub progress: bool,
}

/// The reason why the watching ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Finished,
    TimedOut,
    Question,
    /// Ctrl-C.
    Interrupted,
    /// The reader of the output has gone, or the output cannot be written.
    NoReader,
    /// The daemon was away for longer than [`MOST_AWAY`].
    Gone,
}

/// How long the command waits for an absent daemon. A daemon restarts within seconds; a person who starts one by hand
/// needs a little longer.
const MOST_AWAY: Duration = Duration::from_secs(120);
/// Errors and questions that are told in whole while a run goes on; further ones have a line.
const MOST_IN_WHOLE: usize = 20;

/// Follows `run_id` from its first event.
///
/// # Errors
/// The daemon refuses, for example because it does not know the run.
pub async fn follow(
    client: &Client,
    run_id: &str,
    options: Options,
    out: &mut Output,
) -> Result<(Run, End), ClientError> {
    let mut stream = client.subscribe(v1::SubscribeRequest {
        filter: Some(v1::EventFilter { run_id: Some(run_id.to_owned()), ..v1::EventFilter::default() }),
        progress: options.style == Style::Live || options.progress,
        until_finished: true,
        ..v1::SubscribeRequest::default()
    });
    let deadline = options.timeout.map(|timeout| Instant::now() + timeout);
    let mut watcher = Watcher::new(run_id, options.style);
    let mut frames = interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut away_since: Option<Instant> = None;
    // From here on Ctrl-C ends the watching and not the process, so that the terminal gets its mode back.
    let mut interrupts = signal(SignalKind::interrupt()).ok();
    if options.style == Style::Live {
        // Without handlers, these signals would leave the view on the screen, and nothing else.
        let _ = keys::heed_signals();
    }
    let mut keys = if options.style == Style::Live && interrupts.is_some() { Keys::new() } else { None };
    let mut more_time = MoreTime::default();
    let mut choosing = Choosing::default();
    let mut asking = if options.exit_on_question { None } else { Asking::new(out) };
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
        let interrupted = async {
            match &mut interrupts {
                Some(interrupts) => interrupts.recv().await,
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
                    if options.exit_on_question && watcher.caught_up && watcher.run.waits() {
                        break End::Question;
                    }
                    if let Some(asking) = &mut asking
                        && watcher.caught_up
                        && asking.has_news(&watcher.run)
                    {
                        watcher.clear(out);
                        asking.ask(&watcher.run, out);
                    }
                }
            },
            typed = typed(&mut asking) => {
                if let Some(asking) = &mut asking {
                    asking.answer(client, run_id, typed, out).await;
                    if asking.has_news(&watcher.run) {
                        asking.ask(&watcher.run, out);
                    }
                }
            }
            // Nothing moves below a prompt.
            _ = frames.tick(), if options.style == Style::Live && !asking.as_ref().is_some_and(Asking::is_open) => {
                // The tasks that a user has named are those of a plan.
                let mut hints = Vec::new();
                let may_ask = watcher.caught_up && watcher.run.names_tasks;
                if let Some(keys) = keys.as_mut().filter(|keys| may_ask && keys.listen()) {
                    let room = view::room_for_hints(Live::size());
                    match keys.pressed() {
                        Some(_) if room == 0 => {}
                        Some(more_time::KEY) => more_time.press(client, &watcher.run, run_id),
                        Some(key) => choosing.press(client, &watcher.run, run_id, key),
                        None => {}
                    }
                    hints.extend(choosing.hint(&watcher.run, room));
                    hints.extend(more_time.hint(&watcher.run));
                }
                watcher.draw(hints, out);
            }
            told = more_time.answered(out.paint) => watcher.keep(told),
            told = choosing.answered(out.paint) => watcher.keep(told),
            () = over => break End::TimedOut,
            _ = interrupted => break End::Interrupted,
            () = keys::view_ends(), if options.style == Style::Live => break End::Interrupted,
        }
    };
    watcher.clear(out);
    let is_asking = asking.as_ref().is_some_and(Asking::is_open);
    if end == End::Interrupted && out.terminal && !out.json && (options.style != Style::Live || is_asking) {
        // The terminal has shown the key, and what follows begins on a line of its own.
        out.line("");
    }
    Ok((watcher.run, end))
}

/// What a person has typed who is asked; for ever nothing where nobody is.
async fn typed(asking: &mut Option<Asking>) -> Option<String> {
    match asking {
        Some(asking) => asking.typed().await,
        None => pending().await,
    }
}

struct Watcher<'r> {
    run_id: &'r str,
    style: Style,
    run: Run,
    live: Option<Live>,
    /// The time of the newest event's arrival, by this machine's clock.
    received: Instant,
    caught_up: bool,
    /// True after the loss of the connection was reported, so that each loss is reported once.
    told_away: bool,
    /// Errors and questions that were told in whole, or were to be.
    told: usize,
    /// What the tasks have said last of their progress, by their places.
    progress: BTreeMap<(u32, u32), v1::ProgressFrame>,
}

impl<'r> Watcher<'r> {
    fn new(run_id: &'r str, style: Style) -> Self {
        Self {
            run_id,
            style,
            run: Run::default(),
            live: (style == Style::Live).then(Live::default),
            received: Instant::now(),
            caught_up: false,
            told_away: false,
            told: 0,
            progress: BTreeMap::new(),
        }
    }

    fn take(&mut self, delivery: Delivery, out: &mut Output) {
        self.told_away = false;
        match delivery {
            Delivery::Event { run_id, event, cursor, inherited } => {
                self.run.apply(&event);
                self.received = Instant::now();
                let (told, is_short) = match self.told_at_once(&event, out) {
                    Some(told) if self.is_in_whole(out) => (Some(told), false),
                    // The report at the end lists it.
                    told => (None, told.is_some()),
                };
                // The box of a question has its answers, and a line beside a box would tell a watcher the same again.
                let is_asked = matches!(event.body, Some(Body::QuestionAsked(_)));
                let is_in_box = told.is_some() && (is_asked || self.style == Style::Live);
                if self.style == Style::Json {
                    let mut record = record(&run_id, &event, Some(&cursor));
                    if let Some(object) = record.as_object_mut().filter(|_| inherited) {
                        object.insert("inherited".to_owned(), true.into());
                    }
                    out.record(&record);
                } else if is_short && self.style == Style::Silent {
                    self.show_line(&run_id, &event, Detail::Results, out);
                } else if !is_in_box {
                    self.show(&run_id, &event, out);
                }
                if let Some(told) = told {
                    self.tell(told, out);
                }
            }
            Delivery::Progress(frame) => {
                self.run.progress(&frame);
                match self.style {
                    Style::Json => out.record(&progress_record(&frame)),
                    Style::Lines(_) => self.show_progress(frame, out),
                    Style::Silent | Style::Live => {}
                }
            }
            Delivery::CaughtUp => self.caught_up(out),
            // The stream of one run has none: it ends with an error.
            Delivery::Reconnecting { .. } | Delivery::Damaged(_) => {}
        }
    }

    /// The box of an event that a person is told at once. What has happened before somebody watched is told by the report.
    fn told_at_once(&self, event: &v1::Event, out: &Output) -> Option<Told> {
        let tells = self.caught_up && self.draws_boxes(out);
        tells.then(|| at_once::of_event(&self.run, self.run_id, event, out.form, out.paint)).flatten()
    }

    /// Documents, and the log of every event, have the errors themselves.
    fn draws_boxes(&self, out: &Output) -> bool {
        !out.json && !matches!(self.style, Style::Json | Style::Lines(Detail::Everything))
    }

    /// From now on events are told as they happen; the questions that are open are told first.
    fn caught_up(&mut self, out: &mut Output) {
        if self.caught_up {
            return;
        }
        self.caught_up = true;
        if !self.draws_boxes(out) {
            return;
        }
        let open = self.run.questions.iter();
        let told =
            open.filter_map(|open| at_once::of_question(&self.run, self.run_id, open, out.form, out.paint));
        let mut told: Vec<Told> = told.collect();
        let more = told.len().saturating_sub(MOST_IN_WHOLE);
        told.truncate(MOST_IN_WHOLE);
        self.told += told.len();
        told.into_iter().for_each(|told| self.tell(told, out));
        if more > 0 {
            let texts = &words().watch;
            let template = if more == 1 { texts.more_questions_one } else { texts.more_questions_many };
            self.put(fill(template, &[&more.to_string(), self.run_id]), out);
        }
    }

    /// Counts what is to be told at once, and says whether it is told in whole. That it is not, is said where it begins.
    fn is_in_whole(&mut self, out: &mut Output) -> bool {
        self.told += 1;
        if self.told == MOST_IN_WHOLE + 1 {
            self.put(fill(words().watch.in_short, &[self.run_id]), out);
        }
        self.told <= MOST_IN_WHOLE
    }

    fn tell(&mut self, told: Told, out: &mut Output) {
        if let Some((wave, task)) = told.failed {
            self.run.tell(wave, task);
        }
        if let Some((wave, task)) = told.refused {
            self.run.tell_refused(wave, task);
        }
        self.put(told.text, out);
    }

    /// Puts a text where it stays: above the moving lines, where there are some.
    fn put(&mut self, text: String, out: &mut Output) {
        match &mut self.live {
            Some(live) => live.keep(text),
            None => {
                out.line(&text);
                out.flush();
            }
        }
    }

    fn show(&mut self, run_id: &str, event: &v1::Event, out: &mut Output) {
        match self.style {
            Style::Silent | Style::Json => {}
            Style::Lines(detail) => self.show_line(run_id, event, detail, out),
            Style::Live => {
                let stays = stays_above(&self.run, event);
                let line = stays.then(|| lines::render(&self.run, run_id, event, Detail::Results, out.paint));
                let line = line.flatten();
                if let (Some(live), Some(line)) = (&mut self.live, line) {
                    live.keep(line);
                }
            }
        }
    }

    fn show_line(&self, run_id: &str, event: &v1::Event, detail: Detail, out: &mut Output) {
        if let Some(line) = lines::render(&self.run, run_id, event, detail, out.paint) {
            out.line(&line);
            out.flush();
        }
    }

    /// Shows what a task says of its progress, where that is news.
    fn show_progress(&mut self, frame: v1::ProgressFrame, out: &mut Output) {
        let says = |frame: &v1::ProgressFrame| {
            let tail = frame.partial_tail.as_deref().map(|tail| tail.trim_end().to_owned());
            (frame.fraction, frame.message.clone(), tail, frame.lease)
        };
        let place = (frame.wave, frame.task);
        if self.progress.get(&place).is_some_and(|before| says(before) == says(&frame)) {
            return;
        }
        if let Some(line) = lines::progress(&self.run, &frame, out.paint) {
            out.line(&line);
            out.flush();
        }
        self.progress.insert(place, frame);
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

    /// Keeps a line above the moving ones.
    fn keep(&mut self, line: String) {
        if let Some(live) = &mut self.live {
            live.keep(line);
        }
    }

    fn draw(&mut self, hints: Vec<String>, out: &mut Output) {
        let Some(live) = &mut self.live else { return };
        let (rows, columns) = Live::size();
        // The daemon's clock may differ from this machine's, so the time is that of the newest event plus the time
        // since its arrival.
        let since = i64::try_from(self.received.elapsed().as_millis()).unwrap_or(0);
        // While history is read, the time is that of the newest event.
        let now_ms = self.run.at_ms.saturating_add(if self.caught_up { since } else { 0 });
        let rows = view::rows_of(rows);
        live.draw(&view::view(&self.run, self.run_id, now_ms, hints, (rows, columns), out.paint), out);
    }

    fn clear(&mut self, out: &mut Output) {
        if let Some(live) = &mut self.live {
            live.clear(out);
        }
    }
}

/// Whether the event has a line above the live view. How far a plan is, the view says, and what came of it, the report: of its
/// tasks only failures have one.
fn stays_above(run: &Run, event: &v1::Event) -> bool {
    match &event.body {
        _ if !run.names_tasks => true,
        Some(
            Body::RunAccepted(_)
            | Body::WaveStarted(_)
            | Body::WaveDecided(_)
            | Body::WaveFinished(_)
            | Body::RunFinished(_),
        ) => false,
        Some(Body::TaskSettled(settled)) => {
            matches!(settled.status(), v1::ResultStatus::Error | v1::ResultStatus::Timeout)
        }
        _ => true,
    }
}

/// An event as a JSON document.
pub fn record(run_id: &str, event: &v1::Event, cursor: Option<&Bytes>) -> serde_json::Value {
    let mut record = json!({ "run_id": run_id, "event": json::print("capataz.v1.Event", event) });
    if let (Some(cursor), Some(object)) = (cursor, record.as_object_mut()) {
        object.insert("cursor".to_owned(), STANDARD.encode(cursor).into());
    }
    record
}

/// A progress frame as a JSON document. It has no cursor: it is not delivered again.
fn progress_record(frame: &v1::ProgressFrame) -> serde_json::Value {
    json!({ "run_id": frame.run_id, "progress": json::print("capataz.v1.ProgressFrame", frame) })
}

/// The current time in Unix milliseconds, by this machine's clock.
#[expect(clippy::disallowed_methods, reason = "what is shown to a person is relative to now")]
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
