//! The parts of a text that the model uses: words, pairs of neighbouring words, and pieces of words.

use super::parameters::Parameters;
use crate::hash::Hash;
use crate::text::Folded;

/// The number of characters of a word that are cut into pieces. A longer word contributes its rest only as part of the
/// whole word.
const LONGEST_WORD: usize = 62;
/// The mark before and after a word, which no folded text contains.
const EDGE: u32 = 0x1f;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Word,
    Pair,
    Piece,
}

impl Kind {
    pub(crate) fn weight(self, parameters: &Parameters) -> f32 {
        match self {
            Self::Word => parameters.word_weight,
            Self::Pair => parameters.pair_weight,
            Self::Piece => parameters.piece_weight,
        }
    }
}

/// One occurrence. `token` is the number of the token; a pair belongs to this token and the one before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ngram {
    pub hash: u64,
    pub kind: Kind,
    pub token: usize,
}

/// Calls `visit` for every n-gram, in the order of the text.
pub(crate) fn visit(folded: &Folded, parameters: &Parameters, mut visit: impl FnMut(Ngram)) {
    let mut before: Option<u64> = None;
    for (token, place) in folded.tokens().iter().enumerate() {
        let mut characters = [EDGE; LONGEST_WORD + 2];
        let mut length = 1;
        let mut whole = Hash::new(1);
        for character in folded.word(place).chars() {
            whole.add(u32::from(character));
            if length <= LONGEST_WORD
                && let Some(slot) = characters.get_mut(length)
            {
                *slot = u32::from(character);
                length += 1;
            }
        }
        let word = whole.finish();
        visit(Ngram { hash: word, kind: Kind::Word, token });
        if let Some(before) = before {
            let mut pair = Hash::new(2);
            pair.add_hash(before);
            pair.add_hash(word);
            visit(Ngram { hash: pair.finish(), kind: Kind::Pair, token });
        }
        before = Some(word);
        // The array ends with a mark. Together with the word's own marks, `length + 1` characters are cut into pieces.
        let characters = characters.get(..=length).unwrap_or_default();
        for start in 0..characters.len() {
            let mut piece = Hash::new(3);
            let window = characters.iter().skip(start).take(parameters.longest_piece).enumerate();
            for (offset, &character) in window {
                piece.add(character);
                if offset + 1 >= parameters.shortest_piece {
                    visit(Ngram { hash: piece.finish(), kind: Kind::Piece, token });
                }
            }
        }
    }
}
