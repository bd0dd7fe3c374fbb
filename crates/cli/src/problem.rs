//! What is wrong with files that this program reads: a line each for people, and an object each for programs.

use capataz_router::SpecFileError;
use serde_json::{Map, Value};

use capataz_display::frame::visible;
use capataz_display::words::messages::placed_refusal;

/// Something that is wrong. What is not known of it is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problem {
    pub file: Option<String>,
    /// From 1; the column in characters.
    pub line: Option<usize>,
    pub column: Option<usize>,
    /// The key in the file, such as `agents[0].command`; empty where none is meant.
    pub path: String,
    pub code: Option<&'static str>,
    /// The rule of spec files that is broken.
    pub rule: Option<&'static str>,
    pub message: String,
    /// The known name that is probably meant.
    pub near: Option<String>,
    /// What to do about it.
    pub remedy: Option<String>,
}

impl Problem {
    /// One that has no place.
    pub fn plain(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// `FILE:LINE:COLUMN: PATH: MESSAGE (RULE)`, in the language in use.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        if let Some(file) = &self.file {
            let numbers = [self.line, self.column].into_iter().flatten().map(|number| format!("{number}:"));
            text.push_str(&format!("{file}:{} ", numbers.collect::<String>()));
        }
        if !self.path.is_empty() {
            text.push_str(&format!("{}: ", self.path));
        }
        text.push_str(&self.message);
        if let Some(rule) = self.rule {
            text.push_str(&format!(" ({rule})"));
        }
        visible(&placed_refusal(&text))
    }

    pub fn to_json(&self) -> Value {
        let texts = [
            ("file", self.file.as_deref()),
            ("code", self.code),
            ("rule", self.rule),
            ("near", self.near.as_deref()),
            ("remedy", self.remedy.as_deref()),
        ];
        let numbers = [("line", self.line), ("column", self.column)];
        let mut object = Map::new();
        object.extend(texts.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text?.into()))));
        object.extend(numbers.into_iter().filter_map(|(key, number)| Some((key.to_owned(), number?.into()))));
        object.insert("path".to_owned(), self.path.as_str().into());
        object.insert("message".to_owned(), self.message.as_str().into());
        object.into()
    }
}

impl From<capataz_daemon::Problem> for Problem {
    fn from(problem: capataz_daemon::Problem) -> Self {
        let capataz_daemon::Problem { file, place, path, message, near } = problem;
        let (line, column) = place.unzip();
        Self { file, line, column, path, message, near, ..Self::default() }
    }
}

impl From<&SpecFileError> for Problem {
    fn from(error: &SpecFileError) -> Self {
        Self {
            file: Some(error.file.clone()),
            line: Some(error.line),
            column: Some(error.column),
            path: error.key.clone(),
            rule: Some(error.code.as_str()),
            message: error.message.clone(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use capataz_display::words::Language;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_problem_is_a_line_for_people_and_its_parts_for_programs() {
        let of_config = Problem::from(capataz_daemon::Problem {
            file: Some("capataz.toml".to_owned()),
            place: Some((1, 7)),
            path: "lisen".to_owned(),
            message: "unknown key; did you mean `listen`?".to_owned(),
            near: Some("listen".to_owned()),
        });
        assert_eq!(of_config.to_text(), "capataz.toml:1:7: lisen: unknown key; did you mean `listen`?");
        let spanish = Language::Spanish.within(|| of_config.to_text());
        assert_eq!(spanish, "capataz.toml:1:7: lisen: clave desconocida; ¿quizá `listen`?");
        let expected = json!({
            "file": "capataz.toml",
            "line": 1,
            "column": 7,
            "path": "lisen",
            "message": "unknown key; did you mean `listen`?",
            "near": "listen",
        });
        assert_eq!(of_config.to_json(), expected);

        let of_spec = Problem { rule: Some("EMPTY"), near: None, path: String::new(), ..of_config };
        assert_eq!(of_spec.to_text(), "capataz.toml:1:7: unknown key; did you mean `listen`? (EMPTY)");
        assert_eq!(of_spec.to_json()["rule"], "EMPTY");

        let row = Problem { file: Some("rows.tsv".to_owned()), line: Some(3), ..Problem::plain("no") };
        assert_eq!(row.to_text(), "rows.tsv:3: no");
        assert_eq!(row.to_json(), json!({ "file": "rows.tsv", "line": 3, "path": "", "message": "no" }));
        assert_eq!(Problem::plain("3 more problems").to_text(), "3 more problems");
    }
}
