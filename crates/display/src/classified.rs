//! Why an error is as serious as it is: the rule that decides, the list by which it is retried, and what follows.

use std::sync::LazyLock;

use capataz_policy::codes;
use capataz_policy::retry::{Listing, RetryPolicy, suggested_action};
use capataz_policy::severity::{self, Rule, Severity};

use crate::frame::visible;
use crate::paint::{Paint, Tone};
use crate::words::messages::message;
use crate::words::{self, fill, words};

/// An error to be explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    pub code: String,
    pub message: String,
    pub severity: Severity,
    pub rule: Rule,
}

impl Explained {
    /// Reads `CODE`, `CODE: message`, or a message alone, whose code is made of it.
    #[must_use]
    pub fn of(text: &str, declared: Option<Severity>) -> Self {
        let text = text.trim();
        let (code, message) = match text.split_once(':') {
            Some((code, message)) if is_code(code) => (code.to_owned(), message.trim().to_owned()),
            _ if is_code(text) => (text.to_owned(), String::new()),
            _ => (severity::code_of(text), text.to_owned()),
        };
        let (severity, rule) = severity::decided(declared, &code, &message);
        Self { code, message, severity, rule }
    }

    /// The list of the default policy that has the code.
    #[must_use]
    pub fn listing(&self) -> Listing<'static> {
        static DEFAULT: LazyLock<RetryPolicy> = LazyLock::new(RetryPolicy::default);
        DEFAULT.listing(&self.code)
    }

    /// The next step for a person.
    #[must_use]
    pub fn advice(&self) -> String {
        words::advice::advice(&self.code)
            .map_or_else(|| message(suggested_action(&self.code)).into_owned(), str::to_owned)
    }

    /// The page of the code; `None` where the table does not have it.
    #[must_use]
    pub fn page(&self) -> Option<String> {
        codes::lookup(&self.code).map(|entry| format!("docs/errors/{}.md", entry.code))
    }

    /// Why the code is retried or not, in words.
    #[must_use]
    pub fn retried(&self) -> String {
        let texts = &words().classified;
        match (self.listing(), RetryPolicy::default().refusal(&self.code)) {
            (Listing::Retryable(entry), _) => fill(texts.retried, &[entry]),
            (_, Some(reason)) => fill(texts.not_retried, &[&message(&reason)]),
            (_, None) => String::new(),
        }
    }

    #[must_use]
    pub fn text(&self, paint: Paint) -> String {
        let texts = &words().classified;
        let flags = self.severity.flags();
        let say = |is: bool, yes: &'static str, no: &'static str| if is { yes } else { no };
        let effects = [
            say(flags.can_continue, texts.can_continue, texts.aborts),
            say(flags.notify_immediately, texts.notifies, texts.listed),
            say(flags.requires_user_action, texts.acts, texts.acts_not),
        ];
        let mut lines = vec![
            (texts.severity, fill(texts.rule, &[self.severity.as_str(), &rule_in_words(self.rule)])),
            (texts.retries, self.retried()),
            (texts.effects, effects.join("; ")),
            (texts.shown_as, flags.icon.to_owned()),
            (texts.advice, self.advice()),
        ];
        lines.extend(self.page().map(|page| (texts.page, page)));
        let width = lines.iter().map(|(title, _)| title.chars().count()).max().unwrap_or(0);
        let head = paint.text(Tone::Strong, &visible(&self.code));
        let lines = lines.iter().map(|(title, text)| format!("{title:<width$}  {}", visible(text)));
        std::iter::once(head).chain(lines).collect::<Vec<_>>().join("\n")
    }
}

/// The rule of a severity, in words.
#[must_use]
pub fn rule_in_words(rule: Rule) -> String {
    let texts = &words().classified;
    match rule {
        Rule::Declared => texts.declared.to_owned(),
        Rule::Code => texts.by_code.to_owned(),
        Rule::Pattern { number, pattern } => fill(texts.by_pattern, &[&number.to_string(), pattern]),
        Rule::Unknown => texts.unknown.to_owned(),
    }
}

/// Codes are in upper case, with digits and underscores.
fn is_code(text: &str) -> bool {
    let is_of_codes = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    text.starts_with(|first: char| first.is_ascii_uppercase()) && text.bytes().all(is_of_codes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Language;

    #[test]
    fn a_code_a_message_and_both_are_read() {
        #[track_caller]
        fn check(text: &str, code: &str, message: &str) {
            let read = Explained::of(text, None);
            assert_eq!((read.code.as_str(), read.message.as_str()), (code, message), "{text}");
        }
        check("LINT_WARNINGS", "LINT_WARNINGS", "");
        check("E1: the build failed: twice", "E1", "the build failed: twice");
        check("the build failed", "THE_BUILD_FAILED", "the build failed");
        check("lint warnings", "LINT_WARNINGS", "lint warnings");
        check("error: gone", "ERROR:_GONE", "error: gone");
        check(" ", "UNKNOWN_ERROR", "");
    }

    #[test]
    fn the_rule_the_list_and_the_flags_are_told_in_both_languages() {
        assert_eq!(
            Explained::of("the build failed", None).text(Paint::OFF),
            "\
THE_BUILD_FAILED
Severity  HIGH: pattern 2 of the message (test.*fail|build.*fail|timeout|exhausted)
Retried   no: THE_BUILD_FAILED is on no list, and only failures that are known to pass are retried
Effects   the run may go on; it is told at once; a person has to act
Shown as  ERROR
Advice    investigate the root cause"
        );
        let spanish =
            Language::Spanish.within(|| Explained::of("RATE_LIMIT: slow down", None).text(Paint::OFF));
        assert!(
            spanish.starts_with(
                "\
RATE_LIMIT
Severidad     MEDIUM: el patrón 3 del mensaje (warning|deprecated|slow)
Se reintenta  sí: contiene RATE_LIMIT, que está en la lista de fallos que se reintentan
Efectos       la ejecución puede continuar; se lista al final; nadie tiene que actuar
Se muestra    WARNING
Consejo       Espere "
            ),
            "{spanish}"
        );
        assert!(spanish.ends_with("\nPágina        docs/errors/RATE_LIMIT.md"), "{spanish}");
        let declared = Explained::of("E1", Some(Severity::Critical)).text(Paint::OFF);
        assert!(declared.contains("CRITICAL: declared by the plan or the error\n"), "{declared}");
        assert!(declared.contains("the run is aborted; "), "{declared}");
        let unknown = Explained::of("E1", None).text(Paint::OFF);
        assert!(
            unknown.contains("HIGH: no rule knows it, and what is unknown counts as serious\n"),
            "{unknown}"
        );
        let never = Explained::of("TASK_TIMEOUT", None).text(Paint::OFF);
        assert!(never.contains("HIGH: the table of codes\n"), "{never}");
        assert!(never.contains("no: TASK_TIMEOUT already ends all attempts\n"), "{never}");
    }
}
