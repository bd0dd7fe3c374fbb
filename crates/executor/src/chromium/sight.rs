//! What the whole page looks like: its outermost document, and with it those of its frames.
//!
//! Frames have no order of their own that would be the same each time the page is loaded, so what they show is sorted.

use std::future::pending;

use capataz_cdp::patience::within;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::ChromiumPage;
use super::ahead::Ahead;
use super::call::{Failure, OTHER_FRAMES_LIMIT, READ_LIMIT};
use super::script::function;
use crate::page::{Node, PageError, SecretsIn, Sight, Skeleton};

/// Frames of a page that are looked into.
const FRAMES_SEEN: usize = 50;

#[derive(Deserialize)]
struct State {
    skeleton: Skeleton,
    snapshot: Value,
}

/// What a frame shows, in the skeleton of its page: nothing that names the frame, which may be another each time.
const FRAME_LINE: &str = r#"["frame"]"#;

impl ChromiumPage {
    /// What the page looks like now. The picture may be one that was taken ahead.
    pub(super) async fn seen(
        &self,
        ahead: &mut Option<Ahead>,
        secrets_in: Option<&SecretsIn<'_>>,
    ) -> Result<Sight, PageError> {
        let picture = async {
            let Some(secrets_in) = secrets_in else { return Ok(None) };
            match self.picture_ahead(ahead).await {
                Some(picture) => Ok(Some(picture)),
                None => self.picture(false, secrets_in).await.map(Some),
            }
        };
        let (skeleton, picture) = tokio::join!(Box::pin(self.whole_skeleton()), Box::pin(picture));
        Ok(Sight { skeleton: skeleton?, picture: picture? })
    }

    pub(super) async fn whole_skeleton(&self) -> Result<Skeleton, PageError> {
        let (outermost, frames) = self.read_all(function::SKELETON, |_| json!([self.redaction])).await?;
        Ok(with_frames(outermost, frames))
    }

    pub(super) async fn whole_snapshot(&self, nodes: &[Node]) -> Result<Value, PageError> {
        let (outermost, frames) =
            self.read_all(function::SNAPSHOT, |document| self.of(document, nodes)).await?;
        Ok(snapshot_with_frames(outermost, frames))
    }

    /// The skeleton and the snapshot of the same moment.
    pub(super) async fn whole_state(&self, nodes: &[Node]) -> Result<(Skeleton, Value), PageError> {
        let reading = self.read_all::<State>(function::STATE, |document| self.of(document, nodes));
        let (outermost, frames) = reading.await?;
        let (skeletons, snapshots) = frames.into_iter().map(|state| (state.skeleton, state.snapshot)).unzip();
        let skeleton = with_frames(outermost.skeleton, skeletons);
        Ok((skeleton, snapshot_with_frames(outermost.snapshot, snapshots)))
    }

    /// The handles of those elements that are in this document; its script leaves out elements that are gone.
    fn of(&self, document: &str, nodes: &[Node]) -> Value {
        let here = nodes.iter().filter(|node| node.frame == document);
        let handles: Vec<u64> = here.map(|node| node.handle).collect();
        json!([handles, self.redaction])
    }

    /// Calls a function in the outermost document and in those of all frames that answer.
    pub(super) async fn read_all<R: DeserializeOwned>(
        &self,
        function: &'static str,
        arguments: impl Fn(&str) -> Value,
    ) -> Result<(R, Vec<R>), PageError> {
        self.repeated(async || {
            let outermost = self.main_document().await?;
            let mut frames = self.documents();
            frames.retain(|document| *document != outermost);
            frames.truncate(FRAMES_SEEN);
            let (answered, _) = watch::channel(false);
            // A frame that is gone, or too busy to answer, is taken to show nothing. Where all of the page is slow, so
            // is a frame: it is given up when the outermost document has answered and this one has not.
            let asked = frames.iter().map(|document| {
                let asked = self.script(document, function, arguments(document), READ_LIMIT);
                let mut answered = answered.subscribe();
                async move {
                    let given_up = async {
                        // The sender lives as long as this.
                        let _ = answered.wait_for(|answered| *answered).await;
                        within(OTHER_FRAMES_LIMIT, pending::<()>()).await
                    };
                    tokio::select! {
                        biased;
                        shown = asked => shown.ok(),
                        _ = given_up => None,
                    }
                }
            });
            let (whole, frames) = tokio::join!(
                async {
                    let whole = self.script(&outermost, function, arguments(&outermost), READ_LIMIT).await;
                    answered.send_replace(true);
                    whole
                },
                futures_util::future::join_all(asked),
            );
            Ok::<_, Failure>((whole?, frames.into_iter().flatten().collect()))
        })
        .await
    }
}

