//! Completion in shells: the scripts that [`clap_complete`] makes of the command line, and the names that only a daemon knows.
//!
//! A script asks this program for these, with the hidden command [`VALUES`] and the words that were typed. Nothing else is told
//! there: no error, and nothing after [`PATIENCE`], because whoever presses a key waits for it.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use capataz_client::{Client, ClientError};
use capataz_contracts::v1;
use capataz_display::format::utc;
use capataz_display::frame::visible;
use capataz_display::run::status_name;
use clap::{Arg, ArgAction, CommandFactory};
use clap_complete::Shell;

use crate::address;
use crate::args::Cli;
use crate::commands::fetch::{self, LATEST};
use crate::output::Output;

/// The hidden command that completion scripts call.
pub const VALUES: &str = "__values";
/// How long somebody waits for names who has pressed a key.
const PATIENCE: Duration = Duration::from_millis(700);
/// Newest runs that are offered.
const MOST_RUNS: u32 = 50;
/// Tasks that are offered: one answer of the daemon.
const MOST_TASKS: u32 = 1_000;
/// Sessions that are offered: one answer of the daemon.
const MOST_SESSIONS: u32 = 500;

/// The script for a shell.
pub fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "capataz", &mut script);
    let Ok(script) = String::from_utf8(script) else { return Vec::new() };
    with_values(shell, &script).into_bytes()
}

/// The script, which asks for values before it looks for words of the command line.
fn with_values(shell: Shell, script: &str) -> String {
    match shell {
        Shell::Bash => {
            let (functions, registered) = script.split_at(script.rfind("\nif [[ ").unwrap_or(script.len()));
            let registered = registered.replace("complete -F _capataz ", "complete -F _capataz_or_values ");
            format!("{functions}{}{registered}", include_str!("bash.sh"))
        }
        Shell::Zsh => {
            let script = script.replacen("\n_capataz() {", "\n_capataz_static() {", 1);
            let (functions, begun) =
                script.split_at(script.rfind("if [ \"$funcstack[1]\"").unwrap_or(script.len()));
            format!("{functions}{}{begun}", include_str!("zsh.zsh"))
        }
        Shell::Fish => format!("{script}{}", include_str!("fish.fish")),
        Shell::Elvish => format!("{script}{}", include_str!("elvish.elv")),
        _ => script.to_owned(),
    }
}

/// Prints the script for a shell.
pub fn print(shell: Shell, out: &mut Output) {
    out.raw(&script(shell));
}

/// Prints the values that may stand in the place of the last of these words, each in a line with what it is behind a tab.
pub fn main(words: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Option<Vec<String>> = words.map(|word| word.into_string().ok()).collect();
    if let Some(wanted) = words.and_then(|words| Wanted::of(&rejoined(words))) {
        let mut out = Output::new(false, false, crate::args::Color::Never);
        for (value, about) in wanted.values() {
            // A name that is not shown as it is cannot be typed either.
            if visible(&value) == value {
                out.line(&format!("{value}\t{}", visible(&about)));
            }
        }
        out.flush();
    }
    ExitCode::SUCCESS
}

/// The words as they were typed: bash takes colons, equals signs and `@` for words of their own.
fn rejoined(words: Vec<String>) -> Vec<String> {
    let is_mark = |word: &str| !word.is_empty() && word.chars().all(|character| ":=@".contains(character));
    let mut joined: Vec<String> = Vec::new();
    let mut joins = false;
    for word in words {
        let is_mark = is_mark(&word);
        match joined.last_mut() {
            Some(last) if is_mark || joins => last.push_str(&word),
            _ => joined.push(word),
        }
        joins = is_mark;
    }
    joined
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// Runs, of one kind where the command is about that alone.
    Runs(Option<v1::RunKind>),
    /// Tasks of this run.
    Tasks(String),
    /// Open questions of this run.
    Questions(String),
    Agents,
    Sessions,
    Specs,
}

