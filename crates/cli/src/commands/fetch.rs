//! Reading runs from the daemon.

use capataz_client::{Client, ClientError};
use capataz_contracts::v1;
use capataz_policy::codes::{RUN_NOT_FOUND, TASK_NOT_FOUND};

use super::Daemon;
use crate::failure::Failure;
use crate::near::{self, Near};
use capataz_display::words::advice::advice;
use capataz_display::words::{fill, words};

/// Tasks in one answer: the daemon's limit.
const TASKS: u32 = 1_000;
/// Runs among which a shortened id is searched: one answer of the daemon.
const NEWEST: u32 = 500;
/// The name of the newest run that is not that of a task.
pub const LATEST: &str = "latest";
/// Runs in the first answer among which it is looked for, and in all of them.
const FIRST: u32 = 20;
const LOOKED_AT: usize = 10_000;

/// The run with all of its tasks.
pub async fn run(daemon: &Daemon, run_id: &str, include_outputs: bool) -> Result<v1::Run, Failure> {
    run_at(daemon, run_id, None, include_outputs).await
}

/// The run with all of its tasks, as it was after event `at_seq`; `None`: as it stands.
pub async fn run_at(
    daemon: &Daemon,
    run_id: &str,
    at_seq: Option<u64>,
    include_outputs: bool,
) -> Result<v1::Run, Failure> {
    let request = v1::GetRunRequest {
        run_id: run_id.to_owned(),
        include_outputs,
        at_seq,
        ..v1::GetRunRequest::default()
    };
    all_of(daemon, request).await
}

/// The run that is asked for, with all of its tasks, whatever part of them the request names.
pub async fn all_of(daemon: &Daemon, request: v1::GetRunRequest) -> Result<v1::Run, Failure> {
    let mut whole: Option<v1::Run> = None;
    let mut task_offset = 0;
    loop {
        let request = v1::GetRunRequest { task_offset, task_limit: TASKS, ..request.clone() };
        let response = daemon.client.get_run(request).await.map_err(|error| daemon.failure(error))?;
        let page = response.run.unwrap_or_default();
        match &mut whole {
            None => whole = Some(page),
            Some(whole) => {
                for (wave, more) in whole.waves.iter_mut().zip(page.waves) {
                    wave.tasks.extend(more.tasks);
                }
            }
        }
        match response.next_task_offset {
            Some(next) if next > task_offset => task_offset = next,
            _ => return Ok(whole.unwrap_or_default()),
        }
    }
}

/// The number of the run's newest event.
pub async fn newest_event(daemon: &Daemon, run_id: &str) -> Result<u64, Failure> {
    let request = v1::GetRunRequest { run_id: run_id.to_owned(), summary_only: true, ..Default::default() };
    let response = daemon.client.get_run(request).await.map_err(|error| daemon.failure(error))?;
    Ok(response.run.unwrap_or_default().seq)
}

/// The newest runs that match, as many as the request's page has.
pub async fn newest(daemon: &Daemon, mut request: v1::ListRunsRequest) -> Result<Vec<v1::Run>, Failure> {
    let mut runs = Vec::new();
    loop {
        let page = daemon.client.list_runs(request.clone()).await.map_err(|error| daemon.failure(error))?;
        request.page_size =
            request.page_size.saturating_sub(u32::try_from(page.runs.len()).unwrap_or(u32::MAX));
        request.page_token = page.next_page_token;
        runs.extend(page.runs);
        if request.page_size == 0 || request.page_token.is_empty() {
            return Ok(runs);
        }
    }
}

/// Sessions that there are, as many as one answer has: it may be empty though there are more.
pub async fn some_sessions(client: &Client, most: u32) -> Result<Vec<v1::Session>, ClientError> {
    let mut request = v1::ListSessionsRequest { page_size: most, ..v1::ListSessionsRequest::default() };
    loop {
        let page = client.list_sessions(request.clone()).await?;
        if !page.sessions.is_empty() || page.next_page_token.is_empty() {
            return Ok(page.sessions);
        }
        request.page_token = page.next_page_token;
    }
}

/// The id of the run that `text` names: `latest`, a whole id, or the beginning or end of one.
pub async fn run_id(daemon: &Daemon, text: &str) -> Result<String, Failure> {
    id_among(daemon, text, None).await
}

