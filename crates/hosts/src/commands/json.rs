//! Whether bytes are one JSON value, without building it.

use capataz_contracts::json::well_formed;

/// The value in `bytes` without the white space around it; `null` where there is nothing else.
///
/// # Errors
/// The bytes are not exactly one JSON value.
pub(super) fn one_value(bytes: &[u8]) -> Result<&[u8], serde_json::Error> {
    let trimmed = bytes.trim_ascii();
    if trimmed.is_empty() {
        return Ok(b"null");
    }
    well_formed(trimmed)?;
    Ok(trimmed)
}

#[cfg(test)]
mod tests {
    use super::one_value;

    #[track_caller]
    fn check(bytes: &[u8], expected: Option<&[u8]>) {
        assert_eq!(one_value(bytes).ok(), expected);
    }

    #[test]
    fn exactly_what_can_be_read_as_a_value_passes() {
        check(b"", Some(b"null"));
        check(b" \n", Some(b"null"));
        check(
            b" {\"a\": [1, -2, 3.5, \"x\", true, null]}\n",
            Some(b"{\"a\": [1, -2, 3.5, \"x\", true, null]}"),
        );
        check(b"1 2", None);
        check(b"{", None);
        check(b"1e999", None);
        check(b"\"\\ud800\"", None);
        check(b"\"\xff\"", None);
        check("[".repeat(1000).as_bytes(), None);
    }
}
