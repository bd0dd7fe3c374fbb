//! `capataz act` at a terminal: the lines of what its browser has done, and below them what it does.

use crate::served::Served;
use crate::terminal::Terminal;
use capataz_testsite::Site;

const PROGRAM: &str = env!("CARGO_BIN_EXE_capataz");

#[tokio::test(flavor = "multi_thread")]
async fn a_script_at_a_terminal_shows_how_far_it_is_below_what_it_has_done() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::start().await.unwrap();
    let host = site.host();
    let script = format!(
        "name = \"tour\"\n[policy]\nallowlist = [\"{host}\"]\n\
         [[actions]]\nid = \"open\"\nkind = \"navigate\"\nurl = \"http://{host}/plain\"\n\
         [[actions]]\nid = \"never\"\nkind = \"navigate\"\nurl = \"http://{host}/navigate/never\"\n"
    );
    let file = folder.path().join("tour.toml");
    std::fs::write(&file, script).unwrap();
    let served = Served::start(folder.path(), "");
    let terminal = Terminal::of(24, 100);
    let arguments = ["act", file.to_str().unwrap(), "--addr", served.address()];
    let mut acting = terminal.starts(PROGRAM, &arguments);
    let seen = terminal.sees("the second action at work", |rows| {
        let has = |text: &str| rows.iter().any(|row| row.contains(text));
        has("tour: 1 of 2 done, 0 failed") && has("2 of 2: navigate")
    });
    let place = |text: &str| seen.iter().position(|row| row.contains(text));
    assert!(place("navigate: now at").unwrap() < place("1 of 2 done").unwrap(), "{seen:#?}");
    terminal.press("\u{3}");
    assert_eq!(acting.wait().unwrap().code(), Some(130), "{}", terminal.shown());
    let left = terminal.sees("how to stop it", |rows| rows.iter().any(|row| row.contains("stop it:")));
    assert!(left.iter().any(|row| row.contains("navigate: now at")), "{left:#?}");
    assert!(!left.iter().any(|row| row.contains("of 2 done") || row.contains("2 of 2:")), "{left:#?}");
}
