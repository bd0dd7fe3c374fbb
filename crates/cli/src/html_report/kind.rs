//! The kinds of reports, and what differs between them. Which one a run has follows from what its fold has.

use capataz_contracts::v1;
use capataz_display::model::Run;
use capataz_display::pipeline::Phase;
use capataz_display::script::fold::State;
use capataz_display::words::{fill, words};

use super::markup::Markup;
use super::script::pictures::Gallery;
use super::story::Story;
use super::timeline::{Line, Timeline};
use super::{Report, ask, failures, mode, outputs, pipeline, plan, rows, script};

/// The kind of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Plan,
    Ask,
    Script,
    Pipeline,
    Mode,
}

impl Kind {
    /// The kind of the report of a run that has been accepted.
    pub fn of(run: &Run) -> Self {
        match () {
            () if run.names_tasks => Self::Plan,
            () if run.script.is_some() => Self::Script,
            () if run.execution.is_some() => Self::Mode,
            () if !run.phases.is_empty() => Self::Pipeline,
            () => Self::Ask,
        }
    }

    /// The name for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Ask => "ask",
            Self::Script => "script",
            Self::Pipeline => "pipeline",
            Self::Mode => "mode",
        }
    }

    /// The name for people.
    pub fn title(self, story: &Story) -> &'static str {
        let (texts, of_script) = (&words().reports, &words().page);
        let is_session = story.model.script.as_ref().is_some_and(|script| script.script.interactive);
        match self {
            Self::Plan => texts.kind_plan,
            Self::Ask => texts.kind_ask,
            Self::Script if is_session => of_script.kind_session,
            Self::Script => of_script.kind,
            Self::Pipeline => texts.kind_pipeline,
            Self::Mode => texts.kind_mode,
        }
    }

    /// How much of the work succeeded, in one sentence.
    pub fn at_a_glance(self, story: &Story, lasted: &str) -> String {
        let texts = &words().reports;
        let tasks = || story.counts();
        let (template, (all, good)) = match self {
            Self::Plan => (texts.glance_tasks, tasks()),
            Self::Ask | Self::Mode => (texts.glance_calls, tasks()),
            Self::Script => (texts.glance_actions, actions(story)),
            Self::Pipeline => (texts.glance_phases, phases(story)),
        };
        fill(template, &[&good.to_string(), &all.to_string(), lasted])
    }

    /// Returns whether the work is a row of calls, one after the other, and not tasks beside one another.
    pub const fn is_of_calls(self) -> bool {
        matches!(self, Self::Ask | Self::Mode)
    }

    /// Returns whether a failed task is one that the run goes on from: the planner of an execution knows what to do next.
    pub const fn goes_on_from_failures(self) -> bool {
        matches!(self, Self::Mode)
    }

    /// The timeline of the run.
    pub fn timeline(self, story: &Story, until_ms: i64) -> Timeline {
        let Some(of_script) = &story.model.script else { return rows::timeline(story, until_ms) };
        let mut timeline = script::timeline(of_script, until_ms);
        if let Some(row) = rows::of_run(story, until_ms) {
            timeline.lines.insert(0, Line::Row(row));
        }
        timeline
    }

    /// Writes what stands before the timeline: what the run has come to, or what failed in it.
    pub fn before_timeline(self, page: &mut Markup, report: &Report, until_ms: i64) {
        match self {
            Self::Script => {}
            Self::Plan | Self::Pipeline => failures::section(page, &report.story, until_ms),
            Self::Ask => {
                failures::section(page, &report.story, until_ms);
                ask::said(page, report);
            }
            Self::Mode => mode::result(page, report),
        }
    }

    /// Writes what stands after the timeline.
    pub fn after_timeline<'r>(
        self,
        page: &mut Markup,
        report: &'r Report,
        gallery: &mut Gallery<'r>,
        until_ms: i64,
    ) {
        let story = &report.story;
        match self {
            Self::Plan => {
                plan::sections(page, story, until_ms);
                outputs::section(page, report);
            }
            Self::Ask => ask::routing(page, report),
            Self::Script => {
                if let Some(of_script) = &story.model.script {
                    script::sections(page, report, of_script, gallery);
                }
            }
            Self::Pipeline => {
                pipeline::sections(page, report);
                outputs::section(page, report);
            }
            Self::Mode => {
                mode::sections(page, report, gallery);
                failures::section(page, story, until_ms);
            }
        }
    }
}

/// How many actions a script has, and how many of them have succeeded.
fn actions(story: &Story) -> (usize, usize) {
    let Some(script) = &story.model.script else { return (0, 0) };
    let steps = (0_u32..).zip(&script.script.actions);
    let good = steps.filter(|(step, _)| script.state_of(*step) == State::Succeeded).count();
    (script.script.actions.len(), good)
}

/// How many phases a pipeline has, and how many of them are completed.
fn phases(story: &Story) -> (usize, usize) {
    let is_done = |phase: &&Phase| phase.checkpoint.status() == v1::CheckpointStatus::Completed;
    (story.model.phases.len(), story.model.phases.iter().filter(is_done).count())
}