/// What is to be completed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    kind: Kind,
    /// What stands before the value in its word, such as `--session=`; mostly nothing.
    head: String,
    /// What of the value is typed.
    typed: String,
    /// The address of the daemon, where the command line says it.
    addr: Option<String>,
}

impl Wanted {
    /// What the last word is to be; `None` where the script knows better.
    fn of(words: &[String]) -> Option<Self> {
        let (typed, before) = words.split_last()?;
        let mut root = Cli::command();
        root.build();
        let mut command = &root;
        let mut path: Vec<&str> = Vec::new();
        let mut given: Vec<&str> = Vec::new();
        let mut addr = None;
        let (mut of_option, mut only_values) = (None, false);
        for word in before {
            if let Some(option) = of_option.take() {
                addr = if option == "addr" { Some(word.clone()) } else { addr };
            } else if only_values {
                given.push(word);
            } else if word == "--" {
                only_values = true;
            } else if word.len() > 1 && word.starts_with('-') {
                let (name, value) = word.split_once('=').map_or((word.as_str(), None), |(n, v)| (n, Some(v)));
                let option = option_of(command, name)?;
                match value {
                    Some(value) if option == "addr" => addr = Some(value.to_owned()),
                    Some(_) => {}
                    None => of_option = takes_value(command, option).then_some(option),
                }
            } else if let Some(below) = command.find_subcommand(word).filter(|_| given.is_empty()) {
                path.push(below.get_name());
                command = below;
            } else {
                given.push(word);
            }
        }
        let (mut head, mut typed) = ("", typed.as_str());
        if typed.starts_with('-') && !only_values {
            // An option may have its value in one word with it, unless the word is the value of the option before.
            let mark = typed.find('=').filter(|_| of_option.is_none())?;
            (head, typed) = typed.split_at(mark + 1);
            of_option = Some(option_of(command, head.trim_end_matches('='))?);
        }
        let kind = match of_option {
            Some(option) => kind_of_option(command, option)?,
            None => kind_of(command, &path, &given)?,
        };
        Some(Self { kind, head: head.to_owned(), typed: typed.to_owned(), addr })
    }

    /// The words with each value, and what it is; none where no daemon answers in time.
    fn values(&self) -> Vec<(String, String)> {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
            return Vec::new();
        };
        let asked = runtime.block_on(async { tokio::time::timeout(PATIENCE, self.ask()).await });
        // A file that is being looked for on a slow disk is not waited for.
        runtime.shutdown_background();
        let mut values = asked.ok().flatten().unwrap_or_default();
        values.retain(|(value, _)| value.starts_with(&self.typed));
        values.into_iter().map(|(value, about)| (format!("{}{value}", self.head), about)).collect()
    }

    async fn ask(&self) -> Option<Vec<(String, String)>> {
        let named = self.addr.clone().or_else(of_environment);
        let addr =
            tokio::task::spawn_blocking(move || address::meant(named.as_deref()).ok()).await.ok()??;
        self.asked(&Client::connect(&addr).await.ok()?).await.ok()
    }

    async fn asked(&self, client: &Client) -> Result<Vec<(String, String)>, ClientError> {
        match &self.kind {
            Kind::Runs(kind) => {
                let runs = newest(client, *kind, MOST_RUNS).await?;
                let about = |run: &v1::Run| format!("{}, {}", run.name, status_name(run));
                let is_meant = |run: &&v1::Run| kind.is_some() || run.parent.is_none();
                let latest = runs.iter().find(is_meant).or(runs.first());
                let latest = latest.map(|run| (LATEST.to_owned(), about(run)));
                Ok(latest
                    .into_iter()
                    .chain(runs.iter().map(|run| (run.run_id.clone(), about(run))))
                    .collect())
            }
            Kind::Tasks(run) => {
                let run_id = match named(client, run).await? {
                    Some(run_id) => run_id,
                    None => return Ok(Vec::new()),
                };
                let request = v1::GetRunRequest { run_id, task_limit: MOST_TASKS, ..Default::default() };
                let run = client.get_run(request).await?.run.unwrap_or_default();
                let tasks = run.waves.into_iter().flat_map(|wave| wave.tasks);
                Ok(tasks.map(|task| (task.name, task.agent)).collect())
            }
            Kind::Questions(run) => {
                let run_id = match named(client, run).await? {
                    Some(run_id) => run_id,
                    None => return Ok(Vec::new()),
                };
                let request = v1::GetRunRequest { run_id, summary_only: true, ..Default::default() };
                let run = client.get_run(request).await?.run.unwrap_or_default();
                let open = run.questions.into_iter().filter(|question| question.answer.is_none());
                Ok(open.map(|question| (question.question_id, question.text)).collect())
            }
            Kind::Sessions => {
                let mut sessions = fetch::some_sessions(client, MOST_SESSIONS).await?;
                sessions.sort_by_key(|session| std::cmp::Reverse(session.updated_at_ms));
                Ok(sessions.into_iter().map(|one| (one.session, utc(one.updated_at_ms))).collect())
            }
            Kind::Specs => {
                let specs = client.list_specs().await?.into_iter();
                Ok(specs.map(|spec| (spec.id, spec.title)).collect())
            }
            Kind::Agents => {
                let agents = client.list_agents().await?.into_iter().filter_map(|status| status.agent);
                Ok(agents.map(|agent| (agent.name, agent.category)).collect())
            }
        }
    }
}

