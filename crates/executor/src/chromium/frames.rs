//! Frames: finding elements in them, and where these elements lie in the outermost viewport.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::ChromiumPage;
use super::call::{Failure, READ_LIMIT};
use super::protocol::CreatedObject;
use super::script::{self, function};
use crate::page::{Description, Element, Facts, Look, Node, Offset, PageError, Query, Rect, Struck};

/// A function that gives the content box of a frame's element, in the viewport around the frame.
const FRAME_BOX: &str = include_str!("frame_box.js");

/// The box of an element in the viewport of its own document.
const ELEMENT_BOX: &str = "function(given) { \
    const box = capataz.node(given[0])?.getBoundingClientRect(); \
    return box === undefined ? null : { x: box.x, y: box.y, width: box.width, height: box.height }; }";

/// Deepest nesting of frames that is looked through.
const DEPTH_LIMIT: usize = 32;

/// The place where an element can be hit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    /// The box in the outermost viewport; its centre is the point to hit.
    pub rect: Rect,
    /// The point to hit, in the viewport of the element's own document.
    pub inner: (f64, f64),
    /// What the pointer uses there, within the element.
    pub struck: Option<Arc<Struck>>,
    /// True when the element rested from the beginning and was not scrolled, so that only one frame was waited for.
    pub rested: bool,
    /// True when something was scrolled to bring the element into view, so that no earlier picture shows the page.
    pub scrolled: bool,
}

impl Place {
    pub(super) fn point(&self) -> (f64, f64) {
        centre(&self.rect)
    }
}

fn centre(rect: &Rect) -> (f64, f64) {
    (rect.x + rect.width / 2.0, rect.y + rect.height / 2.0)
}

/// How a frame's viewport lies in the one around it.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FrameBox {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    scale_x: f64,
    scale_y: f64,
    /// The size of the viewport around the frame.
    outer_width: f64,
    outer_height: f64,
}

impl FrameBox {
    fn outward(&self, rect: &Rect) -> Rect {
        Rect {
            x: self.x + rect.x * self.scale_x,
            y: self.y + rect.y * self.scale_y,
            width: rect.width * self.scale_x,
            height: rect.height * self.scale_y,
        }
    }

    /// True if a point, in coordinates of the viewport around the frame, is inside the frame and in view.
    fn shows(&self, (x, y): (f64, f64)) -> bool {
        let inside = |at: f64, from: f64, length: f64| at >= from && at < from + length;
        inside(x, self.x, self.width)
            && inside(y, self.y, self.height)
            && inside(x, 0.0, self.outer_width)
            && inside(y, 0.0, self.outer_height)
    }
}

/// A box that was followed outward.
struct Outward {
    rect: Rect,
    /// Every frame on the way shows its centre.
    shown: bool,
    /// The element that lies over the box's centre in one of the documents around; `Some(None)` if that element is
    /// unknown.
    covered_by: Option<Option<Description>>,
}

#[derive(Deserialize)]
struct LookAnswer {
    locator: Option<String>,
    tried: Vec<String>,
    count: u32,
    sample: Vec<Description>,
    /// The handles of the elements in the sample, in the same order.
    handles: Vec<u64>,
    element: Option<FoundElement>,
    #[serde(rename = "partMissing")]
    part_missing: Option<String>,
    invalid: Option<String>,
}

#[derive(Deserialize)]
struct FoundElement {
    handle: u64,
    description: Description,
    facts: Facts,
}

/// What the script says of an element, or that it is gone.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Maybe<T> {
    Detached {
        #[expect(dead_code, reason = "its presence says it")]
        detached: bool,
    },
    Here(T),
}

