//! The RETRY box: the attempts of one task.

use std::borrow::Cow;

use crate::format;
use crate::frame::Frame;
use crate::paint::{Paint, Tone};
use crate::words::messages::message;
use crate::words::{fill, words};

/// One attempt, and the delay before the next attempt if there was one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub number: u32,
    /// The attempt's failure; `None` if the attempt succeeded.
    pub failure: Option<Cause>,
    pub delay_ms: Option<i64>,
}

/// Why an attempt failed, in short. It is kept in no language: the fold of a run may be told in several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    Timeout,
    Cancelled,
    /// Nothing was said of it.
    Unknown,
    /// A code, or a message as the log has it.
    Said(String),
}

impl Cause {
    /// The cause in the language in use, for parentheses: `timeout`, `exit code 1`.
    #[must_use]
    pub fn told(&self) -> Cow<'_, str> {
        let texts = &words().wave_box;
        match self {
            Self::Timeout => Cow::Borrowed(texts.timeout),
            Self::Cancelled => Cow::Owned(texts.cancelled.to_lowercase()),
            Self::Unknown => Cow::Borrowed(texts.error),
            Self::Said(text) => message(text),
        }
    }
}

/// The box of the attempts of `task`, which may have at most `max_attempts`.
pub fn retry(task: &str, attempts: &[Attempt], max_attempts: u32, paint: Paint) -> String {
    let texts = &words().retry;
    let mut frame = Frame::light(paint).text(&fill(texts.title, &[task])).under_title();
    for (index, attempt) in attempts.iter().enumerate() {
        if index > 0 {
            frame = frame.blank();
        }
        let (verdict, tone) = match &attempt.failure {
            Some(failure) => (format!("{} ({})", words().wave_box.failed, failure.told()), Tone::Bad),
            None => (words().wave_box.success.to_owned(), Tone::Good),
        };
        let number = attempt.number.to_string();
        frame = frame.toned(&fill(texts.attempt, &[&number, &max_attempts.to_string(), &verdict]), tone);
        if let Some(delay) = attempt.delay_ms {
            frame = frame.text(&fill(texts.waiting, &[&format::exactly(delay)]));
        }
    }
    let exhausted = attempts
        .last()
        .is_some_and(|last| last.failure.is_some() && last.delay_ms.is_none() && last.number >= max_attempts);
    if exhausted {
        frame = frame.blank().item("X  ", texts.exhausted).item("-> ", texts.escalated);
    }
    frame.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Language;

    fn failed(number: u32, failure: &str, delay_ms: Option<i64>) -> Attempt {
        Attempt { number, failure: Some(Cause::Said(failure.to_owned())), delay_ms }
    }

    // S000-C4-21
    #[test]
    fn as_the_contract_draws_it() {
        let attempts = [
            failed(1, "timeout", Some(1_000)),
            failed(2, "exit code 1", Some(2_000)),
            failed(3, "exit code 1", None),
        ];
        let expected = "\
+------------------------------------------------------+
|  RETRY: npm test                                     |
+------------------------------------------------------+
|  Attempt 1/3: FAILED (timeout)                       |
|  Waiting 1s before retry...                          |
|                                                      |
|  Attempt 2/3: FAILED (exit code 1)                   |
|  Waiting 2s before retry...                          |
|                                                      |
|  Attempt 3/3: FAILED (exit code 1)                   |
|                                                      |
|  X  All attempts exhausted                           |
|  -> Error escalated to user                          |
+------------------------------------------------------+";
        assert_eq!(retry("npm test", &attempts, 3, Paint::OFF), expected);
    }

    // S000-C4-22
    #[test]
    fn a_success_after_a_failure() {
        let attempts = [failed(1, "busy", Some(1_500)), Attempt { number: 2, failure: None, delay_ms: None }];
        let expected = "\
+------------------------------------------------------+
|  RETRY: fetch                                        |
+------------------------------------------------------+
|  Attempt 1/3: FAILED (busy)                          |
|  Waiting 1.5s before retry...                        |
|                                                      |
|  Attempt 2/3: SUCCESS                                |
+------------------------------------------------------+";
        assert_eq!(retry("fetch", &attempts, 3, Paint::OFF), expected);
    }
    // S000-C4-21
    #[test]
    fn attempts_are_told_in_any_language_whatever_was_in_use_when_they_were_read() {
        let attempts =
            [Cause::Timeout, Cause::Cancelled, Cause::Unknown, Cause::Said("exit code 75".to_owned())];
        let attempts = attempts.into_iter().zip(1..).map(|(cause, number)| Attempt {
            number,
            failure: Some(cause),
            delay_ms: (number < 4).then_some(1_000),
        });
        let attempts: Vec<Attempt> = attempts.collect();
        let shown = Language::Spanish.within(|| retry("npm test", &attempts, 4, Paint::OFF));
        for line in [
            "|  Intento 1/4: FALLIDO (tiempo agotado) ",
            "|  Intento 2/4: FALLIDO (cancelado) ",
            "|  Intento 3/4: FALLIDO (error) ",
            "|  Intento 4/4: FALLIDO (código de salida 75) ",
        ] {
            assert!(shown.contains(line), "{line} in\n{shown}");
        }
        assert!(retry("npm test", &attempts, 4, Paint::OFF).contains("|  Attempt 1/4: FAILED (timeout) "));
    }
}
