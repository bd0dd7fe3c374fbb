//! Open questions about tasks of a plan, answered at the press of a key: which keys there are, the request, and what came of it.

use std::future::pending;
use std::pin::Pin;

use capataz_client::{Client, ClientError};
use capataz_contracts::v1;
use capataz_display::error;
use capataz_display::frame::{truncated, visible, width};
use capataz_display::model::{Phase, Run};
use capataz_display::paint::{Paint, Tone};
use capataz_display::words::messages::refusal;
use capataz_display::words::{fill, words};
use uuid::Uuid;

use super::more_time;

/// Columns of a task's name, so that the keys have room beside it.
const MOST_NAME_WIDTH: usize = 28;

type Answer = Result<v1::ResolveResponse, ClientError>;

/// The question that was offered last, and the answer that is under way, of which there is one at most.
#[derive(Default)]
pub struct Choosing {
    /// The question whose keys a person sees. What was pressed before is no answer to it.
    offered: Option<Asked>,
    sent: Option<Sent>,
    /// Answered: it stays open until the answer's event comes.
    answered: Option<Asked>,
}

/// A question, which is another one when it changes.
type Asked = (String, u32);

struct Sent {
    question: Asked,
    task: String,
    answer: String,
    result: Pin<Box<dyn Future<Output = Answer>>>,
}

impl Choosing {
    /// Answers the question whose keys are seen, if the key is one of them. While an answer is under way, nothing is sent.
    pub fn press(&mut self, client: &Client, run: &Run, run_id: &str, key: char) {
        let Some(question) = self.next(run).filter(|_| self.sent.is_none()) else { return };
        if self.offered.as_ref() != Some(&asked(question)) {
            return;
        }
        let Some((_, option)) = keys(question).into_iter().find(|(of, _)| *of == key) else { return };
        let request = v1::ResolveRequest {
            run_id: run_id.to_owned(),
            question_id: question.question_id.clone(),
            answer: option.to_owned(),
            // The client repeats a request that was lost, and it counts once.
            request_id: Uuid::now_v7().to_string(),
            revision: Some(question.revision).filter(|revision| *revision > 0),
            ..v1::ResolveRequest::default()
        };
        let client = client.clone();
        self.sent = Some(Sent {
            question: asked(question),
            task: task_of(question),
            answer: error::name_of(option).to_owned(),
            result: Box::pin(async move { client.resolve(request).await }),
        });
    }

    /// Waits until the answer that is under way was taken or refused, and returns what came of it in words.
    pub async fn answered(&mut self, paint: Paint) -> String {
        let Some(sent) = &mut self.sent else { return pending().await };
        let result = sent.result.as_mut().await;
        let refused = result.err().map(|error| refusal(error.message()).into_owned());
        let told = told(&sent.task, &sent.answer, refused.as_deref(), paint);
        if let Some(sent) = self.sent.take().filter(|_| refused.is_none()) {
            self.answered = Some(sent.question);
        }
        told
    }

    /// The line with the keys of the next question, in at most so many columns; `None` where none is open, or all of its keys
    /// have no room. No key counts that is not shown.
    pub fn hint(&mut self, run: &Run, room: usize) -> Option<String> {
        let texts = &words().choosing;
        self.offered = None;
        if let Some(sent) = &self.sent {
            let name = truncated(&sent.task, MOST_NAME_WIDTH);
            return Some(fill(texts.asking, &[&visible(&sent.answer), &name]));
        }
        let question = self.next(run)?;
        let keys = keys(question)
            .into_iter()
            .map(|(key, option)| fill(texts.key, &[&key.to_string(), &visible(error::name_of(option))]));
        let keys: Vec<String> = keys.collect();
        let name = truncated(&task_of(question), MOST_NAME_WIDTH);
        let line = |name: &str| fill(texts.offer, &[&keys.join(", "), name]);
        // The name gives way, and no key.
        let over = width(&line(&name)).saturating_sub(room);
        let line = line(&truncated(&name, width(&name).saturating_sub(over).max(1)));
        if width(&line) > room {
            return None;
        }
        self.offered = Some(asked(question));
        Some(line)
    }

    /// The first open question that a key can answer.
    fn next<'r>(&self, run: &'r Run) -> Option<&'r v1::Question> {
        let is_open = run.names_tasks && !matches!(run.phase, Phase::Cancelling | Phase::Finished);
        let mut open = run.questions.iter().filter(|_| is_open);
        open.find(|question| self.answered.as_ref() != Some(&asked(question)) && !keys(question).is_empty())
    }
}

fn asked(question: &v1::Question) -> Asked {
    (question.question_id.clone(), question.revision)
}

/// The task that the question is about, else the question's id.
fn task_of(question: &v1::Question) -> String {
    question.task.clone().unwrap_or_else(|| question.question_id.clone())
}

