//! The `capataz` command: a daemon, and everything that a person or a script does with one.
//!
//! The program decides nothing about runs, and has no second way into the daemon: every command that asks one is a client of
//! the API like any other, also where `demo` and `--local` have the daemon in this process. Only [`output`] writes to the
//! terminal, and all texts are in [`capataz_display::words`]. Begin reading with [`args`], then [`commands`];
//! [`capataz_display`] formats results, [`watch`] follows runs.

mod address;
mod args;
mod commands;
mod completion;
mod demo;
mod exit;
mod failure;
mod help;
mod html_report;
mod language;
mod near;
mod output;
mod pipeline_source;
mod plan_source;
mod problem;
mod prompt;
mod script;
mod sources;
mod state_file;
mod watch;
mod whole_file;
#[cfg(test)]
mod wrong_forms;

use std::ffi::OsString;
use std::pin::Pin;
use std::process::ExitCode;

use args::{
    BrowserCommand, Cli, Color, Command, ModeCommand, PipelineCommand, RouterCommand, SessionsCommand,
};
use capataz_display::paint::Paint;
use capataz_display::words::{Language, fill, words};
use clap::builder::StyledStr;
use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches};
use exit::Exit;
use failure::Failure;
use output::Output;

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The hidden subcommand under which process agents run.
const SHIM: &str = "__shim";

fn main() -> ExitCode {
    // This comes before anything else: the parent of an agent's command starts no threads and reads no settings.
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next().as_deref().and_then(|first| first.to_str()) {
        Some(SHIM) => return capataz_daemon::shim_main(arguments),
        Some(demo::agent::MODE) => return demo::agent::main(arguments),
        Some(completion::VALUES) => return completion::main(arguments),
        _ => {}
    }
    let cli = match parsed(Cli::command()) {
        Ok(cli) => cli,
        Err(error) => return unparsed(&error),
    };
    cli.global.lang.map(Language::from).or_else(language::of_locale).unwrap_or_default().choose();
    let mut out = Output::new(cli.global.json, cli.global.boxes, cli.global.color);
    if cli.global.json {
        // Programs read the same wherever they run.
        Language::English.choose();
    }
    let exit = execute(cli, &mut out).unwrap_or_else(|failure| {
        failure.tell(&mut out);
        failure.exit()
    });
    ended(exit, &mut out)
}

/// The exit code of the process, when all is written. That something could not be written is told, and is no success.
fn ended(exit: Exit, out: &mut Output) -> ExitCode {
    out.flush();
    let Some(error) = out.error() else { return exit.into() };
    let failure = Failure::failed(fill(words().errors.no_stdout, &[&error.to_string()]));
    out.note(&failure.to_text(out.form, out.error_paint()));
    let exit = if exit == Exit::Ok { failure.exit() } else { exit };
    exit.into()
}

/// Tells what there is to tell of a command line that is help, or wrong: programs in a document, as of any other error.
fn unparsed(error: &clap::Error) -> ExitCode {
    let arguments = || std::env::args_os().skip(1);
    let mut out = Output::new(error.use_stderr() && asks_for_json(arguments()), false, Color::Auto);
    if out.json {
        let failure = Failure::invalid(help::plain(error));
        failure.tell(&mut out);
        return ended(failure.exit(), &mut out);
    }
    language::of_unparsed(arguments()).choose();
    let told = in_words(error);
    let written = |paint: Paint| if paint.is_on() { told.ansi().to_string() } else { told.to_string() };
    if error.use_stderr() {
        out.note(written(out.error_paint()).trim_end_matches('\n'));
        return Exit::Invalid.into();
    }
    out.raw(written(out.paint).as_bytes());
    ended(Exit::Ok, &mut out)
}

/// Whether a command line that nobody has parsed asks for JSON.
fn asks_for_json(arguments: impl Iterator<Item = OsString>) -> bool {
    let mut options = arguments.take_while(|argument| argument.to_str() != Some("--"));
    options.any(|argument| argument.to_str() == Some("--json"))
}

/// The command line. `--addr` is for those who talk to a daemon, and who types it elsewhere means something that is not done:
/// whoever starts one says `--listen`.
fn parsed(mut command: clap::Command) -> Result<Cli, clap::Error> {
    let matches = command
        .try_get_matches_from_mut(std::env::args_os())
        .map_err(|error| help::with_groups(error, &command, std::env::args_os().skip(1)))?;
    let mut cli = Cli::from_arg_matches(&matches)?;
    let of_command = matches.subcommand().map_or(&matches, |(_, of_command)| of_command);
    let said_by = of_command.value_source("addr");
    let is_typed = said_by == Some(ValueSource::CommandLine);
    // Who types a folder means it, whatever the environment says; and an empty variable says nothing.
    if !is_typed && (names_folder(&cli.command) || cli.global.addr.as_deref() == Some("")) {
        cli.global.addr = None;
    }
    // A variable of a shell that is not set is no address, and no other daemon is meant.
    let empty = (cli.global.addr.as_deref() == Some("")).then_some(words().wrong.addr_empty);
    match empty.or_else(|| conflict(&cli.command, is_typed)) {
        Some(message) => Err(help::conflict(&mut command, message)),
        None => Ok(cli),
    }
}

/// Whether the command line names the folder of the daemon that is meant.
fn names_folder(command: &Command) -> bool {
    let folder = match command {
        Command::Status(args) => &args.folder,
        Command::Stop(args) => &args.folder,
        _ => return false,
    };
    folder.config.is_some() || folder.data_dir.is_some()
}