/// The newest runs, of one kind where that is wanted.
async fn newest(client: &Client, kind: Option<v1::RunKind>, count: u32) -> Result<Vec<v1::Run>, ClientError> {
    let kind = kind.map(|kind| kind as i32);
    let request = v1::ListRunsRequest { page_size: count, kind, ..v1::ListRunsRequest::default() };
    Ok(client.list_runs(request).await?.runs)
}

/// The id of the run that is named by it, by `latest`, or by the only beginning or end that fits.
async fn named(client: &Client, run: &str) -> Result<Option<String>, ClientError> {
    if run.trim().is_empty() {
        return Ok(None);
    }
    if let Some(run_id) = fetch::whole(run) {
        return Ok(Some(run_id));
    }
    if run == LATEST {
        return fetch::latest(client, None).await;
    }
    let runs = newest(client, None, MOST_RUNS).await?;
    let mut ids = runs.into_iter().map(|run| run.run_id);
    let fits = |id: &String| id.starts_with(run) || id.ends_with(run);
    let found = ids.find(fits);
    Ok(found.filter(|_| !ids.any(|id| fits(&id))))
}

/// The address that counts where the command line has none, if the environment says one.
#[expect(clippy::disallowed_methods, reason = "the program reads its environment")]
fn of_environment() -> Option<String> {
    let command = Cli::command();
    let addr = command.get_arguments().find(|argument| argument.get_id() == "addr");
    let known = addr.and_then(Arg::get_env).and_then(|name| std::env::var(name).ok());
    known.filter(|known| !known.is_empty())
}

/// The id of the option that is written so; `None` where there is none.
fn option_of<'c>(command: &'c clap::Command, word: &str) -> Option<&'c str> {
    let is_so = |argument: &&Arg| match word.strip_prefix("--") {
        Some(long) => argument.get_long() == Some(long),
        // Of several short ones in a word, the last one may have a value.
        None => argument.get_short().is_some_and(|short| word.ends_with(short)),
    };
    command.get_arguments().find(is_so).map(|argument| argument.get_id().as_str())
}

fn takes_value(command: &clap::Command, id: &str) -> bool {
    let takes = |argument: &Arg| matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    command.get_arguments().find(|argument| argument.get_id() == id).is_some_and(takes)
}