/// Most characters of the documents of all frames together.
const FRAMES_HTML_LIMIT: usize = 20_000_000;

/// The document with those of its frames after it, each behind a comment.
pub(super) fn html_with_frames(mut whole: String, mut frames: Vec<String>) -> String {
    // Frames have no order of their own.
    frames.sort_unstable();
    let mut length = 0_usize;
    for frame in frames {
        length = length.saturating_add(frame.len());
        if length > FRAMES_HTML_LIMIT {
            whole.push_str("\n<!-- capataz: further frames are left out -->");
            break;
        }
        whole.push_str("\n<!-- capataz: the document of a frame -->\n");
        whole.push_str(&frame);
    }
    whole
}

/// The texts of the page and of its frames, one a line.
pub(super) fn text_with_frames(mut whole: String, frames: Vec<String>) -> String {
    for frame in frames {
        whole.push('\n');
        whole.push_str(&frame);
    }
    whole
}

/// Frames in which nothing is to be seen or used leave no trace: they come and go with advertisements and the like.
fn with_frames(mut whole: Skeleton, mut frames: Vec<Skeleton>) -> Skeleton {
    frames.retain(|frame| !frame.dom.is_empty());
    frames.sort_by(|one, other| {
        (&one.dom, &one.anchors, &one.inputs).cmp(&(&other.dom, &other.anchors, &other.inputs))
    });
    for frame in frames {
        for (all, part) in [
            (&mut whole.dom, &frame.dom),
            (&mut whole.anchors, &frame.anchors),
            (&mut whole.inputs, &frame.inputs),
        ] {
            for text in ["\n", FRAME_LINE, "\n", part] {
                all.push_str(text);
            }
        }
    }
    whole
}

/// What the frames show stands beside what the page shows, as `frames`, where there is anything.
fn snapshot_with_frames(mut whole: Value, mut frames: Vec<Value>) -> Value {
    let has = |frame: &Value, list: &str| {
        frame.get(list).and_then(Value::as_array).is_some_and(|list| !list.is_empty())
    };
    frames.retain(|frame| ["targets", "anchors", "inputs"].iter().any(|list| has(frame, list)));
    if let (Some(whole), false) = (whole.as_object_mut(), frames.is_empty()) {
        frames.sort_by_cached_key(Value::to_string);
        whole.insert("frames".to_owned(), Value::Array(frames));
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skeleton(dom: &str) -> Skeleton {
        Skeleton { dom: dom.to_owned(), ..Skeleton::default() }
    }

    #[test]
    fn what_frames_show_does_not_depend_on_their_order() {
        let frames = || vec![skeleton("b"), skeleton("a")];
        let whole = with_frames(skeleton("page"), frames());
        assert_eq!(whole, with_frames(skeleton("page"), frames().into_iter().rev().collect()));
        assert_eq!(whole.dom, "page\n[\"frame\"]\na\n[\"frame\"]\nb");
        let snapshot = |frames| snapshot_with_frames(json!({ "url": "page" }), frames);
        let (one, other) = (json!({ "targets": [1] }), json!({ "anchors": [2] }));
        let expected = json!({ "url": "page", "frames": [other, one] });
        assert_eq!(snapshot(vec![one.clone(), other.clone()]), expected);
        assert_eq!(snapshot(vec![other, one]), expected);
    }

    #[test]
    fn the_html_has_the_documents_of_the_frames_in_an_order_that_does_not_depend_on_theirs() {
        let frames = || vec!["<p>b</p>".to_owned(), "<p>a</p>".to_owned()];
        let whole = html_with_frames("<html></html>".to_owned(), frames());
        let frame = "\n<!-- capataz: the document of a frame -->\n";
        assert_eq!(whole, format!("<html></html>{frame}<p>a</p>{frame}<p>b</p>"));
        let long = "x".repeat(FRAMES_HTML_LIMIT + 1);
        let cut = html_with_frames(String::new(), vec![long]);
        assert_eq!(cut, "\n<!-- capataz: further frames are left out -->");
    }

    #[test]
    fn a_frame_that_shows_nothing_leaves_no_trace() {
        assert_eq!(with_frames(skeleton("page"), vec![skeleton("")]), skeleton("page"));
        let empty = json!({ "targets": [], "anchors": [], "inputs": [] });
        assert_eq!(snapshot_with_frames(json!({ "url": "page" }), vec![empty]), json!({ "url": "page" }));
    }
}
