//! The state file of a project and the state of a session that the daemon keeps: the file is checked and imported before a plan
//! begins, and written again with each step of the plan (seed 000, contract 7).

use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use capataz_client::{Client, Delivery};
use capataz_contracts::v1::{self, event::Body};
use capataz_policy::codes;
use capataz_policy::session;
use serde_json::{Map, Value};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::Daemon;
use super::sessions::{Found, Mended, Told, failed, look, mend, open_or_new, refused};
use crate::failure::Failure;
use crate::output::Output;
use crate::state_file::StateFile;
use crate::watch::follow::now_ms;
use capataz_display::compact::Form;
use capataz_display::error::{self, Context};
use capataz_display::paint::Paint;
use capataz_display::words::{Language, fill, words};

/// How often the file is looked at within a wave (CONTRACTS §1.7).
pub const LOOKED_AT: Duration = Duration::from_secs(60);

/// A state file that follows a session.
pub struct StateSync {
    path: PathBuf,
    file: StateFile,
    session: String,
    /// What somebody has made of the file meanwhile, and what was done about it.
    replaced: Mutex<Vec<Replaced>>,
}

/// A file that was not valid any more, and was written again from the session's state.
struct Replaced {
    error: v1::Error,
    /// Where what was there is kept.
    aside: PathBuf,
}

/// Files of that kind that are told one by one.
const TOLD: usize = 10;

impl StateSync {
    /// Checks the file, mends it where it has to be, and gives its state to the session. `None` where no file is asked for and
    /// the project has none.
    ///
    /// # Errors
    /// The file cannot be read or mended, or the daemon is not reached.
    pub async fn begin(
        daemon: &Daemon,
        session: &str,
        path: Option<&Path>,
        out: &mut Output,
    ) -> Result<Option<Self>, Failure> {
        let default = Path::new(crate::args::STATE);
        let is_of_project = default.parent().is_some_and(Path::is_dir);
        let path = match path {
            Some(path) => path,
            None if is_of_project => default,
            None => return Ok(None),
        };
        let (file, bytes) = open_or_new(path)?;
        let sync = Self::of(path, file, session);
        let Some(bytes) = bytes else { return Ok(Some(sync)) };
        let (state, repairs) = match look(&bytes, path) {
            Found::Valid(state) => (state, Vec::new()),
            found => sync.mended(found, out)?,
        };
        let newer = sync.newer(daemon, &state).await?;
        if newer.is_some() {
            out.note(&fill(words().sessions.newer, &[&sync.session, &path.display().to_string()]));
        }
        // What was mended is told to the session, also where its own state stays.
        if newer.is_none() || !repairs.is_empty() {
            sync.import(daemon, newer.unwrap_or(state), repairs, out).await?;
        }
        Ok(Some(sync))
    }

    /// Mends a file that is not valid, and says so.
    fn mended(&self, found: Found, out: &mut Output) -> Result<(Map<String, Value>, Vec<String>), Failure> {
        let error = error_of(&found);
        let mended = mend(&self.path, &self.file);
        let done = |mended: &Mended| self.told(mended.outcome);
        let recovered = mended.as_ref().ok().map(done);
        if let Some(error) = error.as_ref().filter(|_| !out.json) {
            let context = Context { recovered: recovered.as_deref(), form: out.form, ..Context::default() };
            out.note(&error::error(error, &context, out.error_paint()));
        }
        let Mended { state, repairs, outcome } = mended?;
        let told = match error {
            Some(error) => session::told(&error.code, &self.for_the_log(outcome), repairs),
            None => repairs,
        };
        Ok((state, told))
    }

    /// The state of the session, where it is another one and was written after that of the file: by a plan that nobody waited
    /// for.
    async fn newer(
        &self,
        daemon: &Daemon,
        state: &Map<String, Value>,
    ) -> Result<Option<Map<String, Value>>, Failure> {
        let session = match daemon.client.get_session(&self.session).await {
            Ok(session) => session,
            Err(error) if error.code() == Some(codes::SESSION_NOT_FOUND.as_str()) => return Ok(None),
            Err(error) => return Err(daemon.failure(error)),
        };
        let known = session.state.and_then(|known| session::parse(known.as_bytes()).ok());
        let is_newer = |known: &Map<String, Value>| {
            known != state && session::updated_at(known) > session::updated_at(state)
        };
        Ok(known.filter(is_newer))
    }

