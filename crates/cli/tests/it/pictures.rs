//! The pictures of the terminal in the README and in docs: made from real runs, and held to what the program shows today.
//!
//! `cargo xtask pictures` makes them anew.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use capataz_display::frame::width;
use vt100::{Cell, Color, Screen};

use crate::served::Served;
use crate::terminal::Terminal;

const PROGRAM: &str = env!("CARGO_BIN_EXE_capataz");
/// Columns of each picture.
const COLUMNS: u16 = 84;

/// Pixels of a character, and of a row.
const ADVANCE: f32 = 8.4;
const ROW: usize = 19;
/// Pixels around the screen.
const MARGIN: usize = 16;
/// The eight colours of a terminal, dark and bright.
const PALETTE: [&str; 16] = [
    "#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4", "#6e7681",
    "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#f0f6fc",
];
const PLAIN: &str = "#c9d1d9";
const BACKGROUND: &str = "#0d1117";

/// The rows of a screen down to the last that has anything.
fn svg(title: &str, screen: &Screen) -> String {
    let columns = screen.size().1.get();
    let texts: Vec<String> = screen.rows(0, columns).collect();
    let shown = texts.iter().rposition(|row| !row.trim().is_empty()).map_or(0, |last| last + 1);
    let (across, down) = (f32::from(columns) * ADVANCE + 2.0 * MARGIN as f32, shown * ROW + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {across:.0} {down}\" width=\"{across:.0}\" \
         role=\"img\" aria-label=\"{title}\">\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n\
         <g font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, monospace\" font-size=\"14\" fill=\"{PLAIN}\">\n"
    );
    for (row, text) in (0..).zip(texts.iter().take(shown)) {
        let used = u16::try_from(width(text.trim_end())).unwrap();
        if used == 0 {
            continue;
        }
        // A font of another width keeps the columns.
        let (y, length) = (MARGIN + usize::from(row) * ROW + 14, f32::from(used) * ADVANCE);
        write!(svg, "<text x=\"{MARGIN}\" y=\"{y}\" textLength=\"{length:.0}\">").unwrap();
        let mut part = (String::new(), String::new());
        for column in 0..used {
            let Some(cell) = screen.cell(row, column).filter(|cell| !cell.is_wide_continuation()) else {
                continue;
            };
            let style = style(cell);
            if style != part.0 {
                close(&mut svg, &part);
                part = (style, String::new());
            }
            // Spaces that no reader of pictures takes together.
            let contents = if cell.has_contents() { cell.contents() } else { " " };
            part.1.push_str(if contents == " " { "\u{a0}" } else { contents });
        }
        close(&mut svg, &part);
        svg.push_str("</text>\n");
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

fn style(cell: &Cell) -> String {
    let mut style = String::new();
    match cell.fgcolor() {
        Color::Idx(colour) if usize::from(colour) < PALETTE.len() => {
            write!(style, " fill=\"{}\"", PALETTE[usize::from(colour)]).unwrap();
        }
        _ => {}
    }
    if cell.bold() {
        style.push_str(" font-weight=\"bold\"");
    }
    if cell.dim() {
        style.push_str(" opacity=\"0.6\"");
    }
    style
}

fn close(svg: &mut String, (style, text): &(String, String)) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    if style.is_empty() {
        svg.push_str(&text);
    } else {
        write!(svg, "<tspan{style}>{text}</tspan>").unwrap();
    }
}

/// The words of a picture, without what differs from run to run: ids, times, the spaces after them, the wheel of who works.
fn lasting(svg: &str) -> String {
    let mut text = String::new();
    let mut is_tag = false;
    for character in svg.chars() {
        match character {
            '<' => is_tag = true,
            '>' => is_tag = false,
            _ if !is_tag => text.push(character),
            _ => {}
        }
    }
    let is_wheel = |character: char| ('\u{2800}'..='\u{28ff}').contains(&character);
    let varies = |word: &str| word.chars().any(|character| character.is_ascii_digit() || is_wheel(character));
    let words = text.split_whitespace().map(|word| if varies(word) { "#" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// Holds what is shown to the picture in docs, or makes that anew.
#[track_caller]
fn check(name: &str, title: &str, terminal: &Terminal) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures").join(format!("{name}.svg"));
    let now = terminal.with_screen(|screen| svg(title, screen));
    if std::env::var_os("CAPATAZ_WRITE_PICTURES").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &now).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(lasting(&kept), lasting(&now), "another picture: cargo xtask pictures");
}

/// The folder of the project's own specs.
fn specs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs").canonicalize().unwrap()
}

#[test]
fn the_first_run_of_a_newcomer() {
    let folder = tempfile::tempdir().unwrap();
    let terminal = Terminal::of(60, COLUMNS);
    let made = terminal.starts_in(folder.path(), "capataz init crew", PROGRAM, &["init", "crew"]).wait();
    assert!(made.unwrap().success());
    let crew = folder.path().join("crew");
    let typed = "cd crew && capataz run plan.toml --local";
    assert!(
        terminal.starts_in(&crew, typed, PROGRAM, &["run", "plan.toml", "--local"]).wait().unwrap().success()
    );
    terminal.sees("the end of the run", |rows| rows.iter().any(|row| row.contains("kept in data")));
    check("first-run", "capataz init, and capataz run with the daemon inside it", &terminal);
}

#[test]
fn a_run_while_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let [gate, failing] = ["gate", "failing"].map(|name| folder.path().join(name));
    assert!(Command::new("mkfifo").args([&gate, &failing]).status().unwrap().success());
    let agent = |name: &str, does: &str| {
        format!(
            "[[agents]]\nname = \"{name}\"\ncommand = [\"sh\", \"-c\", '{does}; cat {} >&2']\n",
            gate.display()
        )
    };
    let config = [
        agent("builder", r#"echo "compiling 214 files" >&2"#),
        agent("tester", r#"printf "suite 3 of 9\nqueue: 812 passed\n""#),
        agent("reviewer", r#"echo "reading src/queue.rs" >&2"#),
        format!(
            "[[agents]]\nname = \"linter\"\ncommand = [\"sh\", \"-c\", 'cat {}; echo cannot read lint.toml >&2; exit 3']\n",
            failing.display()
        ),
    ];
    let served = Served::start(folder.path(), &config.concat());
    let task = |(agent, minutes): (&str, u32)| {
        format!(
            "[[tasks]]\nname = \"{agent}\"\nagent = \"{agent}\"\nretry = {{ max_attempts = 1 }}\n\
             timeouts = {{ timeout = \"{minutes}m\" }}\n"
        )
    };
    let tasks = [("linter", 5), ("builder", 20), ("tester", 30), ("reviewer", 40)].map(task);
    let plan = format!("name = \"nightly\"\n[policy]\nkind = \"continue_all\"\n{}", tasks.concat());
    fs::write(folder.path().join("nightly.toml"), plan).unwrap();
    let terminal = Terminal::of(40, COLUMNS);
    let arguments = ["--addr", served.address(), "run", "nightly.toml"];
    let mut run = terminal.starts_in(folder.path(), "capataz run nightly.toml", PROGRAM, &arguments);
    let sees = |what: &str, texts: &[&str]| {
        terminal.sees(what, |rows| texts.iter().all(|text| rows.iter().any(|row| row.contains(text))));
    };
    let at_work = ["compiling 214 files", "812 passed", "reading src/queue.rs"];
    sees("what the tasks at work say", &at_work);
    // One of them fails before the eyes of whoever looks on.
    drop(fs::OpenOptions::new().write(true).open(&failing).unwrap());
    sees("that one has failed", &["cannot read lint.toml", "1 failed", "about", "15m more"]);
    check("live", "A run while it goes on: what has failed above, the tasks at work below", &terminal);
    run.kill().unwrap();
    run.wait().unwrap();
    served.killed();
}

#[test]
fn a_routing_decision_and_its_reasons() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(folder.path(), &format!("specs_dir = {:?}\n", specs()));
    let terminal = Terminal::of(60, COLUMNS);
    let text = "Should I rent or buy a flat?";
    let arguments = ["--addr", served.address(), "router", "explain", text];
    let typed = format!("capataz router explain \"{text}\"");
    assert!(terminal.starts_in(folder.path(), &typed, PROGRAM, &arguments).wait().unwrap().success());
    terminal.sees("the whole answer", |rows| {
        rows.iter().any(|row| row.contains("it goes to whispers-of-the-wave"))
    });
    check("explain", "Why a text goes to a spec", &terminal);
}
