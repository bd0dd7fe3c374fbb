//! Placeholders: `{name}` or `{name|default}`, where the default replaces an empty value; `{{` and `}}` are braces.

use std::borrow::Cow;

/// The placeholders of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// The first 200 characters of the request's text.
    Text,
    /// The first matched keyword.
    Keyword,
    /// All matched keywords.
    Keywords,
    /// The detected intent in words; empty if it is `unclear`.
    Intent,
    /// The topic of the conversation: the text, or the previous text if this one is a follow-up.
    Topic,
    /// The user's previous text.
    PreviousUserText,
    /// The request's `user.emotional_state`.
    EmotionalState,
    /// The spec's title.
    SpecTitle,
}

impl Slot {
    pub(crate) const ALL: [(&str, Self); 8] = [
        ("text", Self::Text),
        ("keyword", Self::Keyword),
        ("keywords", Self::Keywords),
        ("intent", Self::Intent),
        ("topic", Self::Topic),
        ("previous_user_text", Self::PreviousUserText),
        ("emotional_state", Self::EmotionalState),
        ("spec_title", Self::SpecTitle),
    ];

    /// Returns whether a valid request may leave the placeholder empty, so that the template needs a default.
    fn may_be_empty(self) -> bool {
        !matches!(self, Self::Text | Self::Topic | Self::SpecTitle)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    Literal(&'a str),
    Slot(Slot, Option<&'a str>),
}

/// The reason why a text is not a valid template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// An unbalanced brace.
    LoneBrace(char),
    Unknown(String),
    /// A placeholder without a default that may be empty.
    NoDefault(&'static str),
}

/// Splits a template into pieces.
pub(crate) fn pieces(template: &str) -> Result<Vec<Piece<'_>>, Flaw> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some(place) = rest.find(['{', '}']) {
        let (literal, tail) = rest.split_at(place);
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        if let Some(after) = tail.strip_prefix("{{") {
            pieces.push(Piece::Literal("{"));
            rest = after;
        } else if let Some(after) = tail.strip_prefix("}}") {
            pieces.push(Piece::Literal("}"));
            rest = after;
        } else if let Some(after) = tail.strip_prefix('{') {
            let Some((inside, after)) = after.split_once('}') else { return Err(Flaw::LoneBrace('{')) };
            pieces.push(slot(inside)?);
            rest = after;
        } else {
            return Err(Flaw::LoneBrace('}'));
        }
    }
    if !rest.is_empty() {
        pieces.push(Piece::Literal(rest));
    }
    Ok(pieces)
}

fn slot(inside: &str) -> Result<Piece<'_>, Flaw> {
    if inside.contains('{') {
        return Err(Flaw::LoneBrace('{'));
    }
    let (name, default) = match inside.split_once('|') {
        Some((name, default)) => (name.trim(), Some(default)),
        None => (inside.trim(), None),
    };
    let Some((known, slot)) = Slot::ALL.into_iter().find(|(known, _)| *known == name) else {
        return Err(Flaw::Unknown(name.to_owned()));
    };
    if slot.may_be_empty() && default.is_none() {
        return Err(Flaw::NoDefault(known));
    }
    Ok(Piece::Slot(slot, default))
}

/// The escaping that keeps a user's text from being read as markup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Markup {
    None,
    Markdown,
    Html,
}

impl Markup {
    pub(crate) fn of_format(format: &str) -> Self {
        match format {
            "markdown" => Self::Markdown,
            "html" => Self::Html,
            _ => Self::None,
        }
    }

    fn escape<'a>(self, value: &'a str) -> Cow<'a, str> {
        match self {
            Self::None => Cow::Borrowed(value),
            Self::Markdown => {
                let mut escaped = String::with_capacity(value.len());
                for letter in value.chars() {
                    if matches!(
                        letter,
                        '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' | '~' | '&'
                    ) {
                        escaped.push('\\');
                    }
                    escaped.push(letter);
                }
                Cow::Owned(escaped)
            }
            Self::Html => {
                let mut escaped = String::with_capacity(value.len());
                for letter in value.chars() {
                    match letter {
                        '&' => escaped.push_str("&amp;"),
                        '<' => escaped.push_str("&lt;"),
                        '>' => escaped.push_str("&gt;"),
                        '"' => escaped.push_str("&quot;"),
                        '\'' => escaped.push_str("&#39;"),
                        other => escaped.push(other),
                    }
                }
                Cow::Owned(escaped)
            }
        }
    }
}

/// Fills the placeholders of a template once: a value is never read as a placeholder. A text that is not a valid
/// template is returned unchanged; spec files with such texts are refused when they are read.
pub(crate) fn fill(template: &str, markup: Markup, value: &impl Fn(Slot) -> String) -> String {
    let Ok(pieces) = pieces(template) else { return template.to_owned() };
    let mut filled = String::with_capacity(template.len());
    for piece in pieces {
        match piece {
            Piece::Literal(text) => filled.push_str(text),
            Piece::Slot(slot, default) => {
                let value = value(slot);
                match default {
                    Some(default) if value.is_empty() => filled.push_str(default),
                    _ => filled.push_str(&markup.escape(&value)),
                }
            }
        }
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(template: &str, markup: Markup) -> String {
        fill(template, markup, &|slot| match slot {
            Slot::Text => "I am *lost* {keyword} <b>".to_owned(),
            Slot::Topic => "work".to_owned(),
            _ => String::new(),
        })
    }

    #[test]
    fn a_placeholder_is_filled_and_a_doubled_brace_is_a_brace() {
        assert_eq!(filled("On {topic}: {{x}}", Markup::None), "On work: {x}");
    }

    #[test]
    fn an_empty_value_gives_way_to_its_default() {
        assert_eq!(filled("I hear {keyword|something}{intent|}.", Markup::None), "I hear something.");
    }

    #[test]
    fn what_a_user_wrote_is_neither_markup_nor_a_placeholder() {
        assert_eq!(filled("{text}", Markup::None), "I am *lost* {keyword} <b>");
        assert_eq!(filled("{text}", Markup::Markdown), r"I am \*lost\* {keyword} \<b\>");
        assert_eq!(filled("{text}", Markup::Html), "I am *lost* {keyword} &lt;b&gt;");
    }

    #[test]
    fn flaws_are_told_apart() {
        #[track_caller]
        fn check(template: &str, flaw: &Flaw) {
            assert_eq!(pieces(template).as_ref(), Err(flaw));
        }
        check("{text", &Flaw::LoneBrace('{'));
        check("{text {keyword|}", &Flaw::LoneBrace('{'));
        check("text}", &Flaw::LoneBrace('}'));
        check("{txet}", &Flaw::Unknown("txet".to_owned()));
        check("{}", &Flaw::Unknown(String::new()));
        check("{keyword}", &Flaw::NoDefault("keyword"));
    }
}
