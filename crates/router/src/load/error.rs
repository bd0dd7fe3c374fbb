//! What is wrong with a spec file, and where.

use std::fmt;
use std::ops::Range;

use serde::Serialize;

/// The most errors of one file that are reported one by one; how many there are beyond them is counted.
pub const MAX_ERRORS_PER_FILE: usize = 100;

/// Which rule a spec file breaks. The names are stable, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum SpecFileCode {
    /// Larger than [`super::MAX_FILE_BYTES`].
    FileTooLarge,
    NotUtf8,
    /// Not TOML.
    Syntax,
    UnknownKey,
    MissingKey,
    WrongType,
    /// An id, a name, a language or a code that is not spelt as such.
    InvalidName,
    /// A value that is not one of those allowed.
    InvalidValue,
    /// Another major version of the spec contract.
    IncompatibleVersion,
    /// A text without a letter or digit, or an empty list where there has to be something.
    Empty,
    TooLong,
    TooMany,
    /// A number outside of its range.
    OutOfRange,
    /// Twice the same name within a file.
    Duplicate,
    /// Two files with the same id.
    DuplicateId,
    /// Two files with `default = true`.
    SecondDefault,
    /// A name of a pattern that the file does not have.
    UnknownPattern,
    /// A language that the file's `languages` do not have.
    UndeclaredLanguage,
    UnknownPlaceholder,
    /// A brace without its other one, or a placeholder that may be empty without a default.
    InvalidTemplate,
    InvalidExpression,
    /// A regular expression that needs too much memory.
    ExpressionTooLarge,
    /// The agent `template` has nothing to answer with.
    NoTemplate,
    /// There are more errors than are reported one by one.
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

    /// As it is printed: `UNKNOWN_KEY`.
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

/// One rule that a spec file breaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SpecFileError {
    pub file: String,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// `intents[2].examples[0]`; empty for the file as a whole.
    pub key: String,
    pub code: SpecFileCode,
    /// What is wrong and what to do, for people.
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
    /// Byte offsets of the lines' beginnings.
    lines: Vec<usize>,
    errors: Vec<SpecFileError>,
    beyond: usize,
}

impl<'a> Report<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Self {
        let starts = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(place, _)| place + 1);
        Self { file, text, lines: std::iter::once(0).chain(starts).collect(), errors: Vec::new(), beyond: 0 }
    }

    /// Line and column of a byte offset, both from 1.
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

    /// Whether a further error would only be counted, so that nobody need work out its message.
    pub(super) fn is_full(&self) -> bool {
        self.errors.len() >= MAX_ERRORS_PER_FILE
    }

    /// How many errors there are so far.
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