    async fn import(
        &self,
        daemon: &Daemon,
        state: Map<String, Value>,
        repairs: Vec<String>,
        out: &mut Output,
    ) -> Result<(), Failure> {
        let request = v1::ImportSessionRequest {
            session: self.session.clone(),
            state: Value::Object(state).to_string(),
            repairs,
        };
        match daemon.client.import_session(request).await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some(codes::SESSION_BUSY.as_str()) => {
                out.note(&fill(words().sessions.busy, &[&self.session]));
                Ok(())
            }
            Err(error) => Err(daemon.failure(error)),
        }
    }

    fn of(path: &Path, file: StateFile, session: &str) -> Self {
        Self { path: path.to_owned(), file, session: session.to_owned(), replaced: Mutex::default() }
    }

    fn told(&self, text: Told) -> String {
        fill(text(&words().sessions), &[&self.path.display().to_string()])
    }

    /// The same as logs keep it, whatever language the command speaks.
    fn for_the_log(&self, text: Told) -> String {
        Language::English.within(|| self.told(text))
    }

    /// Says what was wrong with the file while it was written.
    pub fn tell(&self, out: &Output) {
        if !out.json {
            self.told_once(out.form, out.error_paint()).iter().for_each(|text| out.note(text));
        }
    }

    /// What was wrong with the file since this was asked last, and where what was there is kept.
    fn told_once(&self, form: Form, paint: Paint) -> Vec<String> {
        let replaced = std::mem::take(&mut *self.replaced.lock().unwrap_or_else(PoisonError::into_inner));
        let recovered = self.told(|texts| texts.rewritten);
        let context = Context { recovered: Some(&recovered), form, ..Context::default() };
        let told = |Replaced { error, aside }: Replaced| {
            let aside = fill(words().sessions.kept_aside, &[&aside.display().to_string()]);
            format!("{}\n{aside}", error::error(&error, &context, paint))
        };
        replaced.into_iter().map(told).collect()
    }

    /// Writes the file with each step of the run, and looks at it whenever `looked_at` has passed, until it is dropped.
    pub async fn follow(&self, client: &Client, run_id: &str, looked_at: Duration) {
        let mut stream = client.subscribe(v1::SubscribeRequest {
            filter: Some(v1::EventFilter { run_id: Some(run_id.to_owned()), ..v1::EventFilter::default() }),
            until_finished: true,
            ..v1::SubscribeRequest::default()
        });
        let mut step = async || loop {
            match stream.next().await {
                Some(Ok(Delivery::Event { event, .. })) if is_step(&event) => return,
                Some(Ok(_)) => {}
                // The end of the run is written by whoever waits for it.
                Some(Err(_)) | None => pending().await,
            }
        };
        let mut looks = every(looked_at);
        loop {
            tokio::select! {
                () = step() => {}
                _ = looks.tick() => {}
            }
            if let Err(error) = self.write(client).await {
                tracing::debug!(%error, "the state file is written with the next step");
            }
        }
    }

    /// Writes the state that the session has now. What was there is kept: as the backup where it is valid, else beside it.
    ///
    /// # Errors
    /// The daemon is not reached, or the file cannot be written; in words.
    pub async fn write(&self, client: &Client) -> Result<(), String> {
        let told = |error: std::io::Error| format!("{}: {error}", self.path.display());
        if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(told)?;
        }
        // Of two that write, the later one has the newer state.
        let locked = self.file.lock().map_err(told)?;
        let session = client.get_session(&self.session).await.map_err(|error| error.to_string())?;
        let Some(state) = session.state else { return Ok(()) };
        let state = session::parse(state.as_bytes()).map_err(|error| error.message)?;
        let text = session::text(&state).map_err(|error| error.message)?;
        let present = self.file.read().map_err(told)?;
        if present.as_ref() == Some(&text) {
            return Ok(());
        }
        let mut broken = None;
        if let Some(present) = present {
            match error_of(&look(&present, &self.path)) {
                None => locked.back_up(&present).map_err(told)?,
                Some(error) => {
                    let aside = locked.keep_aside(now_ms()).map_err(told)?;
                    broken = Some(Replaced { error, aside });
                }
            }
        }
        locked.write(&text).map_err(told)?;
        let mut replaced = self.replaced.lock().unwrap_or_else(PoisonError::into_inner);
        if replaced.len() < TOLD {
            replaced.extend(broken);
        }
        Ok(())
    }
}

/// What is wrong with a file.
fn error_of(found: &Found) -> Option<v1::Error> {
    match found {
        Found::Unreadable(error) => Some(error.as_ref().clone()),
        Found::Invalid(_, violations) => session::failed(violations),
        Found::Valid(_) => None,
    }
}

/// Ticks at the end of each period, and not for each one that was missed.
fn every(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks.reset();
    ticks
}

/// Whether the state of a session follows this event of its plan.
fn is_step(event: &v1::Event) -> bool {
    matches!(
        event.body,
        Some(
            Body::PlanBegun(_)
                | Body::WaveStarted(_)
                | Body::WaveFinished(_)
                | Body::TaskRolledBack(_)
                | Body::QuestionAsked(_)
                | Body::QuestionAnswered(_)
                | Body::RunPaused(_)
                | Body::RunResumed(_)
                | Body::RunFinished(_)
        )
    )
}

