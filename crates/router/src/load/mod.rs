//! Spec files: TOML, one spec each, read into a [`Catalogue`]. The format is described in `docs/specs.md`.
//!
//! Every broken rule is reported with its line. Nothing is read from disk here.

mod error;
mod pattern;
mod reader;
mod spec;

use toml::de::DeTable;

use self::error::Report;
pub use self::error::{MAX_ERRORS_PER_FILE, SpecFileCode, SpecFileError};
use crate::check::{self, Claim};
use crate::spec::{Catalogue, Spec};

/// The largest spec file: 4 MiB.
pub const MAX_FILE_BYTES: usize = 4 * 1024 * 1024;

/// One file while it is read.
struct Draft<'a> {
    claim: Claim<'a>,
    spec: Option<Spec>,
    errors: Vec<SpecFileError>,
}

impl Catalogue {
    /// Reads spec files, each with its name (for the errors) and its content.
    ///
    /// # Errors
    /// All errors of all files: files in the given order, errors in the order of their lines. A file that is not TOML
    /// has only its syntax errors, one for each line.
    pub fn read<N: AsRef<str>, B: AsRef<[u8]>>(files: &[(N, B)]) -> Result<Self, Vec<SpecFileError>> {
        let mut drafts: Vec<Draft<'_>> =
            files.iter().map(|(name, content)| draft(name.as_ref(), content.as_ref())).collect();
        let claims: Vec<Claim<'_>> =
            drafts.iter_mut().map(|draft| std::mem::take(&mut draft.claim)).collect();
        for collision in check::across(&claims) {
            let Some(draft) = drafts.get_mut(collision.file) else { continue };
            let (line, column) = collision.place;
            draft.errors.push(SpecFileError {
                file: claims.get(collision.file).map(|claim| claim.file.to_owned()).unwrap_or_default(),
                line,
                column,
                key: collision.key.to_owned(),
                code: collision.code,
                message: collision.message,
            });
            draft.errors.sort_by_key(|error| (error.line, error.column));
        }
        let mut specs = Vec::new();
        let mut errors = Vec::new();
        for draft in drafts {
            errors.extend(draft.errors);
            specs.extend(draft.spec);
        }
        if errors.is_empty() { Ok(Self::new(specs)) } else { Err(errors) }
    }
}

fn draft<'a>(file: &'a str, content: &[u8]) -> Draft<'a> {
    let failed = |line, column, code, message| {
        let error = SpecFileError { file: file.to_owned(), line, column, key: String::new(), code, message };
        Draft { claim: Claim { file, ..Claim::default() }, spec: None, errors: vec![error] }
    };
    if content.len() > MAX_FILE_BYTES {
        let message =
            format!("{} bytes, at most {MAX_FILE_BYTES} are allowed; split the spec", content.len());
        return failed(1, 1, SpecFileCode::FileTooLarge, message);
    }
    let text = match std::str::from_utf8(content) {
        Ok(text) => text,
        Err(error) => {
            let valid = content.get(..error.valid_up_to()).unwrap_or_default();
            let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
            let before = valid.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
            let column = String::from_utf8_lossy(before).chars().count() + 1;
            let message = format!("not UTF-8 from byte {} on; save the file as UTF-8", error.valid_up_to());
            return failed(line, column, SpecFileCode::NotUtf8, message);
        }
    };
    // Some editors begin a file with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut report = Report::new(file, text);
    let (document, syntax) = DeTable::parse_recoverable(text);
    let mut last_line = 0;
    for error in &syntax {
        let offset = error.span().map_or(0, |span| span.start);
        let (line, _) = report.place(offset);
        // Further errors of a line mostly follow from its first one.
        if std::mem::replace(&mut last_line, line) == line {
            continue;
        }
        report.push(offset, "", SpecFileCode::Syntax, format!("not TOML: {}", error.message()));
    }
    // The parser's recovery from syntax errors would lead to errors that the file does not have.
    if !syntax.is_empty() {
        let claim = Claim { file, ..Claim::default() };
        return Draft { claim, spec: None, errors: report.into_errors() };
    }
    let read = spec::read(document.get_ref(), &mut report);
    let claim = Claim { file, id: read.id, default: read.default };
    let spec = report.is_empty().then_some(read.spec);
    Draft { claim, spec, errors: report.into_errors() }
}
