//! The few shapes of the protocol that are read. Everything else in a message is passed over.

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AttachedToTarget {
    pub session_id: String,
    pub target_info: TargetInfo,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TargetInfo {
    pub target_id: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub subtype: String,
    #[serde(default)]
    pub parent_frame_id: Option<String>,
    /// The tab that has opened this one.
    #[serde(default)]
    pub opener_id: Option<String>,
}

/// The parameters of `Target.targetCreated`. The target may be a person's: nothing is read but whether it is ours.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TargetCreated {
    pub target_info: CreatedTargetInfo,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreatedTargetInfo {
    pub target_id: String,
    #[serde(default)]
    pub browser_context_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DetachedFromTarget {
    pub session_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FrameAttached {
    pub frame_id: String,
    pub parent_frame_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FrameDetached {
    pub frame_id: String,
    #[serde(default)]
    pub reason: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct FrameNavigated {
    pub frame: FrameDescription,
    #[serde(default, rename = "type")]
    pub kind: String,
}

/// The answer to `Page.getFrameTree`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FrameTreeFound {
    pub frame_tree: FrameTree,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FrameTree {
    pub frame: FrameDescription,
    #[serde(default)]
    pub child_frames: Vec<FrameTree>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FrameDescription {
    pub id: String,
    #[serde(default)]
    pub parent_id: Option<String>,
    #[serde(default)]
    pub loader_id: String,
    pub url: String,
    #[serde(default)]
    pub unreachable_url: Option<String>,
    #[serde(default)]
    pub security_origin: String,
}

/// The parameters of `Page.navigatedWithinDocument`, and of other events of which only the frame matters.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FrameOnly {
    pub frame_id: String,
}

/// The parameters of `Page.frameRequestedNavigation`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NavigationRequested {
    pub frame_id: String,
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub disposition: String,
}

/// The parameters of `Page.frameStartedNavigating`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NavigationStarted {
    pub frame_id: String,
    pub url: String,
    #[serde(default)]
    pub loader_id: String,
    #[serde(default)]
    pub navigation_type: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LifecycleEvent {
    pub frame_id: String,
    pub loader_id: String,
    pub name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct ContextCreated {
    pub context: Context,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Context {
    pub id: i64,
    pub name: String,
    pub unique_id: String,
    #[serde(default)]
    pub aux_data: ContextData,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ContextData {
    pub frame_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContextDestroyed {
    pub execution_context_unique_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DialogOpening {
    pub message: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub default_prompt: String,
}

/// The parameters of `Input.dragIntercepted`.
#[derive(Debug, Deserialize)]
pub(super) struct DragIntercepted {
    pub data: serde_json::Value,
}

/// The parameters of `Page.javascriptDialogClosed`.
#[derive(Debug, Deserialize)]
pub(super) struct DialogClosed {
    /// True if the dialog was accepted.
    pub result: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WindowOpen {
    pub url: String,
    /// A person's browser opens no window without it.
    pub user_gesture: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResponseReceived {
    /// Such as `Fetch` or `XHR`.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub frame_id: String,
    pub response: ReceivedResponse,
}

#[derive(Debug, Deserialize)]
pub(super) struct ReceivedResponse {
    pub url: String,
    pub status: u32,
}

#[derive(Debug, Deserialize)]
pub(super) struct WebSocketCreated {
    pub url: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestPaused {
    pub request_id: String,
    pub request: Request,
    #[serde(default)]
    pub frame_id: String,
    pub resource_type: String,
    /// The request's id in the network domain; for a document, the id of its loader.
    #[serde(default)]
    pub network_id: Option<String>,
    /// This field and the next one are there if the request was paused at its answer.
    #[serde(default)]
    pub response_error_reason: Option<String>,
    #[serde(default)]
    pub response_status_code: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AuthRequired {
    pub request_id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Request {
    pub url: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DownloadWillBegin {
    pub guid: String,
    pub url: String,
    pub suggested_filename: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DownloadProgress {
    pub guid: String,
    pub total_bytes: f64,
    pub received_bytes: f64,
    pub state: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreatedTarget {
    pub target_id: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Navigated {
    #[serde(default)]
    pub loader_id: Option<String>,
    #[serde(default)]
    pub error_text: Option<String>,
    #[serde(default)]
    pub is_download: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NavigationHistory {
    pub current_index: usize,
    pub entries: Vec<HistoryEntry>,
}

#[derive(Debug, Deserialize)]
pub(super) struct HistoryEntry {
    pub id: i64,
    pub url: String,
}

/// What `Runtime.callFunctionOn` answers.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", bound = "T: serde::de::DeserializeOwned")]
pub(super) struct Evaluated<T> {
    pub result: RemoteObject<T>,
    #[serde(default)]
    pub exception_details: Option<ExceptionDetails>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", bound = "T: serde::de::DeserializeOwned")]
pub(super) struct RemoteObject<T> {
    #[serde(default = "nothing")]
    pub value: Option<T>,
    #[serde(default)]
    pub object_id: Option<String>,
}

fn nothing<T>() -> Option<T> {
    None
}

#[derive(Debug, Deserialize)]
pub(super) struct ExceptionDetails {
    #[serde(default)]
    pub text: String,
    #[serde(default)]
    pub exception: Option<Value>,
}

impl ExceptionDetails {
    pub(super) fn message(&self) -> String {
        let description = self.exception.as_ref().and_then(|exception| exception.get("description"));
        match description.and_then(Value::as_str) {
            Some(description) => description.lines().next().unwrap_or_default().to_owned(),
            None => self.text.clone(),
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct DescribedNode {
    pub node: NodeDescription,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeDescription {
    #[serde(default)]
    pub frame_id: Option<String>,
    #[serde(default)]
    pub shadow_roots: Vec<ShadowRoot>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ShadowRoot {
    pub shadow_root_type: String,
}

/// What `DOMSnapshot.captureSnapshot` answers.
#[derive(Debug, Deserialize)]
pub(super) struct CapturedSnapshot {
    pub documents: Vec<CapturedDocument>,
    pub strings: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CapturedDocument {
    /// The place of the frame's id in the strings.
    pub frame_id: usize,
    pub nodes: CapturedNodes,
}

/// Each list has an entry for each node, but for the last one, which has the places of some.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CapturedNodes {
    #[serde(default)]
    pub node_type: Vec<u32>,
    /// Places in the strings, or -1.
    #[serde(default)]
    pub node_name: Vec<i64>,
    #[serde(default)]
    pub backend_node_id: Vec<i64>,
    #[serde(default)]
    pub is_clickable: Places,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Places {
    #[serde(default)]
    pub index: Vec<usize>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Screenshot {
    /// Base64.
    pub data: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LayoutMetrics {
    pub css_visual_viewport: Viewport,
    pub css_content_size: Size,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Viewport {
    pub page_x: f64,
    pub page_y: f64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Size {
    pub width: f64,
    pub height: f64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Cookies {
    pub cookies: Vec<Value>,
}

/// What `DOM.resolveNode` answers.
#[derive(Debug, Deserialize)]
pub(super) struct CreatedObject {
    pub object: ObjectId,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectId {
    #[serde(default)]
    pub object_id: Option<String>,
}