/// `capataz sessions import`.
pub async fn import(
    session: &str,
    path: &Path,
    daemon: &Daemon,
) -> Result<v1::ImportSessionResponse, Failure> {
    let (file, bytes) = super::sessions::open(path)?;
    let found = look(&bytes, path);
    let error = error_of(&found);
    let Found::Valid(state) = found else {
        return Err(refused(path, &file, Some(&bytes), error.unwrap_or_default()));
    };
    let request = v1::ImportSessionRequest {
        session: session.to_owned(),
        state: Value::Object(state).to_string(),
        repairs: Vec::new(),
    };
    daemon.client.import_session(request).await.map_err(|error| daemon.failure(error))
}

/// `capataz sessions export`: the session's state in the file. False where the session has none.
pub async fn export(session: &str, path: &Path, daemon: &Daemon, out: &mut Output) -> Result<bool, Failure> {
    let found = daemon.client.get_session(session).await;
    let found = found.map_err(|error| daemon.failure(error).about_session(session))?;
    if found.state.is_none() {
        return Ok(false);
    }
    let (file, _) = open_or_new(path)?;
    let sync = StateSync::of(path, file, session);
    let written = sync.write(&daemon.client).await;
    written.map_err(|error| failed(path, &std::io::Error::other(error)))?;
    sync.tell(out);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use capataz_daemon::{Config, DeclaredAgent};
    use serde_json::json;
    use tokio::task::yield_now;
    use tokio::time::Instant;

    use super::*;
    use crate::args::Color;

    /// The seed's "periodicamente" has no number; CONTRACTS §1.7 says 60 s.
    // S000-C7-31
    #[tokio::test(start_paused = true)]
    async fn the_file_is_looked_at_every_minute_and_no_sooner() {
        let begun = Instant::now();
        let mut looks = every(LOOKED_AT);
        for minutes in 1..=3 {
            looks.tick().await;
            assert_eq!(begun.elapsed(), Duration::from_secs(60 * minutes));
        }
    }

    /// A plan waits in its first wave for an agent that nobody serves, so that no step of it comes to the file.
    // S000-C7-31
    #[tokio::test(flavor = "multi_thread")]
    async fn a_file_that_somebody_breaks_within_a_wave_is_mended_with_the_next_look() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::embedded(folder.path().join("data"));
        config.declared_agents.push(DeclaredAgent::new("later"));
        let served = capataz_daemon::Daemon::start(config).await.unwrap();
        let daemon = Daemon::connect_to(&format!("http://{}", served.address())).await.unwrap();
        let path = folder.path().join("state.json");
        let mut out = Output::new(true, false, Color::Never);
        let sync = StateSync::begin(&daemon, "shop", Some(&path), &mut out).await.unwrap().unwrap();
        let task = v1::Task { name: "t".to_owned(), agent: "later".to_owned(), ..v1::Task::default() };
        let wave = v1::Wave { tasks: vec![task], ..v1::Wave::default() };
        let plan = v1::Plan {
            name: "p".to_owned(),
            session: Some("shop".to_owned()),
            waves: vec![wave],
            ..v1::Plan::default()
        };
        let request = v1::StartRunRequest::of_plan(plan);
        let run = daemon.client.start_run(request).await.unwrap().run_id;
        let phase = || {
            let state: Value =
                serde_json::from_slice(&fs::read(&path).unwrap_or_default()).unwrap_or_default();
            state["current_flow"]["phase"].clone()
        };
        let mended = async || {
            while phase() != json!("executing_wave_1") {
                yield_now().await;
            }
        };
        let story = async {
            mended().await;
            // The plan takes no further step, so that nothing but the looks can mend it.
            fs::write(&path, "{ broken").unwrap();
            mended().await;
        };
        let follows = sync.follow(&daemon.client, &run, Duration::from_millis(1));
        tokio::select! {
            () = story => {}
            () = follows => {}
        }
        let kept = fs::read_dir(folder.path())
            .unwrap()
            .filter_map(Result::ok)
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("state.corrupt-"));
        let kept: Vec<String> = kept.map(|entry| fs::read_to_string(entry.path()).unwrap()).collect();
        assert_eq!(kept, ["{ broken"]);
        // It is said once.
        let told = sync.told_once(Form::Compact, Paint::OFF);
        assert_eq!((told.len(), sync.told_once(Form::Compact, Paint::OFF).len()), (1, 0));
        for part in
            ["SESSION_CORRUPTED (CRITICAL)", "written again", "What was there is in", "state.corrupt-"]
        {
            assert!(told[0].contains(part), "{part} in {}", told[0]);
        }
        served.shutdown().await;
    }
}
