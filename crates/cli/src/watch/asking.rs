//! Questions of a run that are answered in lines where it is watched.

use std::collections::BTreeSet;
use std::io::{self, BufRead, IsTerminal};

use capataz_client::Client;
use capataz_contracts::v1;
use capataz_display::error;
use capataz_display::frame::{visible, visible_block};
use capataz_display::model::Run;
use capataz_display::paint::{Paint, Tone};
use capataz_display::words::{fill, words};
use tokio::sync::mpsc;

use crate::commands::mode::{changed_plan, plan_value};
use crate::output::Output;

const EDIT: &str = "edit";

/// The person at the terminal, who is asked one question at a time.
pub struct Asking {
    reader: Reader,
    /// The question whose prompt is shown.
    current: Option<v1::Question>,
    /// Questions that the person has left open.
    left: BTreeSet<String>,
}

impl Asking {
    /// `None` where nobody could answer.
    pub fn new(out: &Output) -> Option<Self> {
        let somebody = io::stdin().is_terminal() && out.terminal && !out.json;
        somebody.then(|| Self { reader: Reader::default(), current: None, left: BTreeSet::new() })
    }

    /// Whether a prompt is shown, so that nothing else may be written below it.
    pub fn is_open(&self) -> bool {
        self.current.is_some()
    }

    /// Whether there is a question to be asked, or one that is asked no more.
    pub fn has_news(&self, run: &Run) -> bool {
        match &self.current {
            Some(current) => !run.questions.iter().any(|open| same(open, current)),
            None => self.next(run).is_some(),
        }
    }

    fn next<'r>(&self, run: &'r Run) -> Option<&'r v1::Question> {
        // The questions of a plan are answered by keys, and by commands.
        let open = run.questions.iter().filter(|_| !run.names_tasks);
        open.into_iter().find(|open| !self.left.contains(&key(open)))
    }

    /// Shows the next question, with its options, and begins to read.
    pub fn ask(&mut self, run: &Run, out: &mut Output) {
        if self.current.take().is_some() {
            self.reader.turn_away();
            out.line("");
            out.line(&out.paint.text(Tone::Faint, words().asking.gone));
        }
        if let Some(question) = self.next(run).cloned() {
            out.line(&prompt(&question, out.paint));
            out.flush();
            self.reader.begin();
            self.current = Some(question);
        }
    }

    /// What the person has typed; for ever nothing where nobody is asked.
    pub async fn typed(&mut self) -> Option<String> {
        match self.current {
            Some(_) => self.reader.line().await,
            None => std::future::pending().await,
        }
    }

    /// Answers with what was typed. An empty line leaves the question open; what is no answer is asked again.
    pub async fn answer(&mut self, client: &Client, run_id: &str, typed: Option<String>, out: &mut Output) {
        let Some(question) = self.current.take() else { return };
        // Nobody types any more.
        let Some(typed) = typed else {
            self.left.insert(key(&question));
            return;
        };
        let typed = typed.trim();
        if typed.is_empty() {
            out.line(
                &out.paint.text(Tone::Faint, &fill(words().asking.left, &[run_id, &question.question_id])),
            );
            self.left.insert(key(&question));
            return;
        }
        let told = match chosen(&question, typed) {
            Some(option) => resolve(client, run_id, &question, option).await,
            None => Err(fill(words().asking.no_option, &[typed])),
        };
        match told {
            Ok(option) => {
                // It is open until the answer's event comes.
                self.left.insert(key(&question));
                out.line(&error::ok(&fill(words().asking.answered, &[&option]), out.paint));
            }
            Err(problem) => {
                out.line(&out.paint.text(Tone::Bad, &problem));
                out.line(&prompt(&question, out.paint));
                self.reader.begin();
                self.current = Some(question);
            }
        }
        out.flush();
    }
}

/// A question that changes while it is open is another one.
fn key(question: &v1::Question) -> String {
    format!("{} {}", question.question_id, question.revision)
}

fn same(open: &v1::Question, asked: &v1::Question) -> bool {
    key(open) == key(asked)
}

fn prompt(question: &v1::Question, paint: Paint) -> String {
    let numbered = question.options.iter().zip(1..);
    let options: Vec<String> = numbered.map(|(option, n)| format!("{n} {}", visible(option))).collect();
    let text = format!("? {}", visible(&question.text));
    format!("{}\n  {}\n  {}", paint.text(Tone::Strong, &text), options.join("   "), words().asking.how)
}