impl<T> Maybe<T> {
    pub(super) fn here(self) -> Result<T, PageError> {
        match self {
            Self::Here(value) => Ok(value),
            Self::Detached { .. } => Err(PageError::Detached),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Settled {
    rect: Option<Rect>,
    #[serde(default)]
    rested: bool,
    struck: Option<Struck>,
    #[serde(default)]
    scrolled: bool,
    covered_by: Option<Description>,
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hit {
    #[serde(default)]
    ok: bool,
    covered_by: Option<Description>,
}

impl ChromiumPage {
    /// Looks once. Returns the documents that were looked at as well, outermost first.
    pub(super) async fn look_once(&self, query: &Query) -> Result<(Look, Vec<String>), Failure> {
        let mut document = self.main_document().await?;
        let mut documents = vec![document.clone()];
        let named = self.references.query(query);
        let query = match &named {
            None => query,
            // The reference names a document that is gone, or never existed.
            Some(None) => return Ok((nothing_found(), documents)),
            Some(Some((of, query))) => {
                if self.session_of(of).is_none() {
                    return Ok((nothing_found(), documents));
                }
                document.clone_from(of);
                documents.push(document.clone());
                query
            }
        };
        for (depth, step) in query.frame.iter().enumerate() {
            let answer: LookAnswer =
                self.script(&document, function::LOOK, json!([step, self.redaction]), READ_LIMIT).await?;
            let (mut look, found) = look_of(answer, &document);
            look.frame_missing = Some(depth);
            let Some(found) = found else { return Ok((look, documents)) };
            let owner = Node { frame: document, handle: found.handle };
            let Some(frame) = self.frame_of(&owner).await? else {
                look.invalid = Some(format!("the element {} shows no frame", found.description.path));
                return Ok((look, documents));
            };
            // An iframe counts as missing until its document has come.
            let Some(inner) = self.document_of_frame(&frame) else {
                look.count = 0;
                return Ok((look, documents));
            };
            documents.push(inner.clone());
            document = inner;
        }
        let answer: LookAnswer =
            self.script(&document, function::LOOK, json!([query, self.redaction]), READ_LIMIT).await?;
        let (mut look, found) = look_of(answer, &document);
        if let Some(FoundElement { handle, description, mut facts }) = found {
            let node = Node { frame: document, handle };
            self.seen_from_outside(&node, &mut facts).await?;
            look.element = Some(Element { node, description, facts });
        }
        Ok((look, documents))
    }

    fn document_of_frame(&self, frame: &str) -> Option<String> {
        let state = self.shared.read();
        let found = state.tabs.iter().find_map(|tab| tab.frames.get(frame));
        found.and_then(|frame| frame.context.clone())
    }

    /// The documents of all frames of the current tab.
    pub(super) fn documents(&self) -> Vec<String> {
        let state = self.shared.read();
        let frames = state.current().into_iter().flat_map(|tab| tab.frames.values());
        frames.filter_map(|frame| frame.context.clone()).collect()
    }

    /// Turns facts as the element's own document has them into those of the outermost viewport.
    pub(super) async fn seen_from_outside(&self, node: &Node, facts: &mut Facts) -> Result<(), Failure> {
        if self.owner(&node.frame).await?.is_none() {
            return Ok(());
        }
        let outward = self.outward(&node.frame, facts.rect, facts.visible).await?;
        facts.rect = outward.rect;
        facts.in_viewport &= outward.shown;
        if facts.covered_by.is_none() && outward.shown {
            facts.covered_by = outward.covered_by.map(Option::unwrap_or_default);
        }
        Ok(())
    }

    /// The element that shows this document, in the document around it; `None` for the outermost document.
    async fn owner(&self, document: &str) -> Result<Option<Node>, Failure> {
        let (frame, session, parent, number) = {
            let state = self.shared.read();
            let (id, tab) = state.frame_of_context(document).ok_or(Failure::Gone)?;
            let frame = tab.frames.get(id).ok_or(Failure::Gone)?;
            let Some(parent) = frame.parent.as_ref() else { return Ok(None) };
            let parent = tab.frames.get(parent).ok_or(Failure::Gone)?;
            let context = parent.context.clone().ok_or(Failure::Gone)?;
            if let Some((document, handle)) = &frame.owner
                && *document == context
            {
                return Ok(Some(Node { frame: context, handle: *handle }));
            }
            (id.to_owned(), self.connection.session(&parent.session), context, parent.context_number)
        };
        let owner: Value =
            self.command(&session, "DOM.getFrameOwner", json!({ "frameId": frame }), READ_LIMIT).await?;
        let backend = owner.get("backendNodeId").cloned().unwrap_or_default();
        let params = json!({ "backendNodeId": backend, "executionContextId": number });
        let resolved: CreatedObject = self.command(&session, "DOM.resolveNode", params, READ_LIMIT).await?;
        let Some(object) = resolved.object.object_id else { return Err(Failure::Gone) };
        let ask = format!("function() {{ return {}.{}(this); }}", script::OBJECT, function::HANDLE);
        let handle = self.on_object(&session, &object, &ask, READ_LIMIT).await?;
        super::tabs::send(&session, "Runtime.releaseObject", json!({ "objectId": object }));
        // Nobody waits for this, so it is no change of the state.
        self.shared.read().owner_found(&frame, (parent.clone(), handle));
        Ok(Some(Node { frame: parent, handle }))
    }

    /// Follows a box from a document's viewport to the outermost one. With `hit`, what receives events at its centre is
    /// looked for in each document on the way.
    async fn outward(&self, document: &str, rect: Rect, hit: bool) -> Result<Outward, Failure> {
        let mut outward = Outward { rect, shown: true, covered_by: None };
        let mut document = document.to_owned();
        for _ in 0..DEPTH_LIMIT {
            let Some(owner) = self.owner(&document).await? else { break };
            let frame: Maybe<FrameBox> =
                self.function(&owner.frame, FRAME_BOX, json!([owner.handle]), READ_LIMIT).await?;
            let Maybe::Here(frame) = frame else { return Err(Failure::Gone) };
            outward.rect = frame.outward(&outward.rect);
            let (x, y) = centre(&outward.rect);
            outward.shown &= frame.shows((x, y));
            if hit && outward.shown && outward.covered_by.is_none() {
                let arguments = json!([owner.handle, x, y, self.redaction]);
                let found: Hit = self.script(&owner.frame, function::HIT, arguments, READ_LIMIT).await?;
                if !found.ok {
                    outward.covered_by = Some(found.covered_by);
                }
            }
            document = owner.frame;
        }
        Ok(outward)
    }

    /// A box of a document, in the outermost viewport.
    pub(super) async fn rect_from_outside(&self, document: &str, rect: Rect) -> Result<Rect, Failure> {
        Ok(self.outward(document, rect, false).await?.rect)
    }

    /// The place of the frame that shows a document, in the document around it; `None` for the outermost one, and within a
    /// document that does not answer, whose own frame covers it.
    pub(super) async fn frame_area(
        &self,
        document: &str,
        silent: &[String],
    ) -> Result<Option<(String, Rect)>, Failure> {
        let Some(owner) = self.owner(document).await? else { return Ok(None) };
        if silent.contains(&owner.frame) {
            return Ok(None);
        }
        let frame: Maybe<FrameBox> =
            self.function(&owner.frame, FRAME_BOX, json!([owner.handle]), READ_LIMIT).await?;
        let Maybe::Here(FrameBox { x, y, width, height, .. }) = frame else { return Err(Failure::Gone) };
        Ok(Some((owner.frame, Rect { x, y, width, height })))
    }

    pub(super) async fn scroll_to(&self, node: &Node, limit: Duration) -> Result<(), PageError> {
        let scrolled = self.script::<bool>(&node.frame, function::BRING, json!([node.handle]), limit);
        let scrolled = scrolled.await.map_err(Failure::or_detached)?;
        if scrolled { Ok(()) } else { Err(PageError::Detached) }
    }

    /// As the port's `settle`, for acts.
    pub(super) async fn settle_place(
        &self,
        node: &Node,
        at: Option<Offset>,
        limit: Duration,
    ) -> Result<Place, PageError> {
        let deadline = Instant::now() + limit;
        let mut before: Option<Rect> = None;
        let mut scrolled = false;
        let mut moved = false;
        let mut met = None;
        // A frame that is not in view may have no frames of animation, so nothing in it comes to rest.
        if self.owner(&node.frame).await.map_err(Failure::or_detached)?.is_some()
            && !self.is_shown(node).await.map_err(Failure::or_detached)?
        {
            self.scroll_to(node, READ_LIMIT).await?;
            moved = true;
        }
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let inner = match (self.settle_within(node, at, left).await, met.take()) {
                (Ok(settled), _) => settled,
                // Too little time was left to see the element rest; the earlier obstacle says more than this.
                (Err(PageError::NotActionable { .. }), Some(obstacle)) => return Err(obstacle),
                (Err(error), _) => return Err(error),
            };
            moved |= inner.scrolled;
            let obstacle;
            if self.owner(&node.frame).await.map_err(Failure::or_detached)?.is_none() {
                return Ok(Place { rested: inner.rested && !moved, scrolled: moved, ..inner });
            }
            let outward = self.outward(&node.frame, inner.rect, true).await.map_err(Failure::or_detached)?;
            if !outward.shown {
                obstacle = PageError::NotActionable { reason: "outside the viewport" };
                before = None;
                if !scrolled {
                    scrolled = true;
                    moved = true;
                    self.scroll_to(node, READ_LIMIT).await?;
                }
            } else if let Some(by) = outward.covered_by {
                obstacle = PageError::Covered { by: by.map(Box::new) };
                before = None;
            } else if before == Some(outward.rect) {
                return Ok(Place { rect: outward.rect, rested: false, scrolled: moved, ..inner });
            } else {
                obstacle = PageError::NotActionable { reason: "moving" };
                before = Some(outward.rect);
            }
            if Instant::now() >= deadline {
                return Err(obstacle);
            }
            met = Some(obstacle);
        }
    }

    /// That what is dragged would be dropped on the element, if it were let go now at the place where the element settled.
    pub(super) async fn takes_drop(
        &self,
        end: &Node,
        place: &Place,
        dragged: &Node,
    ) -> Result<(), PageError> {
        let gone = |_| PageError::Interrupted { by: None };
        let covered = |by: Option<Description>| PageError::Interrupted { by: by.map(Box::new) };
        let dragged = if dragged.frame == end.frame { dragged.handle } else { 0 };
        let (x, y) = place.inner;
        let arguments = json!([end.handle, x, y, dragged, self.redaction]);
        let found: Result<Maybe<Hit>, Failure> =
            self.script(&end.frame, function::TAKES_DROP, arguments, READ_LIMIT).await;
        let found = found.map_err(Failure::or_detached)?.here().map_err(gone)?;
        if !found.ok {
            return Err(covered(found.covered_by));
        }
        if self.owner(&end.frame).await.map_err(Failure::or_detached)?.is_none() {
            return Ok(());
        }
        let inner = Rect { x, y, width: 0.0, height: 0.0 };
        let outward = self.outward(&end.frame, inner, true).await.map_err(Failure::or_detached)?;
        match outward.covered_by {
            Some(by) => Err(covered(by)),
            None if outward.shown && is_near(centre(&outward.rect), place.point()) => Ok(()),
            // The frame has moved away under the pointer.
            None => Err(covered(None)),
        }
    }

    /// True if every frame around the element shows its centre.
    async fn is_shown(&self, node: &Node) -> Result<bool, Failure> {
        let rect: Option<Rect> =
            self.function(&node.frame, ELEMENT_BOX, json!([node.handle]), READ_LIMIT).await?;
        let Some(rect) = rect else { return Ok(true) };
        Ok(self.outward(&node.frame, rect, false).await?.shown)
    }

    /// Settles the element within its own document.
    async fn settle_within(
        &self,
        node: &Node,
        at: Option<Offset>,
        limit: Duration,
    ) -> Result<Place, PageError> {
        let arguments = json!([node.handle, limit.as_millis() as u64, self.redaction, at]);
        let patience = limit + READ_LIMIT;
        let settled: Maybe<Settled> = self
            .script(&node.frame, function::SETTLE, arguments, patience)
            .await
            .map_err(Failure::or_detached)?;
        let settled = settled.here()?;
        match (settled.rect, settled.covered_by, settled.reason) {
            (Some(rect), ..) => Ok(Place {
                rect,
                inner: centre(&rect),
                struck: settled.struck.map(Arc::new),
                rested: settled.rested,
                scrolled: settled.scrolled,
            }),
            (None, Some(by), _) => Err(PageError::Covered { by: Some(Box::new(by)) }),
            (None, None, reason) => Err(not_actionable(reason.as_deref())),
        }
    }
}

/// The same point, but for what computing it in another way makes of it.
fn is_near(one: (f64, f64), other: (f64, f64)) -> bool {
    (one.0 - other.0).abs() < 0.5 && (one.1 - other.1).abs() < 0.5
}

fn nothing_found() -> Look {
    Look { tried: vec!["ref".to_owned()], ..Look::default() }
}

fn look_of(answer: LookAnswer, document: &str) -> (Look, Option<FoundElement>) {
    let LookAnswer { locator, tried, count, mut sample, mut handles, element, part_missing, invalid } =
        answer;
    if let (Some(only), true) = (&element, sample.is_empty()) {
        sample.push(only.description.clone());
        handles.push(only.handle);
    }
    let node = |handle| Node { frame: document.to_owned(), handle };
    let matches = handles.into_iter().map(node).collect();
    let look = Look {
        locator,
        tried,
        count,
        sample,
        matches,
        element: None,
        frame_missing: None,
        part_missing,
        invalid,
    };
    (look, element)
}

/// The script's reasons, as constants.
pub(super) fn not_actionable(reason: Option<&str>) -> PageError {
    const REASONS: [&str; 17] = [
        "disabled",
        "invalid",
        "malformed value",
        "moving",
        "no form",
        "no such option",
        "not a picker",
        "not a select",
        "not editable",
        "not in view together",
        "not visible",
        "option disabled",
        "outside of the element",
        "outside the viewport",
        "still has a value",
        "takes no focus",
        "takes no pointer events",
    ];
    let known = REASONS.iter().find(|known| reason == Some(**known));
    PageError::NotActionable { reason: known.copied().unwrap_or("it does not take the input") }
}
