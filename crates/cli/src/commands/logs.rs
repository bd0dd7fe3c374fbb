//! `capataz logs`: what the tasks of a run have logged, also while they run.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::future::pending;
use std::time::Duration;

use capataz_client::Delivery;
use capataz_contracts::log::{lines, shortened};
use capataz_contracts::v1::{self, event::Body};
use capataz_contracts::validate::LOG_MAX;
use capataz_display::frame::{padded, truncated, visible, width};
use capataz_display::log;
use capataz_display::model::Run;
use capataz_display::paint::Tone;
use capataz_display::words::{fill, words};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use super::report::for_each_event;
use super::{Daemon, Outcome, fetch};
use crate::args::{Global, LogsArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;

/// Lines that were shown last of a log, by which its rest is found.
const REMEMBERED: usize = 8;
/// Columns of a task's name in front of its lines.
const NAME_COLUMNS: usize = 24;

/// How long a daemon that cannot tell for now is left alone, where it does not say for how long.
const PAUSE: Duration = Duration::from_secs(1);

/// The place of a task: its wave, and its place in it.
type Place = (u32, u32);

pub async fn logs(args: LogsArgs, global: &Global, out: &mut Output) -> Outcome {
    let daemon = Daemon::connect(global).await?;
    let run_id = fetch::run_id(&daemon, &args.run).await?;
    let mut logs =
        Logs { run_id, args, run: Run::default(), now: BTreeMap::new(), has_shown: false, columns: 0 };
    logs.known(&daemon, out).await?;
    if logs.args.follow {
        return logs.follow(&daemon, out).await;
    }
    let id = logs.run_id.clone();
    // What ends after this look is among the events.
    let now = logs.now(&daemon).await?;
    for_each_event(&daemon, &id, u64::MAX, |event| logs.take(event, out)).await?;
    logs.look(&now, out);
    if !logs.has_shown && !out.json {
        out.note(&fill(words().logs.none, &[&id]));
    }
    Ok(Exit::Ok)
}

struct Logs {
    run_id: String,
    args: LogsArgs,
    run: Run,
    /// What has been shown of the present try of each task.
    now: BTreeMap<Place, Shown>,
    has_shown: bool,
    /// Columns of the longest name.
    columns: usize,
}

/// What has been shown of the log of a lease.
#[derive(Default)]
struct Shown {
    lease: u64,
    lines: u64,
    last: VecDeque<String>,
}

/// Lines to be shown, and what is not among them.
struct Part<'a> {
    /// Lines before these, of which it is only known that they are not here any more.
    missed: Missed,
    lines: Vec<&'a str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Missed {
    None,
    Lines(u64),
    /// Nobody has counted them.
    Some,
}

impl Logs {
    /// Refuses names of tasks that the run does not have. Whoever follows a run that goes on is only told: many kinds
    /// of runs name their tasks as they go.
    async fn known(&self, daemon: &Daemon, out: &Output) -> Result<(), Failure> {
        if self.args.tasks.is_empty() {
            return Ok(());
        }
        let run = match fetch::run(daemon, &self.run_id, false).await {
            // Who follows is told of what there is as it comes.
            Err(failure) if self.args.follow && failure.may_pass() => return Ok(()),
            run => run?,
        };
        let names: Vec<&str> =
            run.waves.iter().flat_map(|wave| &wave.tasks).map(|task| task.name.as_str()).collect();
        let may_come = self.args.follow && run.status() != v1::RunStatus::Finished;
        for task in self.args.tasks.iter().filter(|task| !names.contains(&task.as_str())) {
            match fetch::unknown_task(&self.run_id, task, &names) {
                Failure::Unknown { message, hint, .. } if may_come => {
                    out.note(&message);
                    out.note(&hint);
                }
                failure => return Err(failure),
            }
        }
        Ok(())
    }

    /// The run as it stands, with what the tasks at work have logged so far.
    async fn now(&self, daemon: &Daemon) -> Result<v1::Run, Failure> {
        let run_id = self.run_id.clone();
        let request = v1::GetRunRequest { run_id, include_logs: true, ..v1::GetRunRequest::default() };
        fetch::all_of(daemon, request).await
    }