/// The key of each option: the first letter of its name that no other key has.
fn keys(question: &v1::Question) -> Vec<(char, &str)> {
    let mut keys: Vec<(char, &str)> = Vec::new();
    for option in &question.options {
        // More time has a key of its own, for whichever task is next.
        if option == "extend" {
            continue;
        }
        let letters = error::name_of(option).chars().filter(char::is_ascii_alphabetic);
        let mut letters = letters.map(|letter| letter.to_ascii_lowercase());
        let is_taken = |letter: char| letter == more_time::KEY || keys.iter().any(|(key, _)| *key == letter);
        if let Some(key) = letters.find(|letter| !is_taken(*letter)) {
            keys.push((key, option));
        }
    }
    keys
}

fn told(task: &str, answer: &str, refused: Option<&str>, paint: Paint) -> String {
    let texts = &words().choosing;
    let (task, answer) = (visible(task), visible(answer));
    match refused {
        None => error::ok(&fill(texts.answered, &[&task, &answer]), paint),
        Some(reason) => paint.text(Tone::Warning, &fill(texts.refused, &[&task, &answer, &visible(reason)])),
    }
}

#[cfg(test)]
mod tests {
    use capataz_contracts::v1::event::Body;
    use capataz_display::model::tests::{accepted, fold, started};
    use capataz_display::words::Language;

    use super::*;

    fn question(id: &str, task: &str, options: &[&str]) -> v1::Question {
        v1::Question {
            question_id: id.to_owned(),
            task: Some(task.to_owned()),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            ..v1::Question::default()
        }
    }

    fn asked_of(question: v1::Question) -> Body {
        Body::QuestionAsked(Box::new(v1::QuestionAsked {
            question: Some(question),
            ..v1::QuestionAsked::default()
        }))
    }

    #[test]
    fn each_option_has_a_letter_of_its_name_as_its_key() {
        let check = |options: &[&str], expected: &[(char, &str)]| {
            assert_eq!(keys(&question("q1", "lint", options)), expected);
        };
        check(&["retry_manual", "skip", "abort"], &[('r', "retry_manual"), ('s', "skip"), ('a', "abort")]);
        // More time has a key already; and letters that are taken are left to those who have them.
        check(&["extend", "terminate", "retry"], &[('t', "terminate"), ('r', "retry")]);
        check(&["succeeded", "skip", "élan", "1"], &[('s', "succeeded"), ('k', "skip"), ('l', "élan")]);
    }

    #[test]
    fn the_first_open_question_has_its_keys_in_a_line_until_it_is_answered() {
        let begun = [accepted(&["lint", "docs"]), started()];
        let options = ["retry", "skip", "abort"];
        let both = [asked_of(question("q1", "lint", &options)), asked_of(question("q2", "docs", &options))];
        let run = fold(begun.into_iter().chain(both));
        let mut choosing = Choosing::default();
        assert_eq!(choosing.hint(&fold([accepted(&["lint"]), started()]), 77), None);
        for (room, line) in [
            (77, "? r: retry, s: skip, a: abort (lint)"),
            (36, "? r: retry, s: skip, a: abort (lint)"),
            (35, "? r: retry, s: skip, a: abort (li…)"),
            (33, "? r: retry, s: skip, a: abort (…)"),
        ] {
            assert_eq!(choosing.hint(&run, room).as_deref(), Some(line), "{room}");
            assert_eq!(choosing.offered, Some(("q1".to_owned(), 0)), "{room}");
        }
        // Where the terminal has no room for all keys, none counts.
        for room in [32, 17, 0] {
            assert_eq!((choosing.hint(&run, room), &choosing.offered), (None, &None), "{room}");
        }
        choosing.answered = Some(("q1".to_owned(), 0));
        assert_eq!(choosing.hint(&run, 77).as_deref(), Some("? r: retry, s: skip, a: abort (docs)"));
        let ended = fold(
            [accepted(&["lint"]), started(), asked_of(question("q1", "lint", &options))]
                .into_iter()
                .chain([Body::RunCancelRequested(v1::RunCancelRequested::default())]),
        );
        assert_eq!(Choosing::default().hint(&ended, 77), None);
    }

    #[test]
    fn an_answer_that_comes_too_late_is_told_with_the_reason() {
        assert_eq!(told("lint", "retry", None, Paint::OFF), "[OK] lint was answered with retry.");
        let told_late = told("lint", "retry", Some("it was answered"), Paint::OFF);
        assert_eq!(told_late, "lint was not answered with retry: it was answered");
        Language::Spanish.within(|| {
            assert_eq!(told("lint", "retry", None, Paint::OFF), "[OK] lint se respondió con retry.");
            let told_late = told("lint", "retry", Some("ya se respondió"), Paint::OFF);
            assert_eq!(told_late, "lint no se respondió con retry: ya se respondió");
        });
    }
}
