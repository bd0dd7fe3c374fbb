//! The hash that identifies words and n-grams. No file and no protocol contains it, so that it only has to be the same
//! within one process.

/// The multiplier: odd, with well-mixed bits (2^64 divided by the golden ratio).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Hash(u64);

impl Hash {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(MULTIPLIER) ^ 0x5851_f42d_4c95_7f2d)
    }

    pub(crate) fn add(&mut self, value: u32) {
        let mixed = (self.0 ^ u64::from(value)).wrapping_mul(MULTIPLIER);
        self.0 = mixed ^ (mixed >> 29);
    }

    pub(crate) fn add_hash(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(MULTIPLIER);
        self.0 = mixed ^ (mixed >> 29);
    }

    pub(crate) fn finish(self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(MULTIPLIER);
        mixed ^ (mixed >> 32)
    }

    pub(crate) fn of_word(word: &str) -> u64 {
        let mut hash = Self::new(1);
        for character in word.chars() {
            hash.add(u32::from(character));
        }
        hash.finish()
    }
}