    fn look(&mut self, now: &v1::Run, out: &mut Output) {
        for (wave, tasks) in (0..).zip(&now.waves) {
            for (task, of_task) in (0..).zip(&tasks.tasks) {
                let Some(health) = &of_task.health_checks else { continue };
                if let Some(log) = &health.log {
                    self.is_at((wave, task), health.lease, log, out);
                }
            }
        }
    }

    async fn follow(mut self, daemon: &Daemon, out: &mut Output) -> Outcome {
        let filter = v1::EventFilter { run_id: Some(self.run_id.clone()), ..v1::EventFilter::default() };
        let mut stream = daemon.client.subscribe(v1::SubscribeRequest {
            filter: Some(filter),
            progress: true,
            logs: true,
            until_finished: true,
            ..v1::SubscribeRequest::default()
        });
        let (mut is_away, mut look_at) = (false, None);
        loop {
            let delivery = tokio::select! {
                biased;
                () = until(look_at) => {
                    look_at = self.look_again(daemon, out).await?;
                    out.flush();
                    continue;
                }
                delivery = stream.next() => delivery,
            };
            let Some(delivery) = delivery else { break };
            match delivery.map_err(|error| daemon.failure(error))? {
                Delivery::Event { event, .. } => self.take(&event, out),
                Delivery::Progress(frame) if frame.run_id == self.run_id => {
                    if let Some(log) = &frame.log {
                        self.is_at((frame.wave, frame.task), frame.lease, log, out);
                    }
                }
                Delivery::Reconnecting { error, .. } => {
                    if !is_away {
                        out.note(&fill(words().logs.away, &[&error.to_string()]));
                    }
                    // A look comes with the next connection.
                    (is_away, look_at) = (true, None);
                }
                // A task that says nothing for now has said something before.
                Delivery::CaughtUp => (is_away, look_at) = (false, Some(Instant::now())),
                Delivery::Progress(_) | Delivery::Damaged(_) => {}
            }
            if out.is_closed() {
                break;
            }
            out.flush();
        }
        Ok(Exit::Ok)
    }

    /// Shows what the tasks at work have logged so far; what comes from then on is shown as it comes. Where the daemon cannot tell
    /// for now, when to ask again.
    async fn look_again(&mut self, daemon: &Daemon, out: &mut Output) -> Result<Option<Instant>, Failure> {
        if !self.run.is_finished() {
            match self.now(daemon).await {
                Ok(now) => self.look(&now, out),
                Err(failure) if failure.may_pass() => {
                    return Ok(Some(Instant::now() + failure.retry_after().unwrap_or(PAUSE)));
                }
                Err(failure) => return Err(failure),
            }
        }
        self.args.tail = None;
        Ok(None)
    }

    fn take(&mut self, event: &v1::Event, out: &mut Output) {
        // A try that ends is still the present one here.
        match &event.body {
            Some(Body::TaskAttemptFailed(failed)) => {
                self.ended((failed.wave, failed.task), Some(failed.attempt), &failed.log, out);
            }
            Some(Body::TaskSettled(settled)) => {
                self.ended((settled.wave, settled.task), None, &settled.log, out)
            }
            Some(Body::TaskLeased(leased)) => {
                let shown = Shown { lease: leased.lease, ..Shown::default() };
                self.now.insert((leased.wave, leased.task), shown);
            }
            _ => {}
        }
        self.run.apply(event);
        if matches!(event.body, Some(Body::RunAccepted(_))) {
            let names = self.run.tasks().map(|task| width(&visible(&task.name)));
            self.columns = names.max().unwrap_or(0).min(NAME_COLUMNS);
        }
    }

    /// The try has ended, and this is what was kept of its log.
    fn ended(&mut self, place: Place, attempt: Option<u32>, log: &str, out: &mut Output) {
        self.has_shown |= !log.is_empty();
        let shown = self.now.remove(&place).unwrap_or_default();
        let part = rest(log, &shown, self.args.tail);
        self.show(place, attempt, &part, out);
    }