/// What the next positional argument of the command is, behind those that are given.
fn kind_of(command: &clap::Command, path: &[&str], given: &[&str]) -> Option<Kind> {
    let positionals: Vec<&Arg> = command.get_positionals().collect();
    let is_repeated = |argument: &&&Arg| matches!(argument.get_action(), ArgAction::Append);
    let next = positionals.get(given.len()).or_else(|| positionals.last().filter(is_repeated))?;
    // Some commands are about runs of one kind.
    let kind = match path.first() {
        Some(&"browser") => "SCRIPT",
        Some(&"pipeline") => "PIPELINE",
        Some(&"mode") => "MODE",
        _ => "",
    };
    let of_runs = v1::RunKind::from_str_name(&format!("RUN_KIND_{kind}"));
    match (name_of(next)?.as_str(), path) {
        ("RUN" | "RUN[@SEQ]", _) => Some(Kind::Runs(of_runs)),
        (of_run @ ("TASK" | "QUESTION"), _) => {
            let run = positionals.iter().position(|argument| name_of(argument).as_deref() == Some("RUN"))?;
            let run = (*given.get(run)?).to_owned();
            Some(if of_run == "TASK" { Kind::Tasks(run) } else { Kind::Questions(run) })
        }
        ("SESSION", _) => Some(Kind::Sessions),
        ("NAME", ["agents", ..]) => Some(Kind::Agents),
        _ => None,
    }
}

/// What the value of this option of the command is.
fn kind_of_option(command: &clap::Command, id: &str) -> Option<Kind> {
    let option = command.get_arguments().find(|argument| argument.get_id() == id)?;
    match (id, name_of(option)?.as_str()) {
        ("session", _) => Some(Kind::Sessions),
        ("spec", _) => Some(Kind::Specs),
        (_, "RUN") => Some(Kind::Runs(None)),
        _ => None,
    }
}

