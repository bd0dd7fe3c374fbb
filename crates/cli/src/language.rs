//! The language in which people are addressed, also where the command line cannot be parsed.

use std::ffi::{OsStr, OsString};

use capataz_display::words::Language;

/// The variable that `--lang` overrides.
const VARIABLE: &str = "CAPATAZ_LANG";

/// The language of the locale, of which the first variable that is set decides, as POSIX has it.
pub fn of_locale() -> Option<Language> {
    Language::of_tag(&["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().find_map(set)?)
}

/// The language of a command line that is help, or wrong, so that nobody has parsed it.
pub fn of_unparsed(arguments: impl Iterator<Item = OsString>) -> Language {
    let of_variable = || Language::of_tag(&set(VARIABLE)?);
    asked(arguments).or_else(of_variable).or_else(of_locale).unwrap_or_default()
}

/// What `--lang` asks for, wherever it stands. What is no language asks for nothing.
fn asked(arguments: impl Iterator<Item = OsString>) -> Option<Language> {
    let mut asked = None;
    let mut arguments = arguments.take_while(|argument| argument != OsStr::new("--"));
    while let Some(argument) = arguments.next() {
        let tag = match argument.to_str().and_then(|argument| argument.strip_prefix("--lang")) {
            Some("") => arguments.next(),
            Some(tag) => tag.strip_prefix('=').map(OsString::from),
            None => None,
        };
        asked = tag.and_then(|tag| Language::of_tag(tag.to_str()?)).or(asked);
    }
    asked
}

#[expect(clippy::disallowed_methods, reason = "the program reads its environment")]
fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_is_found_in_command_lines_that_are_not_parsed() {
        #[track_caller]
        fn check(line: &str, expected: Option<Language>) {
            assert_eq!(asked(line.split(' ').map(OsString::from)), expected, "{line}");
        }
        let (es, en) = (Some(Language::Spanish), Some(Language::English));
        check("--lang es runs", es);
        check("runs list --lang=es --nonsense", es);
        check("runs lits --lang en", en);
        check("runs --lang es-MX", es);
        check("runs --lang es --lang de", es);
        check("runs --lang es --lang en", en);
        check("runs --lang", None);
        check("runs --lang de", None);
        check("runs --language es", None);
        check("ask -- --lang es", None);
    }
}
