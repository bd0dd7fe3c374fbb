//! Only for the tests of the shim, which need a second process that is one. Nothing installs it.

use std::process::ExitCode;

fn main() -> ExitCode {
    capataz_shim::shim_main(std::env::args_os().skip(1))
}
