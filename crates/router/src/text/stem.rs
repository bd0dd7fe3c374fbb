//! A light stemmer for Spanish and English, good enough for the keyword `siento` to match `sentimos`.
//!
//! Only keywords use the stemmer, and an inflected hit counts less than a literal one. A stem that unites two unrelated
//! words therefore does little harm.

/// Folded endings of verbs, nouns and adjectives. The longest ending that leaves [`SHORTEST_STEM`] letters is cut.
const ENDINGS: &[&str] = &[
    "imientos", "amientos", "iendonos", "andonos", "imiento", "amiento", "iriamos", "eriamos", "ariamos",
    "aciones", "ieramos", "aramos", "abamos", "aremos", "eremos", "iremos", "ieron", "iendo", "iamos",
    "acion", "arian", "erian", "irian", "arias", "erias", "irias", "aste", "iste", "ando", "aron", "adas",
    "ados", "idas", "idos", "amos", "emos", "imos", "aban", "abas", "aria", "eria", "iria", "arme", "erme",
    "irme", "arte", "erte", "irte", "arse", "erse", "irse", "ings", "aba", "ada", "ado", "ida", "ido", "are",
    "ere", "ire", "ara", "era", "ira", "ian", "ias", "ing", "ar", "er", "ir", "as", "es", "os", "an", "en",
    "ia", "io", "ed", "a", "e", "o", "s",
];

const SHORTEST_STEM: usize = 4;

/// The length below which words are not stemmed.
const SHORTEST_WORD: usize = 5;

/// A number that the inflected forms of the same folded word share; `None` if the word is too short for inflection.
#[must_use]
pub fn stem_hash(word: &str) -> Option<u64> {
    if word.len() < SHORTEST_WORD || !word.is_ascii() {
        return None;
    }
    let stem = ENDINGS
        .iter()
        .filter(|ending| word.len() >= ending.len() + SHORTEST_STEM)
        .find_map(|ending| word.strip_suffix(ending))
        .unwrap_or(word);
    Some(undiphthonged_hash(stem.as_bytes()))
}

/// A hash that unifies the stressed vowels of Spanish verbs, which change in the stem: siento and sentimos, puedo and
/// podemos.
fn undiphthonged_hash(stem: &[u8]) -> u64 {
    let mut hash = crate::hash::Hash::new(0x57e3);
    let mut place = 0;
    while let Some(&byte) = stem.get(place) {
        let (letter, length) = match (byte, stem.get(place + 1)) {
            (b'i', Some(b'e')) => (b'e', 2),
            (b'u', Some(b'e')) => (b'o', 2),
            _ => (byte, 1),
        };
        hash.add(u32::from(letter));
        place += length;
    }
    hash.finish()
}

#[cfg(test)]
mod tests {
    use super::stem_hash;

    #[test]
    fn inflected_forms_of_one_word_share_a_stem() {
        for (one, other) in [
            ("siento", "sentir"),
            ("siento", "sentimos"),
            ("perdido", "perdida"),
            ("perdido", "perder"),
            ("empiezo", "empezar"),
            ("decidir", "decidido"),
            ("opciones", "opcion"),
            ("invoices", "invoice"),
            ("cancel", "cancelar"),
        ] {
            assert_eq!(stem_hash(one), stem_hash(other), "{one} and {other}");
            assert!(stem_hash(one).is_some());
        }
    }

    #[test]
    fn different_words_keep_different_stems() {
        for (one, other) in [("perdido", "pedido"), ("factura", "fractura"), ("siento", "asiento")] {
            assert_ne!(stem_hash(one), stem_hash(other), "{one} and {other}");
        }
    }

    #[test]
    fn short_words_and_words_of_other_scripts_have_no_stem() {
        assert_eq!(stem_hash("casa"), None);
        assert_eq!(stem_hash("привет"), None);
    }
}
