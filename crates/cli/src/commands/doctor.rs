//! `capataz browser doctor`: finds out whether a browser is installed and starts, or whether the one that the daemon is to
//! attach to answers. It looks in the same places as the daemon, and needs no daemon.

use std::path::{Path, PathBuf};
use std::time::Duration;

use capataz_daemon::{Config, Overrides};
use capataz_executor::browsers::{self, AttachError, Endpoint, Found, LaunchOptions, ProbeError, Probed};
use serde_json::{Value, json};

use super::Outcome;
use crate::args::DoctorArgs;
use crate::exit::Exit;
use crate::failure::{Failure, chain};
use crate::output::Output;
use capataz_display::error;
use capataz_display::format::took;
use capataz_display::frame::visible_block;
use capataz_display::paint::Tone;
use capataz_display::words::{fill, words};

/// The folder of browser profiles, below the daemon's data folder. A browser has a profile there while it runs.
const PROFILES: &str = "browser/profiles";

pub async fn doctor(args: DoctorArgs, out: &mut Output) -> Outcome {
    let overrides = Overrides { data_dir: args.data_dir, ..Overrides::default() };
    let config = Config::load(args.config.as_deref(), overrides).map_err(Failure::of_config)?;
    if let (Some(Ok(endpoint)), None) = (config.browser.endpoint(), &args.program) {
        return Ok(attached(endpoint, out).await);
    }
    let profiles = config.data_dir.join(PROFILES);
    let program = args.program.or(config.browser.program);
    let found = match browsers::find(program.as_deref(), variable("PATH").as_deref()).await {
        Ok(found) => found,
        Err(error) => return Ok(missing(&error.to_string(), out)),
    };
    let profile = Profile::make(&config.data_dir, &profiles)?;
    let mut options = LaunchOptions::new(&found.program, profile.folder());
    options.environment = browsers::passed_environment(true, variable);
    let probed = browsers::probe(options).await;
    let findings = Findings { found, profiles, elsewhere: profile.is_elsewhere(), probed };
    if out.json {
        out.document(&findings.to_json());
    } else {
        findings.tell(out);
    }
    Ok(if findings.probed.is_ok() { Exit::Ok } else { Exit::Failed })
}

/// The browser that a person runs: whether it answers, and lets itself be attached to.
async fn attached(endpoint: Endpoint, out: &mut Output) -> Exit {
    let tried = match browsers::discover(endpoint).await {
        Ok(running) => browsers::probe_running(endpoint).await.map(|time| (running, time)),
        Err(error) => Err(error.into()),
    };
    let texts = &words().browser;
    let address = endpoint.to_string();
    match (tried, out.json) {
        (Ok((running, time)), true) => out.document(&json!({
            "found": true,
            "attached": true,
            "program": address,
            "version": running.version,
            "starts": true,
            "start_ms": milliseconds(time),
            "second_layer": false,
        })),
        (Ok((running, time)), false) => {
            out.line(&fill(texts.doctor_attach, &[&address]));
            out.line(&fill(texts.doctor_version, &[&running.version]));
            out.line(&fill(texts.doctor_answers, &[&took(milliseconds(time))]));
            out.line(&error::ok(texts.doctor_attached, out.paint));
            out.note(texts.doctor_no_second_layer);
        }
        (Err(error), true) => {
            let problem = chain(&error);
            let (problem, help) = problem.split_once('\n').unwrap_or((&problem, ""));
            out.document(&json!({
                "found": !matches!(error, AttachError::NoBrowser(_)),
                "attached": true,
                "program": address,
                "starts": false,
                "problem": problem,
                "install": help,
            }));
            return Exit::Failed;
        }
        (Err(error), false) => {
            // The text says how such a browser is started.
            out.line(&out.paint.text(Tone::Bad, &visible_block(&chain(&error))));
            return Exit::Failed;
        }
    }
    Exit::Ok
}

#[expect(clippy::disallowed_methods, reason = "a browser is started with a few variables of ours")]
fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name)
}

