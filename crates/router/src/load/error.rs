//! The errors of a spec file, with their places.

use std::fmt;
use std::ops::Range;

use serde::Serialize;

/// The maximum number of reported errors of one file. Further errors are only counted.
pub const MAX_ERRORS_PER_FILE: usize = 100;

/// The broken rule of a spec file. The names are stable, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum SpecFileCode {
    /// The file is larger than [`super::MAX_FILE_BYTES`].
    FileTooLarge,
    NotUtf8,
    /// The file is not TOML.
    Syntax,
    UnknownKey,
    MissingKey,
    WrongType,
    /// An id, a name, a language or a code is misspelt.
    InvalidName,
    /// The value is not one of the allowed values.
    InvalidValue,
    /// The spec contract has another major version.
    IncompatibleVersion,
    /// A text contains no letter or digit, or a required list is empty.
    Empty,
    TooLong,
    TooMany,
    /// A number is outside of its range.
    OutOfRange,
    /// A name occurs twice within a file.
    Duplicate,
    /// Two files have the same id.
    DuplicateId,
    /// Two files have `default = true`.
    SecondDefault,
    /// The file does not have a pattern of this name.
    UnknownPattern,
    /// The file's `languages` do not contain this language.
    UndeclaredLanguage,
    UnknownPlaceholder,
    /// A brace is unbalanced, or a placeholder that may be empty has no default.
    InvalidTemplate,
    InvalidExpression,
    /// A regular expression needs too much memory.
    ExpressionTooLarge,
    /// The agent `template` has no template to answer with.
    NoTemplate,
    /// There are more errors than the maximum number of reported ones.
    MoreErrors,
}

impl SpecFileCode {
    /// All codes, for documents and for programs that list them.
    pub const ALL: [Self; 24] = [
        Self::FileTooLarge,
        Self::NotUtf8,
        Self::Syntax,
        Self::UnknownKey,
        Self::MissingKey,
        Self::WrongType,
        Self::InvalidName,
        Self::InvalidValue,
        Self::IncompatibleVersion,
        Self::Empty,
        Self::TooLong,
        Self::TooMany,
        Self::OutOfRange,
        Self::Duplicate,
        Self::DuplicateId,
        Self::SecondDefault,
        Self::UnknownPattern,
        Self::UndeclaredLanguage,
        Self::UnknownPlaceholder,
        Self::InvalidTemplate,
        Self::InvalidExpression,
        Self::ExpressionTooLarge,
        Self::NoTemplate,
        Self::MoreErrors,
    ];

    /// The printed form, such as `UNKNOWN_KEY`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FileTooLarge => "FILE_TOO_LARGE",
            Self::NotUtf8 => "NOT_UTF8",
            Self::Syntax => "SYNTAX",
            Self::UnknownKey => "UNKNOWN_KEY",
            Self::MissingKey => "MISSING_KEY",
            Self::WrongType => "WRONG_TYPE",
            Self::InvalidName => "INVALID_NAME",
            Self::InvalidValue => "INVALID_VALUE",
            Self::IncompatibleVersion => "INCOMPATIBLE_VERSION",
            Self::Empty => "EMPTY",
            Self::TooLong => "TOO_LONG",
            Self::TooMany => "TOO_MANY",
            Self::OutOfRange => "OUT_OF_RANGE",
            Self::Duplicate => "DUPLICATE",
            Self::DuplicateId => "DUPLICATE_ID",
            Self::SecondDefault => "SECOND_DEFAULT",
            Self::UnknownPattern => "UNKNOWN_PATTERN",
            Self::UndeclaredLanguage => "UNDECLARED_LANGUAGE",
            Self::UnknownPlaceholder => "UNKNOWN_PLACEHOLDER",
            Self::InvalidTemplate => "INVALID_TEMPLATE",
            Self::InvalidExpression => "INVALID_EXPRESSION",
            Self::ExpressionTooLarge => "EXPRESSION_TOO_LARGE",
            Self::NoTemplate => "NO_TEMPLATE",
            Self::MoreErrors => "MORE_ERRORS",
        }
    }
}

impl fmt::Display for SpecFileCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error of a spec file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SpecFileError {
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The key, such as `intents[2].examples[0]`; empty for the file as a whole.
    pub key: String,
    pub code: SpecFileCode,
    /// The description and the remedy, for people.
    pub message: String,
}

impl fmt::Display for SpecFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for SpecFileError {}

/// Collects the errors of one file, within bounded memory.
#[derive(Debug)]
pub(super) struct Report<'a> {
    file: &'a str,
    text: &'a str,
    /// The byte offsets at which lines begin.
    lines: Vec<usize>,
    errors: Vec<SpecFileError>,
    beyond: usize,
}

impl<'a> Report<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Self {
        let starts = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(place, _)| place + 1);
        Self { file, text, lines: std::iter::once(0).chain(starts).collect(), errors: Vec::new(), beyond: 0 }
    }

    /// The line and column of a byte offset, both from 1.
    pub(super) fn place(&self, offset: usize) -> (usize, usize) {
        let line = self.lines.partition_point(|start| *start <= offset).max(1);
        let start = self.lines.get(line - 1).copied().unwrap_or_default();
        let before = self.text.get(start..offset.min(self.text.len())).unwrap_or_default();
        (line, before.chars().count() + 1)
    }

    /// The text of the file between two byte offsets.
    pub(super) fn source(&self, span: Range<usize>) -> &'a str {
        self.text.get(span).unwrap_or_default()
    }

    pub(super) fn push(&mut self, offset: usize, key: &str, code: SpecFileCode, message: impl Into<String>) {
        if self.is_full() {
            self.beyond += 1;
            return;
        }
        let (line, column) = self.place(offset);
        self.errors.push(SpecFileError {
            file: self.file.to_owned(),
            line,
            column,
            key: key.to_owned(),
            code,
            message: message.into(),
        });
    }

    /// Returns whether a further error would only be counted, so that its message is not needed.
    pub(super) fn is_full(&self) -> bool {
        self.errors.len() >= MAX_ERRORS_PER_FILE
    }

    /// The number of errors so far.
    pub(super) fn count(&self) -> usize {
        self.errors.len() + self.beyond
    }

    pub(super) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// The errors in the order of the file.
    pub(super) fn into_errors(mut self) -> Vec<SpecFileError> {
        self.errors.sort_by_key(|error| (error.line, error.column));
        if self.beyond > 0 {
            let (line, column) = self.place(self.text.len());
            self.errors.push(SpecFileError {
                file: self.file.to_owned(),
                line,
                column,
                key: String::new(),
                code: SpecFileCode::MoreErrors,
                message: format!("and {} more errors; correct the first ones and check again", self.beyond),
            });
        }
        self.errors
    }
}
