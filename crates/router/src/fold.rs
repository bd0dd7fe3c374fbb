//! The words of a text without regard to case, accents and punctuation, for comparing what spec files say.

/// In lower case, without accents and apostrophes; everything else but letters and digits parts two words.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    for letter in text.chars().flat_map(char::to_lowercase) {
        if matches!(letter, '\u{300}'..='\u{36f}' | '\'' | '’') {
            continue;
        }
        if letter.is_alphanumeric() {
            word.push(without_accent(letter));
        } else if !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// The first characters of a text.
pub(crate) fn beginning(text: &str, characters: usize) -> &str {
    let end = text.char_indices().nth(characters).map_or(text.len(), |(end, _)| end);
    text.get(..end).unwrap_or(text)
}

/// [`words`], one space between two of them.
pub(crate) fn phrase(text: &str) -> String {
    words(text).join(" ")
}

/// Whether the words of `phrase` stand together in `text`; both are folded.
pub(crate) fn holds(text: &[String], phrase: &[String]) -> bool {
    !phrase.is_empty() && text.windows(phrase.len()).any(|window| window == phrase)
}

/// The letters of the languages written in Latin script that carry a mark.
fn without_accent(letter: char) -> char {
    match letter {
        'à'..='å' | 'ā' | 'ă' | 'ą' => 'a',
        'ç' | 'ć' | 'č' => 'c',
        'ď' | 'đ' => 'd',
        'è'..='ë' | 'ē' | 'ė' | 'ę' | 'ě' => 'e',
        'ğ' | 'ģ' => 'g',
        'ì'..='ï' | 'ī' | 'į' => 'i',
        'ł' | 'ľ' | 'ļ' => 'l',
        'ñ' | 'ń' | 'ň' | 'ņ' => 'n',
        'ò'..='ö' | 'ø' | 'ō' | 'ő' => 'o',
        'ř' => 'r',
        'ś' | 'š' | 'ş' | 'ș' => 's',
        'ť' | 'ț' | 'ţ' => 't',
        'ù'..='ü' | 'ū' | 'ů' | 'ű' | 'ų' => 'u',
        'ý' | 'ÿ' => 'y',
        'ź' | 'ż' | 'ž' => 'z',
        other => other,
    }
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
