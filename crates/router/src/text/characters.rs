//! The classes of characters for folding.

use unicode_normalization::char::canonical_combining_class;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// A part of a word.
    Letter,
    /// A word by itself: scripts without spaces, and emoji.
    Alone,
    /// An accent, which folding removes.
    Mark,
    /// A sound mark of kana.
    Voiced,
    /// An invisible character that does not separate words: joiners, directions, variants.
    Nothing,
    Separator,
}

/// Folds the accented letters of Western European languages, without a search in Unicode's tables.
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

/// Classifies a character, which is already decomposed.
pub(super) fn classify(character: char) -> Class {
    match character {
        // Apostrophes are removed: `don’t` becomes `dont`, as it is often typed.
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
        // The upper case of this mark is a letter, ι.
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
