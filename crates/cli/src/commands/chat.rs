//! `capataz ask` without a text: a conversation.

use std::io::IsTerminal as _;

use capataz_contracts::{json, v1};
use capataz_policy::codes;
use tokio::io::{AsyncBufReadExt, BufReader, Stdin};

use super::ask::{Asking, document, ended, show};
use super::{Daemon, Outcome};
use crate::args::AskArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::near::{self, Near};
use crate::output::Output;
use crate::prompt::{Commands, Prompt, Typed};
use capataz_display::answer as display;
use capataz_display::words::{fill, words};

/// Reads one message a line, until the input ends.
pub async fn converse(daemon: &Daemon, args: &AskArgs, out: &mut Output) -> Outcome {
    let session = args.session.clone().unwrap_or_else(new_session);
    let asking = Asking { daemon, args, session: Some(session.clone()) };
    let mut conversation = Conversation::default();
    if let Some(spec) = &args.spec {
        conversation.choose(&asking, spec).await?;
    }
    let mut lines = Lines::of(&asking, out).await;
    if !out.json {
        out.note(&fill(words().ask.welcome, &[&session]));
    }
    loop {
        let line = match lines.next(out).await? {
            Some(line) => line,
            None if lines.is_interrupted() => return Ok(Exit::Interrupted),
            None => return Ok(Exit::Ok),
        };
        let line = line.trim();
        if out.is_closed() || line == "/quit" {
            return Ok(Exit::Ok);
        }
        if line.is_empty() {
            continue;
        }
        let taken = tokio::select! {
            taken = conversation.take(&asking, line, out) => taken,
            // The ask goes on: who asks again in this session comes after it.
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Interrupted),
        };
        // A refused message does not end the conversation; the loss of the daemon does.
        match taken {
            Ok(()) => {}
            Err(failure) if failure.exit() == Exit::Unreachable => return Err(failure),
            Err(failure) => failure.tell(out),
        }
    }
}

/// Where the lines of a conversation come from.
enum Lines {
    /// A person, who has pressed Ctrl-C so many times since the last line.
    Typed { prompt: Box<Prompt>, interrupts: u32 },
    /// Anything else.
    Read { lines: tokio::io::Lines<BufReader<Stdin>>, is_interrupted: bool },
}

impl Lines {
    async fn of(asking: &Asking<'_>, out: &Output) -> Self {
        if out.terminal && !out.json && std::io::stdin().is_terminal() {
            // Without their names the conversation is the same.
            let names = specs(asking).await.unwrap_or_default();
            let plain = ["/accept", "/help", "/quit", "/why"].map(|command| (command, Vec::new()));
            let commands = plain.into_iter().chain([("/spec", names)]).collect();
            if let Ok(prompt) = Prompt::new(Commands { commands }) {
                return Self::Typed { prompt: Box::new(prompt), interrupts: 0 };
            }
        }
        Self::Read { lines: BufReader::new(tokio::io::stdin()).lines(), is_interrupted: false }
    }

    /// The next line; `None` at the end, or where a person wants it to be the end.
    async fn next(&mut self, out: &mut Output) -> Result<Option<String>, Failure> {
        let failed = |error: std::io::Error| Failure::failed(error.to_string());
        match self {
            Self::Typed { prompt, interrupts } => loop {
                let typed = tokio::select! {
                    typed = prompt.line(words().ask.prompt) => typed.map_err(failed)?,
                    // Pressed before the line could be typed, or sent: a signal and no key.
                    _ = tokio::signal::ctrl_c() => {
                        *interrupts += 1;
                        return Ok(None);
                    }
                };
                *interrupts = if typed == Typed::Interrupted { *interrupts + 1 } else { 0 };
                match typed {
                    Typed::Line(line) => return Ok(Some(line)),
                    Typed::Interrupted if *interrupts == 1 => out.note(words().ask.interrupted),
                    Typed::Interrupted | Typed::End => return Ok(None),
                }
            },
            Self::Read { lines, is_interrupted } => tokio::select! {
                line = lines.next_line() => line.map_err(failed),
                _ = tokio::signal::ctrl_c() => {
                    *is_interrupted = true;
                    Ok(None)
                }
            },
        }
    }

    fn is_interrupted(&self) -> bool {
        match self {
            Self::Typed { interrupts, .. } => *interrupts > 0,
            Self::Read { is_interrupted, .. } => *is_interrupted,
        }
    }
}

/// State that a conversation keeps between its messages.
#[derive(Default)]
struct Conversation {
    /// The spec of the next message, if the user chose one.
    spec: Option<String>,
    last: Option<String>,
    /// The request whose answer suggests a transition.
    suggested: Option<String>,
}

