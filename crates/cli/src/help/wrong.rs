//! What is said of a wrong command line: what clap has found, in the language in use.

use std::error::Error as _;
use std::ffi::OsString;

use capataz_display::words::{Language, Wrong, fill, help, words};
use clap::Command;
use clap::builder::{StyledStr, Styles};
use clap::error::{ContextKind, ContextValue, Error, ErrorFormatter, ErrorKind};

/// Writes an error as clap's own formatter does, in the language in use.
#[derive(Debug)]
pub struct InWords;

impl ErrorFormatter for InWords {
    fn format_error(error: &Error<Self>) -> StyledStr {
        let words = &words().wrong;
        let told = Told { error, words, styles: Styles::styled() };
        let mut text = format!("{} {}", told.marked(Mark::Error, words.error), told.what());
        let tips = told.tips();
        if !tips.is_empty() {
            text.push('\n');
        }
        for tip in tips {
            text.push_str(&format!("\n  {} {tip}", told.marked(Mark::Valid, words.tip)));
        }
        if let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) {
            text.push_str(&format!("\n\n{}", super::usage(usage)));
        }
        text.push_str(&format!("\n\n{}\n", fill(words.more, &[&told.marked(Mark::Literal, "--help")])));
        text.into()
    }
}

/// Groups that are named at most for a command that is theirs.
const GROUPS: usize = 3;
/// What people type who want a daemon to read its configuration again, which is no command.
const RELOAD: &str = "reload";

/// The error as clap tells it, without colours and without the mark of an error in front of it.
pub fn plain(error: &Error) -> String {
    let told = error.render().to_string();
    told.strip_prefix("error: ").unwrap_or(&told).trim_end().to_owned()
}

/// The error; of a command that is none, but one of groups (`capataz cancel`), with those in which it is one. Of `reload`,
/// with what does that.
pub fn with_groups(mut error: Error, command: &Command, arguments: impl Iterator<Item = OsString>) -> Error {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    let is_in_group = arguments.into_iter().any(|argument| command.find_subcommand(argument).is_some());
    let knows =
        |group: &&Command| group.find_subcommand(unknown).is_some_and(|command| !command.is_hide_set());
    let groups =
        command.get_subcommands().filter(|group| !group.is_hide_set() && group.get_name() != super::HELP);
    let mut meant: Vec<String> =
        groups.filter(knows).map(|group| format!("{} {unknown}", group.get_name())).collect();
    let is_reload = unknown == RELOAD;
    if is_in_group {
        return error;
    }
    if is_reload {
        let tip = StyledStr::from(words().wrong.reload);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    if meant.is_empty() {
        return error;
    }
    // What people mean first.
    meant.sort_by_key(|command| !command.starts_with("runs "));
    meant.truncate(GROUPS);
    error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(meant));
    error
}

/// An error of arguments that clap itself does not know to be one.
pub fn conflict(command: &mut Command, message: &str) -> Error {
    if Language::current() == Language::English {
        return command.error(ErrorKind::ArgumentConflict, message);
    }
    let mut error = Error::new(ErrorKind::ArgumentConflict).with_cmd(command);
    error.insert(ContextKind::Custom, ContextValue::String(message.to_owned()));
    error.insert(ContextKind::Usage, ContextValue::StyledStr(command.render_usage()));
    error
}

#[derive(Clone, Copy)]
enum Mark {
    Error,
    Valid,
    Invalid,
    Literal,
}

struct Told<'a> {
    error: &'a Error<InWords>,
    words: &'static Wrong,
    styles: Styles,
}

