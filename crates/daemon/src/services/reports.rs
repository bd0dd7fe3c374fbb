//! Reports of runs for people, in the language that is asked for.

use capataz_contracts::v1;
use capataz_display::compact::Form;
use capataz_display::model;
use capataz_display::paint::Paint;
use capataz_display::report::Report;
use capataz_display::words::Language;
use capataz_engine::ViewOptions;
use capataz_shard::{Damage, LoadError};
use capataz_store::{QuarantineReason, RunId, Store};
use prost::Message;
use tonic::Status;

use super::export::export_page;
use crate::status;

/// All tasks, of which a report names a few, with their outputs.
pub(super) const VIEW: ViewOptions = ViewOptions { tasks: true, outputs: true, offset: 0, limit: usize::MAX };

/// Bytes of a report.
const MAX_REPORT: usize = 1024 * 1024;

/// How a report is wanted.
pub(super) struct Wanted {
    language: Language,
    paint: Paint,
    verbose: bool,
}

impl Wanted {
    /// # Errors
    /// It is a language that nothing is written in.
    pub(super) fn read(request: &v1::RenderReportRequest) -> Result<Self, Status> {
        let language = language_of(&request.language)?;
        let paint = if request.color { Paint::ON } else { Paint::OFF };
        Ok(Self { language, paint, verbose: request.verbose })
    }

    pub(super) fn render(
        &self,
        run: &v1::Run,
        events: &model::Run,
        result: Option<&v1::RunResult>,
        now_ms: i64,
    ) -> v1::RenderReportResponse {
        let report =
            // The boxes are those of the error contracts.
            Report { run, events, answer: result.and_then(v1::RunResult::ask), verbose: self.verbose, form: Form::Boxes };
        let mut text = self.language.within(|| report.whole(now_ms, self.paint));
        let truncated = text.len() > MAX_REPORT;
        if truncated {
            let end = text.as_bytes().iter().take(MAX_REPORT).rposition(|byte| *byte == b'\n');
            text.truncate(end.unwrap_or(0));
        }
        v1::RenderReportResponse { text, language: self.language.tag().to_owned(), truncated }
    }
}

/// The fold of the run's events as they are told to people, where the view does not say it all: how a script went, and what
/// attempts failed with, and with `refused` which completions the lifecycle refused.
///
/// # Errors
/// The log cannot be read, or is damaged.
pub(super) fn events(
    store: &dyn Store,
    run: RunId,
    view: &v1::Run,
    refused: bool,
) -> Result<model::Run, LoadError> {
    let mut folded = model::Run::default();
    let tried_again = view.waves.iter().flat_map(|wave| &wave.tasks).any(|task| task.attempts.len() > 1);
    let mut after = 0;
    loop {
        let (page, damage) = export_page(store, run, &mut after)?;
        if let Some(damage) = damage {
            return Err(damage);
        }
        if page.is_empty() {
            return Ok(folded);
        }
        for event in page {
            let event = v1::Event::decode(event).map_err(|error| {
                let (reason, detail) = (QuarantineReason::Damaged, error.to_string());
                LoadError::Damaged(Damage { run, reason, seq: folded.seq, position: None, detail })
            })?;
            folded.apply(&event);
            if !tried_again && !refused && folded.script.is_none() {
                return Ok(folded);
            }
        }
    }
}

/// The language of a tag.
///
/// # Errors
/// It is a language that nothing is written in.
pub(super) fn language_of(tag: &str) -> Result<Language, Status> {
    if tag.is_empty() {
        return Ok(Language::default());
    }
    Language::of_tag(tag).ok_or_else(|| {
        let message = format!("{tag:?} is neither English nor Spanish");
        status::invalid_field("language", "language", message)
    })
}
