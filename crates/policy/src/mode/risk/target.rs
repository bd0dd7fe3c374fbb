//! Targets of a text: addresses, paths and quoted names; and the marks around them.

/// The most bytes of a quoted name; a longer quotation is text.
const NAME_BYTES_MAX: usize = 80;

/// Endings of file names, and of addresses without a scheme.
const ENDINGS: &[&str] = &[
    "bak", "c", "cfg", "com", "conf", "cpp", "css", "csv", "db", "dev", "doc", "docx", "env", "gif", "go",
    "gz", "h", "html", "ini", "io", "ipynb", "java", "jpeg", "jpg", "js", "json", "jsonl", "jsx", "key",
    "kt", "lock", "log", "lua", "md", "net", "org", "pdf", "pem", "php", "png", "proto", "ps1", "py", "rb",
    "rs", "scala", "sh", "sql", "sqlite", "svg", "swift", "tar", "tf", "toml", "ts", "tsv", "tsx", "txt",
    "vue", "xls", "xlsx", "xml", "yaml", "yml", "zip",
];

/// Calls with every name that stands in quotation marks within a line.
pub(super) fn quoted_names<'q>(line: &'q str, mut call: impl FnMut(&'q str)) {
    let mut open: Option<(char, usize)> = None;
    let mut previous = ' ';
    for (at, character) in line.char_indices() {
        let behind = at + character.len_utf8();
        match open {
            Some((end, start)) if character == end => {
                let next = line.get(behind..).and_then(|rest| rest.chars().next());
                // An apostrophe within a word closes nothing.
                if end != '\'' || !next.is_some_and(char::is_alphanumeric) {
                    let name = line.get(start..at).unwrap_or_default().trim();
                    if name.len() <= NAME_BYTES_MAX && name.contains(char::is_alphanumeric) {
                        call(name);
                    }
                    open = None;
                }
            }
            Some(_) => {}
            None if previous.is_alphanumeric() => {}
            None => open = closing(character).map(|end| (end, behind)),
        }
        previous = character;
    }
}

/// The mark that ends what this one begins.
const fn closing(opening: char) -> Option<char> {
    match opening {
        '"' | '`' | '\'' => Some(opening),
        '“' => Some('”'),
        '«' => Some('»'),
        _ => None,
    }
}

/// Returns whether a mark may stand behind the end of a sentence.
pub(super) const fn closes(character: char) -> bool {
    matches!(character, '"' | '`' | '\'' | '’' | '”' | '»' | ')' | ']' | '}' | '>' | '*')
}

/// Returns whether a mark separates what stands between two spaces.
pub(super) const fn separates(character: char) -> bool {
    closes(character)
        || matches!(
            character,
            ',' | ';' | '!' | '?' | '…' | '¡' | '¿' | '“' | '«' | '‘' | '(' | '[' | '{' | '<'
        )
        || matches!(character, '=' | '&' | '|')
}

/// The address that a chunk is: one with a scheme, or with `www.`.
pub(super) fn address(chunk: &str) -> Option<&str> {
    let address = chunk
        .trim_start_matches(separates)
        .trim_end_matches(|character| separates(character) || matches!(character, '.' | ':'));
    let has_scheme = address.split_once(':').is_some_and(|(scheme, rest)| {
        let is_scheme = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphabetic());
        is_scheme && rest.strip_prefix("//").is_some_and(|place| !place.is_empty())
    });
    (has_scheme || address.starts_with("www.")).then_some(address)
}

/// Returns whether a text without spaces is written as a path is.
pub(super) fn is_path(piece: &str) -> bool {
    // Most words have none of these, and are told by that at once.
    if !piece.bytes().any(|byte| matches!(byte, b'/' | b'\\' | b'.')) {
        return false;
    }
    let begins = ["/", "./", "../", "~/", "\\\\"].iter().any(|root| piece.starts_with(root));
    let is_written_so = begins || piece.contains(":\\") || piece.ends_with('/') || has_ending(piece);
    is_written_so && piece.contains(char::is_alphanumeric)
}

fn has_ending(piece: &str) -> bool {
    let name = piece.rsplit(['/', '\\']).next().unwrap_or(piece);
    name.rsplit_once('.').is_some_and(|(stem, ending)| !stem.is_empty() && is_ending(ending))
}

fn is_ending(ending: &str) -> bool {
    let small = || ending.bytes().map(|byte| byte.to_ascii_lowercase());
    ENDINGS.binary_search_by(|known| known.bytes().cmp(small())).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endings_are_sorted_so_that_they_can_be_searched() {
        assert!(ENDINGS.is_sorted());
    }

    #[test]
    fn paths_are_told_from_words() {
        for path in ["/etc/hosts", "./a", "../a", "~/b", "a/", "src/a.rs", "README.MD", r"C:\a", r"\\host\a"]
        {
            assert!(is_path(path), "{path}");
        }
        for word in ["", "/", "//", "and/or", "e.g", ".md", "fs.write", "1.5", "a", "read/write"] {
            assert!(!is_path(word), "{word}");
        }
    }
}
