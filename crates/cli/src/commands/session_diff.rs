//! The change of a state file as a diff, with the line and the column at which each change begins.

use serde_json::{Value, json};
use similar::{DiffOp, DiffTag, TextDiff};

use capataz_display::words::{fill, words};

/// Lines around a change that a diff shows.
const AROUND: usize = 3;

/// A diff of two texts by their lines.
pub struct Diff<'t>(TextDiff<'t, 't, str>);

impl<'t> Diff<'t> {
    pub fn of(before: &'t str, after: &'t str) -> Self {
        Self(TextDiff::from_lines(before, after))
    }

    /// The lines of a unified diff. Each part is headed by the place of its first change, behind the numbers that other
    /// programs read.
    pub fn lines(&self, before: &str, after: &str) -> Vec<String> {
        let mut lines = vec![format!("--- {before}"), format!("+++ {after}")];
        for part in self.0.unified_diff().context_radius(AROUND).iter_hunks() {
            let place = part.ops().iter().find_map(|op| self.place(op));
            let place = place.map(|(line, column)| {
                format!(" {}", fill(words().sessions.place, &[&line.to_string(), &column.to_string()]))
            });
            let text = part.to_string();
            let mut rest = text.lines();
            lines.extend(rest.next().map(|head| format!("{head}{}", place.unwrap_or_default())));
            lines.extend(rest.map(str::to_owned));
        }
        lines
    }

    /// Each change with its place in the text before, and its lines of both texts.
    pub fn to_json(&self) -> Value {
        let changes = self.0.ops().iter().filter_map(|op| {
            let (line, column) = self.place(op)?;
            let end = ['\r', '\n'];
            let removed = op.old_range().filter_map(|line| self.0.old_slice(line));
            let removed: Vec<&str> = removed.map(|line| line.trim_end_matches(end)).collect();
            let added = op.new_range().filter_map(|line| self.0.new_slice(line));
            let added: Vec<&str> = added.map(|line| line.trim_end_matches(end)).collect();
            Some(json!({ "line": line, "column": column, "removed": removed, "added": added }))
        });
        changes.collect()
    }

    /// The line and the column, both from 1, at which a change begins in the text before; `None` where nothing changes.
    fn place(&self, op: &DiffOp) -> Option<(usize, usize)> {
        if op.tag() == DiffTag::Equal {
            return None;
        }
        let line = op.old_range().start;
        let old = self.0.old_slice(line).filter(|_| op.tag() == DiffTag::Replace);
        let new = self.0.new_slice(op.new_range().start);
        let same = old
            .zip(new)
            .map_or(0, |(old, new)| old.chars().zip(new.chars()).take_while(|(old, new)| old == new).count());
        Some((line + 1, same + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_begins_at_a_line_and_a_column() {
        let before = "{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3\n}\n";
        let after = "{\n  \"a\": 1,\n  \"b\": 7,\n  \"c\": 3,\n  \"d\": 4\n}\n";
        let diff = Diff::of(before, after);
        assert_eq!(
            diff.lines("state.json", "repaired"),
            [
                "--- state.json",
                "+++ repaired",
                "@@ -1,5 +1,6 @@ line 3, column 8",
                " {",
                "   \"a\": 1,",
                "-  \"b\": 2,",
                "-  \"c\": 3",
                "+  \"b\": 7,",
                "+  \"c\": 3,",
                "+  \"d\": 4",
                " }",
            ]
        );
        assert_eq!(
            diff.to_json(),
            json!([{
                "line": 3,
                "column": 8,
                "removed": ["  \"b\": 2,", "  \"c\": 3"],
                "added": ["  \"b\": 7,", "  \"c\": 3,", "  \"d\": 4"],
            }])
        );
        let added = Diff::of("{\n}\n", "{\n  \"a\": 1\n}\n");
        assert_eq!(
            added.to_json(),
            json!([{ "line": 2, "column": 1, "removed": [], "added": ["  \"a\": 1"] }])
        );
    }
}
