//! Spanish is whole, English is clap's own, and what is said of wrong command lines.

use std::collections::BTreeSet;

use capataz_display::words::{Language, help};
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command, CommandFactory};

use super::{InWords, in_words};
use crate::args::Cli;

fn command() -> Command {
    Cli::command().term_width(100)
}

/// Every command with what is to be typed for it, without those that are only help of others.
fn walk(command: &Command, path: &[String], visit: &mut impl FnMut(&[String], &Command)) {
    visit(path, command);
    for sub in command.get_subcommands() {
        walk(sub, &[path, &[sub.get_name().to_owned()]].concat(), visit);
    }
}

fn paths() -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    walk(&command(), &[], &mut |path, _| paths.push(path.to_vec()));
    paths
}

/// The command line in a language, for what it says to arguments that are help or wrong.
struct Line(Language, Command);

impl Line {
    fn in_words(language: Language) -> Self {
        Self(language, language.within(|| in_words(command())))
    }

    fn says(&self, arguments: &[&str]) -> StyledStr {
        let all = ["capataz"].iter().chain(arguments);
        self.0.within(|| {
            let error = self.1.clone().try_get_matches_from(all).unwrap_err();
            error.apply::<InWords>().render()
        })
    }
}

fn said_by_clap(arguments: &[&str]) -> StyledStr {
    command().try_get_matches_from(["capataz"].iter().chain(arguments)).unwrap_err().render()
}

/// With colours, and without the spaces at the ends of lines, of which clap writes some into empty ones.
fn trimmed(text: &StyledStr) -> String {
    text.ansi().to_string().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

#[test]
fn every_text_of_the_help_has_spanish_and_no_spanish_is_left_over() {
    let mut pieces = BTreeSet::new();
    let mut names = BTreeSet::new();
    let mut add = |text: String| {
        help::with_pieces(&text, |piece| {
            pieces.insert(piece.to_owned());
            piece.to_owned()
        });
    };
    // The command that clap adds is there as soon as the usage is.
    let mut command = command();
    let _ = command.render_usage();
    walk(&command, &[], &mut |_, command| {
        let texts = [command.get_about(), command.get_long_about(), command.get_after_help()];
        texts.into_iter().flatten().for_each(|text| add(text.to_string()));
        let untold =
            [command.get_before_help(), command.get_before_long_help(), command.get_after_long_help()];
        assert_eq!(untold, [None; 3], "{}: this kind of text is not told", command.get_name());
        assert_eq!(command.get_visible_aliases().count(), 0, "{}: aliases are not told", command.get_name());
        for argument in command.get_arguments().filter(|argument| !is_claps(argument)) {
            let texts = [argument.get_help(), argument.get_long_help()];
            texts.into_iter().flatten().for_each(|text| add(text.to_string()));
            argument.get_help_heading().into_iter().for_each(|text| add(text.to_owned()));
            let values = argument.get_possible_values();
            values.iter().filter_map(|value| value.get_help()).for_each(|text| add(text.to_string()));
            assert_eq!(argument.get_visible_aliases(), None, "{argument}: aliases are not told");
            if argument.get_action().takes_values() {
                let of_argument = argument.get_value_names().expect("a value has a name");
                names.extend(of_argument.iter().map(ToString::to_string));
            }
        }
    });
    // What clap names without an argument.
    names.insert("COMMAND".to_owned());
    let known = |known: &mut dyn Iterator<Item = (&'static str, &'static str)>| -> BTreeSet<String> {
        known.map(|(english, _)| english.to_owned()).collect()
    };
    assert!(pieces.len() > 300 && names.len() > 40, "{} and {}", pieces.len(), names.len());
    let (known_pieces, known_names) = (known(&mut help::pieces()), known(&mut help::names()));
    let lines = |texts: Vec<&String>| texts.iter().map(|text| format!("\n{text:?}")).collect::<String>();
    for (what, said, known) in [("texts", &pieces, &known_pieces), ("names", &names, &known_names)] {
        let (missing, unused): (Vec<_>, Vec<_>) =
            (said.difference(known).collect(), known.difference(said).collect());
        assert!(missing.is_empty(), "{what} without Spanish:{}", lines(missing));
        assert!(unused.is_empty(), "Spanish {what} that nothing says:{}", lines(unused));
    }
    assert_eq!(known_pieces.len(), help::pieces().count(), "a text has Spanish twice");
    assert_eq!(known_names.len(), help::names().count(), "a name has Spanish twice");
}

/// `--help` and `--version`, which are texts of their own where the language is another one.
fn is_claps(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Help | ArgAction::Version)
}

