//! The end of what a task has put out so far, for people who watch it.

use capataz_contracts::v1::{self, payload::Data};

/// Bytes of an output that are looked at: its end, with room for what is taken out.
const LOOKED_AT: usize = 4 * 1024;
/// Characters of a tail.
const MOST_CHARACTERS: usize = 200;
/// Lines of a tail.
const MOST_LINES: usize = 3;

/// The last lines of what the worker has said of its output, such that a terminal only shows them. `None` where there are
/// none, and of an output that is neither text nor JSON, or a blob.
pub(crate) fn of_progress(progress: &v1::Progress) -> Option<String> {
    if let Some(tail) = &progress.partial_tail {
        return end_of(tail.as_bytes());
    }
    let output = progress.partial_output.as_ref().filter(|output| is_text(&output.media_type))?;
    match &output.data {
        Some(Data::Inline(bytes)) => end_of(bytes),
        Some(Data::Blob(_)) | None => None,
    }
}

fn is_text(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence.starts_with("text/") || essence == "application/json" || essence.ends_with("+json")
}

fn end_of(output: &[u8]) -> Option<String> {
    let start = output.len().saturating_sub(LOOKED_AT);
    let end = output.get(start..).unwrap_or_default();
    // The rest of a character whose beginning was cut off.
    let rest = if start == 0 { 0 } else { end.iter().take_while(|byte| **byte & 0xc0 == 0x80).count() };
    let text = String::from_utf8_lossy(end.get(rest..).unwrap_or_default());
    let lines = lines(&text);
    let last = lines.get(lines.len().saturating_sub(MOST_LINES)..).unwrap_or_default().join("\n");
    let surplus = last.chars().count().saturating_sub(MOST_CHARACTERS);
    let tail: String = last.chars().skip(surplus).collect();
    let tail = tail.trim_start();
    (!tail.is_empty()).then(|| tail.to_owned())
}

/// The lines that a terminal would show, without blank ones: a carriage return begins its line anew, as progress bars do.
fn lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut is_overwritten = false;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\n' => {
                lines.push(std::mem::take(&mut line));
                is_overwritten = false;
            }
            '\r' => is_overwritten = true,
            '\u{1b}' => skip_sequence(&mut characters),
            '\u{9b}' => skip_parameters(&mut characters),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => skip_string(&mut characters),
            // What changes the direction of writing changes the rest of the screen's line, too.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            _ if character.is_control() && character != '\t' => {}
            _ => {
                if std::mem::take(&mut is_overwritten) {
                    line.clear();
                }
                line.push(if character == '\t' { ' ' } else { character });
            }
        }
    }
    lines.push(line);
    lines.iter_mut().for_each(|line| line.truncate(line.trim_end().len()));
    lines.retain(|line| !line.is_empty());
    lines
}

/// Skips what follows an ESC.
fn skip_sequence(characters: &mut std::str::Chars<'_>) {
    let mut rest = characters.clone();
    match rest.next() {
        Some('[') => {
            *characters = rest;
            skip_parameters(characters);
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            *characters = rest;
            skip_string(characters);
        }
        // Intermediate characters and a final one.
        Some(' '..='/') => {
            *characters = rest;
            skip_sequence_end(characters);
        }
        Some('0'..='~') => *characters = rest,
        _ => {}
    }
}

fn skip_sequence_end(characters: &mut std::str::Chars<'_>) {
    while let Some(character @ ' '..='~') = characters.clone().next() {
        characters.next();
        if character >= '0' {
            return;
        }
    }
}

/// Skips the parameters of a control sequence, and its final character. What cannot belong to one ends it.
fn skip_parameters(characters: &mut std::str::Chars<'_>) {
    while let Some(character @ ' '..='~') = characters.clone().next() {
        characters.next();
        if character >= '@' {
            return;
        }
    }
}

