//! The sections that only plans have: the tasks of each wave, those that succeeded folded.

use capataz_display::words::messages::message;
use capataz_display::words::{counted, words};

use super::markup::Markup;
use super::rows;
use super::story::{Story, Task, Wave};

/// Maximum number of tasks in the tables.
const MOST_TASKS: usize = 400;

/// Writes a table of tasks for each wave.
pub fn sections(page: &mut Markup, story: &Story, until_ms: i64) {
    page.open_with("section", &[("id", "tasks")]);
    page.element("h2", words().reports.tasks);
    let mut left = MOST_TASKS;
    let mut left_out = 0;
    for (place, wave) in story.waves.iter().enumerate() {
        let open: Vec<_> = of(wave, |task| !task.has_succeeded()).collect();
        let good: Vec<_> = of(wave, Task::has_succeeded).collect();
        if left == 0 {
            left_out += wave.tasks.len();
            continue;
        }
        page.element("h3", &rows::title(story, place, wave));
        if let Some(evaluation) = &wave.evaluation {
            page.element("p", &message(&evaluation.reason));
        }
        left_out += table(page, place, &open, until_ms, &mut left);
        if !good.is_empty() {
            page.open("details");
            let texts = &words().reports;
            page.element("summary", &counted(good.len() as u64, texts.succeeded_one, texts.succeeded_many));
            left_out += table(page, place, &good, until_ms, &mut left);
            page.close("details");
        }
    }
    if left_out > 0 {
        let texts = &words().reports;
        page.element("p", &counted(left_out as u64, texts.more_tasks_one, texts.more_tasks_many));
    }
    page.close("section");
}

fn of(wave: &Wave, is_wanted: impl Fn(&Task) -> bool) -> impl Iterator<Item = (usize, &Task)> {
    wave.tasks.iter().enumerate().filter(move |(_, task)| is_wanted(task))
}

/// Writes a table with these tasks as long as there is room. Returns how many are left out.
pub fn table(
    page: &mut Markup,
    wave: usize,
    tasks: &[(usize, &Task)],
    until_ms: i64,
    left: &mut usize,
) -> usize {
    let texts = &words().reports;
    let listed = tasks.len().min(*left);
    *left -= listed;
    if listed == 0 {
        return tasks.len();
    }
    page.open_class("div", "wide");
    page.open_class("table", "tasks");
    page.row_of_heads(&[texts.task, texts.agent, words().page.state, words().page.details]);
    page.open("tbody");
    for (place, task) in tasks.iter().take(listed) {
        page.open("tr");
        page.open("td");
        match task.has_failed() {
            true => {
                page.open_with("a", &[("href", &format!("#{}", rows::anchor((wave, *place))))]);
                page.text(&task.name);
                page.close("a");
            }
            false => page.text(&task.name),
        }
        page.close("td");
        page.element("td", &task.agent);
        page.open("td");
        page.element_class("span", class(task), rows::state_of(task));
        page.close("td");
        page.element("td", &details(task, until_ms));
        page.close("tr");
    }
    page.close("tbody");
    page.close("table");
    page.close("div");
    tasks.len() - listed
}

pub fn class(task: &Task) -> &'static str {
    match () {
        () if task.has_succeeded() => "badge good",
        () if task.has_failed() => "badge bad",
        () if task.is_open() => "badge plain",
        () => "badge warning",
    }
}

fn details(task: &Task, until_ms: i64) -> String {
    let mut parts: Vec<String> = Vec::new();
    if task.critical {
        parts.push(words().runs.critical.to_owned());
    }
    parts.extend(rows::figures(task, until_ms));
    parts.push(task.spent.told());
    parts.retain(|part| !part.is_empty());
    parts.join(" · ")
}
