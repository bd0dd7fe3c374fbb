//! Lines that a person types in a terminal: with editing, the lines of earlier conversations, and completion.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Config, Context, Editor, Helper};

use crate::watch::keys::Lent;

/// Lines that are kept for later conversations.
const MOST_LINES: usize = 1_000;

/// The first line of a file of lines, as rustyline writes it where it makes the file itself: for that it changes the mask of the
/// whole process.
const FORMAT: &[u8] = b"#V2\n";

/// What a person has typed.
#[derive(Debug, PartialEq, Eq)]
pub enum Typed {
    Line(String),
    /// Ctrl-C: this line is not meant.
    Interrupted,
    /// Ctrl-D, or a terminal that is gone.
    End,
}

/// A place in a terminal where lines are typed.
pub struct Prompt {
    /// `None` while a thread reads a line.
    editor: Option<Editor<Commands, FileHistory>>,
    /// The file of earlier lines; `None` where they cannot be kept.
    history: Option<PathBuf>,
    _mode: Lent,
}

impl Prompt {
    /// A prompt that completes these commands, and words behind those that have a list of them.
    ///
    /// # Errors
    /// The standard streams are no terminal.
    pub fn new(commands: Commands) -> io::Result<Self> {
        let mode = Lent::new()?;
        // A line that begins with a space is not kept, as in shells.
        let config = Config::builder().history_ignore_space(true).max_history_size(MOST_LINES);
        let config = config.map_err(io::Error::other)?.build();
        let history = FileHistory::with_config(&config);
        let mut editor = Editor::with_history(config, history).map_err(io::Error::other)?;
        editor.set_helper(Some(commands));
        let history = history_file().filter(|file| editor.load_history(file).is_ok());
        Ok(Self { editor: Some(editor), history, _mode: mode })
    }

    /// Reads a line. It must not be asked again after it was given up before it had a line.
    ///
    /// # Errors
    /// The terminal cannot be read.
    pub async fn line(&mut self, prompt: &'static str) -> io::Result<Typed> {
        let Some(mut editor) = self.editor.take() else { return Ok(Typed::End) };
        let history = self.history.clone();
        let read = tokio::task::spawn_blocking(move || {
            let line = editor.readline(prompt);
            if let Ok(line) = &line
                && matches!(editor.add_history_entry(line.as_str()), Ok(true))
                && let Some(file) = history
            {
                // A line that is not kept for later is no reason to stop here.
                let _ = editor.append_history(&file);
            }
            (editor, line)
        });
        let (editor, line) = read.await.map_err(io::Error::other)?;
        self.editor = Some(editor);
        match line {
            Ok(line) => Ok(Typed::Line(line)),
            Err(ReadlineError::Interrupted) => Ok(Typed::Interrupted),
            Err(ReadlineError::Eof) => Ok(Typed::End),
            Err(ReadlineError::Io(error)) => Err(error),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

/// Where earlier lines are kept, by the XDG rules: for the user alone, because people write what they would not tell others.
/// `None` where there is no folder for them.
#[expect(clippy::disallowed_methods, reason = "the rules are rules about the environment")]
fn history_file() -> Option<PathBuf> {
    let from = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let states = from("XDG_STATE_HOME").or_else(|| from("HOME").map(|home| home.join(".local/state")))?;
    let folder = states.join("capataz");
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
    let file = folder.join("ask-history");
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file) {
        Ok(mut created) => created.write_all(FORMAT).ok()?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(_) => return None,
    }
    Some(file)
}

/// The commands of a conversation, by which its lines are completed.
#[derive(Debug, Default)]
pub struct Commands {
    /// Each with the words that may stand behind it.
    pub commands: Vec<(&'static str, Vec<String>)>,
}

impl Commands {
    /// Where what is completed begins, and what may stand from there on.
    fn complete(&self, line: &str) -> (usize, Vec<String>) {
        match line.split_once(char::is_whitespace) {
            None if line.starts_with('/') => {
                let known = self.commands.iter().filter(|(command, _)| command.starts_with(line));
                let with_space = |(command, words): &(&str, Vec<String>)| match words.is_empty() {
                    true => (*command).to_owned(),
                    false => format!("{command} "),
                };
                (0, known.map(with_space).collect())
            }
            None => (line.len(), Vec::new()),
            Some((command, _)) => {
                // A space may have several bytes.
                let typed = line.rsplit(char::is_whitespace).next().unwrap_or_default();
                let start = line.len() - typed.len();
                let words =
                    self.commands.iter().filter(|(known, _)| *known == command).flat_map(|(_, words)| words);
                (start, words.filter(|word| word.starts_with(typed)).cloned().collect())
            }
        }
    }
}

impl Completer for Commands {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.complete(line.get(..at).unwrap_or_default()))
    }
}

impl Helper for Commands {}
impl Highlighter for Commands {}
impl Hinter for Commands {
    type Hint = String;
}
impl Validator for Commands {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_their_words_are_completed_and_nothing_else_is() {
        let names = ["billing", "bills", "travel"].map(str::to_owned).to_vec();
        let commands =
            Commands { commands: vec![("/spec", names), ("/sleep", Vec::new()), ("/why", Vec::new())] };
        let check = |line: &str, at: usize, expected: &[&str]| {
            let expected: Vec<String> = expected.iter().map(|&word| word.to_owned()).collect();
            assert_eq!(commands.complete(line), (at, expected), "{line:?}");
        };
        check("/", 0, &["/spec ", "/sleep", "/why"]);
        check("/s", 0, &["/spec ", "/sleep"]);
        check("/spec bil", 6, &["billing", "bills"]);
        check("/spec  t", 7, &["travel"]);
        check("/spec ñ", 6, &[]);
        check("/spec\u{3000}bil", 8, &["billing", "bills"]);
        check("/why b", 5, &[]);
        check("/x", 0, &[]);
        check("bil", 3, &[]);
        check("", 0, &[]);
    }
}