    /// A task at work has logged this so far.
    fn is_at(&mut self, place: Place, lease: u64, log: &v1::LogTail, out: &mut Output) {
        let Some(shown) = self.now.get_mut(&place).filter(|shown| shown.lease == lease) else { return };
        let (mut missed, mut fresh) = log.after(shown.lines);
        let is_first = shown.lines == 0;
        shown.lines = shown.lines.max(log.lines);
        for line in &fresh {
            shown.last.push_back((*line).to_owned());
            if shown.last.len() > REMEMBERED {
                shown.last.pop_front();
            }
        }
        self.has_shown |= log.lines > 0;
        if is_first && keep_last(&mut fresh, self.args.tail) {
            missed = 0;
        }
        let missed = if missed == 0 { Missed::None } else { Missed::Lines(missed) };
        self.show(place, None, &Part { missed, lines: fresh }, out);
    }

    fn show(&mut self, (wave, task): Place, attempt: Option<u32>, part: &Part<'_>, out: &mut Output) {
        if part.lines.is_empty() && part.missed == Missed::None {
            return;
        }
        let of_run = self.run.task(wave, task);
        let name = of_run.map_or_else(|| format!("{wave}.{task}"), |task| task.name.clone());
        if !self.args.tasks.is_empty() && !self.args.tasks.contains(&name) {
            return;
        }
        let attempt = attempt.or(of_run.map(|task| task.attempt)).unwrap_or(1).max(1);
        if out.json {
            let missed = match part.missed {
                Missed::None => json!(0),
                Missed::Lines(lines) => json!(lines),
                Missed::Some => json!(null),
            };
            out.record(&json!({
                "run_id": self.run_id,
                "task": name,
                "attempt": attempt,
                "missed": missed,
                "lines": part.lines,
            }));
            return;
        }
        self.columns = self.columns.max(width(&visible(&name))).min(NAME_COLUMNS);
        let mark = self.mark(&name, attempt);
        let mark = out.paint.text(Tone::Faint, &mark);
        let missed = match part.missed {
            Missed::None => None,
            Missed::Lines(1) => Some(Cow::Borrowed(words().logs.missed_one)),
            Missed::Lines(lines) => Some(fill(words().logs.missed_many, &[&lines.to_string()]).into()),
            Missed::Some => Some(Cow::Borrowed(words().logs.missed_some)),
        };
        if let Some(missed) = missed {
            out.line(&format!("{mark}{}", out.paint.text(Tone::Faint, &missed)));
        }
        for line in &part.lines {
            out.line(format!("{mark}{}", log::plain(line)).trim_end());
        }
    }

    /// What stands in front of the lines of a task: nothing, where one task alone is asked for and it is its first try.
    fn mark(&self, name: &str, attempt: u32) -> String {
        let tried = if attempt > 1 { format!("({attempt})") } else { String::new() };
        if self.args.tasks.len() == 1 {
            return if tried.is_empty() { tried } else { format!("{tried} | ") };
        }
        let name = truncated(&visible(name), NAME_COLUMNS);
        let tried = if tried.is_empty() { tried } else { format!(" {tried}") };
        format!("{} | ", padded(&format!("{name}{tried}"), self.columns))
    }
}

/// What is to be shown of the log of a try that has ended.
fn rest<'a>(log: &'a str, shown: &Shown, tail: Option<usize>) -> Part<'a> {
    let kept: Vec<&str> = lines(log).collect();
    // One cut character less than what is kept, and the log has lost its beginning.
    let is_whole = log.len() + char::MAX.len_utf8() <= LOG_MAX;
    let from = match (shown.lines, is_whole) {
        (0, _) => Some(0),
        (lines, true) => usize::try_from(lines).ok().filter(|lines| *lines <= kept.len()),
        (_, false) => after(&kept, &shown.last),
    };
    // Where what was shown is in it twice, nobody knows which of them it was.
    let is_doubtful = from.is_some_and(|from| {
        let before = kept.get(..from.saturating_sub(1)).unwrap_or_default();
        shown.lines > 0 && !is_whole && after(before, &shown.last).is_some()
    });
    let mut lines = kept.get(from.unwrap_or(0)..).unwrap_or_default().to_vec();
    let mut is_cut = from.is_none() || is_doubtful || (shown.lines == 0 && !is_whole);
    if shown.lines == 0 && keep_last(&mut lines, tail) {
        is_cut = false;
    }
    Part { missed: if is_cut { Missed::Some } else { Missed::None }, lines }
}

