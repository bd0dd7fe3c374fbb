//! Dragging: the pointer is pressed on one element, moved, and let go somewhere else.
//!
//! Pages drag in two ways. Some follow the pointer by themselves; others declare an element as draggable, and the browser
//! takes over from the first move: then the browser hands over what is dragged, and it is carried and dropped by commands.

use std::time::Duration;

use capataz_cdp::{Done, Session};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::ChromiumPage;
use super::call::{Failure, READ_LIMIT};
use super::frames::Place;
use super::input::Pointer;
use super::script::function;
use crate::page::{Drop, Node, PageError, Pointing};

/// The press decides: it reaches the element, or nothing of the drag reaches anything.
const DRAG_EVENTS: [&str; 4] = ["pointerdown", "mousedown", "pointerup", "mouseup"];

/// What the browser makes of a press and a release on the same element.
const CLICK_EVENTS: [&str; 3] = ["click", "dblclick", "auxclick"];

/// Everything that comes of pressing and letting go.
const ALL_EVENTS: [&str; 8] =
    ["pointerdown", "mousedown", "pointerup", "mouseup", "click", "dblclick", "auxclick", "contextmenu"];

/// Moves from the press to the drop, all of the same length.
const MOVES: u32 = 8;

/// A function that gives the size of the outermost viewport.
const VIEWPORT: &str = "function() { return [innerWidth, innerHeight]; }";

#[derive(Deserialize)]
struct Held {
    pressed: bool,
    dragging: bool,
}

/// Where the pointer is pressed and let go.
struct Ends<'d> {
    from: (f64, f64),
    to: (f64, f64),
    /// The element that the drop is meant for, and where it settled.
    onto: Option<(&'d Node, Place)>,
}

/// What the browser drags.
#[derive(Default)]
struct Load {
    /// It has begun to.
    begun: bool,
    data: Option<Value>,
}

impl ChromiumPage {
    pub(super) async fn drag(
        &mut self,
        node: &Node,
        how: &Pointing,
        drop: &Drop,
        limit: Duration,
    ) -> Result<(), PageError> {
        let deadline = Instant::now() + limit;
        let ends = self.ends(node, how, drop, limit).await?;
        let session = self.input_session(node)?;
        self.shared.change(|state| state.dragged = None);
        let intercept = |enabled: bool| json!({ "enabled": enabled });
        self.command::<Done>(&session, "Input.setInterceptDrags", intercept(true), READ_LIMIT)
            .await
            .map_err(Failure::or_detached)?;
        let dragged = self.drag_between(node, how, &ends, deadline).await;
        super::tabs::send(&session, "Input.setInterceptDrags", intercept(false));
        dragged
    }

