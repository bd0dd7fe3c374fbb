//! The lines of events that only pipelines have.

use capataz_contracts::v1;
use capataz_contracts::v1::event::Body;
use capataz_display::model::Run;
use capataz_display::paint::Tone;
use capataz_display::words::messages::message;
use capataz_display::words::{counted, fill, words};

use super::lines::{Detail, Line, name_of};

/// The text of the event by which a pipeline was accepted.
pub(super) fn accepted(run: &Run) -> String {
    let texts = &words().pipelines;
    let phases = counted(run.phases.len() as u64, texts.phases_one, texts.phases_many);
    fill(texts.accepted, &[&run.name, &phases])
}

/// The line of an event of a phase; `None` for any other event.
pub(super) fn line(run: &Run, body: &Body) -> Option<Line> {
    let texts = &words().pipelines;
    let (text, tone) = match body {
        Body::PhaseStarted(begun) => (started(run, begun), Tone::Strong),
        Body::OutputRejected(output) => {
            let task = Some(name_of(run, output.wave, output.task));
            return Some(Line { task, text: rejected(output), tone: Tone::Warning, needed: Detail::Results });
        }
        Body::PhaseCompleted(completed) => (fill(texts.completed, &[name(run, completed.phase)]), Tone::Good),
        Body::PhaseBlocked(blocked) => {
            let why = blocked.error.as_ref().map(|error| message(&error.message)).unwrap_or_default();
            let name = name(run, blocked.phase);
            // What an error of the daemon says of a blocked phase begins with its name.
            let text = match blocked.error.as_ref().is_some_and(|error| error.code == PHASE_BLOCKED) {
                true => why.into_owned(),
                false => fill(texts.blocked, &[name, &why]),
            };
            (text, Tone::Bad)
        }
        Body::PhaseChanged(changed) => {
            let name = name(run, changed.phase);
            let text = match &changed.agent {
                Some(agent) => fill(texts.changed_agent, &[name, agent]),
                None => fill(texts.changed, &[name]),
            };
            (text, Tone::Plain)
        }
        Body::PipelineRolledBack(back) => (fill(texts.rolled_back, &[name(run, back.phase)]), Tone::Warning),
        _ => return None,
    };
    Some(Line { task: None, text, tone, needed: Detail::Results })
}

/// Code of a phase whose tasks have failed.
const PHASE_BLOCKED: &str = "PHASE_BLOCKED";

/// Name of a phase.
fn name(run: &Run, place: u32) -> &str {
    run.phases.get(place as usize).map_or("", |phase| phase.checkpoint.phase.as_str())
}

fn started(run: &Run, started: &v1::PhaseStarted) -> String {
    let (texts, name) = (&words().pipelines, name(run, started.phase));
    if !run.phases.get(started.phase as usize).is_some_and(|phase| phase.has_items) {
        return fill(texts.started, &[name]);
    }
    let all = counted(u64::from(started.of), texts.items_one, texts.items_many);
    let items = match started.items.len() {
        open if open == started.of as usize => all,
        open => fill(texts.some_items, &[&open.to_string(), &all]),
    };
    fill(texts.started_items, &[name, &items])
}

fn rejected(rejected: &v1::OutputRejected) -> String {
    let texts = &words().pipelines;
    let first = rejected.violations.first().cloned().unwrap_or_default();
    let place = if first.path.is_empty() { texts.the_output } else { &first.path };
    let mut found = format!("{} ({})", first.found, first.rule);
    if let Some(more) = rejected.violations.len().checked_sub(1).filter(|more| *more > 0) {
        found = format!("{found}, {}", fill(texts.more, &[&more.to_string()]));
    }
    fill(texts.rejected, &[&rejected.attempt.to_string(), place, &found])
}

#[cfg(test)]
mod tests {
    use capataz_contracts::v1;
    use capataz_contracts::v1::event::Body;
    use capataz_display::model::Run;
    use capataz_display::model::tests::events;
    use capataz_display::paint::Paint;
    use capataz_display::words::Language;

    use crate::watch::lines::{Detail, render};