impl Told<'_> {
    fn marked(&self, mark: Mark, text: &str) -> String {
        let style = match mark {
            Mark::Error => self.styles.get_error(),
            Mark::Valid => self.styles.get_valid(),
            Mark::Invalid => self.styles.get_invalid(),
            Mark::Literal => self.styles.get_literal(),
        };
        format!("{style}{text}{style:#}")
    }

    fn text(&self, kind: ContextKind) -> Option<&str> {
        match self.error.get(kind)? {
            ContextValue::String(text) => Some(text),
            _ => None,
        }
    }

    fn texts(&self, kind: ContextKind) -> &[String] {
        match self.error.get(kind) {
            Some(ContextValue::Strings(texts)) => texts,
            _ => &[],
        }
    }

    fn number(&self, kind: ContextKind) -> Option<isize> {
        match self.error.get(kind)? {
            ContextValue::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// What is wrong.
    fn what(&self) -> String {
        let known = match self.error.kind() {
            ErrorKind::ArgumentConflict => self.conflict(),
            ErrorKind::InvalidValue => self.invalid_value(),
            ErrorKind::ValueValidation => self.refused_value(),
            ErrorKind::UnknownArgument => self.about(ContextKind::InvalidArg, self.words.unknown_argument),
            ErrorKind::InvalidSubcommand => {
                self.about(ContextKind::InvalidSubcommand, self.words.unknown_command)
            }
            ErrorKind::NoEquals => self.about(ContextKind::InvalidArg, self.words.no_equals),
            ErrorKind::MissingRequiredArgument => self.missing(),
            ErrorKind::MissingSubcommand => self.missing_command(),
            ErrorKind::TooManyValues => self.too_many(),
            ErrorKind::TooFewValues => self.too_few(),
            ErrorKind::WrongNumberOfValues => self.wrong_number(),
            ErrorKind::InvalidUtf8 => Some(self.words.not_utf8.to_owned()),
            _ => None,
        };
        known.unwrap_or_else(|| self.error.kind().to_string())
    }

    /// A sentence about one thing that is not valid.
    fn about(&self, kind: ContextKind, sentence: &str) -> Option<String> {
        Some(fill(sentence, &[&self.marked(Mark::Invalid, self.text(kind)?)]))
    }

    fn conflict(&self) -> Option<String> {
        if let Some(message) = self.text(ContextKind::Custom) {
            return Some(message.to_owned());
        }
        let prior = self.error.get(ContextKind::PriorArg);
        let argument = self.text(ContextKind::InvalidArg);
        if argument.is_some() && argument == self.text(ContextKind::PriorArg) {
            return self.about(ContextKind::InvalidArg, self.words.twice);
        }
        let with = match argument {
            Some(_) => self.about(ContextKind::InvalidArg, self.words.not_with),
            None => self.about(ContextKind::InvalidSubcommand, self.words.command_not_with),
        };
        let Some(with) = with else { return Some(self.words.not_together.to_owned()) };
        let others = match prior {
            Some(ContextValue::Strings(others)) => {
                let lines = others.iter().map(|other| format!("\n  {}", self.marked(Mark::Invalid, other)));
                format!(":{}", lines.collect::<String>())
            }
            Some(ContextValue::String(other)) => format!(" '{}'", self.marked(Mark::Invalid, other)),
            Some(_) => format!(" {}", self.words.others),
            None => String::new(),
        };
        Some(with + &others)
    }

    fn invalid_value(&self) -> Option<String> {
        let value = self.text(ContextKind::InvalidValue)?;
        let sentence = match value.is_empty() {
            true => self.about(ContextKind::InvalidArg, self.words.no_value)?,
            false => self.value_of_argument(self.words.invalid_value)?,
        };
        Some(sentence + &self.listed(self.words.possible_values, ContextKind::ValidValue))
    }

    /// A value that is one of its kind, and that a rule refuses.
    fn refused_value(&self) -> Option<String> {
        let sentence = self.value_of_argument(self.words.invalid_value)?;
        let why = self.error.source().map(|source| format!(": {}", help::value_error(&source.to_string())));
        Some(sentence + &why.unwrap_or_default())
    }

    /// A sentence about a value and its argument.
    fn value_of_argument(&self, sentence: &str) -> Option<String> {
        let value = self.marked(Mark::Invalid, self.text(ContextKind::InvalidValue)?);
        let argument = self.marked(Mark::Literal, self.text(ContextKind::InvalidArg)?);
        Some(fill(sentence, &[&value, &argument]))
    }

    fn missing(&self) -> Option<String> {
        let missing = self.texts(ContextKind::InvalidArg);
        let lines = missing.iter().map(|argument| format!("\n  {}", self.marked(Mark::Valid, argument)));
        (!missing.is_empty()).then(|| format!("{}{}", self.words.missing, lines.collect::<String>()))
    }

    fn missing_command(&self) -> Option<String> {
        let sentence = self.about(ContextKind::InvalidSubcommand, self.words.no_command)?;
        Some(sentence + &self.listed(self.words.commands, ContextKind::ValidSubcommand))
    }

    fn too_many(&self) -> Option<String> {
        self.value_of_argument(self.words.too_many_values)
    }

    fn too_few(&self) -> Option<String> {
        let least = self.number(ContextKind::MinValues)?;
        let one_or_many = [self.words.too_few_values_one, self.words.too_few_values_many];
        self.counted(least, one_or_many)
    }

    fn wrong_number(&self) -> Option<String> {
        let expected = self.number(ContextKind::ExpectedNumValues)?;
        let one_or_many = [self.words.wrong_number_one, self.words.wrong_number_many];
        self.counted(expected, one_or_many)
    }

    fn counted(&self, expected: isize, [one, many]: [&str; 2]) -> Option<String> {
        let given = self.number(ContextKind::ActualNumValues)?;
        let argument = self.marked(Mark::Literal, self.text(ContextKind::InvalidArg)?);
        let expected = self.marked(Mark::Valid, &expected.to_string());
        let sentence = if given > 1 { many } else { one };
        Some(fill(sentence, &[&expected, &argument, &self.marked(Mark::Invalid, &given.to_string())]))
    }

    /// The values that there are, as `[name: a, b]` on a line of its own.
    fn listed(&self, template: &str, kind: ContextKind) -> String {
        let values = self.texts(kind);
        if values.is_empty() {
            return String::new();
        }
        let values: Vec<String> = values.iter().map(|value| self.marked(Mark::Valid, value)).collect();
        format!("\n  {}", fill(template, &[&values.join(", ")]))
    }

    /// What may have been meant.
    fn tips(&self) -> Vec<String> {
        let words = self.words;
        let similar = [
            (ContextKind::SuggestedSubcommand, words.similar_command, words.similar_commands),
            (ContextKind::SuggestedArg, words.similar_argument, words.similar_arguments),
            (ContextKind::SuggestedValue, words.similar_value, words.similar_values),
        ];
        let mut tips = Vec::new();
        for (kind, one, many) in similar {
            let names =
                self.text(kind).map_or_else(|| self.texts(kind).to_vec(), |name| vec![name.to_owned()]);
            let quoted: Vec<String> =
                names.iter().map(|name| format!("'{}'", self.marked(Mark::Valid, name))).collect();
            match quoted.len() {
                0 => {}
                1 => tips.push(fill(one, &[&quoted.join(", ")])),
                _ => tips.push(fill(many, &[&quoted.join(", ")])),
            }
        }
        if let Some(ContextValue::StyledStrs(suggested)) = self.error.get(ContextKind::Suggested) {
            tips.extend(suggested.iter().map(|tip| help::tip(&tip.ansi().to_string())));
        }
        tips
    }
}
