//! A writer of HTML. All text and all attribute values go through one escape function; tags and attribute names are
//! constants in this crate.

use capataz_display::format::utc;
use capataz_display::frame::{visible, visible_block};

/// A document under construction.
#[derive(Debug, Default)]
pub struct Markup {
    text: String,
}

/// Elements without an end tag, in HTML and in the SVG that is part of it.
const VOID: [&str; 5] = ["meta", "br", "rect", "circle", "use"];

/// Elements within a line of text.
const INLINE: [&str; 6] = ["a", "b", "code", "span", "strong", "time"];

impl Markup {
    pub fn open(&mut self, tag: &'static str) {
        self.open_with(tag, &[]);
    }

    /// Opens an element with a `class` that is a constant in this crate.
    pub fn open_class(&mut self, tag: &'static str, class: &'static str) {
        self.open_with(tag, &[("class", class)]);
    }

    pub fn open_with(&mut self, tag: &'static str, attributes: &[(&'static str, &str)]) {
        self.text.push('<');
        self.text.push_str(tag);
        for (name, value) in attributes {
            self.text.push(' ');
            self.text.push_str(name);
            self.text.push_str("=\"");
            self.escape(&visible(value));
            self.text.push('"');
        }
        self.text.push_str(if VOID.contains(&tag) && tag != "meta" && tag != "br" { "/>" } else { ">" });
    }

    pub fn close(&mut self, tag: &'static str) {
        self.text.push_str("</");
        self.text.push_str(tag);
        // A line break would be a space before what follows within a line.
        self.text.push_str(if INLINE.contains(&tag) { ">" } else { ">\n" });
    }

    /// Writes one line of text.
    pub fn text(&mut self, text: &str) {
        let visible = visible(text);
        self.escape(&visible);
    }

    /// Writes text with its line breaks.
    pub fn block(&mut self, text: &str) {
        let visible = visible_block(text);
        self.escape(&visible);
    }

    pub fn element(&mut self, tag: &'static str, text: &str) {
        self.open(tag);
        self.text(text);
        self.close(tag);
    }

    pub fn element_class(&mut self, tag: &'static str, class: &'static str, text: &str) {
        self.open_class(tag, class);
        self.text(text);
        self.close(tag);
    }

    /// Writes a term and its description in a description list. An empty value writes nothing.
    pub fn pair(&mut self, term: &str, value: &str) {
        if !value.is_empty() {
            self.element("dt", term);
            self.element("dd", value);
        }
    }

    /// Like [`pair`](Self::pair), with the value as code.
    pub fn pair_code(&mut self, term: &str, value: &str) {
        if !value.is_empty() {
            self.element("dt", term);
            self.open("dd");
            self.element("code", value);
            self.close("dd");
        }
    }

    pub fn pair_list(&mut self, term: &str, values: &[String]) {
        if values.is_empty() {
            return;
        }
        self.element("dt", term);
        self.open("dd");
        self.open_class("ul", "plain");
        for value in values {
            self.open("li");
            self.element("code", value);
            self.close("li");
        }
        self.close("ul");
        self.close("dd");
    }

    /// Writes a time: in UTC, and in the reader's zone once the page's script has run.
    pub fn time(&mut self, unix_ms: i64) {
        let utc = utc(unix_ms);
        self.open_with("time", &[("datetime", &utc.replacen(' ', "T", 1))]);
        self.text(&utc);
        self.close("time");
    }

    /// Writes a block that is collapsed at first.
    pub fn folded(&mut self, title: &str, contents: &str) {
        self.open("details");
        self.element("summary", title);
        self.open("pre");
        self.block(contents);
        self.close("pre");
        self.close("details");
    }

    pub fn row_of_heads(&mut self, heads: &[&str]) {
        self.open("thead");
        self.open("tr");
        for head in heads {
            self.open_with("th", &[("scope", "col")]);
            self.text(head);
            self.close("th");
        }
        self.close("tr");
        self.close("thead");
    }

    /// Writes a constant of this crate without escaping.
    pub fn constant(&mut self, text: &'static str) {
        self.text.push_str(text);
    }

    /// How many bytes there are so far.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    pub fn finish(self) -> String {
        self.text
    }

    fn escape(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '&' => self.text.push_str("&amp;"),
                '<' => self.text.push_str("&lt;"),
                '>' => self.text.push_str("&gt;"),
                '"' => self.text.push_str("&quot;"),
                '\'' => self.text.push_str("&#39;"),
                _ => self.text.push(character),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_attributes_cannot_leave_their_place() {
        let mut page = Markup::default();
        page.open_with("a", &[("title", "\"><script>alert('x')</script>&\u{202e}")]);
        page.text("</a><img src=x onerror=1>\u{202e}\0");
        page.close("a");
        assert_eq!(
            page.finish(),
            "<a title=\"&quot;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;\\u{202e}\">\
             &lt;/a&gt;&lt;img src=x onerror=1&gt;\\u{202e}\\u{0}</a>"
        );
    }

    #[test]
    fn nothing_is_said_of_nothing() {
        let mut page = Markup::default();
        page.pair("a", "");
        page.pair_list("b", &[]);
        assert_eq!(page.finish(), "");
    }
}
