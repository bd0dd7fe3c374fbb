//! What the program gives to shells, to the manual and to systemd, as they take it.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::served::Served;
use crate::terminal::Terminal;

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
    assert_eq!(completed("capataz runs list --kind p", 4).unwrap(), "plan pipeline\n");
}

/// A daemon with two agents and a run that has ended, and a folder in which the program has the name that scripts call.
struct Known {
    served: Served,
    run: String,
    folder: tempfile::TempDir,
}

impl Known {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let agent = |name: &str| {
            format!("[[agents]]\nname = \"{name}\"\ncommand = [\"/bin/sh\", \"-c\", \"echo 1\"]\n")
        };
        let served = Served::start(folder.path(), &[agent("counter"), agent("critic")].concat());
        let plan = folder.path().join("plan.toml");
        let tasks = [("build", "counter"), ("build-docs", "critic"), ("test", "critic")];
        let tasks = tasks.map(|(name, agent)| format!("[[tasks]]\nname = \"{name}\"\nagent = \"{agent}\"\n"));
        fs::write(&plan, format!("name = \"nightly\"\n{}", tasks.concat())).unwrap();
        let ran = capataz(&["run", plan.to_str().unwrap(), "--json", "--addr", served.address()]);
        let answer: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
        let run = answer["run_id"].as_str().unwrap().to_owned();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_capataz"), folder.path().join("capataz")).unwrap();
        Self { served, run, folder }
    }

    /// The program in a shell whose path has it.
    #[expect(clippy::disallowed_methods, reason = "a shell has the path of whoever runs the tests, too")]
    fn shell(&self, program: &str, arguments: &[&str]) -> Option<Output> {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).env("LC_ALL", "C.UTF-8");
        command.env("PATH", format!("{}:{path}", self.folder.path().display()));
        command.env("CAPATAZ_ADDR", self.served.address()).env("HOME", self.folder.path());
        match command.output() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            output => Some(output.unwrap()),
        }
    }

    fn script(&self, shell: &str) -> String {
        let script = self.folder.path().join(format!("script.{shell}"));
        fs::write(&script, capataz(&["completions", shell]).stdout).unwrap();
        script.to_str().unwrap().to_owned()
    }
}

#[test]
fn names_that_the_daemon_knows_are_told_in_lines_with_what_they_are() {
    let known = Known::new();
    let values = |words: &[&str]| {
        let output = capataz(&[&["__values", "--addr", known.served.address()], words].concat());
        assert_eq!((output.status.code(), said(&output.stderr)), (Some(0), String::new()), "{words:?}");
        said(&output.stdout)
    };
    let run = &known.run;
    let both = format!("latest\tnightly, succeeded\n{run}\tnightly, succeeded\n");
    assert_eq!(values(&["runs", "show", ""]), both);
    assert_eq!(values(&["runs", "show", "lat"]), "latest\tnightly, succeeded\n");
    assert_eq!(values(&["runs", "show", "zzz"]), "");
    assert_eq!(values(&["logs", "latest", "bu"]), "build\tcounter\nbuild-docs\tcritic\n");
    assert_eq!(
        values(&["runs", "retry", &run[30..], ""]),
        "build\tcounter\nbuild-docs\tcritic\ntest\tcritic\n"
    );
    assert_eq!(values(&["runs", "retry", "nothing", ""]), "");
    assert_eq!(values(&["agents", "check", "counter", "cri"]), "critic\t\n");
    assert!(values(&["agents", "stats", ""]).contains("counter\t"));
    assert_eq!(values(&["mode", "show", ""]), "", "the run is one of a plan");
    // Where no daemon is, nothing is said either, and where there is no such command.
    for words in [["--addr", "http://127.0.0.1:9", "runs", "show", ""], ["--addr", "?", "runs", "show", ""]] {
        let output = capataz(&[&["__values"], &words[..]].concat());
        assert_eq!((output.status.code(), output.stdout, output.stderr), (Some(0), Vec::new(), Vec::new()));
    }
}

