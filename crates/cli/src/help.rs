//! `--help` in the language in use. English stands at the arguments, and Spanish in [`capataz_display::words::help`].
//!
//! clap writes some words into every help by itself. Each of them is put here where clap lets one say it: as a heading, as a
//! part of an argument's text, or in the template of the help. In English the same comes out as clap writes, and a test
//! holds both against each other.

mod wrong;

#[cfg(test)]
mod tests;

pub use wrong::{InWords, conflict, plain, with_groups};

use capataz_display::words::{Usage, fill, help, words};
use clap::builder::{PossibleValue, Str, StyledStr, Styles};
use clap::{Arg, ArgAction, Command};

/// The command whose arguments are other commands; clap makes it.
const HELP: &str = "help";

/// The command line with all of its texts in the language in use.
pub fn in_words(command: Command) -> Command {
    let path = command.get_name().to_owned();
    told(command, &path, true)
}

fn told(command: Command, path: &str, is_root: bool) -> Command {
    let words = &words().usage;
    let mut command = with_own_flags(command, words);
    let mut arguments: Vec<&Arg> = command.get_arguments().collect();
    // Headings stand in the order in which arguments first have them.
    arguments.sort_by_key(|argument| (argument.get_help_heading().is_some(), !argument.is_positional()));
    let ids: Vec<String> = arguments.iter().map(|argument| argument.get_id().to_string()).collect();
    let styles = command.get_styles().clone();
    for (place, id) in ids.into_iter().enumerate() {
        // Those of all commands have come down from the root, and are told already.
        let tell = |argument: Arg| match argument.is_global_set() && !is_root {
            true => argument,
            false => argument_told(argument, place, words, &styles),
        };
        command = command.mut_arg(id, tell);
    }
    if let Some(about) = command.get_about().map(told_text) {
        command = command.about(about);
    }
    if let Some(about) = command.get_long_about().map(told_text) {
        command = command.long_about(about);
    }
    if let Some(after) = command.get_after_help().map(told_text) {
        command = command.after_help(after);
    }
    if command.has_subcommands() {
        command = command.subcommand_help_heading(words.commands).subcommand_value_name(words.command);
    }
    command = command.bin_name(path);
    let usage = usage(&command.render_usage());
    let template = format!("{{before-help}}{{about-with-newline}}\n{usage}\n\n{{all-args}}{{after-help}}");
    command.help_template(template).mut_subcommands(|sub| {
        let path = format!("{path} {}", sub.get_name());
        told(sub, &path, false)
    })
}

/// The command with `--help` and `--version` of its own, which clap would make with texts of its own.
fn with_own_flags(mut command: Command, words: &'static Usage) -> Command {
    if command.get_name() == HELP {
        return command;
    }
    let help = Arg::new(HELP).short('h').long(HELP).action(ArgAction::Help);
    command = command.disable_help_flag(true).arg(help.help(words.help).long_help(words.long_help));
    if command.get_version().is_some() {
        let version = Arg::new("version").short('V').long("version").action(ArgAction::Version);
        command = command.disable_version_flag(true).arg(version.help(words.version));
    }
    command
}

fn argument_told(argument: Arg, place: usize, words: &Usage, styles: &Styles) -> Arg {
    let heading = match argument.get_help_heading() {
        Some(heading) => help::heading(heading),
        None if argument.is_positional() => Some(words.arguments),
        None => Some(words.options),
    };
    let short = argument.get_help().map(told_text).unwrap_or_default();
    let long = argument.get_long_help().map_or_else(|| short.clone(), told_text);
    let argument = match argument.get_action().takes_values() {
        true => with_values(argument, short, long, words, styles),
        false => {
            let variable = variable(&argument, words);
            let noted =
                |text: String, between: &str| joined([text].into_iter().chain(variable.clone()), between);
            with_texts(argument, noted(short, " "), noted(long, "\n\n")).hide_env(true)
        }
    };
    let argument = match heading {
        Some(heading) => argument.help_heading(heading),
        None => argument,
    };
    // Under a heading, clap would sort them by their names.
    if argument.is_positional() { argument.display_order(place) } else { argument }
}

