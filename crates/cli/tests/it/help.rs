//! What the command says of itself and of wrong command lines, in the language that people ask for.

use std::fs;
use std::process::{Command, Output, Stdio};

fn capataz(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capataz"));
    command.args(arguments).stdin(Stdio::null()).env("COLUMNS", "100");
    for name in
        ["CAPATAZ_ADDR", "CAPATAZ_BOXES", "CAPATAZ_LANG", "CAPATAZ_LOG", "LC_ALL", "LC_MESSAGES", "LANG"]
    {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied()).output().unwrap()
}

/// Without the spaces that clap writes into empty lines.
fn trimmed(text: &[u8]) -> String {
    String::from_utf8_lossy(text).lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Holds a help against the file with this name, which was read by a person. `CAPATAZ_WRITE_BOXES=1` writes it where it is
/// not there yet.
#[track_caller]
fn check_help(output: &Output, name: &str) {
    let shown = trimmed(&output.stdout);
    assert_eq!((output.status.code(), trimmed(&output.stderr).as_str()), (Some(0), ""), "{shown}");
    let file = format!("{}/tests/fixtures/help/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    #[expect(clippy::disallowed_methods, reason = "whoever adds a text says so")]
    let writes = std::env::var("CAPATAZ_WRITE_BOXES").is_ok();
    if writes && fs::metadata(&file).is_err() {
        fs::write(&file, &shown).unwrap();
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    assert!(shown == expected, "{file} has\n{expected}\nand not\n{shown}");
}

#[test]
fn the_help_is_in_the_language_that_people_ask_for() {
    check_help(&capataz(&["--lang", "es", "run", "--help"], &[]), "run.es");
    check_help(&capataz(&["run", "--help", "--lang=es"], &[]), "run.es");
    check_help(&capataz(&["help", "run"], &[("LC_MESSAGES", "es"), ("LANG", "C")]), "run.es");
    check_help(&capataz(&["--help"], &[("LANG", "es_ES.UTF-8")]), "capataz.es");
    check_help(&capataz(&["--help", "--lang", "es"], &[("LC_ALL", "C")]), "capataz.es");
    check_help(&capataz(&["--help"], &[("LANG", "de_DE.UTF-8")]), "capataz.en");
    check_help(&capataz(&["--help"], &[("LANG", "es_ES.UTF-8"), ("LC_ALL", "en_GB.UTF-8")]), "capataz.en");
    check_help(&capataz(&["--help", "--lang", "en"], &[("LANG", "es_ES.UTF-8")]), "capataz.en");
    let by_variable = capataz(&["--help"], &[("CAPATAZ_LANG", "es"), ("LC_ALL", "C")]);
    assert!(trimmed(&by_variable.stdout).contains("[entorno: CAPATAZ_LANG=es]\n"));
    // Without a command, the help is what is wrong.
    let output = capataz(&[], &[("LANG", "es_ES.UTF-8")]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]));
    assert!(trimmed(&output.stderr).contains("Uso: capataz [OPCIONES] <COMANDO>\n\nComandos:\n"));
    // A program has no other version in another language.
    let versions = ["en", "es"].map(|language| capataz(&["--version", "--lang", language], &[]).stdout);
    assert_eq!(versions[0], versions[1]);
}

#[test]
fn completions_are_the_same_in_both_languages() {
    let scripts =
        ["en", "es"].map(|language| capataz(&["completions", "zsh", "--lang", language], &[]).stdout);
    assert!(String::from_utf8_lossy(&scripts[0]).contains("Run a plan file"));
    assert_eq!(scripts[0], scripts[1]);
}

/// What is said of a wrong command line, in whole: on stderr alone, with exit code 2.
#[track_caller]
fn check_wrong(line: &str, expected: &str) {
    let arguments: Vec<&str> = line.split_whitespace().collect();
    let expected = format!("error: {expected}\n\nMás información con '--help'.\n");
    for variables in [[("LANG", "es_MX.UTF-8"), ("COLUMNS", "80")], [("LC_ALL", "es"), ("LANG", "C")]] {
        let output = capataz(&arguments, &variables);
        assert_eq!(trimmed(&output.stderr), expected, "{line}");
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]), "{line}");
    }
    // Where the line asks for English, it is told in English, and has the same exit code.
    let output = capataz(&[&["--lang", "en"], &arguments[..]].concat(), &[("LANG", "es_MX.UTF-8")]);
    let english = trimmed(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]), "{line}");
    assert!(english.ends_with("For more information, try '--help'.\n"), "{line}: {english}");
}

#[test]
fn who_writes_an_unknown_name_is_told_in_spanish_what_may_be_meant() {
    check_wrong(
        "runs lsit",
        "subcomando desconocido 'lsit'\n\n  sugerencia: existe un subcomando parecido: 'list'\n\n\
         Uso: capataz runs [OPCIONES] <COMANDO>",
    );
    check_wrong(
        "runs list --lable x",
        "argumento inesperado '--lable'\n\n  sugerencia: existe un argumento parecido: '--label'\n\n\
         Uso: capataz runs list --label <CLAVE=VALOR>",
    );
    check_wrong(
        "run plan.toml --format tmol",
        "valor inválido 'tmol' para '--format <FORMATO>'\n  [valores posibles: toml, json]\n\n  \
         sugerencia: existe un valor parecido: 'toml'",
    );
    check_wrong(
        "runs list --kind plans",
        "valor inválido 'plans' para '--kind <CLASE>'\n  [valores posibles: plan, ask, script, pipeline, mode]\n\n  \
         sugerencia: existe un valor parecido: 'plan'",
    );
    check_wrong(
        "-- runs",
        "argumento inesperado 'runs'\n\n  sugerencia: existe el subcomando 'runs'; para usarlo, quite el '--' que va \
         delante\n\nUso: capataz [OPCIONES] <COMANDO>",
    );
    check_wrong(
        "mode run --pause",
        "argumento inesperado '--pause'\n\n  sugerencia: para dar '--pause' como valor, use '-- --pause'\n\n\
         Uso: capataz mode run [OPCIONES] <CONSULTA>",
    );
    check_wrong("run plan.toml more", "argumento inesperado 'more'\n\nUso: capataz run [OPCIONES] <ARCHIVO>");
    check_wrong("help nothing", "subcomando desconocido 'nothing'\n\nUso: capataz [OPCIONES] <COMANDO>");
}