/// Whether the command talks to no daemon, or to one of its own.
fn needs_no_daemon(command: &Command) -> bool {
    match command {
        Command::Init(_)
        | Command::Demo(_)
        | Command::Contract(_)
        | Command::Errors(_)
        | Command::Rebuild(_)
        | Command::Backup(_)
        | Command::Restore(_)
        | Command::Verify(_)
        | Command::Completions { .. }
        | Command::Man { .. } => true,
        Command::Act(args) => args.command.is_some(),
        Command::Pipeline(PipelineCommand::List | PipelineCommand::Lint { .. }) => true,
        Command::Router(RouterCommand::Eval(_) | RouterCommand::Lint(_)) => true,
        Command::Sessions(
            SessionsCommand::Validate(_) | SessionsCommand::Repair(_) | SessionsCommand::Restore(_),
        ) => true,
        Command::Mode(command) => matches!(**command, ModeCommand::List),
        Command::Browser(command) => matches!(**command, BrowserCommand::Doctor(_)),
        _ => false,
    }
}

/// Which arguments of the command exclude each other, and why; `is_named` says whether `--addr` is among them.
fn conflict(command: &Command, is_named: bool) -> Option<&'static str> {
    let texts = &words().wrong;
    let (is_local, is_detached) = match command {
        Command::Serve(_) => return is_named.then_some(texts.addr_of_serve),
        command if needs_no_daemon(command) => return is_named.then_some(texts.addr_of_none),
        Command::Run(args) => (args.local.local, args.following.detach),
        Command::Act(args) => (args.local.local, args.detach),
        Command::Ask(args) => (args.local.local, false),
        _ => (false, false),
    };
    match is_local {
        true if is_detached => Some(texts.detach_of_local),
        true if is_named => Some(texts.addr_of_local),
        _ => None,
    }
}

/// The help that was asked for, or what is wrong, in the language in use.
fn in_words(error: &clap::Error) -> StyledStr {
    let told = match Language::current() {
        Language::English => None,
        // The same once more, with all texts in the other language.
        Language::Spanish => parsed(help::in_words(Cli::command())).err(),
    };
    told.map_or_else(|| error.render(), |told| told.apply::<help::InWords>().render())
}

fn execute(cli: Cli, out: &mut Output) -> commands::Outcome {
    let Cli { global, command } = cli;
    // Commands that need no async runtime do not start one.
    let command = match command {
        Command::Init(args) => return commands::init::init(&args, out),
        Command::Contract(command) => return commands::contract::contract(command, out),
        Command::Errors(command) => return commands::errors::errors(command, out),
        Command::Act(args) if args.command.is_some() => {
            return args.command.map_or(Ok(Exit::Ok), |command| commands::act::check(command, out));
        }
        Command::Pipeline(command) => match commands::pipeline::without_daemon(&command, out) {
            Some(outcome) => return outcome,
            None => Command::Pipeline(command),
        },
        Command::Router(RouterCommand::Eval(args)) => return commands::router::eval(&args, out),
        Command::Router(RouterCommand::Lint(args)) => return commands::router::lint(&args, out),
        Command::Rebuild(args) => return commands::rebuild::rebuild(args, out),
        Command::Backup(args) => return commands::backup::backup(args, out),
        Command::Restore(args) => return commands::backup::restore(args, out),
        Command::Verify(args) => return commands::backup::verify(args, out),
        Command::Man { folder } => return commands::man::man(folder.as_deref(), out),
        Command::Completions { shell } => {
            completion::print(shell, out);
            return Ok(Exit::Ok);
        }
        command => command,
    };
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Failure::failed(fill(words().serve.no_runtime, &[&error.to_string()])))?;
    // Boxed, and without its type: the runtime has several copies of what it drives, and with the type each of them
    // would hold every command again.
    let work: Pin<Box<dyn Future<Output = commands::Outcome> + '_>> = Box::pin(async {
        match command {
            Command::Serve(args) => commands::serve::serve(args, out).await,
            Command::Status(args) => commands::status::status(args, &global, out).await,
            Command::Stop(args) => commands::status::stop(args, &global, out).await,
            Command::Demo(args) => commands::demo::demo(args, out).await,
            Command::Run(args) => commands::run::run(args, &global, out).await,
            Command::Runs(command) => commands::runs::runs(command, &global, out).await,
            Command::Ask(args) => commands::ask::ask(args, &global, out).await,
            Command::Act(args) => commands::act::act(*args, &global, out).await,
            Command::Pipeline(command) => commands::pipeline::pipeline(command, &global, out).await,
            Command::Analytics { since } => commands::analytics::analytics(since, &global, out).await,
            Command::Memory(command) => commands::memory::memory(command, &global, out).await,
            Command::Mode(command) => commands::mode::mode(*command, &global, out).await,
            Command::Logs(args) => commands::logs::logs(args, &global, out).await,
            Command::Evidence(args) => commands::evidence::evidence(args, &global, out).await,
            Command::Browser(command) => commands::browser::browser(*command, &global, out).await,
            Command::Router(command) => commands::router::router(command, &global, out).await,
            Command::Agents(command) => commands::agents::agents(command, &global, out).await,
            Command::Sessions(command) => commands::sessions::sessions(command, &global, out).await,
            Command::Doctor(args) => commands::machine::doctor(args, &global, out).await,
            Command::Init(_)
            | Command::Contract(_)
            | Command::Errors(_)
            | Command::Rebuild(_)
            | Command::Backup(_)
            | Command::Restore(_)
            | Command::Verify(_)
            | Command::Man { .. }
            | Command::Completions { .. } => Ok(Exit::Ok),
        }
    });
    let outcome = runtime.block_on(async {
        match work.await {
            Err(failure) => Err(near::hinted(failure).await),
            done => done,
        }
    });
    // A thread that still reads a line from the standard input does not hold up the exit.
    runtime.shutdown_background();
    watch::keys::close();
    outcome
}
