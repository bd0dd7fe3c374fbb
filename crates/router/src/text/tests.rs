use super::{Folded, LONGEST_TEXT, MOST_TOKENS};

#[track_caller]
fn check(original: &str, folded: &str) {
    assert_eq!(Folded::new(original).text(), folded, "{original:?}");
}

#[test]
fn case_accents_and_punctuation_are_folded_away() {
    check("¿Y CÓMO empiezo?", "y como empiezo");
    check("  a--b\t\nc  ", "a b c");
    check("Don't", "dont");
    check("don’t", "dont");
    check("ESPAÑOL, straße, STRASSE", "espanol strasse strasse");
    check("ΟΔΟΣ οδός", "οδοσ οδοσ");
    check("ＦＵＬＬ ｗｉｄｔｈ １２", "full width 12");
    check("7:30am", "7 30am");
    check("", "");
    check("\0\u{1}\u{7f}…!?", "");
}

#[test]
fn composed_and_decomposed_texts_fold_to_the_same_bytes() {
    for (composed, decomposed) in [
        ("canción", "cancio\u{301}n"),
        ("Ångström", "A\u{30a}ngstro\u{308}m"),
        ("がく", "か\u{3099}く"),
        ("한국어", "\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}\u{110b}\u{1165}"),
        ("ё", "е\u{308}"),
    ] {
        assert_eq!(Folded::new(composed).text(), Folded::new(decomposed).text(), "{composed}");
    }
}

#[test]
fn ideographs_kana_and_emoji_are_words_of_their_own() {
    let folded = Folded::new("注文を 👍🏽ok");
    let words: Vec<&str> = folded.tokens().iter().map(|token| folded.word(token)).collect();
    assert_eq!(words, ["注", "文", "を", "👍", "ok"]);
    assert_eq!(folded.text(), "注文を 👍ok");
}

#[test]
fn marks_of_scripts_that_need_them_stay() {
    check("हिन्दी", "हिनदी");
    check("مَرْحَبًا", "مرحبا");
    check("שָׁלוֹם", "שלום");
    check("\u{202e}abc\u{202c}", "abc");
}

#[test]
fn every_token_knows_how_it_was_written() {
    let original = "Me, SIENTO\u{301}… «perdído»!";
    let folded = Folded::new(original);
    let written: Vec<&str> =
        folded.tokens().iter().map(|token| &original[token.source_start..token.source_end]).collect();
    assert_eq!(written, ["Me", "SIENTO\u{301}", "perdído"]);
}

#[test]
fn only_the_beginning_of_a_long_text_is_read() {
    let folded = Folded::new(&"é ".repeat(1 << 20));
    assert_eq!(folded.tokens().len(), MOST_TOKENS);
    let folded = Folded::new(&"é".repeat(1 << 20));
    assert_eq!(folded.tokens().len(), 1);
    assert!(folded.text().len() <= LONGEST_TEXT);
    let folded = Folded::new(&format!("a{}", "\u{301}".repeat(1 << 19)));
    assert_eq!(folded.text(), "a");
}

#[test]
fn memory_is_used_again_without_a_trace_of_the_text_before() {
    let mut folded = Folded::new("something else, and longer");
    folded.refill("ya");
    assert_eq!(folded, Folded::new("ya"));
}

#[test]
fn the_short_way_for_latin_letters_is_the_long_way_of_unicode() {
    for character in ('\u{c0}'..='\u{17f}').filter(|character| super::fold_latin(*character).is_some()) {
        let mut long = String::new();
        unicode_normalization::char::decompose_compatible(character, |part| {
            if part.is_alphabetic() {
                long.extend(part.to_lowercase());
            }
        });
        assert_eq!(super::fold_latin(character).map(String::from), Some(long));
    }
}