fn missing(problem: &str, out: &mut Output) -> Exit {
    if out.json {
        out.document(&json!({
            "found": false,
            "starts": false,
            "problem": problem.lines().next().unwrap_or_default(),
            "install": browsers::INSTALL_HELP,
        }));
    } else {
        // The text names the places that were searched, and how to get a browser.
        out.line(&out.paint.text(Tone::Bad, &visible_block(problem)));
    }
    Exit::Failed
}

/// A folder for the profile of the browser that is started for the test. It is among the profiles of the daemon's
/// browsers if their folder exists, so that a problem with that folder shows. Otherwise it is temporary, because the
/// test leaves nothing behind.
struct Profile {
    kept: tempfile::TempDir,
    elsewhere: bool,
}

impl Profile {
    fn make(data_dir: &Path, profiles: &Path) -> Result<Self, Failure> {
        let elsewhere = !data_dir.is_dir();
        let builder = &mut tempfile::Builder::new();
        let builder = builder.prefix("doctor-");
        let made = if elsewhere {
            builder.tempdir()
        } else {
            std::fs::create_dir_all(profiles).and_then(|()| builder.tempdir_in(profiles))
        };
        let failed = |error: std::io::Error| {
            let place = profiles.display().to_string();
            Failure::failed(fill(words().act.cannot_write, &[&place, &error.to_string()]))
        };
        Ok(Self { kept: made.map_err(failed)?, elsewhere })
    }

    fn folder(&self) -> PathBuf {
        self.kept.path().join("profile")
    }

    fn is_elsewhere(&self) -> bool {
        self.elsewhere
    }
}

struct Findings {
    found: Found,
    profiles: PathBuf,
    /// True when the profile of the test was in a temporary folder.
    elsewhere: bool,
    probed: Result<Probed, ProbeError>,
}

impl Findings {
    fn to_json(&self) -> Value {
        let (user_id, root) = browsers::user();
        let mut document = json!({
            "found": true,
            "program": self.found.program.display().to_string(),
            "version": self.found.version,
            "profiles": self.profiles.display().to_string(),
            "user_id": user_id,
            "sandbox": !root,
            "starts": self.probed.is_ok(),
        });
        let more = match &self.probed {
            Ok(probed) => json!({
                "start_ms": milliseconds(probed.start),
                "page_ms": milliseconds(probed.page),
                "end_ms": milliseconds(probed.end),
            }),
            Err(error) => json!({ "problem": chain(error) }),
        };
        if let (Some(document), Value::Object(more)) = (document.as_object_mut(), more) {
            document.extend(more);
        }
        document
    }

    fn tell(&self, out: &mut Output) {
        let texts = &words().browser;
        let (user, root) = browsers::user();
        out.line(&fill(texts.doctor_found, &[&self.found.program.display().to_string()]));
        out.line(&fill(texts.doctor_version, &[&self.found.version]));
        let profiles = self.profiles.display().to_string();
        let template = if self.elsewhere { texts.doctor_profile_other } else { texts.doctor_profile };
        out.line(&fill(template, &[&profiles]));
        let note = if root { texts.doctor_root } else { texts.doctor_sandbox };
        out.line(&fill(texts.doctor_user, &[&user.to_string(), note]));
        match &self.probed {
            Ok(probed) => {
                let times = [probed.start, probed.page, probed.end].map(|time| took(milliseconds(time)));
                out.line(&fill(texts.doctor_starts, &times.each_ref().map(String::as_str)));
                out.line(&error::ok(texts.doctor_good, out.paint));
            }
            Err(failed) => {
                let program = self.found.program.display().to_string();
                let text = fill(texts.doctor_not_started, &[&program, &chain(failed)]);
                out.line(&out.paint.text(Tone::Bad, &visible_block(&text)));
                if !root {
                    out.note(texts.doctor_sandbox_hint);
                }
                out.note(browsers::INSTALL_HELP);
            }
        }
    }
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
