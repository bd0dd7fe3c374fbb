//! Pictures of the page, with masks over everything secret.

use std::ops::Range;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use capataz_cdp::Session;
use serde_json::{Value, json};

use super::ChromiumPage;
use super::call::{DocumentId, Failure, READ_LIMIT};
use super::mask::paint;
use super::protocol::{LayoutMetrics, Screenshot};
use super::script::function;
use crate::page::{PageError, Picture, Rect, SecretsIn};

/// Longest wait for a picture. A page that never stops painting still gives one.
const PICTURE_LIMIT: Duration = Duration::from_secs(15);

/// Longest wait for what is secret in a frame: twice for a picture, which all together may take no longer than one that is
/// repeated.
const FRAME_LIMIT: Duration = Duration::from_secs(3);

/// Largest picture of a whole page, CSS pixels each way; what is beyond is cut off. Chromium paints no larger ones.
const LARGEST: f64 = 16_384.0;

impl ChromiumPage {
    pub(super) async fn picture(
        &self,
        full_page: bool,
        secrets_in: &SecretsIn<'_>,
    ) -> Result<Picture, PageError> {
        self.repeated(async || Box::pin(self.picture_once(full_page, secrets_in)).await).await
    }

    async fn picture_once(&self, full_page: bool, secrets_in: &SecretsIn<'_>) -> Result<Picture, Failure> {
        let session = self.current_session()?;
        // Secrets may move while the picture is taken: what was in either place is masked.
        let mut boxes = self.secret_boxes(function::BEFORE_PICTURE, secrets_in).await?;
        let mut params = json!({ "format": "png", "optimizeForSpeed": true, "fromSurface": true });
        let mut origin = (0.0, 0.0);
        if full_page {
            let metrics: LayoutMetrics =
                self.command(&session, "Page.getLayoutMetrics", (), READ_LIMIT).await?;
            let size = metrics.css_content_size;
            origin = (metrics.css_visual_viewport.page_x, metrics.css_visual_viewport.page_y);
            if let Some(params) = params.as_object_mut() {
                let (width, height) = (size.width.clamp(1.0, LARGEST), size.height.clamp(1.0, LARGEST));
                let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
                params.insert("clip".to_owned(), clip);
                params.insert("captureBeyondViewport".to_owned(), Value::Bool(true));
            }
        }
        let taken: Screenshot =
            self.command(&session, "Page.captureScreenshot", params, PICTURE_LIMIT).await?;
        boxes.extend(self.secret_boxes(function::SECRET_BOXES, secrets_in).await?);
        let png = STANDARD.decode(taken.data).map_err(|_| failed("the picture is not base64"))?;
        if boxes.is_empty() {
            return Ok(Picture { png: Bytes::from(png), masked: false });
        }
        for rect in &mut boxes {
            rect.x += origin.0;
            rect.y += origin.1;
        }
        let painted = tokio::task::spawn_blocking(move || paint(&png, &boxes)).await;
        match painted {
            Ok(Ok((png, masked))) => Ok(Picture { png: Bytes::from(png), masked }),
            Ok(Err(error)) => Err(failed(&format!("the picture cannot be read: {error}"))),
            Err(_) => Err(failed("the picture was not masked")),
        }
    }

