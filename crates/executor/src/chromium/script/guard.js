// The last check before an event: whether it arrives where it was meant to, when it arrives. What would arrive somewhere
// else is stopped, so that nothing on the page receives it.

const CLICK_TYPES = ["pointerdown", "mousedown", "pointerup", "mouseup", "click", "dblclick", "auxclick", "contextmenu"];
const KEY_TYPES = ["keydown", "keypress", "keyup", "beforeinput"];
const eventTrusted = (event) => event.isTrusted;

/** The event that a use of the pointer is for, of those that are guarded. */
const lastOf = (types) => ["click", "contextmenu"].find((type) => types.has(type)) ?? null;

const guards = new Map();
let lastToken = 0;

const arrives = (event, guard) => {
  if (guard.handle === null) return true;
  const target = elementOf(guard.handle);
  if (target === null) {
    guard.detached = guard.handle !== 0;
    return false;
  }
  const path = event.composedPath();
  return path.includes(target) || (isElement(path[0]) && labelLeadsTo(path[0], target));
};

/** True of the second click that the browser makes of one on a label: the label's control gets it, wherever that lies. */
const isForwarded = (event, guard) => {
  const clickedAt = guard.clickedAt?.deref();
  if (clickedAt === undefined) return false;
  const label = composedClosest(clickedAt, "label");
  return label !== null && labelControl(label) === event.composedPath()[0];
};

/** What a key is about to be used by, where that was not judged (`key` of `arm`); `null` where the key may go on. */
const unjudgedTaker = (event, guard) => {
  if (guard.key === null || !(event instanceof KeyboardEvent) || !["Enter", " "].includes(event.key)) return null;
  const [taker] = event.composedPath();
  if (!isElement(taker)) return null;
  const { judged, maySubmit } = guard.key;
  const isHarmless = !elementMatches(taker, USABLE) && !mayHideFocus(taker, true);
  // A page that moves the focus when it hears of the key has used it already, but for what the rest of it would submit.
  const isKnown =
    guard.began || isHarmless || [guard.handle, ...judged].some((handle) => taker === elementOf(handle));
  if (!isKnown || (!maySubmit && submitsByKey(taker, event.key))) return taker;
  guard.began = true;
  return null;
};

const stop = (event) => {
  event.preventDefault();
  event.stopImmediatePropagation();
};

const onEvent = (event) => {
  if (guards.size === 0 || !eventTrusted(event)) return;
  for (const guard of guards.values()) {
    if (!guard.types.has(event.type)) continue;
    if (event.type === "click" && isForwarded(event, guard)) continue;
    // The page may have opened its own menu under the pointer, which the rest then goes to.
    if (guard.clicked && guard.last === "contextmenu") continue;
    // A key may move the focus, so the first event decides for all of it. A click is one only where all of it arrives:
    // the page may have answered the press by covering or replacing the element, and what is there now was not meant.
    const decides = guard.verdict === null || (guard.verdict && guard.last !== null);
    if (decides) {
      guard.verdict = arrives(event, guard);
      const [hit] = event.composedPath();
      if (!guard.verdict && isElement(hit)) {
        guard.hit = new WeakRef(hit);
        guard.point = [event.clientX, event.clientY];
      }
    }
    const taker = guard.verdict ? unjudgedTaker(event, guard) : null;
    if (taker !== null) {
      guard.verdict = false;
      // Held until the guard is taken away: a page may drop the element, and the key was stopped at it all the same.
      guard.unjudged = { taker, key: event.key };
    }
    if (!guard.verdict) {
      stop(event);
      continue;
    }
    guard.pressed = true;
    if (event.type === guard.last) {
      guard.clicked = true;
      const [hit] = event.composedPath();
      guard.clickedAt = isElement(hit) ? new WeakRef(hit) : null;
    }
  }
};

/** Whether the browser takes a drag over is known when the page has handled its beginning. */
const onDrag = (event) => {
  if (eventTrusted(event)) for (const guard of guards.values()) guard.drag = event;
};

/** The browser's own menu is no part of the page, and would take the events that follow. */
const onMenu = (event) => {
  if (eventTrusted(event) && guards.size > 0) event.preventDefault();
};

