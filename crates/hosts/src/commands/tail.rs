//! The end of what a command has written to stdout so far, for people who watch it.

use crate::redact::Redactor;

/// Most bytes of stdout that an update of a command's progress shows.
pub const TAIL_LIMIT: usize = 1024;

/// The end of `stdout`, at most [`TAIL_LIMIT`] bytes of it, without secrets. `None` where nothing can be shown.
pub(super) fn tail(stdout: &[u8], secrets: &Redactor) -> Option<String> {
    let longest = secrets.longest();
    // Longer than what is shown by the longest secret: the rest of one whose beginning is cut off is not shown.
    let start = stdout.len().saturating_sub(TAIL_LIMIT + longest);
    let mut end = stdout.get(start..).unwrap_or_default().to_vec();
    secrets.mask(&mut end);
    let hidden_front = if start == 0 { 0 } else { longest };
    let shown = hidden_front.max(end.len().saturating_sub(TAIL_LIMIT));
    // What may become a secret with the next bytes is not shown yet.
    let until = end.len() - secrets.begun(&end);
    let text = String::from_utf8_lossy(end.get(shown..until)?);
    (!text.trim().is_empty()).then(|| text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(stdout: &str, expected: &str) {
        let secrets = Redactor::new(&["s3cr3t-value".to_owned(), "s3cr3t-other".to_owned()]);
        assert_eq!(tail(stdout.as_bytes(), &secrets).unwrap_or_default(), expected);
    }

    #[test]
    fn the_end_is_shown() {
        check("", "");
        check(" \n", "");
        check("one\ntwo\n", "one\ntwo\n");
        check(&"x".repeat(3_000), &"x".repeat(1_024));
    }

    #[test]
    fn secrets_are_masked_also_where_they_are_not_whole() {
        check("key s3cr3t-value end", "key ************ end");
        // Not whole yet.
        check("key s3cr3t-val", "key ");
        check("key s", "key ");
        // Its beginning is not looked at: 1,024 bytes are shown, and 12 more are read.
        let rest = format!("{}s3cr3t-value{}", "x".repeat(100), "y".repeat(1_030));
        check(&rest, &"y".repeat(1_024));
        let rest = format!("{}s3cr3t-value{}", "x".repeat(100), "y".repeat(1_020));
        check(&rest, &format!("****{}", "y".repeat(1_020)));
    }
}