/// The argument with what clap says of its values as a part of its text.
fn with_values(argument: Arg, short: String, long: String, words: &Usage, styles: &Styles) -> Arg {
    let mut notes = notes(&argument, words);
    let values = match argument.is_hide_possible_values_set() {
        true => Vec::new(),
        false => argument.get_possible_values(),
    };
    let inline = (!values.is_empty()).then(|| {
        let names: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
        fill(words.possible_values, &[&names.join(", ")])
    });
    let is_listed = values.iter().any(|value| value.get_help().is_some());
    let listed = is_listed.then(|| listed_values(&values, words, styles));
    let short = joined([short].into_iter().chain(notes.clone()).chain(inline.clone()), " ");
    if !is_listed {
        notes.extend(inline);
    }
    let long = joined([long].into_iter().chain(listed).chain([notes.join("\n")]), "\n\n");
    let names: Vec<Str> = argument.get_value_names().unwrap_or_default().iter().map(named_value).collect();
    let argument = with_texts(argument, short, long).value_names(names);
    argument.hide_env(true).hide_default_value(true).hide_possible_values(true)
}

/// A long text makes the help a long one, so that it is there only where it says more.
fn with_texts(argument: Arg, short: String, long: String) -> Arg {
    let argument = if long == short { argument } else { argument.long_help(long) };
    argument.help(short)
}

fn joined(texts: impl Iterator<Item = String>, between: &str) -> String {
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(between)
}

fn named_value(name: &Str) -> Str {
    help::name(name).map_or_else(|| name.clone(), Str::from)
}

/// What is said in brackets: the variable that an argument comes from, and its default.
fn notes(argument: &Arg, words: &Usage) -> Vec<String> {
    let variable = variable(argument, words);
    let defaults: Vec<String> = argument
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy().into_owned())
        .map(|value| if value.contains(char::is_whitespace) { format!("{value:?}") } else { value })
        .collect();
    let is_shown = !argument.is_hide_default_value_set() && !defaults.is_empty();
    let default = is_shown.then(|| fill(words.default, &[&defaults.join(" ")]));
    variable.into_iter().chain(default).collect()
}

#[expect(clippy::disallowed_methods, reason = "the help shows what the environment says")]
fn variable(argument: &Arg, words: &Usage) -> Option<String> {
    let name = argument.get_env().filter(|_| !argument.is_hide_env_set())?;
    let value = std::env::var_os(name).unwrap_or_default();
    Some(fill(words.variable, &[&name.to_string_lossy(), &value.to_string_lossy()]))
}

/// The possible values, one a line, with what they mean.
fn listed_values(values: &[PossibleValue], words: &Usage, styles: &Styles) -> String {
    let literal = styles.get_literal();
    let widest = values.iter().map(|value| value.get_name().chars().count()).max().unwrap_or_default();
    let mut lines = words.possible_values_listed.to_owned();
    for value in values {
        let name = value.get_name();
        lines.push_str(&format!("\n- {literal}{name}{literal:#}"));
        if let Some(text) = value.get_help() {
            let padding = " ".repeat(widest.saturating_sub(name.chars().count()));
            lines.push_str(&format!(": {padding}{}", told_text(text)));
        }
    }
    lines
}

fn told_text(text: &StyledStr) -> String {
    help::told(&text.to_string())
}

/// The line of usage that clap has made.
fn usage(styled: &StyledStr) -> String {
    let words = &words().usage;
    let lines = styled.ansi().to_string();
    let lines = lines.replacen("Usage:", words.usage, 1).replacen("[OPTIONS]", words.options_mark, 1);
    // Further lines stand below the first one.
    let indent = " ".repeat(words.usage.chars().count() + 1);
    lines.replace("\n       ", &format!("\n{indent}"))
}
