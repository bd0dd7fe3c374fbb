//! Short texts with a grammar of their own: they stand in files, in requests and on the command line.

use capataz_contracts::placeholder::placeholders;
use capataz_contracts::version::ContractVersion;
use capataz_contracts::{duration, reference};
use capataz_executor::allowlist::Allowlist;
use capataz_executor::keys::Chord;
use capataz_router::eval::read_tsv;
use capataz_store::{BlobHash, RunId};
use serde_json::Value;

/// Each reader gets the same text.
pub(crate) fn all(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(milliseconds) = duration::parse(text) {
        assert!(milliseconds >= 0, "{milliseconds}");
        assert_eq!(duration::parse(&duration::format(milliseconds)), Ok(milliseconds));
    }
    references(text);
    if let Ok(version) = text.parse::<ContractVersion>() {
        assert_eq!(version.to_string().parse(), Ok(version));
    }
    if let Ok(hash) = text.parse::<BlobHash>() {
        assert_eq!(hash.to_string(), text.to_lowercase());
    }
    if let Ok(run) = text.parse::<RunId>() {
        assert_eq!(run.to_string().parse(), Ok(run));
    }
    let _ = Chord::parse(text);
    addresses(text);
    if let Ok(rows) = read_tsv(text) {
        assert!(rows.len() < text.lines().count().max(1));
    }
}

fn references(text: &str) {
    let scanned = reference::scan(text);
    let inserted = placeholders(text);
    if !text.contains("${") {
        let pieces = usize::from(!text.is_empty());
        assert_eq!(scanned.map(|segments| segments.len()), Ok(pieces));
        assert_eq!(inserted.map(|segments| segments.len()), Ok(pieces));
    }
    let value = Value::String(text.to_owned());
    let escaped = reference::escaped(value.clone());
    let mut room = reference::Room { bytes: usize::MAX, values: usize::MAX };
    let resolved = reference::resolve(&escaped, &mut room, &mut |_| None);
    assert_eq!(resolved, Ok(value), "what is escaped stands for itself");
}

fn addresses(text: &str) {
    let mut lines = text.lines();
    let (Some(entry), Some(url)) = (lines.next(), lines.next()) else { return };
    let Ok(allowlist) = Allowlist::parse([entry]) else { return };
    if allowlist.check_url(url).is_ok() {
        // What the reader of URLs leaves out.
        let read: String = url.chars().filter(|c| !matches!(c, '\t' | '\r')).collect();
        let scheme = read.trim_start_matches(|c: char| c <= ' ').to_ascii_lowercase();
        assert!(scheme.starts_with("http") || scheme.starts_with("ws"), "{url:?} passes {entry:?}");
    }
    let nothing = Allowlist::parse::<&str>([]);
    assert!(nothing.is_ok_and(|nothing| nothing.check_url(url).is_err()), "an empty list allows nothing");
}
