//! What execution modes remember: a table of entries, and one in whole (seed 004).

use capataz_contracts::v1;

use crate::format;
use crate::frame::{truncated, visible};
use crate::mode::mode_name;
use crate::paint::{Paint, Tone};
use crate::table::Table;
use crate::words::{fill, words};

/// Columns of a content in a table.
const CONTENT_WIDTH: usize = 70;

/// A table of entries.
#[must_use]
pub fn list(entries: &[v1::MemoryEntry], now_ms: i64, paint: Paint) -> String {
    let mut table = Table::new(words().memory.head);
    for entry in entries {
        let tone = match entry.r#type.as_str() {
            "error" => Tone::Bad,
            "success" | "solution" | "pattern" => Tone::Good,
            _ => Tone::Plain,
        };
        table.row([
            (entry.r#type.clone(), tone),
            (mode_name(entry.mode()).to_owned(), Tone::Plain),
            (fill(words().agents.ago, &[&format::age(now_ms.saturating_sub(entry.at_ms))]), Tone::Plain),
            (format!("{:.2}", entry.relevance), Tone::Plain),
            (truncated(&visible(&entry.content), CONTENT_WIDTH), Tone::Strong),
            (entry.entry_id.clone(), Tone::Faint),
        ]);
    }
    table.render(paint)
}

/// One entry in whole.
#[must_use]
pub fn show(entry: &v1::MemoryEntry, now_ms: i64) -> String {
    let texts = &words().memory;
    let ago = fill(words().agents.ago, &[&format::age(now_ms.saturating_sub(entry.at_ms))]);
    let mut lines = vec![
        (texts.entry, entry.entry_id.clone()),
        (texts.kind, entry.r#type.clone()),
        (texts.session, entry.session.clone()),
        (texts.mode, mode_name(entry.mode()).to_owned()),
        (texts.made, format!("{} ({ago})", format::utc(entry.at_ms))),
        (texts.event, format!("{} #{}", entry.run_id, entry.seq)),
        (texts.relevance, format!("{:.2}", entry.relevance)),
    ];
    let lists =
        [(texts.tools, &entry.tools), (texts.files, &entry.files), (texts.related, &entry.related_to)];
    lines.extend(
        lines_of(&lists)
            .into_iter()
            .chain([(texts.digest, entry.digest.clone())])
            .filter(|(_, value)| !value.is_empty()),
    );
    let width = lines.iter().map(|(title, _)| title.chars().count()).max().unwrap_or(0);
    let head: Vec<String> =
        lines.iter().map(|(title, value)| format!("{title:<width$}  {}", visible(value))).collect();
    format!("{}\n\n{}", head.join("\n"), visible(&entry.content))
}

fn lines_of<'a>(lists: &[(&'a str, &Vec<String>)]) -> Vec<(&'a str, String)> {
    lists.iter().map(|(title, names)| (*title, names.join(", "))).collect()
}
