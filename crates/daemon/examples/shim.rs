//! The shim of process agents as a program of its own, for programs that embed the daemon and for tests.

fn main() -> std::process::ExitCode {
    capataz_daemon::shim_main(std::env::args_os().skip(1))
}
