//! A few kills under all kinds of runs, among them scripts in a real Chromium.

mod quick;

#[test]
fn nothing_is_lost_or_doubled_while_browsers_are_killed_with_the_daemon() -> std::io::Result<()> {
    quick::nothing_is_lost_or_doubled(
        "nothing_is_lost_or_doubled_while_browsers_are_killed_with_the_daemon",
        "plans,asks,scripts",
    )
}