#[test]
fn in_english_the_same_is_said_as_by_clap() {
    let (line, paths) = (Line::in_words(Language::English), paths());
    assert!(paths.len() > 70, "{}", paths.len());
    for path in paths {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        for flag in ["-h", "--help"] {
            let arguments = [&path[..], &[flag]].concat();
            let by_clap = trimmed(&said_by_clap(&arguments));
            assert_eq!(trimmed(&line.says(&arguments)), by_clap, "{arguments:?}");
        }
    }
    for given in [
        "",
        "help",
        "help help",
        "help runs",
        "help runs list",
        "help nothing",
        "runs",
        "-V",
        "runs lsit",
        "runs list --lable x",
        "runs list --state x",
        "runs list --status x",
        "runs list --kind plans",
        "runs list --outcome",
        "--watch",
        "run",
        "run plan.toml --format yaml",
        "run plan.toml --format tmol",
        "run plan.toml --format",
        "run plan.toml --watch --detach",
        "run plan.toml --key a --key b",
        "run plan.toml --timeout 10",
        "run plan.toml --progress",
        "run plan.toml --wait=3",
        "run plan.toml more",
        "run plan.toml --frmat toml",
        "runs resolve latest q1",
        "runs show latest --at 0",
        "runs show latest --at x",
        "act check",
        "act script.toml check",
        "act --",
        "--json",
        "-- runs",
        "--lang de",
        "pipeline checkpoints latest --at 3 --product p",
        "router eval --specs s --train t",
    ] {
        let arguments: Vec<&str> = given.split_whitespace().collect();
        let by_clap = trimmed(&said_by_clap(&arguments));
        assert_eq!(trimmed(&line.says(&arguments)), by_clap, "{given:?}");
    }
}

/// What an error of this kind and context says in both languages; in English, clap says the same.
#[track_caller]
fn check_kind(kind: ErrorKind, context: &[(ContextKind, ContextValue)], spanish: &str) {
    let error = || {
        let mut error = clap::Error::new(kind).with_cmd(&Command::new("capataz"));
        for (kind, value) in context {
            error.insert(*kind, value.clone());
        }
        error
    };
    let told =
        |language: Language| language.within(|| error().apply::<InWords>().render().ansi().to_string());
    assert_eq!(told(Language::English), error().render().ansi().to_string());
    let told = Language::Spanish.within(|| error().apply::<InWords>().render().to_string());
    assert_eq!(told, format!("error: {spanish}\n\nMás información con '--help'.\n"));
}

#[test]
fn errors_that_no_argument_causes_today_have_spanish_too() {
    let text = |text: &str| ContextValue::String(text.to_owned());
    let texts = |texts: &[&str]| ContextValue::Strings(texts.iter().map(ToString::to_string).collect());
    let argument = (ContextKind::InvalidArg, text("--a <A>"));
    let subcommand = (ContextKind::InvalidSubcommand, text("runs"));
    let number = |kind, number| (kind, ContextValue::Number(number));
    check_kind(
        ErrorKind::NoEquals,
        std::slice::from_ref(&argument),
        "para dar un valor a '--a <A>' hace falta un signo igual",
    );
    check_kind(
        ErrorKind::TooManyValues,
        &[argument.clone(), (ContextKind::InvalidValue, text("v"))],
        "sobra el valor 'v' para '--a <A>'; no se esperaban más",
    );
    let few = |actual| {
        [argument.clone(), number(ContextKind::MinValues, 3), number(ContextKind::ActualNumValues, actual)]
    };
    check_kind(ErrorKind::TooFewValues, &few(1), "'--a <A>' necesita 3 valores; solo se dio 1");
    check_kind(ErrorKind::TooFewValues, &few(2), "'--a <A>' necesita 3 valores; solo se dieron 2");
    let wrong = |actual| {
        [
            argument.clone(),
            number(ContextKind::ExpectedNumValues, 3),
            number(ContextKind::ActualNumValues, actual),
        ]
    };
    check_kind(ErrorKind::WrongNumberOfValues, &wrong(1), "'--a <A>' necesita 3 valores, y se dio 1");
    check_kind(ErrorKind::WrongNumberOfValues, &wrong(4), "'--a <A>' necesita 3 valores, y se dieron 4");
    check_kind(ErrorKind::InvalidUtf8, &[], "hay argumentos que no son UTF-8 válido");
    let several = (ContextKind::PriorArg, texts(&["--b", "--c"]));
    check_kind(
        ErrorKind::ArgumentConflict,
        &[argument.clone(), several],
        "el argumento '--a <A>' no se puede usar con:\n  --b\n  --c",
    );
    check_kind(
        ErrorKind::ArgumentConflict,
        &[argument.clone(), (ContextKind::PriorArg, ContextValue::None)],
        "el argumento '--a <A>' no se puede usar con otros de los argumentos dados",
    );
    check_kind(
        ErrorKind::ArgumentConflict,
        &[subcommand.clone(), (ContextKind::PriorArg, text("--b"))],
        "el subcomando 'runs' no se puede usar con '--b'",
    );
    check_kind(
        ErrorKind::ArgumentConflict,
        &[],
        "un argumento no se puede usar con otros de los argumentos dados",
    );
    check_kind(
        ErrorKind::InvalidSubcommand,
        &[subcommand.clone(), (ContextKind::SuggestedSubcommand, texts(&["run", "runs"]))],
        "subcomando desconocido 'runs'\n\n  sugerencia: existen subcomandos parecidos: 'run', 'runs'",
    );
    check_kind(
        ErrorKind::MissingSubcommand,
        &[subcommand, (ContextKind::ValidSubcommand, texts(&["list", "show"]))],
        "falta un subcomando de 'runs'\n  [subcomandos: list, show]",
    );
}

