//! What the browsers of a daemon leave behind.

use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;

/// A time limit that only a failing test reaches.
const PATIENCE: Duration = Duration::from_secs(120);
/// The interval between two looks at conditions that have no event to wait for.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Processes whose command line names this folder, with their command lines.
fn processes_naming(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let entries = std::fs::read_dir("/proc").unwrap();
    let commands = entries.filter_map(|entry| std::fs::read(entry.unwrap().path().join("cmdline")).ok());
    let commands = commands.map(|command| String::from_utf8_lossy(&command).replace('\0', " "));
    commands.filter(|command| command.contains("--user-data-dir") && command.contains(&folder)).collect()
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "in time: {what}");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Whether a browser of the daemon with this data folder is alive.
pub fn are_alive(data: &Path) -> bool {
    !processes_naming(data).is_empty()
}

/// Waits until no browser and no profile of the daemon with this data folder is left.
pub async fn leave_nothing(data: &Path) {
    eventually("no browser is left", || !are_alive(data)).await;
    eventually("no profile is left", || {
        std::fs::read_dir(data.join("browser/profiles")).unwrap().next().is_none()
    })
    .await;
}