/// Skips the text of a control string, such as a window's title, to its end or the end of the line.
fn skip_string(characters: &mut std::str::Chars<'_>) {
    while let Some(character) = characters.clone().next() {
        if character == '\n' {
            return;
        }
        characters.next();
        match character {
            '\u{7}' | '\u{9c}' => return,
            // ESC and a backslash; any other ESC ends the string as well.
            '\u{1b}' => return skip_sequence(characters),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(media_type: &str, bytes: &[u8]) -> v1::Progress {
        let data = Some(Data::Inline(bytes.to_vec().into()));
        let output = v1::Payload { media_type: media_type.to_owned(), data };
        v1::Progress { partial_output: Some(output), ..v1::Progress::default() }
    }

    #[track_caller]
    fn check(output: &[u8], expected: &str) {
        let tail = of_progress(&said("text/plain", output));
        assert_eq!(tail.as_deref().unwrap_or_default(), expected);
    }

    #[test]
    fn the_last_lines_are_shown_and_no_more_than_200_characters_of_them() {
        check(b"one", "one");
        check(b"one\ntwo\nthree\nfour\n", "two\nthree\nfour");
        check(b"one\r\n\r\n  \n two\t3 \n", "one\n two 3");
        check(b"", "");
        check(b" \n\n", "");
        check("ñ".repeat(201).as_bytes(), &"ñ".repeat(200));
        // 196 characters, a line break and 3.
        check(format!("{}\nend", "x".repeat(300)).as_bytes(), &format!("{}\nend", "x".repeat(196)));
        // However much there is: 2,000 characters of three bytes, the window begins within one.
        check("€".repeat(2_000).as_bytes(), &"€".repeat(200));
        check(b"\xff half \xc3", "\u{fffd} half \u{fffd}");
    }

    #[test]
    fn a_progress_bar_is_what_it_shows_last() {
        check(b"load\n 10%\r 50%\r100%", "load\n100%");
        check(b" 10%\r 50%\r", " 50%".trim_start());
        check(b"10%\r\nnext", "10%\nnext");
    }

    #[test]
    fn nothing_of_it_acts_on_a_terminal() {
        check(b"\x1b[31mred\x1b[0m \x1b[1;4Hand \x1b[?25lplain\x07", "red and plain");
        check(b"\x1b]0;title\x07a\x1b]8;;http://h/\x1b\\b\x1b]8;;\x1b\\", "ab");
        check(b"\x1bPq#0\x1b\\c\x1b(Bd\x1b7e\x1b=f\x08\x00\x7f", "cdef");
        check("\u{9b}31mg\u{9d}title\u{9c}h\u{85}".as_bytes(), "gh");
        check("i\u{202e}j\u{2066}k".as_bytes(), "ijk");
        // What is not whole yet.
        check(b"l\x1b", "l");
        check(b"m\x1b[3", "m");
        check(b"n\x1b]0;title", "n");
        check(b"o\x1b]0;title\np", "o\np");
        check(b"q\x1b[3\nr", "q\nr");
    }

    #[test]
    fn only_text_and_json_have_a_tail() {
        for media_type in
            ["text/plain", "Text/Markdown; charset=utf-8", "application/json", "application/a+json"]
        {
            assert_eq!(of_progress(&said(media_type, b"{}")).as_deref(), Some("{}"), "{media_type}");
        }
        assert_eq!(of_progress(&said("image/png", b"{}")), None);
        assert_eq!(of_progress(&v1::Progress::default()), None);
        let blob = v1::BlobRef::new("0".repeat(64), 7);
        let output = v1::Payload { media_type: "text/plain".to_owned(), data: Some(Data::Blob(blob)) };
        assert_eq!(
            of_progress(&v1::Progress { partial_output: Some(output), ..v1::Progress::default() }),
            None
        );
    }

    #[test]
    fn the_tail_that_a_worker_gives_itself_goes_before_its_output() {
        let mut progress = said("image/png", b"x");
        progress.partial_tail = Some("\x1b[1mtwo\nlines\x1b[m".to_owned());
        assert_eq!(of_progress(&progress).as_deref(), Some("two\nlines"));
    }
}