/// The option of this number, or of this name, or the only one that begins so.
fn chosen<'q>(question: &'q v1::Question, typed: &str) -> Option<&'q str> {
    let by_number = || typed.parse::<usize>().ok().and_then(|n| question.options.get(n.checked_sub(1)?));
    let by_name = || question.options.iter().find(|option| *option == typed);
    let by_beginning = || {
        let typed = typed.to_lowercase();
        let mut so = question.options.iter().filter(|option| option.to_lowercase().starts_with(&typed));
        so.next().filter(|_| so.next().is_none())
    };
    by_name().or_else(by_number).or_else(by_beginning).map(String::as_str)
}

async fn resolve(
    client: &Client,
    run_id: &str,
    question: &v1::Question,
    option: &str,
) -> Result<String, String> {
    let is_about_plan = question.purpose() == v1::QuestionPurpose::Plan;
    let typed = match is_about_plan && option == EDIT {
        true => Some(changed_plan(client, run_id, question).await?),
        false => None,
    };
    let value = typed.as_ref().map(|typed| plan_value(typed.plan.clone()));
    let request = v1::ResolveRequest {
        run_id: run_id.to_owned(),
        question_id: question.question_id.clone(),
        answer: option.to_owned(),
        request_id: uuid::Uuid::now_v7().to_string(),
        revision: Some(question.revision).filter(|revision| *revision > 0),
        value,
        ..v1::ResolveRequest::default()
    };
    match client.resolve(request).await {
        Ok(_) => Ok(option.to_owned()),
        Err(error) => {
            let wrong =
                error.violations().iter().map(|wrong| format!("\n  {}: {}", wrong.path, wrong.message));
            let wrong = visible_block(&wrong.collect::<String>());
            let kept = typed.map(|typed| format!("\n{}", typed.keep(run_id))).unwrap_or_default();
            Err(format!("{}{wrong}{kept}", visible(error.message())))
        }
    }
}

/// Reads a line of the terminal at a time, and only where one is wanted: between two of them the terminal is an editor's.
#[derive(Default)]
struct Reader {
    threads: Option<(std::sync::mpsc::Sender<()>, mpsc::UnboundedReceiver<String>)>,
    /// A line is wanted, and has not come.
    reads: bool,
    /// The line that is being typed was begun for a question that is not there any more.
    is_stale: bool,
}

impl Reader {
    fn begin(&mut self) {
        let (wanted, _) = self.threads.get_or_insert_with(|| {
            let (wanted, wants) = std::sync::mpsc::channel::<()>();
            let (lines, read) = mpsc::unbounded_channel();
            // It ends with the program: nobody can take a read of a terminal back.
            std::thread::spawn(move || {
                while wants.recv().is_ok() {
                    let mut line = String::new();
                    match io::stdin().lock().read_line(&mut line) {
                        Ok(1..) if lines.send(line).is_ok() => {}
                        _ => return,
                    }
                }
            });
            (wanted, read)
        });
        if !self.reads {
            self.reads = wanted.send(()).is_ok();
        }
    }

    /// What is being typed is an answer to nothing that is asked from now on.
    fn turn_away(&mut self) {
        self.is_stale = self.reads;
    }

    /// The next line; `None` where there is none any more.
    async fn line(&mut self) -> Option<String> {
        loop {
            let (_, lines) = self.threads.as_mut()?;
            let line = lines.recv().await;
            self.reads = false;
            if line.is_none() || !std::mem::take(&mut self.is_stale) {
                return line;
            }
            self.begin();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_chosen_by_its_number_its_name_or_the_beginning_of_it() {
        let options = ["approve", "edit", "reject", "retry later"].map(str::to_owned).to_vec();
        let question = v1::Question { options, ..v1::Question::default() };
        for (typed, expected) in [
            ("1", Some("approve")),
            ("4", Some("retry later")),
            ("0", None),
            ("5", None),
            ("edit", Some("edit")),
            ("A", Some("approve")),
            ("re", None),
            ("rej", Some("reject")),
            ("2nd", None),
            ("no", None),
        ] {
            assert_eq!(chosen(&question, typed), expected, "{typed}");
        }
        // What is typed as it stands there is what is meant.
        let options = ["continue", "1", "2"].map(str::to_owned).to_vec();
        let question = v1::Question { options, ..v1::Question::default() };
        assert_eq!(chosen(&question, "1"), Some("1"));
        assert_eq!(chosen(&question, "3"), Some("2"));
    }
}