    /// Where the pointer is pressed and let go. Each element may have to be scrolled to, so both are looked at again.
    async fn ends<'d>(
        &self,
        node: &Node,
        how: &Pointing,
        drop: &'d Drop,
        limit: Duration,
    ) -> Result<Ends<'d>, PageError> {
        match drop {
            Drop::By(by) => {
                let from = self.settle_place(node, how.at, limit).await?.point();
                let to = (from.0 + by.x, from.1 + by.y);
                let viewport: (f64, f64) = self
                    .function(&self.main_document().await?, VIEWPORT, Value::Null, READ_LIMIT)
                    .await
                    .map_err(Failure::or_detached)?;
                let is_inside = (0.0..viewport.0).contains(&to.0) && (0.0..viewport.1).contains(&to.1);
                if is_inside {
                    Ok(Ends { from, to, onto: None })
                } else {
                    Err(out_of_view("outside the viewport"))
                }
            }
            Drop::On(end) => {
                self.settle_place(end, None, limit).await?;
                let from = self.settle_place(node, how.at, limit).await?;
                let to = self.settle_place(end, None, limit).await?;
                let again = self.settle_place(node, how.at, limit).await?;
                if from.rect == again.rect {
                    Ok(Ends { from: from.point(), to: to.point(), onto: Some((end, to)) })
                } else {
                    Err(out_of_view("not in view together"))
                }
            }
        }
    }

    async fn drag_between(
        &self,
        node: &Node,
        how: &Pointing,
        ends: &Ends<'_>,
        deadline: Instant,
    ) -> Result<(), PageError> {
        let left = || deadline.saturating_duration_since(Instant::now());
        let session = self.input_session(node)?;
        let pointer = Pointer::new(&session, how);
        let guards = self.guard(node, Some(&DRAG_EVENTS)).await?;
        let mut load = Load::default();
        let sent = vec![pointer.go(ends.from, false), pointer.press(ends.from, 1)];
        let mut moved = self.taken(&session, sent, left()).await.map(|()| true);
        if moved.is_ok() {
            moved = self.carry(node, guards.token, &pointer, ends, &mut load, deadline).await;
        }
        let verdict = self.verdict(node, guards).await;
        let error = match (moved, verdict) {
            (Ok(true), Ok(())) => return Ok(()),
            // The guard has stopped the press: nothing has received it.
            (
                Ok(false),
                Err(stopped @ (PageError::Covered { .. } | PageError::Moved { .. } | PageError::Detached)),
            ) => {
                self.let_go(&session, &pointer, ends.from, &load, &ALL_EVENTS).await;
                return Err(stopped);
            }
            (Ok(_), Err(error)) | (Err(error), _) => after_press(error),
            (Ok(false), Ok(())) => PageError::Interrupted { by: None },
        };
        self.let_go(&session, &pointer, ends.from, &load, &CLICK_EVENTS).await;
        Err(error)
    }

    /// Ends what is not carried on: nothing is dropped, the button comes up, and nothing takes that for a click.
    async fn let_go(
        &self,
        session: &Session,
        pointer: &Pointer<'_>,
        point: (f64, f64),
        load: &Load,
        stopped: &[&str],
    ) {
        let data = load.data.clone().or_else(|| self.shared.read().dragged.clone());
        let is_browsers = load.begun || data.is_some();
        // With the drag the browser has taken the pointer from the page, which gets nothing more of it.
        let stopped = if is_browsers { &ALL_EVENTS } else { stopped };
        let everywhere = Node { frame: String::new(), handle: 0 };
        let guards = self.guard_others(&everywhere, Some(stopped)).await;
        let mut sent = Vec::new();
        if is_browsers {
            let nothing = || json!({ "items": [], "dragOperationsMask": 1 });
            sent.push(pointer.carry("dragCancel", point, &data.unwrap_or_else(nothing)));
        }
        sent.push(pointer.release(point, 1));
        for reply in sent {
            // What the drag came to is known already.
            let _ = self.taken(session, vec![reply], READ_LIMIT).await;
        }
        self.disarm(&guards).await;
    }

    /// Moves what is held to the end, and lets go of it there. False where the element has not received the press.
    async fn carry(
        &self,
        node: &Node,
        token: u64,
        pointer: &Pointer<'_>,
        ends: &Ends<'_>,
        load: &mut Load,
        deadline: Instant,
    ) -> Result<bool, PageError> {
        let left = || deadline.saturating_duration_since(Instant::now());
        let session = self.input_session(node)?;
        let (from, to) = (ends.from, ends.to);
        for step in 1..=MOVES {
            let held = self.held(node, token).await?;
            if !held.pressed {
                return Ok(false);
            }
            if held.dragging && load.data.is_none() {
                load.begun = true;
                load.data = Some(self.dragged(left()).await?);
            }
            let part = f64::from(step) / f64::from(MOVES);
            let point = (from.0 + (to.0 - from.0) * part, from.1 + (to.1 - from.1) * part);
            let sent = match &load.data {
                None => vec![pointer.go(point, true)],
                Some(data) if step == MOVES => {
                    vec![pointer.carry("dragEnter", point, data), pointer.carry("dragOver", point, data)]
                }
                Some(data) => vec![pointer.carry("dragOver", point, data)],
            };
            self.taken(&session, sent, left()).await?;
        }
        // The last move may have been the first that the browser took for a drag.
        if load.data.is_none() && self.held(node, token).await?.dragging {
            load.begun = true;
            let begun = self.dragged(left()).await?;
            let sent = vec![pointer.carry("dragEnter", to, &begun), pointer.carry("dragOver", to, &begun)];
            self.taken(&session, sent, left()).await?;
            load.data = Some(begun);
        }
        // Pages change when a drag begins: what was looked at before may not be there any more.
        if let Some((end, place)) = &ends.onto {
            self.takes_drop(end, place, node).await?;
        }
        let end = match &load.data {
            None => pointer.release(to, 1),
            Some(data) => pointer.carry("drop", to, data),
        };
        self.taken(&session, vec![end], left()).await?;
        // With that the drag is over, and nothing is left to be let go of.
        Ok(true)
    }

    async fn held(&self, node: &Node, token: u64) -> Result<Held, PageError> {
        self.script(&node.frame, function::HELD, json!([token]), READ_LIMIT)
            .await
            .map_err(Failure::or_detached)
    }

    /// What the browser says is dragged; it says so after the page has begun the drag.
    async fn dragged(&self, limit: Duration) -> Result<Value, PageError> {
        let found = self.shared.find_within(limit, |state| state.dragged.clone()).await;
        found
            .ok_or(PageError::Unanswered { waiting_for: "the browser's sign that the drag has begun", limit })
    }
}

/// The error of a drag whose press was sent: never one that says that nothing was.
fn after_press(error: PageError) -> PageError {
    match error {
        PageError::Covered { by } | PageError::Moved { by } => PageError::Interrupted { by },
        PageError::Detached | PageError::NotActionable { .. } => PageError::Interrupted { by: None },
        error => error,
    }
}

fn out_of_view(reason: &'static str) -> PageError {
    PageError::NotActionable { reason }
}