    /// Boxes of everything secret in all frames, in the outermost viewport.
    async fn secret_boxes(
        &self,
        function: &'static str,
        secrets_in: &SecretsIn<'_>,
    ) -> Result<Vec<Rect>, Failure> {
        let outermost = self.main_document().await?;
        let (own, frames): (Vec<String>, Vec<String>) =
            self.documents().into_iter().partition(|document| *document == outermost);
        let (own, frames) = futures_util::future::join(
            self.answers_of(own, function, READ_LIMIT),
            self.answers_of(frames, function, FRAME_LIMIT),
        )
        .await;
        let mut boxes = Vec::new();
        let mut silent = Vec::new();
        for (document, elements, text) in own.into_iter().chain(frames) {
            match self.secret_boxes_of(&document, elements, text, secrets_in).await {
                Ok(more) => boxes.extend(more),
                // A frame that went away shows nothing any more. The document itself is to be asked anew.
                Err(Failure::Gone) if self.is_inner(&document) => {}
                // Of a frame that does not answer nobody knows where something secret is: all of it is masked.
                Err(Failure::Page(PageError::Unanswered { .. })) if self.is_inner(&document) => {
                    silent.push(document);
                }
                Err(failure) => return Err(failure),
            }
        }
        for document in &silent {
            match self.frame_area(document, &silent).await {
                Ok(Some((around, area))) => boxes.push(self.rect_from_outside(&around, area).await?),
                Ok(None) | Err(Failure::Gone) => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(boxes)
    }

    /// What the script of each document says: the boxes of secret elements, and the text that is drawn.
    async fn answers_of(
        &self,
        documents: Vec<String>,
        function: &'static str,
        limit: Duration,
    ) -> Vec<(String, Result<Vec<Rect>, Failure>, Result<String, Failure>)> {
        let redaction = json!([self.redaction]);
        let (elements, texts) = futures_util::future::join(
            self.scripts(&documents, function, redaction.clone(), limit),
            self.scripts(&documents, function::DRAWN_TEXT, redaction, limit),
        )
        .await;
        let answers = documents.into_iter().zip(elements).zip(texts);
        answers.map(|((document, elements), text)| (document, elements, text)).collect()
    }

    /// The boxes to mask in one document, from the answers of its script.
    async fn secret_boxes_of(
        &self,
        document: &DocumentId,
        elements: Result<Vec<Rect>, Failure>,
        text: Result<String, Failure>,
        secrets_in: &SecretsIn<'_>,
    ) -> Result<Vec<Rect>, Failure> {
        let (mut boxes, text) = (elements?, text?);
        let secrets = secrets_in(&text);
        if !secrets.is_empty() {
            let ranges = json!([in_utf16(&text, &secrets)]);
            let drawn: Vec<Rect> = self.script(document, function::DRAWN_BOXES, ranges, READ_LIMIT).await?;
            boxes.extend(drawn);
        }
        if boxes.is_empty() {
            return Ok(boxes);
        }
        // A frame is moved and scaled as a whole, so the place of one box gives the places of all.
        let unit = Rect { x: 0.0, y: 0.0, width: 1.0, height: 1.0 };
        let frame = self.rect_from_outside(document, unit).await?;
        for rect in &mut boxes {
            rect.x = frame.x + rect.x * frame.width;
            rect.y = frame.y + rect.y * frame.height;
            rect.width *= frame.width;
            rect.height *= frame.height;
        }
        Ok(boxes)
    }

    /// True if this document is not the outermost one, or no longer.
    fn is_inner(&self, document: &str) -> bool {
        let state = self.shared.read();
        let outermost = state.current().and_then(|tab| tab.frames.get(&tab.target));
        outermost.is_some_and(|frame| frame.context.as_deref() != Some(document))
    }

    pub(super) fn current_session(&self) -> Result<Session, PageError> {
        if let Some(lost) = self.lost() {
            return Err(lost);
        }
        let state = self.shared.read();
        let tab = state.current();
        let lost = || PageError::Lost { reason: "there is no tab".to_owned() };
        tab.map(|tab| self.connection.session(&tab.session)).ok_or_else(lost)
    }
}

/// Ranges of bytes, in order, as scripts count: in units of UTF-16.
fn in_utf16(text: &str, ranges: &[Range<usize>]) -> Vec<(usize, usize)> {
    let (mut bytes, mut units) = (0, 0);
    let mut count_to = |to: usize| {
        units += text.get(bytes..to).unwrap_or_default().encode_utf16().count();
        bytes = to;
        units
    };
    ranges.iter().map(|range| (count_to(range.start), count_to(range.end))).collect()
}

fn failed(message: &str) -> Failure {
    Failure::Page(PageError::Failed(message.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_counted_as_scripts_count() {
        let text = "añ😀 b😀c";
        let ranges = [1..3, 3..7, 8..9, 9..14];
        assert_eq!(in_utf16(text, &ranges), [(1, 2), (2, 4), (5, 6), (6, 9)]);
    }
}