/// Like [`run_id`], and the daemon has the run: a whole id is asked for as well.
pub async fn known_id(daemon: &Daemon, text: &str) -> Result<String, Failure> {
    let run_id = run_id(daemon, text).await?;
    if whole(text).is_none() {
        return Ok(run_id);
    }
    let request =
        v1::GetRunRequest { run_id: run_id.clone(), summary_only: true, ..v1::GetRunRequest::default() };
    match daemon.client.get_run(request).await {
        // Of one that is damaged there is no answer, and it can be removed.
        Err(error) if error.code() == Some(RUN_NOT_FOUND.as_str()) => {
            Err(daemon.failure(error).about(&run_id))
        }
        _ => Ok(run_id),
    }
}

/// Like [`run_id`], among scripts only.
pub async fn script_id(daemon: &Daemon, text: &str) -> Result<String, Failure> {
    id_among(daemon, text, Some(v1::RunKind::Script)).await
}

/// The id of the run that `latest` names: the newest one without a parent, or the newest of all where each that is looked at has
/// one. Among runs of one kind it is the newest: a script is what is asked for, whoever started it.
pub async fn latest(client: &Client, kind: Option<v1::RunKind>) -> Result<Option<String>, ClientError> {
    let of_kind = kind.map(|kind| kind as i32);
    let mut request =
        v1::ListRunsRequest { page_size: FIRST, kind: of_kind, ..v1::ListRunsRequest::default() };
    let (mut newest, mut seen) = (None, 0_usize);
    loop {
        let page = client.list_runs(request.clone()).await?;
        seen = seen.saturating_add(page.runs.len());
        for run in page.runs {
            if kind.is_some() || run.parent.is_none() {
                return Ok(Some(run.run_id));
            }
            newest = newest.or(Some(run.run_id));
        }
        if page.next_page_token.is_empty() || seen >= LOOKED_AT {
            return Ok(newest);
        }
        (request.page_size, request.page_token) = (NEWEST, page.next_page_token);
    }
}

async fn id_among(daemon: &Daemon, text: &str, kind: Option<v1::RunKind>) -> Result<String, Failure> {
    // Every id begins with nothing, and a variable that is not set is no name.
    if text.trim().is_empty() {
        return Err(Failure::invalid(words().runs.unnamed));
    }
    if let Some(run_id) = whole(text) {
        return Ok(run_id);
    }
    let texts = &words().runs;
    if text == LATEST {
        let newest = latest(&daemon.client, kind).await.map_err(|error| daemon.failure(error))?;
        return newest.ok_or_else(|| unknown_run(texts.none_yet, texts.none_yet_hint));
    }
    let kind = kind.map(|kind| kind as i32);
    let request = v1::ListRunsRequest { page_size: NEWEST, kind, ..v1::ListRunsRequest::default() };
    let runs = newest(daemon, request).await?;
    let part = text.to_ascii_lowercase();
    let fitting: Vec<String> = runs
        .into_iter()
        .map(|run| run.run_id)
        .filter(|run_id| run_id.starts_with(&part) || run_id.ends_with(&part))
        .collect();
    match fitting.as_slice() {
        [one] => Ok(one.clone()),
        [] => {
            let message = fill(texts.no_such, &[text, &NEWEST.to_string()]);
            Err(unknown_run(&message, advice(RUN_NOT_FOUND.as_str()).unwrap_or_default()))
        }
        several => {
            let some: Vec<&str> = several.iter().take(3).map(String::as_str).collect();
            Err(Failure::failed(fill(texts.ambiguous, &[text, &some.join(", ")])))
        }
    }
}

fn unknown_run(message: &str, hint: &str) -> Failure {
    let (message, hint) = (message.to_owned(), hint.to_owned());
    Failure::Unknown { code: RUN_NOT_FOUND.as_str(), message, hint, near: Vec::new() }
}

/// The refusal of a name that none of the run's tasks has, with those that may be meant.
pub fn unknown_task(run_id: &str, task: &str, names: &[&str]) -> Failure {
    let texts = &words().runs;
    let near = near::names(task, names.iter().copied());
    let (hint, near) = match near.is_empty() {
        true => (fill(texts.tasks_are_shown, &[run_id]), Vec::new()),
        false => {
            let hint = fill(words().errors.did_you_mean, &[task, &near.join(", ")]);
            (hint, vec![Near { name: task.to_owned(), names: near }])
        }
    };
    let message = fill(texts.no_such_task, &[run_id, task]);
    Failure::Unknown { code: TASK_NOT_FOUND.as_str(), message, hint, near }
}

/// The id that `text` is, where it is a whole UUID and not a part of one.
pub fn whole(text: &str) -> Option<String> {
    let is_whole = text.len() == 36 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    is_whole.then(|| text.to_ascii_lowercase())
}
