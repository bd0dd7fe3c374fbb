//! Outputs: JSON laid out, tables as tables, text as it is; long ones cut, with their size.

use bytes::Bytes;
use capataz_contracts::json::is_json;
use capataz_contracts::v1;
use capataz_contracts::v1::payload::Data;
use capataz_display::payload::size;
use capataz_display::script::describe;
use capataz_display::words::{counted, fill, words};
use serde_json::Value;

use super::markup::Markup;
use super::story::{Story, Task};
use super::{Content, Report, rows};

/// Maximum number of characters of one output.
const OUTPUT_LENGTH: usize = 32_000;
/// Maximum number of bytes of all outputs on the page.
const ALL_OUTPUTS: usize = 1024 * 1024;
/// Maximum number of outputs.
const MOST_OUTPUTS: usize = 200;
/// Maximum number of rows of an output that is a table.
const OUTPUT_ROWS: usize = 1_000;
/// Maximum number of outputs that are fetched because they are kept apart.
const MOST_BLOBS: usize = 50;
/// Maximum number of bytes of an output that is fetched.
const MOST_BLOB_BYTES: u64 = 256 * 1024;

/// Lists the outputs of a run that are kept apart from its events, and that its report shows.
pub fn wanted(story: &Story) -> Vec<String> {
    let (of_last, before) = with_output(story);
    let outputs = of_last.into_iter().chain(before).filter_map(|(_, task)| output_of(task));
    let blobs = outputs.filter_map(|output| match &output.data {
        Some(Data::Blob(blob)) if blob.size <= MOST_BLOB_BYTES => Some(blob.blake3.clone()),
        _ => None,
    });
    blobs.take(MOST_BLOBS).collect()
}

pub fn output_of(task: &Task) -> Option<&v1::Payload> {
    task.settled.as_ref()?.output.as_ref()
}

/// A task with the places of its wave and its own.
type Placed<'s> = ((usize, usize), &'s Task);

/// The tasks with an output: those of the last wave that has one, where what a run has come to stands, and those before.
fn with_output(story: &Story) -> (Vec<Placed<'_>>, Vec<Placed<'_>>) {
    let all: Vec<_> = story.tasks().filter(|(_, task)| bytes_of(task) > 0).collect();
    let last = all.last().map(|((wave, _), _)| *wave);
    all.into_iter().partition(|((wave, _), _)| Some(*wave) == last)
}

fn bytes_of(task: &Task) -> u64 {
    task.settled.as_ref().map_or(0, |settled| settled.output_bytes)
}

/// Writes the outputs of the tasks, those of the last wave unfolded.
pub fn section(page: &mut Markup, report: &Report) {
    let (texts, story) = (&words().reports, &report.story);
    let (of_last, before) = with_output(story);
    if of_last.is_empty() {
        return;
    }
    page.open_with("section", &[("id", "outputs")]);
    page.element("h2", words().page.outputs);
    let mut left = ALL_OUTPUTS;
    for ((place, task), is_last) in
        of_last.iter().map(|one| (one, true)).chain(before.iter().map(|one| (one, false))).take(MOST_OUTPUTS)
    {
        let bytes = bytes_of(task);
        let attributes: &[(&str, &str)] = if is_last && of_last.len() <= 4 { &[("open", "")] } else { &[] };
        page.open_with("details", attributes);
        page.open("summary");
        page.element("code", &task.name);
        page.text(&format!(" {}", describe::bytes(bytes)));
        if let Some(wave) = story.waves.get(place.0) {
            page.element_class("span", "faint", &format!(" {}", rows::title(story, place.0, wave)));
        }
        page.close("summary");
        match output_of(task) {
            Some(output) => payload(page, report, output, Some(&task.name), &mut left),
            None => page.element("p", &fill(texts.no_room, &[&describe::bytes(bytes)])),
        }
        page.close("details");
    }
    let more = (of_last.len() + before.len()).saturating_sub(MOST_OUTPUTS) as u64;
    if more > 0 {
        page.element("p", &counted(more, texts.more_outputs_one, texts.more_outputs_many));
    }
    page.close("section");
}