#[test]
fn who_leaves_something_out_is_told_in_spanish_what_it_is() {
    check_wrong(
        "run --boxes",
        "faltan argumentos obligatorios:\n  <ARCHIVO>\n\nUso: capataz run --boxes <ARCHIVO>",
    );
    check_wrong(
        "runs resolve latest q1",
        "faltan argumentos obligatorios:\n  <RESPUESTA>\n\n\
         Uso: capataz runs resolve <EJECUCIÓN> <PREGUNTA> <RESPUESTA>",
    );
    check_wrong(
        "run plan.toml --format",
        "falta un valor para '--format <FORMATO>'\n  [valores posibles: toml, json]",
    );
    check_wrong(
        "--boxes",
        "falta un subcomando de 'capataz'\n  [subcomandos: serve, init, status, stop, demo, run, runs, ask, act, pipeline, \
         mode, analytics, memory, logs, evidence, browser, router, agents, contract, errors, sessions, rebuild, backup, restore, \
         verify, doctor, completions, man, help]\n\nUso: capataz [OPCIONES] <COMANDO>",
    );
}

#[test]
fn who_writes_what_cannot_be_is_told_in_spanish() {
    check_wrong(
        "run plan.toml --watch --detach",
        "el argumento '--watch' no se puede usar con '--detach'\n\nUso: capataz run --watch <ARCHIVO>",
    );
    check_wrong(
        "run plan.toml --key a --key b",
        "el argumento '--key <CLAVE>' no se puede repetir\n\nUso: capataz run [OPCIONES] <ARCHIVO>",
    );
    check_wrong(
        "act script.toml check",
        "el subcomando 'check' no se puede usar con '<ARCHIVO>'\n\n\
         Uso: capataz act [OPCIONES] <ARCHIVO>\n     capataz act <COMANDO>",
    );
    check_wrong(
        "run plan.toml --wait=3",
        "sobra el valor '3' para '--wait'; no se esperaban más\n\nUso: capataz run --wait <ARCHIVO>",
    );
    check_wrong(
        "run plan.toml --timeout 10",
        "valor inválido '10' para '--timeout <DURACIÓN>': falta una unidad; escriba d, h, m, s o ms después de cada \
         número",
    );
    check_wrong(
        "serve --addr http://127.0.0.1:1",
        "--addr nombra un daemon con el que hablar; dónde escucha un daemon se dice con --listen\n\n\
         Uso: capataz [OPCIONES] <COMANDO>",
    );
    check_wrong(
        "contract check plan.toml --addr http://127.0.0.1:1",
        "--addr nombra un daemon con el que hablar, y este comando no habla con ninguno: quítelo\n\n\
         Uso: capataz [OPCIONES] <COMANDO>",
    );
    // The language of what is said of a wrong language is that of the locale.
    let output = capataz(&["--lang", "de"], &[("LANG", "es_MX.UTF-8")]);
    let told = "error: valor inválido 'de' para '--lang <IDIOMA>'\n  [valores posibles: en, es]\n\nMás información con \
                '--help'.\n";
    assert_eq!((output.status.code(), trimmed(&output.stderr).as_str()), (Some(2), told));
}

#[test]
fn programs_are_told_of_a_wrong_command_line_in_a_document() {
    let of_label = "unexpected argument '--lable' found\n\n  tip: a similar argument exists: '--label'\n\n\
                    Usage: capataz runs list --label <KEY=VALUE>\n\nFor more information, try '--help'.";
    let of_addr = "--addr names a daemon to talk to, and this command talks to none: leave it out";
    for (line, told) in [
        ("runs list --lable x --json", of_label),
        ("--json runs list --lable x --lang es", "unexpected argument '--lable' found\n\n  tip: "),
        ("run --json", "the following required arguments were not provided:\n  <FILE>\n"),
        ("--json --color always", "'capataz' requires a subcommand but one was not provided"),
        ("contract check plan.toml --addr http://127.0.0.1:1 --json", of_addr),
    ] {
        let arguments: Vec<&str> = line.split(' ').collect();
        let output = capataz(&arguments, &[("LANG", "es_MX.UTF-8")]);
        assert_eq!((output.status.code(), trimmed(&output.stderr).as_str()), (Some(2), ""), "{line}");
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let error = &document["error"];
        assert!(error["message"].as_str().unwrap().starts_with(told), "{line}: {document}");
        assert_eq!((&error["exit_code"], error.get("code")), (&2.into(), None), "{line}");
    }
    // Behind `--` nothing is an option, and whoever asks for help is a person.
    let output = capataz(&["runs", "lsit", "--", "--json"], &[]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]));
    let output = capataz(&["--json", "--help"], &[]);
    assert!(output.status.success() && trimmed(&output.stdout).contains("Usage: capataz"));
}
