// Waiting, by frames and signs of change, never by guesses of time.

/** Resolves with the next frame, or with `false` at the deadline: a page in the background may have no frames. */
const nextFrame = (deadline) =>
  new Promise((resolve) => {
    const left = Math.max(0, deadline - performance.now());
    const timer = setTimeout(() => {
      cancelAnimationFrame(frame);
      resolve(false);
    }, left);
    const frame = requestAnimationFrame(() => {
      clearTimeout(timer);
      resolve(true);
    });
  });

const animationsIn = { 9: method(Document.prototype, "getAnimations"), 11: method(ShadowRoot.prototype, "getAnimations") };

/** The animations of the page itself, without the one that hides the caret. Those of a shadow tree belong to its root alone. */
const animationsOf = (root) => animationsIn[nodeType(root)](root).filter((animation) => animation !== caretHider);

const isMoving = (animation) => animation.pending || animation.playState === "running";

const isAnimated = (element) => {
  if (animationsOf(document).some(isMoving)) return true;
  for (let root = getRootNode(element); nodeType(root) === FRAGMENT; root = getRootNode(shadowHost(root))) {
    if (animationsOf(root).some(isMoving)) return true;
  }
  return false;
};

const sameBox = (one, other) =>
  one.x === other.x && one.y === other.y && one.width === other.width && one.height === other.height;

/** Where to bring an element, one after the other: what is fixed at an edge covers one of them only. */
const ALIGNMENTS = ["center", "end", "start", "nearest"];

const scrollElementBy = method(Element.prototype, "scrollBy");
const scrollingElementOf = getter(Document.prototype, "scrollingElement");

/** Scrolls what has no box of its own: each box around it that scrolls, until its content is in the middle of that. */
const scrollContentIntoView = (element) => {
  // Which element scrolls the viewport depends on the mode of the document.
  const viewport = scrollingElementOf(document);
  for (let at = flatParent(element); at !== null; at = flatParent(at)) {
    const around = at === viewport ? { x: 0, y: 0, width: innerWidth, height: innerHeight } : boundingRect(at);
    const [x, y] = centreOf(boxOf(element));
    const [middleX, middleY] = centreOf(around);
    scrollElementBy(at, { left: x - middleX, top: y - middleY, behavior: "instant" });
  }
};

const bringIntoView = (element, alignment) => {
  if (displayOf(element) === "contents") scrollContentIntoView(element);
  else scrollIntoView(element, { block: alignment, inline: alignment, behavior: "instant" });
};

/** Brings an element into view, through all frames around it if it has a box. */
const bring = (handle) => {
  const element = elementOf(handle);
  if (element === null) return false;
  endRest();
  bringIntoView(element, "center");
  return true;
};

/**
 * Waits until the element has the same box in two frames, is in view and receives what hits the centre of the answered box:
 * the visible part of the first of its boxes that does; with `at`, that place in the element. `scrolled`: it
 * was brought into view. `rested`: all of that was so from the beginning. Else says what is in the way when the limit, in
 * ms, is over.
 */
const settle = async (handle, limit, redaction = null, at = null) => {
  // What still waits to take a picture comes too late for the act that follows.
  endWaitingForRest();
  const hitPlace = (element) => (at === null ? hittable(element) : hittableAt(element, at));
  const mask = maskOf(redaction);
  const deadline = performance.now() + limit;
  let scrolls = 0;
  let last = null;
  let still = 0;
  let frames = 0;
  let obstacle = { reason: "not visible" };
  for (;;) {
    const element = elementOf(handle);
    if (element === null) return DETACHED;
    if (!isVisible(element)) {
      obstacle = { reason: "not visible" };
      last = null;
    } else {
      let place = hitPlace(element);
      if (place.rect === undefined && scrolls < ALIGNMENTS.length) {
        const alignment = ALIGNMENTS[scrolls];
        scrolls += 1;
        bringIntoView(element, alignment);
        place = hitPlace(element);
      }
      const box = boxOf(element);
      still = last !== null && sameBox(last, box) ? still + 1 : 0;
      last = box;
      // An animation that has just begun shows its first state for more than one frame.
      const enough = still > 0 && (still > 2 || !isAnimated(element));
      if (place.rect !== undefined) {
        if (enough) return { rect: plainRect(place.rect), rested: frames === 1 && scrolls === 0, scrolled: scrolls > 0 };
        obstacle = { reason: "moving" };
      } else if (place.misplaced) {
        obstacle = { reason: "outside of the element" };
      } else if (place.outside) {
        obstacle = { reason: "outside the viewport" };
      } else if (getComputedStyle(element).pointerEvents === "none") {
        obstacle = { reason: "takes no pointer events" };
      } else {
        obstacle = { covered: place.hit };
      }
    }
    if (!(await nextFrame(deadline))) break;
    frames += 1;
  }
  const element = elementOf(handle);
  if (element === null) return DETACHED;
  return obstacle.covered ? { coveredBy: coverOf(obstacle.covered, element, mask) } : obstacle;
};

