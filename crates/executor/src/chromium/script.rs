//! The script that runs in each document, in a world of its own: a page neither sees it nor can change what it does.
//!
//! It defines one frozen object, [`OBJECT`], with the functions of [`function`]. Elements cross as whole numbers, handles;
//! a handle never means another element of its document. Values go in and come out as JSON, but for
//! [`function::NODE`]. An element that is gone is answered with `{"detached": true}`, wherever a handle goes in.
//!
//! Open shadow roots are entered, by all locators but XPath. Closed ones are not, by anything.

/// The isolated world's name, and that of the object in it.
pub const OBJECT: &str = "capataz";

/// The attribute that testids are in where a policy names no other.
pub const TESTID: &str = "data-testid";

/// To be evaluated in each document, before any script of the page's, with testids in this attribute. Evaluated again, it
/// changes nothing.
#[must_use]
pub fn source(testid: &str) -> String {
    let attribute = serde_json::Value::from(testid);
    let begin = "(() => {\n\"use strict\";\nif (Object.hasOwn(globalThis, \"capataz\")) return;\n";
    format!("{begin}const TESTID = {attribute};\n{PARTS}}})();\n")
}

const PARTS: &str = concat!(
    include_str!("script/dom.js"),
    include_str!("script/controls.js"),
    include_str!("script/text.js"),
    include_str!("script/secrets.js"),
    include_str!("script/caret.js"),
    include_str!("script/roles.js"),
    include_str!("script/names.js"),
    include_str!("script/handles.js"),
    include_str!("script/facts.js"),
    include_str!("script/locate.js"),
    include_str!("script/guard.js"),
    include_str!("script/settle.js"),
    include_str!("script/rest.js"),
    include_str!("script/input.js"),
    include_str!("script/skeleton.js"),
    include_str!("script/snapshot.js"),
    include_str!("script/html.js"),
    include_str!("script/traits.js"),
    include_str!("script/outline.js"),
    include_str!("script/table.js"),
    include_str!("script/drawn.js"),
    include_str!("script/object.js"),
);

/// Names of the functions, with what they take and answer. `redaction` is `{selectors}`, or null for none; an answer that
/// depends on one fails where a selector cannot be read.
pub mod function {
    /// Those that answer with a promise.
    pub const WAITING: [&str; 3] = [SETTLE, CHANGED, COMES_TO_REST];