/// Drops the first lines; tells whether it has.
fn keep_last(lines: &mut Vec<&str>, most: Option<usize>) -> bool {
    let surplus = most.map_or(0, |most| lines.len().saturating_sub(most));
    lines.drain(..surplus);
    surplus > 0
}

/// Where the log goes on after these lines, which were in it.
fn after(log: &[&str], last: &VecDeque<String>) -> Option<usize> {
    let ends_here = |end: &usize| {
        let seen = last.iter().rev();
        // The first line has lost its beginning, as the log has: fewer are left to compare.
        let before = log.get(1..*end).unwrap_or_default().iter().rev();
        let mut pairs = before.zip(seen).peekable();
        pairs.peek().is_some() && pairs.all(|(line, seen)| shortened(line) == seen)
    };
    (0..=log.len()).rev().find(ends_here)
}

/// Waits for this moment; for ever where there is none.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(lines: u64, last: &[&str]) -> Shown {
        Shown { lease: 1, lines, last: last.iter().map(|line| (*line).to_owned()).collect() }
    }

    #[track_caller]
    fn check(log: &str, shown: &Shown, tail: Option<usize>, is_cut: bool, expected: &[&str]) {
        let part = rest(log, shown, tail);
        assert_eq!(part.lines, expected);
        assert_eq!(part.missed == Missed::Some, is_cut);
    }

    #[test]
    fn what_was_shown_of_a_log_is_not_shown_again() {
        check("one\ntwo\nthree", &shown(0, &[]), None, false, &["one", "two", "three"]);
        check("one\ntwo\nthree", &shown(2, &["one", "two"]), None, false, &["three"]);
        check("one\ntwo\nthree", &shown(3, &["two", "three"]), None, false, &[]);
        // The same line again is another one.
        check("one\none\none", &shown(2, &["one", "one"]), None, false, &["one"]);
    }

    #[test]
    fn a_log_that_has_lost_its_beginning_goes_on_after_the_lines_that_were_shown() {
        let long: String = (0..4_000).map(|number| format!("{number:05}\n")).collect();
        let log = &long[long.len() - LOG_MAX..];
        let part = rest(log, &shown(3_998, &["03996", "03997"]), None);
        assert_eq!((part.missed == Missed::None, part.lines.as_slice()), (true, &["03998", "03999"][..]));
        // What was shown is not in it any more.
        let part = rest(log, &shown(10, &["00008", "00009"]), None);
        assert_eq!((part.missed == Missed::Some, part.lines.len()), (true, lines(log).count()));
        // The same lines again: nobody knows which of them were shown.
        let ticks = format!("{long}tick\ntick\ntick\n");
        let part = rest(&ticks[ticks.len() - LOG_MAX..], &shown(4_001, &["tick"]), None);
        assert!(part.missed == Missed::Some);
        // Of lines that are long, few are kept, and the first is cut.
        let long_lines: String = (0..9).map(|number| format!("{number}{}\n", "x".repeat(3_999))).collect();
        let seen: Vec<String> = (1..9).map(|number| format!("{number}{}", "x".repeat(1_023))).collect();
        let seen: Vec<&str> = seen.iter().map(String::as_str).collect();
        let part = rest(&long_lines[long_lines.len() - LOG_MAX..], &shown(9, &seen), None);
        assert_eq!((part.missed == Missed::None, part.lines.len()), (true, 0));
        // Nothing was shown.
        let part = rest(log, &shown(0, &[]), None);
        assert!(part.missed == Missed::Some);
        let part = rest(log, &shown(0, &[]), Some(1));
        assert_eq!((part.missed == Missed::None, part.lines.as_slice()), (true, &["03999"][..]));
    }
}