/** What lies at a point of this frame's viewport where that is not the element; for a frame's own element. */
const hit = (handle, x, y, redaction = null) =>
  withElement(handle, (element) => {
    const found = elementAt(x, y);
    if (found !== null && receives(found, element)) return { ok: true };
    return { ok: false, coveredBy: found === null ? null : coverOf(found, element, maskOf(redaction)) };
  });

const SIGNS = [
  "input", "change", "scroll", "scrollend", "resize", "focusin", "focusout", "toggle", "transitionend", "transitioncancel",
  "animationend", "animationcancel", "load", "error", "hashchange", "popstate", "readystatechange", "fullscreenchange",
  "close", "cancel", "reset", "submit", "slotchange",
];

/** Controls that are watched for values that a page's script sets, which no event tells of. */
const WATCHED_CONTROLS = 500;

const controlsIn = (roots) => roots.flatMap((root) => [...within(root, "input,textarea,select")]);

const controlStates = (controls) => {
  const states = [location.href];
  for (const control of controls) {
    // With the control itself, so that the values of one are never taken for those of another.
    states.push(control);
    if (isSelect(control)) for (const option of selectedOptions(control)) states.push(option, optionValue(option));
    else if (isTextarea(control)) states.push(textareaValue(control));
    else states.push(inputValue(control), inputChecked(control), inputIndeterminate(control));
  }
  return states;
};

const endsByItself = (animation) => {
  const timing = animation.effect?.getComputedTiming();
  return isMoving(animation) && timing !== undefined && Number.isFinite(timing.endTime);
};

/** Shadow roots whose events and animations are watched. */
const WATCHED_ROOTS = 100;

/** The document and the open shadow roots, outermost first. */
const openRoots = () => [document, ...shadowRoots()];

const watchedRoots = (roots) => roots.slice(0, WATCHED_ROOTS + 1);

const listenTo = method(EventTarget.prototype, "addEventListener");
const unlisten = method(EventTarget.prototype, "removeEventListener");

/**
 * Calls `sign` with mutations in the document and open shadow roots and with events of use, until the answered function is
 * called.
 */
const watchSigns = (sign, roots = openRoots()) => {
  const observer = new MutationObserver(sign);
  const options = { subtree: true, childList: true, attributes: true, characterData: true };
  for (const root of roots) observer.observe(root, options);
  // Most events of a shadow tree do not leave it: those of scrolling, loading and transitions, for instance.
  const targets = [window, ...watchedRoots(roots).slice(1)];
  for (const target of targets) {
    for (const type of SIGNS) listenTo(target, type, sign, { capture: true, passive: true });
  }
  return () => {
    observer.disconnect();
    for (const target of targets) for (const type of SIGNS) unlisten(target, type, sign, true);
  };
};

const sameStates = (one, other) => one.length === other.length && one.every((state, index) => state === other[index]);

/**
 * Resolves with `true` at the first sign that something may have changed, with `false` at the limit in ms. Signs are
 * those of `watchSigns`, values of controls, the URL, and each frame of an animation that has an end.
 */
const changed = (limit) =>
  new Promise((resolve) => {
    const deadline = performance.now() + limit;
    const states = () => controlStates(controlsIn(openRoots()).slice(0, WATCHED_CONTROLS));
    const before = states();
    let over = false;
    const end = (seen) => {
      if (over) return;
      over = true;
      stop();
      resolve(seen);
    };
    const stop = watchSigns(() => end(true));
    const watch = async () => {
      while (!over) {
        if (!(await nextFrame(deadline))) return end(false);
        if (over) return undefined;
        const ends = (root) => animationsOf(root).some(endsByItself);
        if (watchedRoots(openRoots()).some(ends) || !sameStates(before, states())) end(true);
      }
      return undefined;
    };
    watch();
  });