    /// `(name, arguments)` → what the named function answers, or its promise comes to, as JSON.
    pub const ANSWER: &str = "answer";
    /// `([{kind, value}])` → for each, of kind `css` or `xpath`, why it cannot be read, or null.
    pub const UNREADABLE: &str = "unreadable";
    /// `({locators, nth, within, near, attributes}, redaction)` → `{locator, tried, count, sample, handles, element,
    /// partMissing, invalid}`; `within` is such a query again, and the
    /// element is `{handle, description, facts}`. Where it is the only match, `sample` and `handles` are empty.
    pub const LOOK: &str = "look";
    /// `(handle, attributes, redaction)` → `Facts`.
    pub const FACTS: &str = "facts";
    /// `(handle)` → the element itself, or null; not to be asked for by value.
    pub const NODE: &str = "node";
    /// `(element)` → its handle.
    pub const HANDLE: &str = "handle";
    /// `(handle, limitMs, redaction, at?)` → promise of `{rect, rested, scrolled, struck}`, `{coveredBy}` or `{reason}`. The centre of the
    /// rectangle, which is in this frame's viewport, is the point to send input to.
    pub const SETTLE: &str = "settle";
    /// `(handle)` → whether the element is there. It is brought into view, through all frames around it.
    pub const BRING: &str = "bring";
    /// `(handle, x, y, redaction)` → `{ok, coveredBy}`: what lies at a point of this frame's viewport.
    pub const HIT: &str = "hit";
    /// `(handle, x, y, dragged, redaction)` → the same, where what is dragged, a handle or 0, does not count.
    pub const TAKES_DROP: &str = "takesDrop";
    /// `(handle, types?, {judged, maySubmit}?)` → token. With handle 0 no event may pass, which is for the documents around a
    /// frame, and with null an event may go to any element; without types every event may pass. The last argument is for
    /// keys. Earlier guards are removed.
    pub const ARM: &str = "arm";
    /// `(token, redaction)` → `{delivered, pressed, blockedBy, moved, detached, seen, unjudged}`. Not delivered, but pressed:
    /// the element has received the beginning of a click, and no element the rest. Neither of both and not blocked: no event
    /// arrived. `seen`: an event came to this document, wherever in it. `unjudged` is what a key was stopped at: `{handle, names, submits, destination, pressed}`.
    pub const DISARM: &str = "disarm";
    /// `(token)` → `{seen, pressed, dragging}`: an event came to this document, the element has received the press, and the
    /// browser drags it.
    pub const HELD: &str = "held";
    /// `(handle)` → `{ok}` or `{reason}`.
    pub const FOCUS: &str = "focus";
    /// `()` → `SubmittingKeys` of what has the focus in this document.
    pub const FOCUSED_KEYS: &str = "focusedKeys";
    pub const KEYS_OF: &str = "keysOf";
    pub const MARK_PLAIN: &str = "markPlain";
    /// `(handle, types, adds?)` → `{ok, direct, before, token}` or `{reason}`; `direct`: [`SET_VALUE`] is to be called instead of
    /// typing, and nothing was armed.
    pub const READY_TO_FILL: &str = "readyToFill";
    /// `(handle, token, redaction)` → `{verdict, now}`; the verdict is that of [`DISARM`].
    pub const FILLED: &str = "filled";
    /// `(handle)` → `{ok}` or `{reason}`.
    pub const CLEAR: &str = "clear";
    /// `(handle, text)` → `{ok}` or `{reason}`; of a date, time, colour or range.
    pub const SET_VALUE: &str = "setValue";
    /// `(handle, values)` → `{ok, changed}` or `{reason}`, with `missing` values.
    pub const SELECT_OPTIONS: &str = "selectOptions";
    /// `(handle, redaction)` → `{ok, direct}` or `{reason}`, with `fields` that are invalid, described; `direct`: nothing was
    /// submitted, as the element is to be clicked for it.
    pub const SUBMIT: &str = "submit";
    /// `(redaction)` → `Skeleton`.
    pub const SKELETON: &str = "skeleton";
    /// `(handles, redaction)` → object.
    pub const SNAPSHOT: &str = "snapshot";
    /// `(handles, redaction)` → `{skeleton, snapshot}`.
    pub const STATE: &str = "state";
    /// `(redaction)` → string.
    pub const HTML: &str = "html";
    /// `(redaction?)` → string; without a redaction with all that is secret.
    pub const PAGE_TEXT: &str = "pageText";
    /// `({max, prefix, redaction, clickable})` → `{text, truncated}`. Handles begin anew in each document, so the prefix is
    /// to name it: a reference is `prefix` + `e` + handle, and a locator `ref` takes what follows the prefix. `clickable`
    /// are handles of elements that listen for clicks.
    pub const OUTLINE: &str = "outline";
    /// `()` → `{nodes, characters}`, or null where a document has too many of them to be searched for listeners.
    pub const EXTENT: &str = "extent";
    /// `(redaction)` → `[{x, y, width, height}]` in this frame's viewport: what a picture must not show.
    pub const SECRET_BOXES: &str = "secretBoxes";
    /// The same, before a picture is taken: the caret, which blinks, is hidden.
    pub const BEFORE_PICTURE: &str = "beforePicture";
    /// `(redaction)` → string: what is drawn, with what controls show, without what is secret by its element.
    pub const DRAWN_TEXT: &str = "drawnText";
    /// `([[from, to]])` → `[{x, y, width, height}]`: where ranges of that text, in UTF-16 units, are drawn; of the text
    /// that was read last.
    pub const DRAWN_BOXES: &str = "drawnBoxes";
    /// `(handle)` → `[[string]]`, or `{reason}`.
    pub const TABLE: &str = "table";
    /// `(limitMs)` → promise of whether anything may have changed.
    pub const CHANGED: &str = "changed";
    /// `(limitMs)` → promise of a token, or of null where the page shows signs of change until the limit, where it will not be
    /// told whether it rests, or where [`SETTLE`], [`BEFORE_PICTURE`] or an act comes first.
    pub const COMES_TO_REST: &str = "comesToRest";
    /// `()` → token. A page has one token at a time; a new one takes its place, and [`ARM`] and whatever else acts on the
    /// page ends it.
    pub const WATCH_REST: &str = "watchRest";
    /// `(token)` → whether there was no sign of change since the token was given.
    pub const RESTS: &str = "rests";
}
