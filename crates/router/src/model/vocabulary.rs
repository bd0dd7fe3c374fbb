//! The mapping from the hash of an n-gram to its number.

/// Assigns a number to every hash, in the order of first appearance; used while training.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    /// The number plus one, or 0 for an empty slot. The length is a power of two, and at most half of the slots are
    /// used.
    slots: Vec<u32>,
    hashes: Vec<u64>,
}

impl Interner {
    pub(crate) fn intern(&mut self, hash: u64) -> u32 {
        if self.hashes.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut place = hash as usize & mask;
        loop {
            match self.slots.get(place).copied() {
                Some(0) | None => {
                    let number = u32::try_from(self.hashes.len()).unwrap_or(u32::MAX - 1);
                    self.hashes.push(hash);
                    if let Some(slot) = self.slots.get_mut(place) {
                        *slot = number + 1;
                    }
                    return number;
                }
                Some(taken) if self.hashes.get(taken as usize - 1) == Some(&hash) => return taken - 1,
                Some(_) => place = (place + 1) & mask,
            }
        }
    }

    pub(crate) fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    fn grow(&mut self) {
        let length = (self.slots.len() * 2).max(1024);
        self.slots = vec![0; length];
        for (number, hash) in (1u32..).zip(&self.hashes) {
            let mut place = *hash as usize & (length - 1);
            while self.slots.get(place).is_some_and(|slot| *slot != 0) {
                place = (place + 1) & (length - 1);
            }
            if let Some(slot) = self.slots.get_mut(place) {
                *slot = number;
            }
        }
    }
}

/// The mapping for scoring, which never changes: eight bytes a slot. An unseen hash is mistaken for a known one about
/// once in two thousand million times, which changes a score by one n-gram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Vocabulary {
    /// The upper half of the hash, and the number plus one, or 0 for an empty slot.
    slots: Vec<(u32, u32)>,
}

impl Vocabulary {
    /// Makes the mapping; each hash gets its place as its number.
    pub(crate) fn new(hashes: &[u64]) -> Self {
        let length = (hashes.len() * 2).next_power_of_two().max(2);
        let mut slots = vec![(0, 0); length];
        for (number, hash) in (1u32..).zip(hashes) {
            let mut place = *hash as usize & (length - 1);
            while slots.get(place).is_some_and(|(_, taken)| *taken != 0) {
                place = (place + 1) & (length - 1);
            }
            if let Some(slot) = slots.get_mut(place) {
                *slot = (fingerprint(*hash), number);
            }
        }
        Self { slots }
    }

    pub(crate) fn find(&self, hash: u64) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut place = hash as usize & mask;
        let wanted = fingerprint(hash);
        loop {
            match self.slots.get(place).copied() {
                Some((_, 0)) | None => return None,
                Some((found, number)) if found == wanted => return Some(number - 1),
                Some(_) => place = (place + 1) & mask,
            }
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.slots.len() * size_of::<(u32, u32)>()
    }
}

fn fingerprint(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::{Interner, Vocabulary};
    use crate::hash::Hash;

    #[test]
    fn every_hash_is_found_under_its_number_and_no_other_is() {
        let hashes: Vec<u64> = (0..5000).map(|number| Hash::of_word(&format!("word{number}"))).collect();
        let mut interner = Interner::default();
        for (number, hash) in hashes.iter().enumerate() {
            assert_eq!(interner.intern(*hash) as usize, number);
        }
        for (number, hash) in hashes.iter().enumerate() {
            assert_eq!(interner.intern(*hash) as usize, number);
        }
        assert_eq!(interner.hashes(), hashes);
        let vocabulary = Vocabulary::new(&hashes);
        for (number, hash) in hashes.iter().enumerate() {
            assert_eq!(vocabulary.find(*hash), u32::try_from(number).ok());
        }
        assert!((0..5000).all(|number| vocabulary.find(Hash::of_word(&format!("other{number}"))).is_none()));
        assert_eq!(Vocabulary::default().find(7), None);
    }
}