    fn story() -> Vec<Body> {
        let phase = |name: &str, list: Option<&str>| v1::Phase {
            name: name.to_owned(),
            for_each: list.map(str::to_owned),
            ..v1::Phase::default()
        };
        let pipeline = v1::Pipeline {
            name: "review".to_owned(),
            phases: vec![phase("read", Some("${input}")), phase("tell", None)],
            ..v1::Pipeline::default()
        };
        let accepted = v1::RunAccepted {
            work: Some(v1::run_accepted::Work::Pipeline(pipeline)),
            ..v1::RunAccepted::default()
        };
        let started = |phase: u32, wave: u32, tasks: &[&str], items: Vec<u32>, of: u32| {
            let tasks = tasks.iter().map(|name| v1::Task { name: (*name).to_owned(), ..v1::Task::default() });
            let tasks = Some(v1::Wave { tasks: tasks.collect(), ..v1::Wave::default() });
            Body::PhaseStarted(v1::PhaseStarted { phase, wave, tasks, items, of })
        };
        let violation = |path: &str, rule: &str, found: &str| v1::SchemaViolation {
            path: path.to_owned(),
            rule: rule.to_owned(),
            found: found.to_owned(),
            ..v1::SchemaViolation::default()
        };
        let rejected = v1::OutputRejected {
            task: 1,
            attempt: 1,
            violations: vec![violation("/title", "type", "7"), violation("", "required", "no \"n\"")],
            ..v1::OutputRejected::default()
        };
        let blocked = v1::Error {
            code: "PHASE_BLOCKED".to_owned(),
            message: "the phase \"read\" is blocked: no".to_owned(),
            ..v1::Error::default()
        };
        let question = v1::Question {
            question_id: "q9".to_owned(),
            text: "The phase \"read\" is blocked. What is to be done?".to_owned(),
            options: vec!["retry".to_owned(), "abort".to_owned()],
            purpose: v1::QuestionPurpose::Phase.into(),
            ..v1::Question::default()
        };
        let options = ["retry", "rollback", "abort"].map(str::to_owned).to_vec();
        let second = v1::Question { question_id: "q15".to_owned(), options, ..question.clone() };
        let asked = |question| {
            let asked = v1::QuestionAsked { question: Some(question), ..v1::QuestionAsked::default() };
            Body::QuestionAsked(Box::new(asked))
        };
        vec![
            Body::RunAccepted(Box::new(accepted)),
            started(0, 0, &["read.0", "read.1"], vec![0, 1], 2),
            Body::OutputRejected(rejected),
            Body::PhaseBlocked(v1::PhaseBlocked { error: Some(blocked), ..v1::PhaseBlocked::default() }),
            asked(question),
            Body::PhaseChanged(v1::PhaseChanged { agent: Some("careful".to_owned()), ..Default::default() }),
            started(0, 1, &["read.1.again-2"], vec![1], 2),
            Body::PhaseCompleted(v1::PhaseCompleted::default()),
            started(1, 2, &["tell"], vec![0], 1),
            asked(second),
            Body::PipelineRolledBack(v1::PipelineRolledBack { phase: 1, ..Default::default() }),
            Body::RunFinished(v1::RunFinished {
                outcome: v1::RunOutcome::Blocked.into(),
                ..v1::RunFinished::default()
            }),
        ]
    }

    /// What is told of each event, without its time and its task.
    fn told() -> Vec<String> {
        let mut run = Run::default();
        let mut lines = Vec::new();
        for event in events(story()) {
            run.apply(&event);
            let line = render(&run, "7f3a", &event, Detail::Results, Paint::OFF).unwrap_or_default();
            // Before the text are the time, and the task in a column of its own.
            let text =
                line.trim_start_matches('+').trim_start().split_once("s  ").map_or("", |(_, rest)| rest);
            let text = text.trim_start().split_once(' ').map_or("", |(_, text)| text);
            lines.push(text.trim_start().to_owned());
        }
        lines
    }

    #[test]
    fn each_event_of_a_phase_is_a_line() {
        let expected = [
            "pipeline review accepted: 2 phases",
            "phase read begins: 2 items",
            "attempt 1: the output breaks its rule at /title: 7 (type), and 1 more",
            "the phase \"read\" is blocked: no",
            "question q9: The phase \"read\" is blocked. What is to be done?; continue with `capataz pipeline resume 7f3a`, or end it with `capataz runs resolve 7f3a q9 abort`",
            "phase read goes on with the agent careful",
            "phase read begins: 1 of 2 items",
            "phase read is completed",
            "phase tell begins",
            "question q15: The phase \"read\" is blocked. What is to be done?; continue with `capataz pipeline resume 7f3a`, go back with `capataz pipeline rollback 7f3a`, or end it with `capataz runs resolve 7f3a q15 abort`",
            "rolled back to before phase tell",
            "run finished: blocked",
        ];
        assert_eq!(told(), expected);
    }

    #[test]
    fn each_event_of_a_phase_is_a_line_in_spanish() {
        let expected = [
            "proceso review aceptado: 2 fases",
            "empieza la fase read: 2 elementos",
            "intento 1: la salida incumple su regla en /title: 7 (type), y 1 más",
            "la fase \"read\" está bloqueada: no",
            "pregunta q9: La fase \"read\" está bloqueada. ¿Qué hacer?; continuar con `capataz pipeline resume 7f3a`, o terminarlo con `capataz runs resolve 7f3a q9 abort`",
            "la fase read continúa con el agente careful",
            "empieza la fase read: 1 de 2 elementos",
            "la fase read está completa",
            "empieza la fase tell",
            "pregunta q15: La fase \"read\" está bloqueada. ¿Qué hacer?; continuar con `capataz pipeline resume 7f3a`, volver con `capataz pipeline rollback 7f3a`, o terminarlo con `capataz runs resolve 7f3a q15 abort`",
            "revertido a antes de la fase tell",
            "la ejecución terminó: bloqueada",
        ];
        assert_eq!(Language::Spanish.within(told), expected);
    }
}
