//! What these tests read from the events of a run.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use capataz_contracts::v1::{self, event::Body};

use crate::bench::{Bench, Ended};

impl Bench {
    /// Waits until the action of this step is in work.
    pub async fn until_begun(&self, run_id: &str, step: u32) {
        let action = v1::BrowserActivity::Action as i32;
        let begins = |body: &Body| matches!(body, Body::BrowserActivityStarted(begun) if begun.activity == action && begun.step_index == Some(step));
        self.until(run_id, begins).await;
    }
}

impl Ended {
    /// The error with which this action failed, whether or not the script went on after it.
    pub fn error_of(&self, action: &str) -> Option<&v1::ExecutorError> {
        self.events.iter().find_map(|event| match &event.body {
            Some(Body::ActionFailed(failed)) => {
                failed.error.as_ref().filter(|error| error.action_id == action)
            }
            _ => None,
        })
    }

    /// The code of [`Self::error_of`]; empty where the action has not failed.
    pub fn code_of(&self, action: &str) -> &str {
        self.error_of(action).map_or("", |error| error.error_code.as_str())
    }

    /// How this action ended well.
    pub fn finish_of(&self, action: &str) -> Option<&v1::ActionFinished> {
        self.events.iter().find_map(|event| match &event.body {
            Some(Body::ActionFinished(finished)) if finished.action_id == action => Some(&**finished),
            _ => None,
        })
    }
}

pub fn details(error: &v1::ExecutorError) -> serde_json::Value {
    serde_json::from_str(error.details.as_deref().unwrap_or("null")).unwrap()
}

/// Processes that this one has begun, and those that they have, each with its command line.
pub fn processes_below(ancestor: u32) -> Vec<(u32, String)> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").unwrap() {
        let path = entry.unwrap().path();
        let number =
            path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse::<u32>().ok());
        let (Some(number), Ok(stat)) = (number, std::fs::read_to_string(path.join("stat"))) else { continue };
        // `PID (NAME) STATE PARENT …`, where the name may hold anything.
        let parent = stat.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap();
        let command = std::fs::read(path.join("cmdline")).unwrap_or_default();
        all.insert(number, (parent, String::from_utf8_lossy(&command).replace('\0', " ")));
    }
    let descends = |mut number: u32| loop {
        match all.get(&number) {
            Some((parent, _)) if *parent == ancestor => return true,
            Some((parent, _)) => number = *parent,
            None => return false,
        }
    };
    let below = all.iter().filter(|(number, _)| descends(**number));
    below.map(|(number, (_, command))| (*number, command.clone())).collect()
}

/// SIGKILL to a process that a browser of these tests has begun.
#[expect(clippy::disallowed_types, reason = "tests kill processes as a person would")]
pub fn kill(process: u32) {
    let status = std::process::Command::new("kill").args(["-KILL", &process.to_string()]).status();
    assert!(status.unwrap().success());
}

/// Waits until the shims have removed every profile. Only a test that fails waits for long.
pub async fn until_no_profile(data_dir: &Path) {
    let profiles = data_dir.join("browser/profiles");
    for _ in 0..12_000 {
        if std::fs::read_dir(&profiles).unwrap().next().is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("a profile is left in {}", profiles.display());
}
