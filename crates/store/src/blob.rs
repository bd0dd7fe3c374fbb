//! The names of blobs.

use std::fmt;

/// The BLAKE3 hash of a blob's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct BlobHash(pub [u8; 32]);

impl BlobHash {
    /// Computes the hash of `content`.
    pub fn of(content: &[u8]) -> Self {
        Self(*blake3::hash(content).as_bytes())
    }
}

/// Writes the hash as 64 lower-case hexadecimal digits.
impl fmt::Display for BlobHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

/// What a text is that names no blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a blob's hash has 64 hexadecimal digits")]
pub struct NotAHash;

/// 64 hexadecimal digits, in either case.
impl std::str::FromStr for BlobHash {
    type Err = NotAHash;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.as_bytes();
        let mut hash = [0; 32];
        if digits.len() != 2 * hash.len() {
            return Err(NotAHash);
        }
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            let [high, low] = pair else { return Err(NotAHash) };
            let (Some(high), Some(low)) = (digit(*high), digit(*low)) else { return Err(NotAHash) };
            *byte = high * 16 + low;
        }
        Ok(Self(hash))
    }
}
