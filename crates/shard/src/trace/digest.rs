//! What tells the outputs of one turn from others.

use std::fmt::{self, Write as _};

use crate::driver::Output;

/// FNV-1a over what is written to it.
struct Digest(u64);

impl fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
        Ok(())
    }
}

/// The digest of the outputs' texts for people. Nothing in an output is in an order of chance, so that the same outputs
/// have the same text in every process.
pub(super) fn digest(outputs: &[Output]) -> u64 {
    let mut digest = Digest(0xCBF2_9CE4_8422_2325);
    for output in outputs {
        // Writing to a number does not fail.
        let _ = writeln!(digest, "{output:?}");
    }
    digest.0
}
