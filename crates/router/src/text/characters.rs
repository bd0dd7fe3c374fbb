//! What a character is to a folded text.

use unicode_normalization::char::canonical_combining_class;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Part of a word.
    Letter,
    /// A word of its own: scripts without spaces, and emoji.
    Alone,
    /// An accent: folded away.
    Mark,
    /// The sound marks of kana.
    Voiced,
    /// Not seen by people and not between words: joiners, directions, variants.
    Nothing,
    Separator,
}

/// The accented letters of Western European languages, without the way through the tables of Unicode.
pub(super) fn fold_latin(character: char) -> Option<char> {
    Some(match character {
        'á' | 'à' | 'â' | 'ä' | 'ã' | 'å' | 'Á' | 'À' | 'Â' | 'Ä' | 'Ã' | 'Å' => 'a',
        'é' | 'è' | 'ê' | 'ë' | 'É' | 'È' | 'Ê' | 'Ë' => 'e',
        'í' | 'ì' | 'î' | 'ï' | 'Í' | 'Ì' | 'Î' | 'Ï' => 'i',
        'ó' | 'ò' | 'ô' | 'ö' | 'õ' | 'Ó' | 'Ò' | 'Ô' | 'Ö' | 'Õ' => 'o',
        'ú' | 'ù' | 'û' | 'ü' | 'Ú' | 'Ù' | 'Û' | 'Ü' => 'u',
        'ñ' | 'Ñ' => 'n',
        'ç' | 'Ç' => 'c',
        _ => return None,
    })
}

/// `character` is already decomposed.
pub(super) fn classify(character: char) -> Class {
    match character {
        // Apostrophes: `don’t` is the word `dont`, as it is often typed.
        '\'' | '\u{2018}' | '\u{2019}' | '\u{2bc}' | '\u{ff07}' => Class::Nothing,
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{1f3fb}'..='\u{1f3ff}'
        | '\u{e0000}'..='\u{e01ef}' => Class::Nothing,
        // Its upper case is a letter of its own, ι.
        '\u{345}' => Class::Letter,
        '\u{3099}' | '\u{309a}' => Class::Voiced,
        '\u{3041}'..='\u{3096}'
        | '\u{30a1}'..='\u{30fa}'
        | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{20000}'..='\u{3ffff}' => Class::Alone,
        '\u{2600}'..='\u{27bf}' | '\u{1f000}'..='\u{1faff}' => Class::Alone,
        _ if canonical_combining_class(character) != 0 => Class::Mark,
        _ if character.is_alphanumeric() => Class::Letter,
        _ => Class::Separator,
    }
}
