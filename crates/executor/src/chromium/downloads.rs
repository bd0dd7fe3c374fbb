//! Downloads: which have begun, which have ended, and which are too large.

use std::collections::BTreeMap;
use std::path::PathBuf;

use capataz_contracts::v1;

use super::protocol::{DownloadProgress, DownloadWillBegin};

/// Most bytes of one file. A longer one is cancelled.
pub const DOWNLOAD_LIMIT: u64 = 100 * 1024 * 1024;

/// Most downloads of one run. Further ones are cancelled.
pub const DOWNLOADS_LIMIT: usize = 100;

/// Most bytes of a file name, as file systems have it.
const NAME_LIMIT: usize = 255;

#[derive(Debug)]
pub(super) struct Downloads {
    /// Where Chromium writes them, each under its own id.
    folder: PathBuf,
    /// The downloads in the order in which they began.
    order: Vec<String>,
    known: BTreeMap<String, Download>,
    begun: usize,
}

#[derive(Debug)]
struct Download {
    record: v1::DownloadRecord,
    ended: bool,
}

impl Downloads {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, order: Vec::new(), known: BTreeMap::new(), begun: 0 }
    }

    /// True if the download is one too many, and is to be cancelled.
    pub(super) fn began(&mut self, event: DownloadWillBegin) -> bool {
        self.begun += 1;
        if self.begun > DOWNLOADS_LIMIT {
            return true;
        }
        let record = v1::DownloadRecord {
            file_name: safe_name(&event.suggested_filename),
            url: event.url,
            path: self.folder.join(safe_name(&event.guid)).to_string_lossy().into_owned(),
            ..Default::default()
        };
        self.order.push(event.guid.clone());
        self.known.insert(event.guid, Download { record, ended: false });
        false
    }

    /// True if the download is too large, and is to be cancelled.
    pub(super) fn progressed(&mut self, event: &DownloadProgress) -> bool {
        let Some(download) = self.known.get_mut(&event.guid).filter(|download| !download.ended) else {
            return false;
        };
        // The numbers are whole, though the protocol writes them as floating-point ones.
        let (received, total) = (event.received_bytes.max(0.0) as u64, event.total_bytes.max(0.0) as u64);
        download.record.bytes = received;
        match event.state.as_str() {
            "completed" | "canceled" => {
                let completed = event.state == "completed" && received <= DOWNLOAD_LIMIT;
                download.record.state = if completed { "completed" } else { "cancelled" }.to_owned();
                if !completed {
                    download.record.path.clear();
                }
                download.ended = true;
                false
            }
            _ => received.max(total) > DOWNLOAD_LIMIT,
        }
    }

    /// The number of downloads that have begun and were not taken yet, and whether all of them have ended.
    pub(super) fn summary(&self) -> (usize, bool) {
        (self.order.len(), self.known.values().all(|download| download.ended))
    }

    /// Where those lie that have not ended.
    pub(super) fn pending(&self) -> Vec<String> {
        let pending = self.known.values().filter(|download| !download.ended);
        pending.map(|download| download.record.path.clone()).collect()
    }

    /// Takes the downloads that have ended. The others are taken when they have ended, too.
    pub(super) fn take_ended(&mut self) -> Vec<v1::DownloadRecord> {
        let mut taken = Vec::new();
        self.order.retain(|guid| match self.known.get(guid) {
            Some(download) if !download.ended => true,
            _ => {
                taken.extend(self.known.remove(guid).map(|download| download.record));
                false
            }
        });
        taken
    }
}

/// The file name that the page suggests, without folders, control characters and what file systems do not take.
fn safe_name(suggested: &str) -> String {
    let last = suggested.rsplit(['/', '\\']).next().unwrap_or_default();
    let mut name: String = last.chars().filter(|character| !character.is_control()).collect();
    name = name.trim_matches([' ', '.']).to_owned();
    while name.len() > NAME_LIMIT {
        name.pop();
    }
    if name.is_empty() { "download".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn began(downloads: &mut Downloads, guid: &str, name: &str) -> bool {
        downloads.began(DownloadWillBegin {
            guid: guid.to_owned(),
            url: "http://h/f".to_owned(),
            suggested_filename: name.to_owned(),
        })
    }

    fn progress(guid: &str, received: f64, total: f64, state: &str) -> DownloadProgress {
        let (guid, state) = (guid.to_owned(), state.to_owned());
        DownloadProgress { guid, total_bytes: total, received_bytes: received, state }
    }

    #[test]
    fn names_have_no_folders_and_no_control_characters() {
        for (suggested, expected) in [
            ("../../etc/passwd", "passwd"),
            ("a\\b.txt", "b.txt"),
            ("..", "download"),
            ("", "download"),
            ("a\u{0}\nb.txt", "ab.txt"),
            (" .hidden ", "hidden"),
            ("résumé.pdf", "résumé.pdf"),
        ] {
            assert_eq!(safe_name(suggested), expected);
        }
        assert_eq!(safe_name(&"é".repeat(200)).len(), 254);
    }

    #[test]
    fn what_has_not_ended_is_told_later() {
        let mut downloads = Downloads::new("/d".into());
        began(&mut downloads, "one", "one.txt");
        began(&mut downloads, "two", "two.txt");
        downloads.progressed(&progress("two", 3.0, 3.0, "completed"));
        assert_eq!(downloads.summary(), (2, false));
        let taken = downloads.take_ended();
        assert_eq!(taken.len(), 1);
        assert_eq!(
            (taken[0].file_name.as_str(), taken[0].bytes, taken[0].path.as_str()),
            ("two.txt", 3, "/d/two")
        );
        downloads.progressed(&progress("one", 1.0, 3.0, "canceled"));
        assert_eq!(downloads.summary(), (1, true));
        assert_eq!(downloads.take_ended()[0].state, "cancelled");
        assert_eq!(downloads.summary(), (0, true));
    }

    #[test]
    fn a_file_beyond_the_limit_is_cancelled() {
        let mut downloads = Downloads::new("/d".into());
        began(&mut downloads, "one", "one.txt");
        let limit = DOWNLOAD_LIMIT as f64;
        assert!(!downloads.progressed(&progress("one", 1.0, limit, "inProgress")));
        assert!(downloads.progressed(&progress("one", 1.0, limit + 1.0, "inProgress")));
        assert!(downloads.progressed(&progress("one", limit + 1.0, 0.0, "inProgress")));
    }

    #[test]
    fn downloads_beyond_the_limit_are_cancelled() {
        let mut downloads = Downloads::new("/d".into());
        let cancelled =
            (0..=DOWNLOADS_LIMIT).filter(|number| began(&mut downloads, &number.to_string(), "f")).count();
        assert_eq!(cancelled, 1);
    }
}
