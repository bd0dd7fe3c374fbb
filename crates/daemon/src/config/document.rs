//! Files of the configuration in TOML, and all that is wrong with them at once, each with its line and the key that was meant.

use toml::Spanned;
use toml::de::DeTable;

use super::problem::Problem;

mod mending;
mod way;
mod words;

use way::offset_of;

/// Problems of one file that are told.
pub(super) const MOST: usize = 50;

/// A file that is TOML.
#[derive(Debug)]
pub(super) struct Document<'t> {
    /// What the file is called in problems.
    name: String,
    text: &'t str,
    table: Spanned<DeTable<'t>>,
}

/// What can be read of a document.
#[derive(Debug)]
pub(super) struct InPart<'t, T> {
    /// With something else where there are gaps.
    pub value: Option<T>,
    /// All that is wrong with the document, in the order of its lines.
    pub problems: Vec<Problem>,
    /// What the value was read from.
    mended: Document<'t>,
    /// The keys of the document, and the items of its arrays, in which there are gaps.
    gaps: Vec<String>,
}

impl<T> InPart<'_, T> {
    /// Whether what a rule tells of the value, which begins with its path, may follow from a gap alone.
    pub(super) fn is_of_a_gap(&self, told: &str) -> bool {
        let begins = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[', ':']);
        self.gaps.iter().any(|gap| told.strip_prefix(gap.as_str()).is_some_and(begins))
    }

    /// What a rule tells of the value, with the place of what there is of its path.
    pub(super) fn placed(&self, told: &str) -> Problem {
        self.mended.placed(told)
    }
}

impl<'t> Document<'t> {
    /// # Errors
    /// Each line that is no TOML.
    pub(super) fn parse(name: impl Into<String>, text: &'t str) -> Result<Self, Vec<Problem>> {
        let name = name.into();
        // Some editors begin a file with a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let (table, errors) = DeTable::parse_recoverable(text);
        if errors.is_empty() {
            return Ok(Self { name, text, table });
        }
        let problem = |error: &toml::de::Error| Problem {
            file: Some(name.clone()),
            place: Some(place(text, error.span().map_or(0, |span| span.start))),
            message: format!("not TOML: {}", error.message()),
            ..Problem::default()
        };
        let mut problems: Vec<Problem> = errors.iter().take(MOST).map(problem).collect();
        problems.sort_by_key(|problem| problem.place);
        // Further errors of a line mostly follow from its first one.
        problems.dedup_by_key(|problem| problem.place.map(|(line, _)| line));
        Err(problems)
    }

    /// What it was read from, without a mark at its beginning.
    pub(super) fn text(&self) -> &'t str {
        self.text
    }

    /// Its keys.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.table.get_ref().keys().map(|key| key.get_ref().as_ref())
    }

    /// What a rule tells of a value that was read, which begins with its path: with the place of what there is of the path.
    pub(super) fn placed(&self, told: &str) -> Problem {
        let problem = Problem::told(told);
        Problem { file: Some(self.name.clone()), place: self.place_of(&problem.path), ..problem }
    }

    /// Line and column of what there is of a path.
    pub(super) fn place_of(&self, path: &str) -> Option<(usize, usize)> {
        offset_of(self.table.get_ref(), path).map(|offset| place(self.text, offset))
    }
}

/// Line and column of a byte, from 1; the column in characters.
fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

#[cfg(test)]
mod tests;
