//! The form that references in plans and placeholders in scripts share: `${…}` within a text, and `$${` for the characters
//! `${`.

/// A piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Characters that stand for themselves, escapes already undone; never empty.
    Text(&'a str),
    /// What stands between the braces, and all of it as written.
    Braced { inner: &'a str, written: &'a str },
    /// A `${` without its end, to the end of the text.
    Open(&'a str),
}

/// Splits a text into its pieces; the empty text has none. Nothing comes after one that is [`Piece::Open`].
pub fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, opening) = rest.split_at(start);
        if let Some(plain) = before.strip_suffix('$') {
            let (escaped, after) = opening.split_at("${".len());
            pieces.extend([Piece::Text(plain), Piece::Text(escaped)]);
            rest = after;
            continue;
        }
        pieces.push(Piece::Text(before));
        let Some(end) = opening.find('}') else {
            pieces.push(Piece::Open(opening));
            rest = "";
            break;
        };
        let (written, after) = opening.split_at(end + 1);
        pieces.push(Piece::Braced { inner: written.get("${".len()..end).unwrap_or_default(), written });
        rest = after;
    }
    pieces.push(Piece::Text(rest));
    pieces.retain(|piece| *piece != Piece::Text(""));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[Piece<'_>]) {
        assert_eq!(pieces(text), expected, "{text}");
    }

    #[test]
    fn braces_escapes_and_open_ends_are_told_apart() {
        check("", &[]);
        check("plain $ } {", &[Piece::Text("plain $ } {")]);
        check("a${b}c", &[Piece::Text("a"), Piece::Braced { inner: "b", written: "${b}" }, Piece::Text("c")]);
        check("$${b}", &[Piece::Text("${"), Piece::Text("b}")]);
        check("ü${}", &[Piece::Text("ü"), Piece::Braced { inner: "", written: "${}" }]);
        check("x${y", &[Piece::Text("x"), Piece::Open("${y")]);
    }
}
