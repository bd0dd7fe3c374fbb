//! The detection of a text's language by its most common words. The same words are too common to indicate a spec.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use crate::fold;
use crate::spec::Catalogue;

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

/// Letters and signs of no other language of these.
const SPANISH_SIGNS: [char; 4] = ['¿', '¡', 'ñ', 'Ñ'];

/// Letters that English has in foreign words only.
const SPANISH_ACCENTS: [char; 10] = ['á', 'é', 'í', 'ó', 'ú', 'Á', 'É', 'Í', 'Ó', 'Ú'];

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
    let spanish_signs = text.chars().filter(|letter| SPANISH_SIGNS.contains(letter)).count();
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

/// The languages in which people are answered where no spec does.
const SPOKEN: [&str; 2] = ["en", "es"];

/// Folded words of greetings, requests and feelings, each of one language only. Short texts have no other sign. Unlike the
/// common words they may indicate a spec.
const TELLING_WORDS: [(&str, &[&str]); 2] = [
    (
        "en",
        &[
            "bye", "feel", "feeling", "good", "goodbye", "hello", "help", "hey", "hi", "know", "lost",
            "morning", "need", "okay", "please", "sorry", "thank", "thanks", "think", "want", "yes",
        ],
    ),
    (
        "es",
        &[
            "adios", "ayuda", "ayudame", "bien", "buenas", "buenos", "gracias", "hacer", "hola", "necesito",
            "perdida", "perdido", "perdon", "puedes", "puedo", "quiero", "saber", "siento", "tengo",
            "triste",
        ],
    ),
];

/// The folded words that occur in a catalogue's examples in English or in Spanish, but not in both.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExampleWords {
    /// Sorted, in the order of [`SPOKEN`].
    words: [Vec<String>; 2],
}

impl ExampleWords {
    pub(crate) fn new(catalogue: &Catalogue) -> Self {
        let of = |language: &str| -> BTreeSet<String> {
            let intents = catalogue.specs().iter().flat_map(|spec| &spec.intents);
            let examples = intents.flat_map(|intent| &intent.examples);
            let told = examples.filter(|(declared, _)| declared.as_deref() == Some(language));
            told.flat_map(|(_, text)| fold::words(text)).collect()
        };
        let [english, spanish] = SPOKEN.map(of);
        // What is common in a language is no sign of the other one, however few examples there are.
        let only = |words: &BTreeSet<String>, others: &BTreeSet<String>| -> Vec<String> {
            let is_common = |word: &str| SPOKEN.iter().any(|language| is_common(word, language));
            words.difference(others).filter(|word| !is_common(word)).cloned().collect()
        };
        Self { words: [only(&english, &spanish), only(&spanish, &english)] }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.words.iter().flatten().map(|word| size_of::<String>() + word.capacity()).sum()
    }
}

/// The language of what a user has written, as far as these two can be told: that of the text, else that of the messages
/// before it.
pub(crate) fn spoken(
    text: &str,
    history: &[crate::Message<'_>],
    examples: &ExampleWords,
) -> Option<&'static str> {
    let written = history.iter().rev().filter(|message| message.role == crate::Role::User);
    std::iter::once(text)
        .chain(written.map(|message| message.text))
        .find_map(|text| written_in(text, examples))
}

