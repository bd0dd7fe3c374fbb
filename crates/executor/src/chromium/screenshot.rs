//! Pictures of the page, with masks over everything secret.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use capataz_cdp::Session;
use serde_json::{Value, json};

use super::ChromiumPage;
use super::call::{Failure, READ_LIMIT};
use super::mask::paint;
use super::protocol::{LayoutMetrics, Screenshot};
use crate::page::{PageError, Picture, Rect};

/// Longest wait for a picture. A page that never stops painting still gives one.
const PICTURE_LIMIT: Duration = Duration::from_secs(15);

/// Largest picture of a whole page, CSS pixels each way; what is beyond is cut off. Chromium paints no larger ones.
const LARGEST: f64 = 16_384.0;

impl ChromiumPage {
    pub(super) async fn picture(&self, full_page: bool) -> Result<Picture, PageError> {
        self.repeated(async || self.picture_once(full_page).await).await
    }

    async fn picture_once(&self, full_page: bool) -> Result<Picture, Failure> {
        let session = self.current_session()?;
        // Secrets may move while the picture is taken: what was in either place is masked.
        let mut boxes = self.secret_boxes().await?;
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
        boxes.extend(self.secret_boxes().await?);
        let png = STANDARD.decode(taken.data).map_err(|_| failed("the picture is no base64"))?;
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
    async fn secret_boxes(&self) -> Result<Vec<Rect>, Failure> {
        self.main_document().await?;
        let documents = self.documents();
        let answers: Vec<Result<Vec<Rect>, Failure>> =
            self.scripts(&documents, "secretBoxes", json!([self.redaction]), READ_LIMIT).await;
        let mut boxes = Vec::new();
        for (document, answer) in documents.iter().zip(answers) {
            let inner = match answer {
                Ok(inner) => inner,
                // A frame that went away shows nothing any more. The document itself is to be asked anew.
                Err(Failure::Gone) if self.is_inner(document) => continue,
                Err(failure) => return Err(failure),
            };
            for rect in inner {
                boxes.push(self.rect_from_outside(document, rect).await?);
            }
        }
        Ok(boxes)
    }

    /// Whether this is not, or no longer, the outermost document.
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

fn failed(message: &str) -> Failure {
    Failure::Page(PageError::Failed(message.to_owned()))
}