/**
 * What has become of a press or a key: `pressed`, the element has received it; `dragging`, the browser drags what was pressed;
 * `seen` as of `disarm`.
 */
const held = (token) => {
  const guard = guards.get(token);
  const seen = guard !== undefined && guard.verdict !== null;
  return { seen, pressed: guard?.verdict === true, dragging: guard !== undefined && guard.drag !== null && !guard.drag.defaultPrevented };
};

/** As `hit`, for a drop: what is dragged may lie under the pointer itself, and does not count. */
const takesDrop = (handle, x, y, dragged, redaction = null) =>
  withElement(handle, (element) => {
    const source = elementOf(dragged);
    const isDragged = (at) => source !== null && isWithin(at, source) && !isWithin(element, source);
    let found = elementAt(x, y);
    if (found !== null && isDragged(found)) found = allFromPoint(document, x, y).find((at) => !isDragged(at)) ?? null;
    if (found !== null && receives(found, element)) return { ok: true };
    // What has moved away is not covered.
    const covered = found !== null && isIn(boxOf(element), [x, y]);
    return { ok: false, coveredBy: covered ? coverOf(found, element, maskOf(redaction)) : null };
  });

const listen = (types) => {
  // Adding the same listener again does nothing; `document.open()` removes those of the window.
  for (const type of types) window.addEventListener(type, onEvent, { capture: true, passive: false });
  window.addEventListener("dragstart", onDrag, { capture: true, passive: true });
  window.addEventListener("contextmenu", onMenu, { passive: false });
};

// Before any listener of the page's, where this runs before the page's scripts.
listen([...CLICK_TYPES, ...KEY_TYPES]);

/**
 * From now on trusted events of these types pass only where the first of them arrives at the element. Handle 0
 * stands for no element, so no event passes: for the documents around a frame in which an event is to arrive. With `null` an
 * event may arrive anywhere. Without types every event passes.
 *
 * With `key`, Enter and Space are stopped where they would be used by something that is neither the element nor one of those
 * with the handles `judged`, and wherever they would submit a form, unless `maySubmit`.
 *
 * One act follows the other, so a guard that is still there belongs to an act that nobody waits for any more. No picture that
 * was taken before the act serves after it.
 */
const arm = (handle, types = CLICK_TYPES, key = null) => {
  endRest();
  listen(types);
  guards.clear();
  lastToken += 1;
  const guarded = new Set(types);
  guards.set(lastToken, { handle, types: guarded, key, last: lastOf(guarded), drag: null, verdict: null, pressed: false, began: false, unjudged: null, clicked: false, clickedAt: null, hit: null, point: null, detached: false });
  return lastToken;
};

const isIn = (box, [x, y]) => x >= box.left && x <= box.right && y >= box.top && y <= box.bottom;

/**
 * Ends it and says what came. `moved`: what got it instead does not lie over the element, which is somewhere else now. `delivered: false` without `blockedBy`: nothing came at all, or no more than `pressed`, the
 * beginning of a click, which the element has received. `seen`: an event of the guarded types came to this document.
 */
const disarm = (token, redaction = null) => {
  const guard = guards.get(token);
  guards.delete(token);
  if (guard === undefined) return { delivered: false, pressed: false, blockedBy: null, moved: false, detached: true, seen: false, unjudged: null };
  const hit = guard.hit?.deref();
  const target = elementOf(guard.handle);
  const mask = maskOf(redaction);
  const blockedBy =
    hit === undefined ? null : target === null ? descriptionOf(hit, mask) : coverOf(hit, target, mask);
  const box = target === null ? null : boxOf(target);
  const moved = hit !== undefined && box !== null && guard.point !== null && !isIn(box, guard.point);
  const delivered = guard.verdict === true && (guard.clicked || guard.last === null);
  const { unjudged } = guard;
  return {
    delivered,
    pressed: guard.pressed && !delivered,
    blockedBy,
    moved,
    detached: guard.detached || (!delivered && guard.handle !== 0 && target === null),
    seen: guard.verdict !== null,
    unjudged: unjudged === null ? null : { ...keyUse(unjudged.taker, unjudged.key, mask), pressed: guard.began },
  };
};
