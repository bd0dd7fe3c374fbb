//! Pictures. Each is embedded in the file once, and shown wherever it belongs, with its target outlined.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use capataz_contracts::v1;

use super::super::markup::Markup;
use super::super::{Content, MOST_PICTURES, Report, is_picture};
use capataz_display::script::describe::bytes;
use capataz_display::words::{fill, words};

/// Width of the viewport if the script sets none (BrowserOptions).
const VIEWPORT_WIDTH: f64 = 1_280.0;
/// Space around the outlined element, in CSS pixels.
const MARGIN: f64 = 3.0;

/// The pictures of a report, with a record of those that were shown.
#[derive(Debug)]
pub struct Gallery<'r> {
    report: &'r Report,
    /// The shown pictures by id, each with its place and the facts that are needed to write it.
    shown: BTreeMap<&'r str, Shown<'r>>,
}

#[derive(Clone, Copy, Debug)]
struct Shown<'r> {
    place: usize,
    media_type: &'r str,
    size: Size,
}

/// The size of a picture in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Size {
    width: f64,
    height: f64,
}

impl<'r> Gallery<'r> {
    pub fn new(report: &'r Report) -> Self {
        Self { report, shown: BTreeMap::new() }
    }

    /// Returns whether the picture can be shown.
    pub fn has(&self, piece: &v1::EvidenceRef) -> bool {
        matches!(self.report.evidence.get(&piece.id), Some(Content::Here(_)))
    }

    /// Writes a picture with its caption; `target` is outlined if its box is known.
    pub fn figure(
        &mut self,
        page: &mut Markup,
        piece: &'r v1::EvidenceRef,
        caption: &str,
        target: Option<&v1::ResolutionRecord>,
    ) {
        let texts = &words().page;
        let size = match self.report.evidence.get(&piece.id) {
            Some(Content::Here(content)) if is_picture(piece) => size_of(content),
            Some(Content::Here(_)) | None => None,
            Some(Content::Missing(why)) => {
                return missing(page, &fill(texts.missing, &[caption, why]));
            }
            Some(Content::TooMany) => {
                return missing(page, &fill(texts.too_many, &[&MOST_PICTURES.to_string()]));
            }
            Some(Content::TooLarge) => return missing(page, &fill(texts.too_large, &[&bytes(piece.bytes)])),
        };
        let Some(size) = size else { return missing(page, &fill(texts.not_shown, &[caption])) };
        let next = self.shown.len();
        let shown = *self.shown.entry(&piece.id).or_insert(Shown {
            place: next,
            media_type: &piece.media_type,
            size,
        });
        let outline = target.and_then(|target| self.outline(target, size));
        page.open("figure");
        page.open("details");
        page.open("summary");
        picture(page, shown, outline, caption, "thumb");
        page.close("summary");
        picture(page, shown, outline, caption, "full");
        page.close("details");
        let note =
            if outline.is_some() { format!("{caption}. {}", texts.outlined) } else { caption.to_owned() };
        page.element("figcaption", &note);
        page.close("figure");
    }

    /// The target's box, in pixels of the picture.
    fn outline(&self, target: &v1::ResolutionRecord, size: Size) -> Option<[f64; 4]> {
        let parts = [target.x?, target.y?, target.width?, target.height?];
        let script = self.report.story.model.script.as_ref();
        let browser = script.and_then(|script| script.script.browser.as_ref());
        let viewport = browser.and_then(|browser| browser.width).map_or(VIEWPORT_WIDTH, f64::from);
        let scale = size.width / viewport;
        let [x, y, width, height] = parts;
        let scaled =
            [x - MARGIN, y - MARGIN, width + 2.0 * MARGIN, height + 2.0 * MARGIN].map(|part| part * scale);
        let sound = parts.iter().chain(&scaled).all(|part| part.is_finite()) && width > 0.0 && height > 0.0;
        sound.then_some(scaled)
    }

    /// Writes the pictures themselves, at the end of the page, so that a browser shows the text before it has read
    /// them.
    pub fn definitions(&self, page: &mut Markup) {
        page.open_with("svg", &[("class", "definitions"), ("aria-hidden", "true")]);
        page.open("defs");
        for (id, shown) in &self.shown {
            let Some(Content::Here(content)) = self.report.evidence.get(*id) else { continue };
            let address = format!("data:{};base64,{}", shown.media_type, STANDARD.encode(content));
            page.open_with(
                "image",
                &[
                    ("id", &name(shown.place)),
                    ("width", &shown.size.width.to_string()),
                    ("height", &shown.size.height.to_string()),
                    ("href", &address),
                ],
            );
            page.close("image");
        }
        page.close("defs");
        page.close("svg");
    }
}

