//! Dragging: the pointer is pressed on one element, moved, and let go somewhere else.
//!
//! Pages drag in two ways. Some follow the pointer by themselves; others declare an element as draggable, and the browser
//! takes over from the first move: then the browser hands over what is dragged, and it is carried and dropped by commands.

use std::time::Duration;

use capataz_cdp::Done;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::ChromiumPage;
use super::call::{Failure, READ_LIMIT};
use super::input::Pointer;
use super::script::function;
use crate::page::{Drop, Node, PageError, Pointing};

/// The press decides: it reaches the element, or nothing of the drag reaches anything.
const DRAG_EVENTS: [&str; 4] = ["pointerdown", "mousedown", "pointerup", "mouseup"];

/// Moves from the press to the drop, all of the same length.
const MOVES: u32 = 8;

/// A function that gives the size of the outermost viewport.
const VIEWPORT: &str = "function() { return [innerWidth, innerHeight]; }";

#[derive(Deserialize)]
struct Held {
    pressed: bool,
    dragging: bool,
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
        let (from, to) = self.ends(node, how, drop, limit).await?;
        let session = self.input_session(node)?;
        self.shared.change(|state| state.dragged = None);
        let intercept = |enabled: bool| json!({ "enabled": enabled });
        self.command::<Done>(&session, "Input.setInterceptDrags", intercept(true), READ_LIMIT)
            .await
            .map_err(Failure::or_detached)?;
        let dragged = self.drag_between(node, how, from, to, deadline).await;
        super::tabs::send(&session, "Input.setInterceptDrags", intercept(false));
        dragged
    }

    /// Where the pointer is pressed and let go. Each element may have to be scrolled to, so both are looked at again.
    async fn ends(
        &self,
        node: &Node,
        how: &Pointing,
        drop: &Drop,
        limit: Duration,
    ) -> Result<((f64, f64), (f64, f64)), PageError> {
        match drop {
            Drop::By(by) => {
                let from = self.settle_place(node, how.at, limit).await?.point();
                let to = (from.0 + by.x, from.1 + by.y);
                let viewport: (f64, f64) = self
                    .function(&self.main_document().await?, VIEWPORT, Value::Null, READ_LIMIT)
                    .await
                    .map_err(Failure::or_detached)?;
                let is_inside = (0.0..viewport.0).contains(&to.0) && (0.0..viewport.1).contains(&to.1);
                if is_inside { Ok((from, to)) } else { Err(out_of_view("outside the viewport")) }
            }
            Drop::On(end) => {
                self.settle_place(end, None, limit).await?;
                let from = self.settle_place(node, how.at, limit).await?;
                let to = self.settle_place(end, None, limit).await?;
                let again = self.settle_place(node, how.at, limit).await?;
                if from.rect == again.rect {
                    Ok((from.point(), to.point()))
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
        from: (f64, f64),
        to: (f64, f64),
        deadline: Instant,
    ) -> Result<(), PageError> {
        let left = || deadline.saturating_duration_since(Instant::now());
        let session = self.input_session(node)?;
        let pointer = Pointer::new(&session, how);
        let guards = self.guard(node, Some(&DRAG_EVENTS)).await?;
        let sent = vec![pointer.go(from, false), pointer.press(from, 1)];
        let mut moved = self.taken(&session, sent, left()).await;
        if moved.is_ok() {
            moved = self.carry(node, guards.token, &pointer, (from, to), deadline).await;
        }
        if moved.is_err() {
            // The button is not left down.
            let _ = self.taken(&session, vec![pointer.release(from, 1)], left()).await;
        }
        let verdict = self.verdict(node, guards).await;
        moved?;
        verdict
    }

    /// Moves what is held to the end, and lets go of it there.
    async fn carry(
        &self,
        node: &Node,
        token: u64,
        pointer: &Pointer<'_>,
        (from, to): ((f64, f64), (f64, f64)),
        deadline: Instant,
    ) -> Result<(), PageError> {
        let left = || deadline.saturating_duration_since(Instant::now());
        let session = self.input_session(node)?;
        let mut data = None;
        for step in 1..=MOVES {
            let held = self.held(node, token).await?;
            if !held.pressed {
                // What was stopped stays where it is; the verdict says why.
                return self.taken(&session, vec![pointer.release(from, 1)], left()).await;
            }
            if held.dragging && data.is_none() {
                data = Some(self.dragged(left()).await?);
            }
            let part = f64::from(step) / f64::from(MOVES);
            let point = (from.0 + (to.0 - from.0) * part, from.1 + (to.1 - from.1) * part);
            let sent = match &data {
                None => vec![pointer.go(point, true)],
                Some(data) if step == MOVES => {
                    vec![pointer.carry("dragEnter", point, data), pointer.carry("dragOver", point, data)]
                }
                Some(data) => vec![pointer.carry("dragOver", point, data)],
            };
            self.taken(&session, sent, left()).await?;
        }
        // The last move may have been the first that the browser took for a drag.
        if data.is_none() && self.held(node, token).await?.dragging {
            let begun = self.dragged(left()).await?;
            let sent = vec![pointer.carry("dragEnter", to, &begun), pointer.carry("dragOver", to, &begun)];
            self.taken(&session, sent, left()).await?;
            data = Some(begun);
        }
        let end = match &data {
            None => pointer.release(to, 1),
            Some(data) => pointer.carry("drop", to, data),
        };
        self.taken(&session, vec![end], left()).await
    }

    async fn held(&self, node: &Node, token: u64) -> Result<Held, PageError> {
        self.script(&node.frame, function::HELD, json!([token]), READ_LIMIT)
            .await
            .map_err(Failure::or_detached)
    }

    /// What the browser says is dragged; it says so after the page has begun the drag.
    async fn dragged(&self, limit: Duration) -> Result<Value, PageError> {
        let found = self.shared.find_within(limit, |state| state.dragged.clone()).await;
        found.ok_or(PageError::TooSlow { waiting_for: "the browser to begin the drag", limit })
    }
}

fn out_of_view(reason: &'static str) -> PageError {
    PageError::NotActionable { reason }
}
