//! The detection of a text's language by its most common words. The same words are too common to indicate a spec.

use crate::fold;

/// Folded function words, which make up about half of any running text of their language.
const COMMON_WORDS: &[(&str, &[&str])] = &[
    (
        "en",
        &[
            "a", "about", "after", "all", "am", "an", "and", "any", "are", "as", "at", "be", "because",
            "been", "but", "by", "can", "cant", "could", "did", "didnt", "do", "does", "doesnt", "dont",
            "for", "from", "get", "had", "has", "have", "he", "her", "him", "his", "how", "i", "if", "im",
            "in", "into", "is", "isnt", "it", "its", "ive", "just", "like", "me", "more", "my", "no", "not",
            "of", "on", "or", "our", "out", "she", "should", "so", "some", "than", "that", "thats", "the",
            "their", "them", "then", "there", "these", "they", "this", "those", "to", "too", "up", "us",
            "very", "was", "we", "were", "what", "whats", "when", "where", "which", "who", "why", "will",
            "with", "would", "you", "your",
        ],
    ),
    (
        "es",
        &[
            "a", "al", "algo", "ante", "asi", "aun", "cada", "como", "con", "cual", "cuando", "de", "del",
            "desde", "donde", "el", "ella", "ellos", "en", "entre", "era", "eres", "es", "esa", "ese", "eso",
            "esta", "estas", "este", "esto", "estoy", "fue", "ha", "hasta", "hay", "he", "la", "las", "le",
            "les", "lo", "los", "mas", "me", "mi", "mis", "muy", "nada", "ni", "no", "nos", "o", "para",
            "pero", "por", "porque", "pues", "que", "quien", "se", "ser", "si", "sin", "sobre", "son", "soy",
            "su", "sus", "tan", "te", "ti", "todo", "tu", "tus", "un", "una", "unas", "unos", "y", "ya",
            "yo",
        ],
    ),
    (
        "fr",
        &[
            "a", "au", "aux", "avec", "ce", "ces", "cest", "cette", "comment", "dans", "de", "des", "du",
            "elle", "en", "est", "et", "il", "ils", "jai", "je", "la", "le", "les", "leur", "ma", "mais",
            "me", "mes", "moi", "mon", "ne", "nous", "on", "ou", "par", "pas", "plus", "pour", "pourquoi",
            "qu", "que", "qui", "sa", "se", "ses", "son", "suis", "sur", "ta", "te", "tes", "ton", "tres",
            "tu", "un", "une", "vous",
        ],
    ),
    (
        "pt",
        &[
            "a", "ao", "aos", "as", "com", "como", "da", "das", "de", "do", "dos", "e", "ela", "ele", "em",
            "essa", "esse", "esta", "estou", "eu", "foi", "isso", "isto", "ja", "lhe", "mais", "mas", "me",
            "meu", "minha", "muito", "na", "nao", "nas", "nem", "no", "nos", "o", "os", "ou", "para", "pela",
            "pelo", "por", "porque", "quando", "que", "quem", "se", "sem", "ser", "seu", "sua", "tem", "um",
            "uma", "voce",
        ],
    ),
];

/// The part of a text that is read. More of it would not change the result, and texts may be long.
const READ_CHARACTERS: usize = 2_000;

fn common_words(language: &str) -> &'static [&'static str] {
    COMMON_WORDS.iter().find(|(name, _)| *name == language).map_or(&[], |(_, words)| words)
}

/// Returns whether a folded word is one of the most common words of the language; false for languages that are not
/// listed.
pub(crate) fn is_common(word: &str, language: &str) -> bool {
    common_words(language).binary_search(&word).is_ok()
}

/// Returns the one of `languages` with the most evidence in the text; `None` for a tie or without evidence.
pub(crate) fn detect<'a>(text: &str, languages: &'a [String]) -> Option<&'a str> {
    let text = fold::beginning(text, READ_CHARACTERS);
    let words = fold::words(text);
    let spanish_signs = text.chars().filter(|letter| matches!(letter, '¿' | '¡' | 'ñ' | 'Ñ')).count();
    let mut best: Option<(&str, usize)> = None;
    let mut tied = false;
    for language in languages {
        let mut evidence = words.iter().filter(|word| is_common(word, language)).count();
        if language == "es" {
            evidence += spanish_signs;
        }
        match best {
            Some((_, most)) if evidence < most => {}
            Some((_, most)) if evidence == most => tied = true,
            _ => {
                best = Some((language, evidence));
                tied = false;
            }
        }
    }
    best.filter(|(_, evidence)| *evidence > 0 && !tied).map(|(language, _)| language)
}

/// The language of what a user has written, as far as these two can be told: that of the text, else that of the messages
/// before it.
#[must_use]
pub fn spoken(text: &str, history: &[crate::Message<'_>]) -> Option<&'static str> {
    let languages = ["en".to_owned(), "es".to_owned()];
    let of = |text: &str| {
        let found = detect(text, &languages)?;
        ["en", "es"].into_iter().find(|language| *language == found)
    };
    let written = history.iter().rev().filter(|message| message.role == crate::Role::User);
    of(text).or_else(|| written.filter_map(|message| of(message.text)).next())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(text: &str) -> Option<String> {
        let languages = ["es".to_owned(), "en".to_owned(), "pt".to_owned(), "fr".to_owned()];
        detect(text, &languages).map(str::to_owned)
    }

    #[test]
    fn the_lists_are_folded_and_sorted_for_the_search() {
        for (language, words) in COMMON_WORDS {
            assert!(words.is_sorted(), "{language}");
            assert!(words.iter().all(|word| fold::phrase(word) == *word), "{language}");
        }
    }

    #[test]
    fn common_words_tell_the_language() {
        assert_eq!(detected("¿Y cómo empiezo?").as_deref(), Some("es"));
        assert_eq!(detected("I do not know what to do").as_deref(), Some("en"));
        assert_eq!(detected("eu não sei como fazer isso").as_deref(), Some("pt"));
        assert_eq!(detected("je ne sais pas pourquoi").as_deref(), Some("fr"));
    }

    #[test]
    fn a_text_without_evidence_is_in_the_language_of_the_messages_before_it() {
        use crate::{Message, Role};
        let said = |role, text| Message { role, text, spec: None };
        assert_eq!(spoken("¿Y cómo empiezo?", &[]), Some("es"));
        assert_eq!(spoken("Ayuda", &[]), None);
        let history = [
            said(Role::User, "what should I do with my life"),
            said(Role::User, "no sé qué hacer con mi vida"),
            said(Role::Assistant, "tell me what it is that you want"),
        ];
        assert_eq!(spoken("ok", &history), Some("es"), "the user's newest message that tells");
        assert_eq!(spoken("what is it", &history), Some("en"));
    }

    #[test]
    fn no_evidence_and_a_tie_tell_nothing() {
        assert_eq!(detected("ok"), None);
        assert_eq!(detected(""), None);
        assert_eq!(detected("no"), None);
    }
}