fn missing(page: &mut Markup, text: &str) {
    page.open_class("figure", "missing");
    page.element("p", text);
    page.close("figure");
}

fn name(place: usize) -> String {
    format!("picture-{}", place + 1)
}

fn picture(
    page: &mut Markup,
    shown: Shown<'_>,
    outline: Option<[f64; 4]>,
    caption: &str,
    class: &'static str,
) {
    let (width, height) = (shown.size.width.to_string(), shown.size.height.to_string());
    let view = format!("0 0 {width} {height}");
    let mut attributes = vec![("class", class), ("viewBox", &view), ("role", "img"), ("aria-label", caption)];
    if class == "full" {
        attributes.extend([("width", width.as_str()), ("height", height.as_str())]);
    }
    page.open_with("svg", &attributes);
    let href = format!("#{}", name(shown.place));
    page.open_with("use", &[("href", &href)]);
    if let Some(outline) = outline {
        let [x, y, width, height] = outline.map(|part| format!("{part:.1}"));
        page.open_with(
            "rect",
            &[("class", "target"), ("x", &x), ("y", &y), ("width", &width), ("height", &height), ("rx", "3")],
        );
    }
    page.close("svg");
}

/// The size of a PNG, JPEG or WebP picture, read from its first bytes.
fn size_of(content: &[u8]) -> Option<Size> {
    let size = png(content).or_else(|| jpeg(content)).or_else(|| webp(content))?;
    let (width, height) = size;
    (width > 0 && height > 0).then_some(Size { width: f64::from(width), height: f64::from(height) })
}

fn png(content: &[u8]) -> Option<(u32, u32)> {
    let rest = content.strip_prefix(b"\x89PNG\r\n\x1a\n")?;
    let at = |from: usize| Some(u32::from_be_bytes(rest.get(from..from + 4)?.try_into().ok()?));
    Some((at(8)?, at(12)?))
}

/// The size of a JPEG picture. Its segments follow one another, each with its length; the frame segment contains the
/// size.
fn jpeg(content: &[u8]) -> Option<(u32, u32)> {
    let mut rest = content.strip_prefix(b"\xff\xd8")?;
    let two =
        |bytes: &[u8], from: usize| Some(u16::from_be_bytes(bytes.get(from..from + 2)?.try_into().ok()?));
    loop {
        let marker = *rest.get(1).filter(|_| rest.first() == Some(&0xff))?;
        let is_frame = matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc);
        if is_frame {
            return Some((two(rest, 7)?.into(), two(rest, 5)?.into()));
        }
        rest = rest.get(2 + usize::from(two(rest, 2)?)..)?;
    }
}

fn webp(content: &[u8]) -> Option<(u32, u32)> {
    let is_webp = content.starts_with(b"RIFF") && content.get(8..12) == Some(b"WEBP");
    let kind = content.get(12..16).filter(|_| is_webp)?;
    let le = |from: usize, count: usize| {
        let bytes = content.get(from..from + count)?;
        Some(bytes.iter().rev().fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte)))
    };
    match kind {
        b"VP8X" => Some((le(24, 3)? + 1, le(27, 3)? + 1)),
        b"VP8 " => Some((le(26, 2)? & 0x3fff, le(28, 2)? & 0x3fff)),
        b"VP8L" => {
            let bits = le(21, 4)?;
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content: &[u8], expected: Option<(f64, f64)>) {
        assert_eq!(size_of(content).map(|size| (size.width, size.height)), expected);
    }

    #[test]
    fn the_size_of_a_picture_is_in_its_first_bytes() {
        check(b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x05\0\0\0\x02\xd0", Some((1280.0, 720.0)));
        check(
            b"\xff\xd8\xff\xe0\0\x04JF\xff\xc2\0\x0b\x08\x02\xd0\x05\0\x01\x01\x11\0",
            Some((1280.0, 720.0)),
        );
        check(b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\xff\x04\0\xcf\x02\0", Some((1280.0, 720.0)));
        check(b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\0\x05\xd0\x02", Some((1280.0, 720.0)));
    }

    #[test]
    fn what_is_no_picture_has_no_size() {
        check(b"", None);
        check(b"\x89PNG\r\n\x1a\n\0\0", None);
        check(b"\xff\xd8\xff\xe0\0\0\xff", None);
        check(b"\xff\xd8\xff\xe0\xff\xff", None);
        check(b"<svg onload=alert(1)>", None);
        check(b"RIFF\0\0\0\0WEBPVP8L\0", None);
    }
}