/// The name of an argument's value.
fn name_of(argument: &Arg) -> Option<String> {
    argument.get_value_names().and_then(|names| names.first().map(|name| name.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(typed: &str) -> Vec<String> {
        typed.split(' ').map(str::to_owned).collect()
    }

    #[track_caller]
    fn check(typed: &str, expected: Option<(Kind, &str, Option<&str>)>) {
        check_in_one_word(typed, "", expected);
    }

    #[track_caller]
    fn check_in_one_word(typed: &str, head: &str, expected: Option<(Kind, &str, Option<&str>)>) {
        let expected = expected.map(|(kind, typed, addr)| Wanted {
            kind,
            head: head.to_owned(),
            typed: typed.to_owned(),
            addr: addr.map(str::to_owned),
        });
        assert_eq!(Wanted::of(&words(typed)), expected, "{typed}");
    }

    #[test]
    fn the_words_before_the_cursor_say_what_is_wanted() {
        let runs = Kind::Runs(None);
        check("runs show ", Some((runs.clone(), "", None)));
        check("runs show --json lat", Some((runs.clone(), "lat", None)));
        check("runs watch --timeout 5s 01", Some((runs.clone(), "01", None)));
        check("logs -n 20 ", Some((runs.clone(), "", None)));
        check("runs diff latest ", Some((runs.clone(), "", None)));
        check("runs delete 7f3a ", Some((runs.clone(), "", None)));
        // Scripts and executions have evidence.
        check("evidence ", Some((runs, "", None)));
        check("runs output latest bu", Some((Kind::Tasks("latest".to_owned()), "bu", None)));
        check(
            "browser observe ",
            Some((Kind::Runs(v1::RunKind::from_str_name("RUN_KIND_SCRIPT")), "", None)),
        );
        check("mode show ", Some((Kind::Runs(v1::RunKind::from_str_name("RUN_KIND_MODE")), "", None)));
        check("logs latest bu", Some((Kind::Tasks("latest".to_owned()), "bu", None)));
        check("logs latest build te", Some((Kind::Tasks("latest".to_owned()), "te", None)));
        check("runs retry 7f3a ", Some((Kind::Tasks("7f3a".to_owned()), "", None)));
        check("runs resolve latest q", Some((Kind::Questions("latest".to_owned()), "q", None)));
        check("agents check one tw", Some((Kind::Agents, "tw", None)));
        check("sessions show ", Some((Kind::Sessions, "", None)));
        check("router accept ca", Some((Kind::Sessions, "ca", None)));
        check("--addr http://a:1 agents stats ", Some((Kind::Agents, "", Some("http://a:1"))));
        check("agents stats --addr=http://a:1 -- -x", Some((Kind::Agents, "-x", Some("http://a:1"))));
    }

    #[test]
    fn the_value_of_an_option_is_known_as_well() {
        check("run plan.toml --session re", Some((Kind::Sessions, "re", None)));
        check("mode run -s ", Some((Kind::Sessions, "", None)));
        check("--addr http://a:1 ask hm --spec ki", Some((Kind::Specs, "ki", Some("http://a:1"))));
        check("runs list --parent ", Some((Kind::Runs(None), "", None)));
        // Behind its value it is over.
        check(
            "mode show --addr http://a:1 ",
            Some((Kind::Runs(Some(v1::RunKind::Mode)), "", Some("http://a:1"))),
        );
        for typed in ["run --session -", "router lint --specs ", "runs show --session ", "ask -s career "] {
            check(typed, None);
        }
    }

    #[test]
    fn an_option_may_have_its_value_in_one_word_with_it() {
        check_in_one_word("run plan.toml --session=re", "--session=", Some((Kind::Sessions, "re", None)));
        check_in_one_word("run --session= ", "", None);
        check_in_one_word("mode run -s=", "-s=", Some((Kind::Sessions, "", None)));
        let specs = Some((Kind::Specs, "ki=", Some("http://a:1")));
        check_in_one_word("--addr=http://a:1 ask hm --spec=ki=", "--spec=", specs);
        check_in_one_word("runs list --parent=", "--parent=", Some((Kind::Runs(None), "", None)));
        // No such option, one without names, and what is no option: the value of one, and what stands behind `--`.
        for typed in [
            "runs show --session=",
            "run --=",
            "runs list --name=x",
            "run --json=",
            "run --session --session=",
        ] {
            check(typed, None);
        }
        check("runs show -- --session=", Some((Kind::Runs(None), "--session=", None)));
    }

    #[test]
    fn what_the_script_knows_is_left_to_it() {
        for typed in [
            "",
            "ru",
            "runs ",
            "runs sh",
            "runs show --",
            "runs show latest ",
            "run ",
            "run plan",
            "runs show --at ",
            "logs latest --unknown ",
            "agents list ",
            "completions ",
            "runs list --name ",
        ] {
            check(typed, None);
        }
        assert_eq!(Wanted::of(&[]), None);
    }

    #[test]
    fn words_that_a_shell_has_parted_are_one_again() {
        let parted =
            ["--addr", "http", ":", "//127.0.0.1", ":", "7411", "runs", "show", ""].map(str::to_owned);
        assert_eq!(rejoined(parted.to_vec()), ["--addr", "http://127.0.0.1:7411", "runs", "show", ""]);
        let parted = ["--addr", "=", "http", ":", "//a", "logs", "latest", "@", "12"].map(str::to_owned);
        assert_eq!(rejoined(parted.to_vec()), ["--addr=http://a", "logs", "latest@12"]);
    }

    #[test]
    fn each_script_still_has_all_of_its_functions_and_registers_the_new_one() {
        for (shell, registered) in [
            (Shell::Bash, "complete -F _capataz_or_values -o nosort"),
            (Shell::Zsh, "compdef _capataz capataz"),
            (Shell::Fish, "complete -c capataz -k -f"),
            (Shell::Elvish, "var static = $edit:completion:arg-completer[capataz]"),
        ] {
            let script = String::from_utf8(script(shell)).expect("text");
            assert!(script.contains(registered) && script.contains(VALUES), "{shell}");
            assert!(!script.contains("complete -F _capataz "), "{shell}");
        }
        let zsh = String::from_utf8(script(Shell::Zsh)).expect("text");
        assert_eq!(zsh.matches("\n_capataz() {").count(), 1);
        assert_eq!(zsh.matches("\n_capataz_static() {").count(), 1);
    }
}
