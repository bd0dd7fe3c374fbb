//! What is wrong with a file, or with a value of the configuration: a line for people, and its parts for programs.

use std::fmt;

/// Something that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    /// The file that it is in; `None` for what a variable or a flag says.
    pub file: Option<String>,
    /// The line and the column, from 1; the column in characters.
    pub place: Option<(usize, usize)>,
    /// The path of the key, such as `agents[0].command`; empty where no key is meant.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// The known key, or the known value, that is probably meant.
    pub near: Option<String>,
}

/// The problems in the order in which a reader of the files meets them, file after file; what has no place comes behind.
pub(super) fn in_order(mut problems: Vec<Problem>) -> Vec<Problem> {
    let mut files: Vec<Option<String>> = Vec::new();
    for problem in &problems {
        if !files.contains(&problem.file) {
            files.push(problem.file.clone());
        }
    }
    problems.sort_by_key(|problem| {
        let file = files.iter().position(|file| *file == problem.file);
        (file, problem.place.is_none(), problem.place)
    });
    problems
}

impl Problem {
    /// One that a rule tells, which begins with the path of what it is about.
    pub(super) fn told(text: &str) -> Self {
        // The name of a variable or of a header may have a space, and no other part of a path has.
        let is_path = |path: &str| match path.split_once(char::is_whitespace) {
            Some((first, _)) => first.contains(['.', '[']),
            None => !path.is_empty(),
        };
        let (path, message) = match text.split_once(": ") {
            Some((path, message)) if is_path(path) => (path, message),
            _ => ("", text),
        };
        Self { path: path.to_owned(), message: message.to_owned(), ..Self::default() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(formatter, "{file}:")?;
            if let Some((line, column)) = self.place {
                write!(formatter, "{line}:{column}:")?;
            }
            formatter.write_str(" ")?;
        }
        if !self.path.is_empty() {
            write!(formatter, "{}: ", self.path)?;
        }
        formatter.write_str(&self.message)
    }
}

/// A line for each of them.
pub(super) fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_rule_tells_has_its_path_and_reads_as_before() {
        for (text, path, message) in [
            ("agents[0].command: no: program", "agents[0].command", "no: program"),
            ("listen: no", "listen", "no"),
            ("agents[0].env.MY VAR: no", "agents[0].env.MY VAR", "no"),
            ("3 more: problems", "", "3 more: problems"),
            ("a text", "", "a text"),
        ] {
            let problem = Problem::told(text);
            assert_eq!((problem.path.as_str(), problem.message.as_str()), (path, message));
            assert_eq!(problem.to_string(), text);
        }
        let placed =
            Problem { file: Some("c.toml".into()), place: Some((2, 7)), ..Problem::told("listen: no") };
        assert_eq!(placed.to_string(), "c.toml:2:7: listen: no");
        let of_file = Problem { place: None, ..placed };
        assert_eq!(of_file.to_string(), "c.toml: listen: no");
    }
}