/// A daemon with specs, the session `release`, and in it a run whose question q is open: its id, and that of its question.
fn asking(folder: &Path) -> (Served, String, String) {
    let specs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs");
    let agent = "[[agents]]\nname = \"broken\"\ncommand = [\"/bin/sh\", \"-c\", \"exit 3\"]\n";
    let served = Served::start(folder, &format!("specs_dir = {specs:?}\n{agent}"));
    let plan = folder.join("plan.toml");
    let text = "name = \"mending\"\non_high = \"pause\"\npolicy = { kind = \"continue_all\" }\n\
                [[tasks]]\nname = \"mend\"\nagent = \"broken\"\nseverity = \"HIGH\"\n";
    fs::write(&plan, text).unwrap();
    let started = ["run", plan.to_str().unwrap(), "--session", "release", "--exit-on-question", "--json"];
    let started = capataz(&[&started[..], &["--addr", served.address()]].concat());
    assert_eq!(started.status.code(), Some(5), "{}{}", said(&started.stdout), said(&started.stderr));
    let answer: serde_json::Value = serde_json::from_slice(&started.stdout).unwrap();
    let run = answer["run_id"].as_str().unwrap().to_owned();
    let shown = capataz(&["runs", "show", &run, "--json", "--addr", served.address()]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    let question = shown["questions"][0]["question_id"].as_str().unwrap().to_owned();
    (served, run, question)
}

#[test]
fn sessions_specs_and_open_questions_are_told_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let (served, run, question) = asking(folder.path());
    let values = |words: &[&str]| {
        let output = capataz(&[&["__values", "--addr", served.address()], words].concat());
        assert_eq!((output.status.code(), said(&output.stderr)), (Some(0), String::new()), "{words:?}");
        said(&output.stdout)
            .lines()
            .map(|line| line.split('\t').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(values(&["sessions", "show", ""]), ["release"]);
    assert_eq!(values(&["sessions", "show", "x"]), [""; 0]);
    for words in
        [&["run", "plan.toml", "--session", "re"][..], &["ask", "hm", "-s", ""], &["router", "accept", ""]]
    {
        assert_eq!(values(words), ["release"], "{words:?}");
    }
    let specs = values(&["ask", "hm", "--spec", ""]);
    assert!(specs.contains(&"whispers-of-the-wave".to_owned()) && specs.len() > 1, "{specs:?}");
    assert_eq!(values(&["ask", "hm", "--spec", "whis"]), ["whispers-of-the-wave"]);
    assert_eq!(values(&["runs", "list", "--parent", &run[..30]]), std::slice::from_ref(&run));
    // An option may have its value in one word with it, which bash has parted.
    assert_eq!(values(&["run", "plan.toml", "--session=re"]), ["--session=release"]);
    assert_eq!(values(&["run", "plan.toml", "--session", "=", "re"]), ["--session=release"]);
    assert_eq!(values(&["run", "plan.toml", "--session", "="]), ["--session=release"]);
    assert_eq!(values(&["run", "plan.toml", "--session=x"]), [""; 0]);
    assert_eq!(values(&["ask", "hm", "--spec=whis"]), ["--spec=whispers-of-the-wave"]);
    assert_eq!(values(&["runs", "resolve", "latest", ""]), std::slice::from_ref(&question));
    assert_eq!(values(&["runs", "resolve", &run, "zzz"]), [""; 0]);
    // One that is answered is not offered any more.
    let answered = capataz(&["runs", "resolve", &run, &question, "abort", "--addr", served.address()]);
    assert!(answered.status.success(), "{}", said(&answered.stderr));
    assert_eq!(values(&["runs", "resolve", "latest", ""]), [""; 0]);
}

#[test]
fn bash_completes_runs_tasks_and_agents_that_the_daemon_knows() {
    let known = Known::new();
    let script = known.script("bash");
    let completed = |words: &str, count: usize| {
        let program = format!(
            "source '{script}' && COMP_WORDS=({words}) COMP_CWORD={count} \
             && _capataz_or_values capataz \"${{COMP_WORDS[{count}]}}\" \"${{COMP_WORDS[{}]}}\" \
             && echo \"${{COMPREPLY[@]}}\" && complete -p capataz",
            count - 1,
        );
        let output = known.shell("bash", &["--norc", "-euc", &program])?;
        assert!(output.status.success(), "{}", said(&output.stderr));
        let said = said(&output.stdout);
        let (completed, registered) = said.split_once('\n').unwrap();
        assert!(registered.contains("-F _capataz_or_values"), "{registered}");
        Some(completed.to_owned())
    };
    let Some(runs) = completed("capataz runs show ''", 3) else {
        return skipped("bash_completes_runs_tasks_and_agents_that_the_daemon_knows", "bash");
    };
    assert_eq!(runs, format!("latest {}", known.run));
    assert_eq!(completed("capataz logs latest bu", 3).unwrap(), "build build-docs");
    assert_eq!(completed("capataz agents check cr", 3).unwrap(), "critic");
    // What bash has parted is one word, and options and commands are completed as before.
    let parted = known.served.address().replace(':', " : ");
    let line = format!("capataz --addr {parted} logs latest te");
    assert_eq!(completed(&line, line.split(' ').count() - 1).unwrap(), "test");
    assert_eq!(completed("capataz runs show --out", 3).unwrap(), "--outputs");
    assert_eq!(completed("capataz runs lis", 2).unwrap(), "list");
}

#[test]
fn bash_completes_the_value_of_an_option_that_is_in_one_word_with_it() {
    let known = Known::new();
    let script = known.script("bash");
    // The words are as bash parts the line: with an equals sign among what breaks words, and without.
    let completed = |line: &str, words: &str| {
        let count = words.split(' ').count() - 1;
        let program = format!(
            "source '{script}' && COMP_LINE='{line}' COMP_POINT={} COMP_WORDS=({words}) COMP_CWORD={count} \
             && _capataz_or_values capataz \"${{COMP_WORDS[{count}]}}\" \"${{COMP_WORDS[{}]}}\" \
             && echo \"${{COMPREPLY[@]}}\"",
            line.len(),
            count - 1,
        );
        let output = known.shell("bash", &["--norc", "-euc", &program])?;
        assert!(output.status.success(), "{}", said(&output.stderr));
        Some(said(&output.stdout).trim_end().to_owned())
    };
    let line = "capataz runs list --parent=lat";
    let Some(latest) = completed(line, "capataz runs list --parent = lat") else {
        return skipped("bash_completes_the_value_of_an_option_that_is_in_one_word_with_it", "bash");
    };
    assert_eq!(latest, "latest");
    assert_eq!(completed(line, line).unwrap(), "--parent=latest");
    let line = "capataz runs list --parent=";
    let both = format!("latest {}", known.run);
    assert_eq!(completed(line, "capataz runs list --parent =").unwrap(), both);
}

#[test]
fn bash_keeps_of_a_word_what_it_takes_for_words_of_their_own_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("capataz.bash");
    fs::write(&script, capataz(&["completions", "bash"]).stdout).unwrap();
    for (breaks, line, words, expected) in [
        ("@=:", "capataz run --session=a:", "capataz run --session = a :", "b"),
        ("@=", "capataz run --session=a:", "capataz run --session = a:", "a:b"),
        (":", "capataz run --session=a:", "capataz run --session=a :", "b"),
        ("", "capataz run --session=a:", "capataz run --session=a:", "--session=a:b"),
        // The option has an empty value, and what is typed is another word.
        ("@=:", "capataz run --session= b", "capataz run --session = b", ""),
        ("@=:", "capataz agents check a:", "capataz agents check a :", "b\\ c"),
    ] {
        let count = words.split(' ').count() - 1;
        let program = format!(
            "source '{}' && capataz() {{ printf '%s\\tabout\\n' --session=a:b 'a:b c'; }} \
             && COMP_WORDBREAKS='{breaks}' COMP_LINE='{line}' COMP_POINT={} COMP_WORDS=({words}) COMP_CWORD={count} \
             && _capataz_or_values capataz \"${{COMP_WORDS[{count}]}}\" '' && echo \"${{COMPREPLY[@]}}\"",
            script.display(),
            line.len(),
        );
        let Some(output) = output_of("bash", &["--norc", "-euc", &program]) else {
            return skipped("bash_keeps_of_a_word_what_it_takes_for_words_of_their_own_and_no_more", "bash");
        };
        assert!(output.status.success(), "{words} {}", said(&output.stderr));
        assert_eq!(said(&output.stdout).trim_end(), expected, "{breaks} {words}");
    }
}

#[test]
fn fish_completes_runs_tasks_and_agents_that_the_daemon_knows() {
    let known = Known::new();
    let script = known.script("fish");
    let completed = |line: &str| {
        let output =
            known.shell("fish", &["--no-config", "-c", &format!("source {script}; complete -C '{line}'")])?;
        assert!(output.status.success(), "{}", said(&output.stderr));
        Some(said(&output.stdout))
    };
    let Some(runs) = completed("capataz runs show ") else {
        return skipped("fish_completes_runs_tasks_and_agents_that_the_daemon_knows", "fish");
    };
    assert!(
        runs.starts_with(&format!("latest\tnightly, succeeded\n{}\tnightly, succeeded\n", known.run)),
        "{runs}"
    );
    assert_eq!(completed("capataz logs latest bu").unwrap(), "build\tcounter\nbuild-docs\tcritic\n");
    assert!(completed("capataz agents check cri").unwrap().starts_with("critic"));
    let parents = completed("capataz runs list --parent=lat").unwrap();
    assert!(parents.contains("--parent=latest\tnightly, succeeded\n"), "{parents}");
    assert!(completed("capataz runs lis").unwrap().starts_with("list\t"));
    assert!(completed("capataz runs show --out").unwrap().starts_with("--outputs\t"));
}

/// Zsh and Elvish complete only where somebody types: at a terminal.
#[track_caller]
fn completes_at_a_terminal(test: &str, shell: &str, arguments: &[&str], begin: &str, prompt: &str) {
    let known = Known::new();
    if known.shell(shell, &["-c", ""]).is_none() {
        return skipped(test, shell);
    }
    let script = known.script(shell);
    let terminal = Terminal::of(40, 160);
    let path = format!("PATH={}:/usr/local/bin:/usr/bin:/bin", known.folder.path().display());
    let addr = format!("CAPATAZ_ADDR={}", known.served.address());
    let home = format!("HOME={}", known.folder.path().display());
    let environment = [path.as_str(), &addr, &home, "LC_ALL=C.UTF-8", shell];
    let mut typed = terminal.starts("env", &[&environment[..], arguments].concat());
    terminal.shows(prompt);
    terminal.press(&format!("{}\n", begin.replace("SCRIPT", &script)));
    terminal.shows("is ready");
    terminal.press("capataz logs latest te\t");
    terminal.sees("the only task", |rows| rows.iter().any(|row| row.contains("capataz logs latest test")));
    terminal.press("\u{15}capataz agents check cri\t");
    terminal
        .sees("the only agent", |rows| rows.iter().any(|row| row.contains("capataz agents check critic")));
    terminal.press("\u{15}capataz runs list --parent=lat\t");
    terminal.sees("the only value", |rows| {
        rows.iter().any(|row| row.contains("capataz runs list --parent=latest"))
    });
    terminal.press("\u{15}capataz runs show \t");
    terminal.sees("the run, and what it is", |rows| {
        rows.iter().any(|row| row.contains(&known.run) && row.contains("nightly, succeeded"))
    });
    typed.kill().unwrap();
    typed.wait().unwrap();
}

#[test]
fn zsh_completes_runs_tasks_and_agents_that_the_daemon_knows() {
    completes_at_a_terminal(
        "zsh_completes_runs_tasks_and_agents_that_the_daemon_knows",
        "zsh",
        &["-f", "-i"],
        "autoload -U compinit && compinit -u -D && source SCRIPT && echo is\\ ready",
        "# ",
    );
}

#[test]
fn elvish_completes_runs_tasks_and_agents_that_the_daemon_knows() {
    completes_at_a_terminal(
        "elvish_completes_runs_tasks_and_agents_that_the_daemon_knows",
        "elvish",
        &["-norc"],
        "eval (slurp < SCRIPT); echo is' 'ready",
        "> ",
    );
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