#[test]
fn no_english_heading_is_left_in_a_spanish_help() {
    let english = [
        "Usage",
        "Options",
        "OPTIONS",
        "Commands",
        "COMMAND",
        "Arguments",
        "default:",
        "possible values",
        "Possible",
        "env:",
        "Print",
        "Example",
        "Exit code",
        "Global",
    ];
    let line = Line::in_words(Language::Spanish);
    for path in paths() {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        for flag in ["-h", "--help"] {
            let text = line.says(&[&path[..], &[flag]].concat()).to_string();
            let left: Vec<&str> = english.into_iter().filter(|word| text.contains(word)).collect();
            assert!(left.is_empty(), "{path:?}: {left:?}\n{text}");
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(100), "{path:?}: a line is too long\n{text}");
        }
    }
}

/// What is to be copied is the same in both languages.
#[test]
fn examples_are_the_same_commands_in_both_languages() {
    let commands = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with("  "));
        lines
            .map(|line| line.rsplit_once("   ").map_or(line, |(command, _)| command).trim().to_owned())
            .collect()
    };
    let mut count = 0;
    walk(&command(), &[], &mut |path, command| {
        let Some(english) = command.get_after_help().map(ToString::to_string) else { return };
        let spanish = Language::Spanish.within(|| help::told(&english));
        assert_eq!(commands(&english), commands(&spanish), "{path:?}");
        count += commands(&english).len();
    });
    assert!(count > 150, "{count}");
}

/// Each way in which a value is refused.
#[test]
fn why_a_value_is_refused_is_said_in_spanish() {
    let line = Line::in_words(Language::Spanish);
    let check = |given: &str, expected: &str| {
        let text = line.says(&given.split(' ').collect::<Vec<_>>()).to_string();
        assert_eq!(text.lines().next().unwrap_or_default(), format!("error: valor inválido {expected}"));
    };
    let of_label = "para '--label <CLAVE=VALOR>':";
    check("run p -l a", &format!("'a' {of_label} una etiqueta es CLAVE=VALOR"));
    check(
        "run p -l A=b",
        &format!(
            "'A=b' {of_label} la clave de una etiqueta tiene de 1 a 63 caracteres de a-z, 0-9, `.`, `_`, `/`, `-`"
        ),
    );
    let of_timeout = "para '--timeout <DURACIÓN>':";
    check(
        "run p --timeout 10",
        &format!("'10' {of_timeout} falta una unidad; escriba d, h, m, s o ms después de cada número"),
    );
    check(
        "run p --timeout x",
        &format!("'x' {of_timeout} una duración se escribe como \"90s\", \"1h 30m\" o \"250ms\""),
    );
    let of_var = "para '--var <NOMBRE=VALOR>':";
    check("act s --var a", &format!("'a' {of_var} una variable es NOMBRE=VALOR"));
    check(
        "act s --var *=b",
        &format!("'*=b' {of_var} un nombre tiene de 1 a 128 letras, dígitos, `.`, `_`, `-`"),
    );
    check(
        "runs list --limit 5000000000",
        "'5000000000' para '--limit <N>': 5000000000 no está en 1..=4294967295",
    );
    let (large, small) = ("99999999999999999999", "-99999999999999999999");
    check(
        &format!("runs list --limit {large}"),
        &format!("'{large}' para '--limit <N>': el número es demasiado grande"),
    );
    check(
        &format!("runs list --limit={small}"),
        &format!("'{small}' para '--limit <N>': el número es demasiado pequeño"),
    );
    check("runs list -n 0", "'0' para '--limit <N>': 0 no está en 1..=4294967295");
    check("runs list --limit=-1", "'-1' para '--limit <N>': -1 no está en 1..=4294967295");
    check("runs list --limit x", "'x' para '--limit <N>': tiene algo que no es un dígito");
    check("mode run q --autonomy=-", "'-' para '--autonomy <NIVEL>': no es un número");
    check("runs show r --at 0", "'0' para '--at <NÚMERO>': 0 no está en 1..18446744073709551615");
    check("runs show r --at x", "'x' para '--at <NÚMERO>': tiene algo que no es un dígito");
    check(
        "runs show r --state x",
        "'x' para '--state <ESTADO>': no es un estado; los estados son init, active, complete, failed, rolled_back, \
         deleted",
    );
    check(
        "runs diff a@x b",
        "'a@x' para '<EJECUCIÓN[@NÚMERO]>': \"x\" no es el número de un evento: un número entero desde 1",
    );
    check("mode run q --autonomy x", "'x' para '--autonomy <NIVEL>': no es un número");
    check(
        "ask t --custom 3",
        "'3' para '--custom <JSON>': hace falta un objeto JSON, como {\"topics\": [\"sea\"]}",
    );
    check(
        "serve --trace t --trace-limit x",
        "'x' para '--trace-limit <TAMAÑO>': un tamaño es un número de bytes, o un número con KB, MB o GB",
    );
}
