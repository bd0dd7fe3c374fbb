//! `--local`: a daemon for the time of one command. It is inside the command, unless a daemon has the data folder already.

use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::time::Duration;

use capataz_contracts::v1;
use capataz_daemon::{Config, DaemonError, Holder, LockError, Overrides};
use tokio::time::{Instant, sleep, timeout};

use super::init::shell_word;
use super::serve::asked_to_stop;
use super::status::{SERVING, state};
use super::{Daemon, Outcome};
use crate::args::{Global, LocalArgs};
use crate::exit::Exit;
use crate::failure::{Failure, chain};
use crate::near;
use crate::output::Output;
use capataz_display::words::{fill, words};

/// A free port, whatever the configuration says: a daemon for others may want that one.
const ANY_PORT: &str = "127.0.0.1:0";
/// How long another daemon may take from its lock to its port, because it recovers its runs meanwhile; or one that ends, to
/// its end.
const STARTS: Duration = Duration::from_secs(30);
/// How long another daemon may take to say whether it serves.
const ANSWERS: Duration = Duration::from_secs(1);
/// The interval between two looks at that.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long the work may take to say its last words, once the command is asked to stop.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long the end may take before it is said what it waits for.
const SAID_AFTER: Duration = Duration::from_secs(1);

/// The daemon of a command, and how long the command may work with it.
pub struct Place {
    /// The daemon inside this command; `None` where another process has it, which goes on afterwards.
    here: Option<Here>,
    /// Ends when the command is asked to stop; `None` where that ends the process.
    stop: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

struct Here {
    daemon: capataz_daemon::Daemon,
    data_dir: PathBuf,
    /// The command that starts a daemon with the same configuration.
    serve: String,
}

/// Connects to the daemon of `--addr`, or with `--local` to that of the data folder, which is started where there is none.
///
/// # Errors
/// The configuration cannot be used, the daemon does not start, nobody listens, or the command is asked to stop meanwhile.
pub async fn connect(args: &LocalArgs, global: &Global, out: &Output) -> Result<(Daemon, Place), Failure> {
    if !args.local {
        return Ok((Daemon::connect(global).await?, Place { here: None, stop: None }));
    }
    let config = config(args)?;
    let data_dir = config.data_dir.clone();
    // Heard from before there is something to drain.
    let mut stop: Pin<Box<dyn Future<Output = ()>>> = Box::pin(asked_to_stop()?);
    let until = Instant::now() + STARTS;
    let mut has_told = false;
    loop {
        let refused = match capataz_daemon::Daemon::start(config.clone()).await {
            Ok(daemon) => {
                let addr = format!("http://{}", daemon.address());
                let here = Some(Here { daemon, data_dir, serve: serve(args) });
                let daemon = Daemon { is_own: true, ..Daemon::connect_to(&addr).await? };
                return Ok((daemon, Place { here, stop: Some(stop) }));
            }
            Err(error @ DaemonError::Lock(LockError::Taken { .. })) => Failure::failed(chain(&error)),
            Err(error) => return Err(Failure::of_start(&error, config.specs_dir.as_deref())),
        };
        // Nothing more is known where it belongs to another user.
        let Ok(holder) = Holder::of(&data_dir) else { return Err(refused) };
        let place = data_dir.display().to_string();
        if let Some(listening) = holder.as_ref().and_then(Holder::listening) {
            let addr = format!("http://{}", listening.address);
            if let Some(daemon) = serving(&addr).await {
                if !out.json {
                    out.note(&fill(words().local.elsewhere, &[&addr, &place]));
                }
                return Ok((daemon, Place { here: None, stop: Some(stop) }));
            }
        }
        // It starts or ends, or does other work on the folder.
        if Instant::now() >= until {
            return Err(refused);
        }
        if let Some(holder) = holder.filter(|_| !out.json && !has_told) {
            out.note(&fill(words().local.waits, &[&holder.process().to_string(), &place]));
            has_told = true;
        }
        tokio::select! {
            () = &mut stop => return Err(not_begun()),
            () = sleep(LOOK_AGAIN) => {}
        }
    }
}

/// The command that starts a daemon of this configuration.
fn serve(args: &LocalArgs) -> String {
    let of_file = args.config.as_ref().map(|file| shell_word(&file.display().to_string()));
    of_file.map_or_else(|| "capataz serve".to_owned(), |file| format!("capataz serve --config {file}"))
}

fn config(args: &LocalArgs) -> Result<Config, Failure> {
    let overrides = Overrides { listen: Some(ANY_PORT.to_owned()), ..Overrides::default() };
    Config::load(args.config.as_deref(), overrides).map_err(Failure::of_config)
}

/// Which of the names that daemon knows, or would know. `None` where that cannot be told without waiting for anybody.
pub async fn check_names(args: &LocalArgs, names: v1::CheckAgentsRequest) -> Option<v1::CheckAgentsResponse> {
    let config = config(args).ok()?;
    if let Some(holder) = Holder::of(&config.data_dir).ok()? {
        let daemon = serving(&format!("http://{}", holder.listening()?.address)).await?;
        return daemon.client.check_agents(names).await.ok();
    }
    let checking = tokio::task::spawn_blocking(move || capataz_daemon::check_names(&config, &names));
    checking.await.ok()?.ok()
}

/// The command was asked to stop before it has begun its work.
fn not_begun() -> Failure {
    Failure::Local { exit: Exit::Interrupted, message: words().local.not_begun.to_owned(), hint: None }
}

/// The daemon at the address, if it serves. One that ends takes no new runs.
async fn serving(addr: &str) -> Option<Daemon> {
    timeout(ANSWERS, async {
        let daemon = Daemon::connect_to(addr).await.ok()?;
        (state(&daemon).await == SERVING).then_some(daemon)
    })
    .await
    .ok()
    .flatten()
}

impl Place {
    /// Does the work, as long as the command is not asked to stop. Then a daemon inside this command drains and ends.
    pub async fn during(
        mut self,
        work: impl AsyncFnOnce(&mut Output) -> Outcome,
        out: &mut Output,
    ) -> Outcome {
        let (outcome, is_stopping) = {
            let Some(stop) = &mut self.stop else { return Box::pin(work(out)).await };
            let is_early = tokio::select! {
                biased;
                () = &mut *stop => true,
                () = std::future::ready(()) => false,
            };
            if is_early {
                (Err(not_begun()), true)
            } else {
                // Boxed: what follows a run is large.
                let mut work = Box::pin(work(&mut *out));
                tokio::select! {
                    biased;
                    outcome = &mut work => (outcome, false),
                    () = stop => (timeout(LAST_WORDS, work).await.unwrap_or(Ok(Exit::Interrupted)), true),
                }
            }
        };
        let Some(here) = self.here else { return outcome };
        // Afterwards nobody can say which names there are.
        let outcome = match outcome {
            Err(failure) => Err(Box::pin(near::hinted(failure)).await),
            done => done,
        };
        here.end(&outcome, is_stopping, out).await;
        outcome
    }
}

impl Here {
    async fn end(self, outcome: &Outcome, is_stopping: bool, out: &Output) {
        let texts = &words().local;
        let note = |text: &str| {
            if !out.json {
                out.note(text);
            }
        };
        let interrupted = is_stopping || matches!(outcome, Ok(Exit::Interrupted));
        if interrupted {
            note(words().serve.stopping);
        }
        let mut ending = pin!(self.daemon.shutdown());
        if timeout(SAID_AFTER, &mut ending).await.is_err() {
            if !interrupted {
                note(texts.drains);
            }
            ending.await;
        }
        // A command that was refused has left nothing to look at.
        let Ok(exit) = outcome else { return };
        let goes_on = matches!(exit, Exit::StillRunning | Exit::WaitsForAnswer | Exit::Interrupted);
        let text = if goes_on { texts.goes_on } else { texts.kept };
        note(&fill(text, &[&self.data_dir.display().to_string(), &self.serve]));
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;
    use crate::args::Color;

    #[tokio::test]
    async fn work_that_was_to_be_stopped_before_it_began_is_never_begun() {
        let mut out = Output::new(true, false, Color::Never);
        let place = Place { here: None, stop: Some(Box::pin(ready(()))) };
        let mut has_begun = false;
        let work = async |_: &mut Output| {
            has_begun = true;
            Ok(Exit::Ok)
        };
        let outcome = place.during(work, &mut out).await;
        assert!(!has_begun);
        assert_eq!(outcome.expect_err("it was stopped").exit(), Exit::Interrupted);
    }
}