impl Conversation {
    async fn take(&mut self, asking: &Asking<'_>, line: &str, out: &mut Output) -> Result<(), Failure> {
        let texts = &words().ask;
        let (command, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match command {
            // Only answers are the output: with --json, a document a line.
            "/help" => out.note(texts.help),
            "/accept" => return self.accept(asking, out).await,
            "/why" => match &self.last {
                Some(text) => {
                    let explained = asking.explain(text).await?;
                    match out.json {
                        true => out.record(&json::print("capataz.v1.ExplainResponse", &explained)),
                        false => out.line(&display::explanation(&explained, out.paint)),
                    }
                }
                None => out.note(texts.nothing_asked),
            },
            "/spec" if rest.trim().is_empty() => {
                let specs = specs(asking).await?;
                out.note(&listed(&specs));
            }
            "/spec" => {
                self.choose(asking, rest.trim()).await?;
                out.note(&fill(texts.next_spec, &[rest.trim()]));
            }
            command if command.starts_with('/') => out.note(&fill(texts.unknown_command, &[command])),
            _ => return self.say(asking, line, out).await,
        }
        Ok(())
    }

    /// Chooses the spec of the next message.
    async fn choose(&mut self, asking: &Asking<'_>, name: &str) -> Result<(), Failure> {
        let specs = specs(asking).await?;
        let texts = &words().ask;
        if specs.iter().any(|spec| spec == name) {
            self.spec = Some(name.to_owned());
            return Ok(());
        }
        let names = near::names(name, specs.iter().map(String::as_str));
        let (hint, near) = match names.is_empty() {
            true => (listed(&specs), Vec::new()),
            false => {
                let hint = fill(words().errors.did_you_mean, &[name, &names.join(", ")]);
                (hint, vec![Near { name: name.to_owned(), names }])
            }
        };
        let (code, message) = (codes::SPEC_NOT_FOUND.as_str(), fill(texts.no_such_spec, &[name]));
        Err(Failure::Unknown { code, message, hint, near })
    }

    async fn say(&mut self, asking: &Asking<'_>, text: &str, out: &mut Output) -> Result<(), Failure> {
        let asked = match asking.ask(text.to_owned(), self.spec.clone(), None).await {
            Ok(asked) => asked,
            Err(failure) => {
                // The choice is for a message that is taken, as long as there is the spec.
                if failure.code() == Some(codes::SPEC_NOT_FOUND.as_str()) {
                    self.spec = None;
                }
                return Err(failure);
            }
        };
        self.spec = None;
        self.last = Some(text.to_owned());
        if out.json {
            out.record(&document(&asked));
        }
        let Some(result) = ended(&asked, asking.args.timeout, out) else { return Ok(()) };
        let suggested = result
            .transition
            .as_ref()
            .filter(|transition| transition.verdict() == v1::TransitionVerdict::Suggested);
        self.suggested = suggested.map(|_| result.request_id.clone());
        if !out.json {
            show(&asked, &result, out);
            if let Some(hint) =
                suggested.and_then(|suggested| display::hint(suggested, words().ask.accept_here, out.paint))
            {
                out.line(&hint);
            }
        }
        Ok(())
    }

    async fn accept(&mut self, asking: &Asking<'_>, out: &mut Output) -> Result<(), Failure> {
        let texts = &words().ask;
        let (Some(request_id), Some(session)) = (&self.suggested, &asking.session) else {
            out.note(texts.nothing_to_accept);
            return Ok(());
        };
        let accepted = asking.daemon.client.accept_transition(session, request_id).await;
        let accepted = accepted.map_err(|error| asking.daemon.failure(error))?;
        self.suggested = None;
        if out.json {
            out.record(&json::print("capataz.v1.AcceptTransitionResponse", &accepted));
        } else {
            out.line(&fill(texts.moved, &[&accepted.to]));
        }
        Ok(())
    }
}

/// A new session name that no other session has.
fn new_session() -> String {
    format!("cli-{}", uuid::Uuid::now_v7().simple())
}

/// The specs that the daemon has.
async fn specs(asking: &Asking<'_>) -> Result<Vec<String>, Failure> {
    let specs = asking.daemon.client.list_specs().await.map_err(|error| asking.daemon.failure(error))?;
    Ok(specs.into_iter().map(|spec| spec.id).collect())
}

fn listed(specs: &[String]) -> String {
    match specs {
        [] => words().router.no_specs.to_owned(),
        specs => fill(words().ask.specs_are, &[&specs.join(", ")]),
    }
}
