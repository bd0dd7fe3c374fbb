//! What no router by n-grams can do without, written as plainly and as fast as it can be.

use capataz_router::model::Parameters;

/// Odd, with well-mixed bits: 2^64 divided by the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
/// Stands before and after a word.
const EDGE: char = '\u{1f}';

/// Hashes the n-grams that the router looks at: words, pairs of neighbours, and pieces of words with their edges.
/// Nothing is looked up, counted or decided.
#[derive(Clone, Debug)]
pub(super) struct Hasher {
    shortest: usize,
    longest: usize,
    /// The letters of the word at hand.
    word: Vec<char>,
}

impl Default for Hasher {
    fn default() -> Self {
        let parameters = Parameters::default();
        Self { shortest: parameters.shortest_piece, longest: parameters.longest_piece, word: Vec::new() }
    }
}

impl Hasher {
    /// Calls `visit` with the hash of every n-gram.
    pub(super) fn visit(&mut self, text: &str, mut visit: impl FnMut(u64)) {
        let mut before = None;
        for word in text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty()) {
            self.word.clear();
            self.word.push(EDGE);
            self.word.extend(word.chars().flat_map(char::to_lowercase));
            let whole = self.word.iter().fold(1, |hash, letter| mixed(hash, u64::from(*letter)));
            visit(whole);
            if let Some(before) = before.replace(whole) {
                visit(mixed(before, whole));
            }
            self.word.push(EDGE);
            for start in 0..self.word.len() {
                let mut hash = 2;
                for (place, letter) in self.word.iter().skip(start).take(self.longest).enumerate() {
                    hash = mixed(hash, u64::from(*letter));
                    if place + 1 >= self.shortest {
                        visit(hash);
                    }
                }
            }
        }
    }

    /// The sum of all hashes, so that none of them can be left out.
    pub(super) fn sum(&mut self, text: &str) -> u64 {
        let mut sum = 0_u64;
        self.visit(text, |hash| sum = sum.wrapping_add(hash));
        sum
    }
}

fn mixed(hash: u64, value: u64) -> u64 {
    let mixed = (hash ^ value).wrapping_mul(MULTIPLIER);
    mixed ^ (mixed >> 29)
}

/// A table as large as the model, of one row of 16-bit weights for each feature; rows are added up.
#[derive(Debug)]
pub(super) struct WeightRows {
    table: Vec<i16>,
    rows: u64,
    sums: Vec<i16>,
}

impl WeightRows {
    pub(super) fn new(bytes: usize, classes: usize) -> Self {
        let classes = classes.next_multiple_of(16).max(16);
        let rows = (bytes / (classes * size_of::<i16>())).max(1);
        // No page of zeros: those would all be one page of memory.
        let table = (0..rows * classes).map(|place| (place % 251) as i16 - 125).collect();
        Self { table, rows: rows as u64, sums: vec![0; classes] }
    }

    pub(super) fn clear(&mut self) {
        self.sums.fill(0);
    }

    pub(super) fn add(&mut self, hash: u64) {
        let place = (hash % self.rows) as usize * self.sums.len();
        let row = self.table.get(place..place + self.sums.len()).unwrap_or_default();
        for (sum, weight) in self.sums.iter_mut().zip(row) {
            *sum = sum.wrapping_add(*weight);
        }
    }

    pub(super) fn best(&self) -> i16 {
        self.sums.iter().copied().max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        let mut count = 0;
        Hasher { shortest: 2, longest: 3, word: Vec::new() }.visit(text, |_| count += 1);
        count
    }

    #[test]
    fn words_pairs_and_pieces_are_hashed() {
        // The word; |a ab b| and |ab ab|.
        assert_eq!(count("ab"), 1 + 3 + 2);
        assert_eq!(count("ab, AB!"), 2 * (1 + 3 + 2) + 1);
        assert_eq!(count(" ,"), 0);
        let mut hasher = Hasher::default();
        assert_eq!(hasher.sum("Ab"), hasher.sum("aB"));
        assert_ne!(hasher.sum("ab"), hasher.sum("ba"));
    }

    #[test]
    fn a_table_is_as_large_as_the_model() {
        let rows = WeightRows::new(1_000_000, 150);
        let bytes = rows.table.len() * size_of::<i16>();
        assert!((990_000..=1_000_000).contains(&bytes), "{bytes}");
    }
}
