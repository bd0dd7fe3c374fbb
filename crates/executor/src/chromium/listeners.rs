//! Elements that listen for clicks, which only the browser itself knows: no script sees the listeners of another world.

use std::collections::BTreeMap;
use std::time::Duration;

use capataz_cdp::Session;
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::ChromiumPage;
use super::call::{Failure, OTHER_FRAMES_LIMIT};
use super::protocol::{CapturedSnapshot, CreatedObject, Evaluated};
use super::script::{OBJECT, function};

/// Nodes, and characters of texts and attributes, of a page whose listeners are looked for. What the browser answers grows
/// with them.
const LISTENED_NODES_MAX: u64 = 50_000;
const LISTENED_CHARACTERS_MAX: u64 = 4_000_000;

/// No further process of the page is asked after this time.
const LISTENED_LIMIT: Duration = Duration::from_secs(2);

/// Elements of one document that are taken to listen at most.
const LISTENERS_MAX: usize = 200;

const ELEMENT: u32 = 1;

/// Elements that are used whether they listen or not, and those that stand for the whole page.
const NOT_ASKED_FOR: [&str; 11] =
    ["A", "AREA", "BUTTON", "INPUT", "SELECT", "OPTION", "TEXTAREA", "LABEL", "SUMMARY", "HTML", "BODY"];

/// Groups the objects that are made to tell handles of elements.
const GROUP: &str = "capataz-listeners";

#[derive(Deserialize)]
struct Extent {
    nodes: u64,
    characters: u64,
}

impl ChromiumPage {
    /// The handles of elements that listen for clicks, by document. A hint, and no more: empty where the page is too large,
    /// or does not answer in time.
    pub(super) async fn listeners(&self, documents: &[String]) -> BTreeMap<String, Vec<u64>> {
        let mut found = BTreeMap::new();
        if !self.is_modest(documents).await {
            return found;
        }
        let began = Instant::now();
        for session in self.sessions_of(documents) {
            if began.elapsed() > LISTENED_LIMIT {
                break;
            }
            // Positions of text are asked for by nobody, and styles neither.
            let params = json!({ "computedStyles": [] });
            let captured: Result<CapturedSnapshot, Failure> =
                self.command(&session, "DOMSnapshot.captureSnapshot", params, OTHER_FRAMES_LIMIT).await;
            let Ok(captured) = captured else { continue };
            for (frame, nodes) in clickable(&captured) {
                let Some((document, number)) = self.world_of(&session, &frame) else { continue };
                if !documents.contains(&document) {
                    continue;
                }
                if let Ok(handles) = self.handles(&session, number, &nodes).await {
                    found.insert(document, handles);
                }
            }
        }
        found
    }

    async fn is_modest(&self, documents: &[String]) -> bool {
        let extents =
            self.scripts::<Option<Extent>>(documents, function::EXTENT, json!([]), OTHER_FRAMES_LIMIT).await;
        let (mut nodes, mut characters) = (0_u64, 0_u64);
        for extent in extents {
            let Ok(Some(extent)) = extent else { return false };
            nodes = nodes.saturating_add(extent.nodes);
            characters = characters.saturating_add(extent.characters);
        }
        nodes <= LISTENED_NODES_MAX && characters <= LISTENED_CHARACTERS_MAX
    }

    /// The sessions of these documents, each once.
    fn sessions_of(&self, documents: &[String]) -> Vec<Session> {
        let mut sessions: Vec<Session> = Vec::new();
        for session in documents.iter().filter_map(|document| self.session_of(document)) {
            if sessions.iter().all(|known| known.id() != session.id()) {
                sessions.push(session);
            }
        }
        sessions
    }

    /// The document of a frame of this session, and the number of our world in it.
    fn world_of(&self, session: &Session, frame: &str) -> Option<(String, i64)> {
        let state = self.shared.read();
        let frame = state.current()?.frames.get(frame)?;
        let is_of_session = session.id().is_some_and(|id| **id == *frame.session);
        is_of_session.then(|| Some((frame.context.clone()?, frame.context_number))).flatten()
    }

    async fn handles(&self, session: &Session, world: i64, nodes: &[i64]) -> Result<Vec<u64>, Failure> {
        let resolve = |node: &i64| {
            let params = json!({ "backendNodeId": node, "executionContextId": world, "objectGroup": GROUP });
            session.send::<CreatedObject>("DOM.resolveNode", params)
        };
        // All are on their way before the first answer is waited for.
        let resolving: Vec<_> = nodes.iter().map(resolve).collect();
        let resolved = resolving.into_iter().map(|reply| self.answer(session, reply, OTHER_FRAMES_LIMIT));
        let resolved = join_all(resolved).await.into_iter().flatten();
        let ids = resolved.filter_map(|CreatedObject { object }| object.object_id);
        let arguments: Vec<_> = ids.map(|id| json!({ "objectId": id })).collect();
        let declaration =
            format!("function(...elements) {{ return elements.map({OBJECT}.{}); }}", function::HANDLE);
        let params = json!({
            "functionDeclaration": declaration,
            "arguments": arguments,
            "executionContextId": world,
            "returnByValue": true,
        });
        let evaluated: Result<Evaluated<Vec<u64>>, Failure> =
            self.command(session, "Runtime.callFunctionOn", params, OTHER_FRAMES_LIMIT).await;
        super::tabs::send(session, "Runtime.releaseObjectGroup", json!({ "objectGroup": GROUP }));
        Ok(evaluated?.result.value.unwrap_or_default())
    }
}

/// The ids of the elements of each frame that the browser takes to be clickable, without those that have a role for it.
fn clickable(captured: &CapturedSnapshot) -> Vec<(String, Vec<i64>)> {
    let of_frames = captured.documents.iter().filter_map(|document| {
        let frame = captured.strings.get(document.frame_id)?.clone();
        let nodes = &document.nodes;
        let name = |place: usize| {
            let string = nodes.node_name.get(place).and_then(|at| usize::try_from(*at).ok());
            string.and_then(|at| captured.strings.get(at)).map_or("", String::as_str)
        };
        let is_asked_for = |place: &&usize| {
            nodes.node_type.get(**place) == Some(&ELEMENT) && !NOT_ASKED_FOR.contains(&name(**place))
        };
        let places = nodes.is_clickable.index.iter().filter(is_asked_for);
        let ids = places.filter_map(|place| nodes.backend_node_id.get(*place).copied());
        Some((frame, ids.take(LISTENERS_MAX).collect::<Vec<i64>>()))
    });
    of_frames.filter(|(_, ids)| !ids.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_elements_that_are_there_count_and_not_more_than_the_limit() {
        let nodes = json!({ "nodeType": [9, 1, 3, 1, 1], "nodeName": [-1, 2, 2, 3, 2], "backendNodeId": [4, 5, 6, 7, 8],
            "isClickable": { "index": [1, 2, 3, 4, 9] } });
        let many = json!({ "nodeType": vec![1; 300], "backendNodeId": (0..300).collect::<Vec<i64>>(),
            "isClickable": { "index": (0..300).collect::<Vec<i64>>() } });
        let captured: CapturedSnapshot = serde_json::from_value(json!({
            "strings": ["a", "f1", "DIV", "A"],
            "documents": [{ "frameId": 1, "nodes": nodes }, { "frameId": 0, "nodes": {} }, { "frameId": 8, "nodes": {} },
                { "frameId": 0, "nodes": many }],
        }))
        .unwrap();
        let found = clickable(&captured);
        assert_eq!(found[0], ("f1".to_owned(), vec![5, 8]));
        assert_eq!((found.len(), found[1].1.len()), (2, LISTENERS_MAX));
    }
}
