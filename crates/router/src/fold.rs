//! The words of a text without case, accents and punctuation, for comparing the contents of spec files.

use crate::text::Folded;

/// The words of a text, split as in routing.
pub(crate) fn words(text: &str) -> Vec<String> {
    let folded = Folded::new(text);
    folded.tokens().iter().map(|token| folded.word(token).to_owned()).collect()
}

/// The first characters of a text.
pub(crate) fn beginning(text: &str, characters: usize) -> &str {
    let end = text.char_indices().nth(characters).map_or(text.len(), |(end, _)| end);
    text.get(..end).unwrap_or(text)
}

/// The [`words`] of a text, joined with single spaces.
pub(crate) fn phrase(text: &str) -> String {
    words(text).join(" ")
}

/// Returns whether the words of `phrase` occur next to each other in `text`. Both are folded.
pub(crate) fn holds(text: &[String], phrase: &[String]) -> bool {
    !phrase.is_empty() && text.windows(phrase.len()).any(|window| window == phrase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_accents_and_punctuation_make_no_difference() {
        assert_eq!(phrase("¿Y CÓMO, empiezo…?"), "y como empiezo");
        assert_eq!(phrase("co\u{301}mo"), phrase("cómo"));
        assert_eq!(phrase("Don’t -- don't!"), "dont dont");
        assert_eq!(phrase(" -- !"), "");
    }

    #[test]
    fn a_phrase_is_held_by_whole_words_only() {
        assert!(holds(&words("me siento muy solo"), &words("Siento muy")));
        assert!(!holds(&words("me siento"), &words("sien")));
        assert!(!holds(&words("me siento"), &[]));
    }
}
