//! The texts of `--help`, and of what is said of wrong command lines.
//!
//! The English texts of `--help` stand at the arguments (crates/cli/src/args). Here is the Spanish of each piece of them: of
//! a paragraph, of what is said beside an example, of the name of a value. A test of the command line demands all of them,
//! and nothing else.

use std::borrow::Cow;

use super::{Language, browser, messages};

mod arguments;
mod commands;
mod examples;
mod own_daemon;
mod usage;

pub use usage::{Usage, Wrong};

/// English texts with their Spanish form.
type Texts = browser::Patterns;

const TEXTS: &[Texts] = &[
    commands::COMMANDS,
    commands::ABOUTS,
    arguments::ARGUMENTS,
    arguments::OF_RUNS,
    arguments::VALUES,
    examples::COMMENTS,
    examples::PARAGRAPHS,
    own_daemon::TEXTS,
];

/// A text of the help in the language in use: in Spanish piece by piece, and as it is where there is no Spanish.
#[must_use]
pub fn told(text: &str) -> String {
    match Language::current() {
        Language::English => text.to_owned(),
        Language::Spanish => with_pieces(text, |piece| found(TEXTS, piece).unwrap_or(piece).to_owned()),
    }
}

/// A heading in the language in use, if it is another one than the English one.
#[must_use]
pub fn heading(heading: &str) -> Option<&'static str> {
    (Language::current() == Language::Spanish).then(|| found(TEXTS, heading)).flatten()
}

/// The name of a value, such as `FILE`, in the language in use, if it is another one than the English one.
#[must_use]
pub fn name(name: &str) -> Option<&'static str> {
    (Language::current() == Language::Spanish).then(|| found(&[arguments::NAMES], name)).flatten()
}

/// Why a value is refused, in the language in use.
#[must_use]
pub fn value_error(text: &str) -> Cow<'_, str> {
    match Language::current() {
        Language::English => Cow::Borrowed(text),
        Language::Spanish => match found(&[usage::VALUE_ERRORS], text) {
            Some(whole) => Cow::Borrowed(whole),
            None => messages::filled(usage::VALUE_ERROR_PATTERNS, text)
                .map_or_else(|| messages::refusal(text), Cow::Owned),
        },
    }
}

/// What clap proposes to write instead, in the language in use. The values in it may have colours.
#[must_use]
pub fn tip(text: &str) -> String {
    match Language::current() {
        Language::English => text.to_owned(),
        Language::Spanish => messages::filled(usage::TIPS, text).unwrap_or_else(|| text.to_owned()),
    }
}

/// Every piece that has Spanish, and that Spanish.
pub fn pieces() -> impl Iterator<Item = (&'static str, &'static str)> {
    TEXTS.iter().copied().flatten().copied()
}

/// Every name of a value that has Spanish, and that Spanish.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    arguments::NAMES.iter().copied()
}

fn found(texts: &[Texts], english: &str) -> Option<&'static str> {
    texts.iter().copied().flatten().find(|(known, _)| *known == english).map(|(_, spanish)| *spanish)
}

/// The text with each of its pieces as `tell` gives it. What is between them stays: the lines to copy of examples.
pub fn with_pieces(text: &str, mut tell: impl FnMut(&str) -> String) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| {
        let mut lines = paragraph.lines();
        match lines.next().unwrap_or_default() {
            heading @ ("Example:" | "Examples:") => {
                let heading = tell(heading);
                lines.fold(heading, |told, line| format!("{told}\n{}", example(line, &mut tell)))
            }
            // Its lines end where the source has them end.
            _ => tell(&paragraph.lines().map(str::trim).collect::<Vec<_>>().join(" ")),
        }
    });
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// A line to copy; what is said of it stands behind a gap.
fn example(line: &str, tell: &mut impl FnMut(&str) -> String) -> String {
    const GAP: &str = "   ";
    match line.rsplit_once(GAP) {
        Some((command, comment)) => format!("{command}{GAP}{}", tell(comment)),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_example_only_what_is_said_of_it_is_told() {
        let text = "Examples:\n  a --b 'c  d'\n  a serve           start it\n\nA paragraph\nof two lines.";
        let mut pieces = Vec::new();
        let told = with_pieces(text, |piece| {
            pieces.push(piece.to_owned());
            piece.to_uppercase()
        });
        assert_eq!(pieces, ["Examples:", "start it", "A paragraph of two lines."]);
        assert_eq!(
            told,
            "EXAMPLES:\n  a --b 'c  d'\n  a serve           START IT\n\nA PARAGRAPH OF TWO LINES."
        );
    }
}