/// Writes one payload, the output of the task if one is named, within the room that is left on the page.
pub fn payload(
    page: &mut Markup,
    report: &Report,
    payload: &v1::Payload,
    task: Option<&str>,
    left: &mut usize,
) {
    let texts = &words().reports;
    let bytes = describe::bytes(size(payload));
    let content = match &payload.data {
        Some(Data::Inline(content)) => content.clone(),
        Some(Data::Blob(blob)) => match report.evidence.get(&blob.blake3) {
            Some(Content::Here(content)) => content.clone(),
            Some(Content::Missing(why)) => {
                return page.element("p", &fill(words().page.missing, &[words().page.output, why]));
            }
            Some(Content::TooMany | Content::TooLarge) | None => {
                let run_id = &report.story.run_id;
                let told = match task {
                    Some(task) => fill(texts.output_apart, &[&bytes, run_id, task]),
                    None => fill(texts.kept_apart, &[&bytes, run_id]),
                };
                return page.element("p", &told);
            }
        },
        None => Bytes::new(),
    };
    let is_text = payload.media_type.starts_with("text/") || is_json(&payload.media_type);
    let text = std::str::from_utf8(&content).ok().filter(|_| is_text);
    let Some(text) = text else {
        return page.element("p", &fill(texts.not_text, &[&bytes, &payload.media_type]));
    };
    if text.len().min(OUTPUT_LENGTH) > *left {
        return page.element("p", &fill(texts.no_room, &[&bytes]));
    }
    let begun = page.len();
    if is_json(&payload.media_type) {
        value(page, text)
    } else {
        block(page, text)
    }
    // What is laid out or escaped takes more room than it had.
    *left = left.saturating_sub(page.len() - begun);
}

/// Writes a value of JSON: a table as a table, a text as it is, anything else laid out, such as a table of which not even
/// the first row fits.
pub fn value(page: &mut Markup, value: &str) {
    let parsed = serde_json::from_str::<Value>(value).ok();
    let rows = parsed.as_ref().and_then(table_rows).unwrap_or_default();
    let shown = fitting(&rows);
    if shown == 0 {
        return block(page, &laid_out(parsed.as_ref(), value));
    }
    page.open_class("div", "wide");
    page.open("table");
    page.open("tbody");
    for row in rows.iter().take(shown) {
        page.open("tr");
        for cell in row {
            page.element("td", cell);
        }
        page.close("tr");
    }
    page.close("tbody");
    page.close("table");
    page.close("div");
    let more = rows.len() - shown;
    if more > 0 {
        page.element("p", &fill(words().act_error.more, &[&more.to_string()]));
    }
}

/// How many of the rows are shown: whole ones, within the length of one output. A cell counts even where it is empty.
fn fitting(rows: &[Vec<&str>]) -> usize {
    let mut left = OUTPUT_LENGTH;
    let fits = |row: &&Vec<&str>| {
        let length = row.iter().map(|cell| cell.chars().count() + 1).sum();
        let after = left.checked_sub(length);
        left = after.unwrap_or(left);
        after.is_some()
    };
    rows.iter().take(OUTPUT_ROWS).take_while(fits).count()
}

/// A text as it is, any other value over several lines.
fn laid_out(parsed: Option<&Value>, value: &str) -> String {
    match parsed {
        Some(Value::String(text)) => text.clone(),
        Some(other) => serde_json::to_string_pretty(other).unwrap_or_else(|_| value.to_owned()),
        None => value.to_owned(),
    }
}

/// Writes a text; one that is too long is cut, and its size is said.
pub fn block(page: &mut Markup, text: &str) {
    let cut = text.char_indices().nth(OUTPUT_LENGTH).map(|(at, _)| at);
    page.open("pre");
    page.block(text.get(..cut.unwrap_or(text.len())).unwrap_or_default());
    page.close("pre");
    if cut.is_some() {
        let values = [OUTPUT_LENGTH.to_string(), describe::bytes(text.len() as u64)];
        page.element_class("p", "faint", &fill(words().reports.cut, &[&values[0], &values[1]]));
    }
}

/// The rows of a value that is a non-empty list of lists of texts.
fn table_rows(value: &Value) -> Option<Vec<Vec<&str>>> {
    let rows = value.as_array().filter(|rows| !rows.is_empty())?;
    rows.iter().map(cells).collect()
}

fn cells(row: &Value) -> Option<Vec<&str>> {
    row.as_array()?.iter().map(Value::as_str).collect()
}
