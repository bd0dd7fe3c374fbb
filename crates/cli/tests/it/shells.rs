//! What the program gives to shells, to the manual and to systemd, as they take it.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn capataz(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capataz"));
    command.args(arguments).stdin(Stdio::null()).env("LC_ALL", "C").env_remove("CAPATAZ_LANG");
    command.output().unwrap()
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Says by its name what this machine has no program for, where `cargo xtask test` reads it.
#[expect(clippy::disallowed_methods, reason = "where to say so is told by whoever runs the tests")]
fn skipped(test: &str, program: &str) {
    let line = format!("capataz-cli::shells {test}: there is no {program}");
    eprintln!("SKIPPED  {line}");
    if let Some(list) = std::env::var_os("CAPATAZ_SKIPPED") {
        let list = fs::OpenOptions::new().create(true).append(true).open(list);
        list.unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

/// What the program says, or `None` where it is not there.
fn output_of(program: &str, arguments: &[&str]) -> Option<Output> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).env("LC_ALL", "C").output();
    match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        output => Some(output.unwrap()),
    }
}

#[test]
fn every_shell_gets_a_script_that_knows_the_commands() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = capataz(&["completions", shell]);
        let script = said(&output.stdout);
        assert!(output.status.success(), "{shell}");
        for command in ["init", "status", "stop", "man", "completions"] {
            assert!(script.contains(command), "{command} for {shell}");
        }
        assert!(!script.contains("__shim"), "{shell} is offered a hidden command");
    }
}

#[test]
fn bash_takes_the_script_and_completes_commands_and_options() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("capataz.bash");
    fs::write(&script, capataz(&["completions", "bash"]).stdout).unwrap();
    let completed = |words: &str, count: usize| {
        let program = format!(
            "source '{}' && COMP_WORDS=({words}) COMP_CWORD={count} && _capataz capataz \"${{COMP_WORDS[{count}]}}\" \
             \"${{COMP_WORDS[{}]}}\" && echo \"${{COMPREPLY[@]}}\"",
            script.display(),
            count - 1,
        );
        let output = output_of("bash", &["--norc", "-euc", &program])?;
        assert!(output.status.success(), "{}", said(&output.stderr));
        Some(said(&output.stdout))
    };
    let Some(commands) = completed("capataz sta", 1) else {
        return skipped("bash_takes_the_script_and_completes_commands_and_options", "bash");
    };
    assert_eq!(commands, "status\n");
    assert_eq!(completed("capataz run --loc", 2).unwrap(), "--local\n");
    assert_eq!(completed("capataz runs lis", 2).unwrap(), "list\n");
}

#[test]
fn each_command_has_a_page_and_the_reader_of_pages_finds_nothing_wrong_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("share/man1");
    let output = capataz(&["man", &pages.display().to_string(), "--json"]);
    assert!(output.status.success(), "{}", said(&output.stderr));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let files: Vec<&Path> =
        answer["files"].as_array().unwrap().iter().map(|file| Path::new(file.as_str().unwrap())).collect();
    let names: Vec<&str> = files.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
    for name in ["capataz.1", "capataz-init.1", "capataz-runs.1", "capataz-runs-list.1", "capataz-man.1"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    assert!(!names.iter().any(|name| name.contains("help")), "{names:?}");
    let run = fs::read_to_string(pages.join("capataz-run.1")).unwrap();
    for part in
        [".TH capataz-run 1", "Run a plan file", "\n.SH EXAMPLES\n", "\\-\\-local", "capataz run plan.toml"]
    {
        assert!(run.contains(part), "{part} in {run}");
    }
    assert_eq!(fs::read(pages.join("capataz.1")).unwrap(), capataz(&["man"]).stdout);
    for file in files {
        let Some(checked) =
            output_of("groff", &["-Kutf8", "-man", "-Tutf8", "-ww", "-z", &file.display().to_string()])
        else {
            return skipped(
                "each_command_has_a_page_and_the_reader_of_pages_finds_nothing_wrong_with_them",
                "groff",
            );
        };
        assert!(
            checked.status.success() && checked.stderr.is_empty(),
            "{}: {}",
            file.display(),
            said(&checked.stderr)
        );
    }
    // A place where nothing can be written.
    let refused = capataz(&["man", "/proc/pages"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(said(&refused.stderr).contains("/proc/pages"), "{}", said(&refused.stderr));
}

/// The unit of the examples, with the program that is tested in the place of the installed one.
#[test]
fn systemd_finds_nothing_wrong_with_the_unit_and_the_daemon_takes_its_options() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/systemd/capataz.service");
    let unit = fs::read_to_string(example).unwrap();
    let command =
        unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/capataz ")).unwrap();
    let options: Vec<&str> = command.split(' ').collect();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("capataz.toml");
    fs::write(&config, "").unwrap();
    let options: Vec<String> = options
        .iter()
        .map(|option| option.replace("/etc/capataz/capataz.toml", &config.display().to_string()))
        .collect();
    let options: Vec<&str> = options.iter().map(String::as_str).chain(["--check"]).collect();
    let checked = capataz(&options);
    assert!(checked.status.success(), "{}", said(&checked.stderr));
    // What its reload sends has the daemon read its files again.
    assert!(unit.contains("\nExecReload=/bin/kill -s HUP $MAINPID\n"), "{unit}");

    let file = folder.path().join("capataz.service");
    fs::write(&file, unit.replace("/usr/local/bin/capataz", env!("CARGO_BIN_EXE_capataz"))).unwrap();
    match output_of("systemd-analyze", &["verify", "--man=no", &file.display().to_string()]) {
        None => skipped(
            "systemd_finds_nothing_wrong_with_the_unit_and_the_daemon_takes_its_options",
            "systemd-analyze",
        ),
        Some(verified) => {
            let told = said(&verified.stderr);
            assert!(verified.status.success() && !told.contains("capataz.service"), "{told}");
        }
    }
}
