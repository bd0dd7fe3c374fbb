//! The sections that only pipelines have: where each phase stands, its summary, and the tasks of its attempts.

use capataz_contracts::v1;
use capataz_display::pipeline::status;
use capataz_display::words::messages::message;
use capataz_display::words::{counted, words};

use super::markup::Markup;
use super::story::{Part, Task};
use super::{Report, outputs, plan, rows};

/// Maximum number of bytes of all summaries.
const ALL_SUMMARIES: usize = 512 * 1024;
/// Maximum number of tasks in the tables.
const MOST_TASKS: usize = 400;

/// Writes a part for each phase; what is behind a completed one is folded.
pub fn sections(page: &mut Markup, report: &Report) {
    let (texts, story) = (&words().reports, &report.story);
    let until_ms = story.until_ms(report.now_ms);
    let (mut room, mut left, mut left_out) = (ALL_SUMMARIES, MOST_TASKS, 0);
    page.open_with("section", &[("id", "phases")]);
    page.element("h2", texts.phases);
    for (place, phase) in (0_u32..).zip(&story.model.phases) {
        let checkpoint = &phase.checkpoint;
        page.open("h3");
        page.text(&format!("{}. {} ", place + 1, checkpoint.phase));
        page.element_class("span", class(checkpoint.status()), status(checkpoint).0);
        page.close("h3");
        if let Some(why) = &checkpoint.error_message {
            page.element("p", &message(why));
        }
        if let Some(at_ms) = checkpoint.updated_at_ms {
            page.open_class("p", "faint");
            page.text(texts.changed_at);
            page.constant(" ");
            page.time(at_ms);
            page.close("p");
        }
        let is_done = checkpoint.status() == v1::CheckpointStatus::Completed;
        if let Some(payload) = &checkpoint.payload {
            page.open("details");
            page.element("summary", if is_done { texts.summary } else { texts.what_is_known });
            outputs::payload(page, report, payload, None, &mut room);
            page.close("details");
        }
        let waves = story.waves.iter().enumerate();
        let own = waves.filter(|(_, wave)| matches!(wave.part, Part::Phase { place: of, .. } if of == place));
        for (wave, of) in own {
            let tasks: Vec<(usize, &Task)> = of.tasks.iter().enumerate().collect();
            page.open("details");
            let count = counted(tasks.len() as u64, words().watch.tasks_one, words().watch.tasks_many);
            page.element("summary", &format!("{}: {count}", rows::title(story, wave, of)));
            left_out += plan::table(page, wave, &tasks, until_ms, &mut left);
            page.close("details");
        }
    }
    if left_out > 0 {
        page.element("p", &counted(left_out as u64, texts.more_tasks_one, texts.more_tasks_many));
    }
    page.close("section");
}

fn class(status: v1::CheckpointStatus) -> &'static str {
    match status {
        v1::CheckpointStatus::Completed => "badge good",
        v1::CheckpointStatus::Blocked => "badge bad",
        v1::CheckpointStatus::InProgress => "badge warning",
        v1::CheckpointStatus::Pending | v1::CheckpointStatus::Unspecified => "badge plain",
    }
}