/// The language of one text by its strongest sign that tells: common words, then accents and telling words, then the words
/// of the examples.
fn written_in(text: &str, examples: &ExampleWords) -> Option<&'static str> {
    let text = fold::beginning(text, READ_CHARACTERS);
    let words = fold::words(text);
    let count = |is_of: &dyn Fn(usize, &str) -> bool| {
        [0, 1].map(|language| words.iter().filter(|word| is_of(language, word)).count())
    };
    let marks = |marks: &[char]| text.chars().filter(|letter| marks.contains(letter)).count();
    let [english, spanish] = count(&|language, word| {
        COMMON_WORDS
            .iter()
            .any(|(name, words)| SPOKEN.get(language) == Some(name) && words.binary_search(&word).is_ok())
    });
    let common = [english, spanish + marks(&SPANISH_SIGNS)];
    let [english, spanish] = count(&|language, word| {
        TELLING_WORDS.get(language).is_some_and(|(_, words)| words.binary_search(&word).is_ok())
    });
    let telling = [english, spanish + marks(&SPANISH_ACCENTS)];
    let in_examples = count(&|language, word| {
        let words = examples.words.get(language);
        words.is_some_and(|words| words.binary_search_by(|known| known.as_str().cmp(word)).is_ok())
    });
    [common, telling, in_examples].into_iter().find_map(|[english, spanish]| match english.cmp(&spanish) {
        Ordering::Greater => Some(SPOKEN[0]),
        Ordering::Less => Some(SPOKEN[1]),
        Ordering::Equal => None,
    })
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
        for (language, words) in COMMON_WORDS.iter().chain(&TELLING_WORDS) {
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

    #[track_caller]
    fn check_spoken(text: &str, expected: Option<&str>) {
        assert_eq!(spoken(text, &[], &ExampleWords::default()), expected, "{text}");
    }

    /// The texts of the examples 1 to 4 of seed 001, and such as people begin with.
    #[test]
    fn the_language_of_a_short_text_is_told() {
        for text in [
            "Me siento perdido",
            "Necesito decidir entre dos opciones",
            "Ayuda",
            "¿Y cómo empiezo?",
            "Quiero cambiar de carrera",
            "hola",
            "Hola!",
            "necesito ayuda",
            "AYÚDAME",
            "decisión rápida",
        ] {
            check_spoken(text, Some("es"));
        }
        for text in ["help", "Hello", "I feel lost", "need help", "help me", "thanks"] {
            check_spoken(text, Some("en"));
        }
        for text in ["", "ok", "no", "a", "42", "hola, hello"] {
            check_spoken(text, None);
        }
    }

    #[test]
    fn common_words_tell_more_than_an_accent_or_a_greeting() {
        check_spoken("where is the café in El Álamo?", Some("en"));
        check_spoken("quién es el señor Help", Some("es"));
    }

    #[test]
    fn words_of_the_examples_tell_where_nothing_else_does() {
        let examples = [("es", "reservar un vuelo a Lima"), ("en", "book a flight to Lima")];
        let examples = examples.map(|(language, text)| (Some(language.to_owned()), text.to_owned())).into();
        let intent = crate::Intent { name: "book".to_owned(), examples, pattern: None };
        let spec = crate::Spec { id: "trips".to_owned(), intents: vec![intent], ..crate::Spec::default() };
        let known = ExampleWords::new(&Catalogue::new(vec![spec]));
        let told = |text| spoken(text, &[], &known);
        assert_eq!([told("vuelo"), told("Flight?")], [Some("es"), Some("en")]);
        assert_eq!([told("Lima"), told("a"), told("tren")], [None; 3], "of both, and of neither");
        // The common words of one language stand in the examples of it alone, and tell nothing by that.
        assert_eq!(told("un book"), Some("es"));
    }

    #[test]
    fn a_text_without_evidence_is_in_the_language_of_the_messages_before_it() {
        use crate::{Message, Role};
        let said = |role, text| Message { role, text, spec: None };
        let spoken = |text, history: &[Message<'_>]| spoken(text, history, &ExampleWords::default());
        let history = [
            said(Role::User, "what should I do with my life"),
            said(Role::User, "no sé qué hacer con mi vida"),
            said(Role::Assistant, "tell me what it is that you want"),
        ];
        assert_eq!(spoken("ok", &history), Some("es"), "the user's newest message that tells");
        assert_eq!(spoken("what is it", &history), Some("en"));
        assert_eq!(spoken("ok", &[said(Role::User, "Ayuda"), said(Role::User, "42")]), Some("es"));
    }

    #[test]
    fn no_evidence_and_a_tie_tell_nothing() {
        assert_eq!(detected("ok"), None);
        assert_eq!(detected(""), None);
        assert_eq!(detected("no"), None);
    }
}
