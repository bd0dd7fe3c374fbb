//! How executions went, as a table with bars beside what the seed wants of each mode (seed 004, Analytics).

use capataz_contracts::v1;

use crate::mode::mode_name;
use crate::paint::{Paint, Tone};
use crate::table::Table;
use crate::words::{fill, words};

/// Columns of a whole bar.
const BAR: usize = 20;

/// The table, and what memory was good for.
#[must_use]
pub fn analytics(told: &v1::GetAnalyticsResponse, paint: Paint) -> String {
    let texts = &words().analytics;
    let mut table = Table::new(texts.head);
    for mode in &told.modes {
        let mut row = vec![
            (mode_name(mode.mode()).to_owned(), Tone::Strong),
            (mode.runs.to_string(), Tone::Plain),
            (bar(mode.success_rate), Tone::Faint),
        ];
        row.extend(["success_rate", "mean_ms", "replan_rate", "escalation_rate"].map(|of| cell(mode, of)));
        table.row(row);
    }
    let memory = told.memory.unwrap_or_default();
    let lines = [
        (texts.recalls, memory.recalls.to_string()),
        (texts.hit_rate, percent(memory.hit_rate)),
        (texts.compression, percent(memory.compression_ratio)),
        (texts.retrieval, memory.retrieval_ms.map_or_else(|| NONE.to_owned(), |ms| format!("{ms:.2} ms"))),
    ];
    let lines: Vec<String> = lines.into_iter().map(|(title, value)| fill(title, &[&value])).collect();
    format!("{}\n\n{}\n{}", table.render(paint), texts.memory, lines.join("\n"))
}

const NONE: &str = "-";

/// A value and its aim, by whether that is met.
fn cell(mode: &v1::ModeAnalytics, of: &str) -> (String, Tone) {
    let (value, is_time) = match of {
        "success_rate" => (mode.success_rate, false),
        "mean_ms" => (mode.mean_ms, true),
        "replan_rate" => (mode.replan_rate, false),
        _ => (mode.escalation_rate, false),
    };
    let told = |value: Option<f64>| if is_time { seconds(value) } else { percent(value) };
    let Some(aim) = mode.aims.iter().find(|aim| aim.of == of) else { return (told(value), Tone::Plain) };
    let (sign, tone) = match aim.met {
        None => ("", Tone::Faint),
        Some(true) => (" ✓", Tone::Good),
        Some(false) => (" ✗", Tone::Bad),
    };
    let than = if aim.above { '>' } else { '<' };
    (format!("{} ({than}{}){sign}", told(value), told(Some(aim.bound))), tone)
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| NONE.to_owned(), |share| format!("{:.0} %", share * 100.0))
}

fn seconds(ms: Option<f64>) -> String {
    ms.map_or_else(|| NONE.to_owned(), |ms| format!("{:.1} s", ms / 1_000.0))
}

/// As much of a bar as the share is.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to the width of a bar")]
fn bar(share: Option<f64>) -> String {
    let full = share.map_or(0, |share| (share.clamp(0.0, 1.0) * BAR as f64).round() as usize);
    format!("{}{}", "█".repeat(full), "░".repeat(BAR - full))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Language;

    fn told() -> v1::GetAnalyticsResponse {
        let aim = |of: &str, bound, above, met| v1::Aim { of: of.to_owned(), bound, above, met };
        let simple = v1::ModeAnalytics {
            mode: 1,
            runs: 20,
            success_rate: Some(0.95),
            mean_ms: Some(12_345.0),
            aims: vec![
                aim("success_rate", 0.9, true, Some(true)),
                aim("mean_ms", 10_000.0, false, Some(false)),
            ],
            ..v1::ModeAnalytics::default()
        };
        let planner = v1::ModeAnalytics {
            mode: 2,
            aims: vec![aim("replan_rate", 0.25, false, None)],
            ..v1::ModeAnalytics::default()
        };
        let memory = v1::MemoryAnalytics {
            recalls: 7,
            hit_rate: Some(0.5),
            compression_ratio: Some(0.25),
            retrieval_ms: Some(0.123),
        };
        v1::GetAnalyticsResponse {
            modes: vec![simple, planner],
            memory: Some(memory),
            ..v1::GetAnalyticsResponse::default()
        }
    }

    // S004-AN-02
    #[test]
    fn rates_are_bars_beside_what_is_wanted_of_them_and_nothing_is_told_of_none() {
        let text = Language::English.within(|| analytics(&told(), Paint::OFF));
        for part in [
            "███████████████████░",
            "95 % (>90 %) ✓",
            "12.3 s (<10.0 s) ✗",
            "░░░░░░░░░░░░░░░░░░░░",
            "- (<25 %)",
            "hits: 50 %",
            "0.12 ms",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let spanish = Language::Spanish.within(|| analytics(&told(), Paint::OFF));
        assert!(spanish.contains("aciertos: 50 %"), "{spanish}");
    }
}
