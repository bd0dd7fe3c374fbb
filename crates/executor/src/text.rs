//! Texts as people read them (rule U2).

use unicode_normalization::UnicodeNormalization;

/// Unicode NFC, white space collapsed to single spaces, trimmed; case kept.
pub(crate) fn normalised(text: &str) -> String {
    let mut done = String::with_capacity(text.len());
    for word in text.nfc().collect::<String>().split_whitespace() {
        if !done.is_empty() {
            done.push(' ');
        }
        done.push_str(word);
    }
    done
}

/// At most so many characters of it; an ellipsis says that there was more.
pub(crate) fn shortened(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}
