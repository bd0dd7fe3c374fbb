//! One target under libFuzzer; `cargo xtask fuzz` builds and starts this program.

#![no_main]

use std::sync::OnceLock;

use capataz_fuzz::{Target, find};

/// The variable that names the target: libFuzzer's arguments are its own.
const TARGET: &str = "CAPATAZ_FUZZ_TARGET";

static CHOSEN: OnceLock<Option<&'static Target>> = OnceLock::new();

#[expect(clippy::disallowed_methods, reason = "libFuzzer takes no argument that is not its own")]
fn chosen() -> Option<&'static Target> {
    find(&std::env::var(TARGET).ok()?)
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let target = CHOSEN.get_or_init(chosen);
    assert!(target.is_some(), "{TARGET} names no target");
    if let Some(target) = target {
        (target.check)(bytes);
    }
});
