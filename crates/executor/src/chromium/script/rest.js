// Rest: a page that looks as it did, so that a picture of it is still its picture. Where that cannot be told, it does not
// rest. Everything here is bounded: a page that has more of something than is looked at does not rest, either.

/** Frames without a sign of change, after which the page has come to rest. */
const REST_FRAMES = 3;

const WATCHED_ELEMENTS = 20_000;
const WATCHED_SHEETS = 200;
const WATCHED_ANIMATIONS = 500;
const WATCHED_RESOURCES = 1000;
/** Images, and other elements that may move by themselves. */
const WATCHED_MOVERS = 500;

/**
 * The document and its shadow roots, outermost first; `null` where there are too many of them, or elements, or where a
 * shadow root may be closed: a custom element without an open one is taken to have such a root.
 */
const knownRoots = () => {
  const roots = [document];
  let left = WATCHED_ELEMENTS;
  // Those that are found are looked through as well.
  for (const root of roots) {
    const walker = treeWalker(document, root, NodeFilter.SHOW_ELEMENT);
    for (let element = walker.nextNode(); element !== null; element = walker.nextNode()) {
      left -= 1;
      if (left < 0) return null;
      const shadow = shadowRoot(element);
      if (shadow !== null) {
        if (roots.length > WATCHED_ROOTS) return null;
        roots.push(shadow);
      } else if (localName(element).includes("-") && namespaceUri(element) === HTML && elementMatches(element, ":defined")) {
        return null;
      }
    }
  }
  return roots;
};

const fontsOf = getter(Document.prototype, "fonts");
const styleSheetsIn = { 9: getter(Document.prototype, "styleSheets"), 11: getter(ShadowRoot.prototype, "styleSheets") };
const adoptedIn = {
  9: getter(Document.prototype, "adoptedStyleSheets"),
  11: getter(ShadowRoot.prototype, "adoptedStyleSheets"),
};

const rulesOf = (sheet) => {
  try {
    return sheet.cssRules;
  } catch {
    // A sheet of another origin. The page cannot change it, either.
    return [];
  }
};

/** What tells that rules were added, removed or replaced by a script; `null` where there are too many sheets. */
const styleStates = (roots) => {
  const states = [];
  let left = WATCHED_SHEETS;
  for (const root of roots) {
    for (const list of [styleSheetsIn[nodeType(root)](root), adoptedIn[nodeType(root)](root)]) {
      left -= list.length;
      if (left < 0) return null;
      for (const sheet of list) {
        const rules = rulesOf(sheet);
        states.push(sheet, sheet.disabled, rules.length, rules[0], rules[rules.length - 1]);
      }
    }
  }
  return states;
};

/** What no sign tells of, to be compared by `sameStates`; `null` where there is more than is looked at. */
const pageStates = (roots) => {
  const controls = controlsIn(roots);
  const styles = styleStates(roots);
  const animations = roots.flatMap(animationsOf);
  if (styles === null || controls.length > WATCHED_CONTROLS || animations.length > WATCHED_ANIMATIONS) return null;
  const states = [...roots, ...controlStates(controls), ...styles];
  states.push(scrollX, scrollY, innerWidth, innerHeight, devicePixelRatio, fontsOf(document).size);
  // One that has ended may still hold what it has led to.
  for (const animation of animations) states.push(animation, animation.currentTime);
  return states;
};

/** What is drawn without a sign. */
const MOVES_BY_ITSELF = "canvas,video,audio[controls],embed,object,marquee,progress:not([value])";
const SVG = "http://www.w3.org/2000/svg";
const SVG_ANIMATIONS = "animate,animateTransform,animateMotion,set";
const IMAGES = "img,image,input[type=image i]";

/** Addresses of images that may be animated; what is behind a `blob:` cannot be told. */
const MAY_BE_ANIMATED = /\.(?:gif|webp|apng|avif)\b|^(?:blob:|data:image\/(?:gif|webp|apng|avif))/i;
/** An embedded image is an address of any length, and its beginning says what it is. */
const ADDRESS_READ = 4000;

const mayBeAnimated = (address) => MAY_BE_ANIMATED.test(address.slice(0, ADDRESS_READ));

const currentSource = getter(HTMLImageElement.prototype, "currentSrc");
const naturalWidth = getter(HTMLImageElement.prototype, "naturalWidth");
const naturalHeight = getter(HTMLImageElement.prototype, "naturalHeight");

const isMovingImage = (image) => {
  if (!isHtml(image, "img")) {
    const address = getAttribute(image, "src") ?? getAttribute(image, "href") ?? getAttribute(image, "xlink:href") ?? "";
    return mayBeAnimated(address) && isVisible(image);
  }
  // A single pixel counts visitors, or holds the place of an image to come.
  if (naturalWidth(image) === 1 && naturalHeight(image) === 1) return false;
  return mayBeAnimated(currentSource(image)) && isVisible(image);
};

/** Whether anything in one of the roots moves, or may move, without a sign. */
const movesByItself = (roots) => {
  if (fontsOf(document).status !== "loaded") return true;
  let left = WATCHED_MOVERS;
  for (const root of roots) {
    if (animationsOf(root).some(isMoving)) return true;
    if ([...within(root, SVG_ANIMATIONS)].some((element) => namespaceUri(element) === SVG)) return true;
    const [movers, images] = [[...within(root, MOVES_BY_ITSELF)], [...within(root, IMAGES)]];
    left -= movers.length + images.length;
    if (left < 0 || movers.some(isVisible) || images.some(isMovingImage)) return true;
  }
  return false;
};

/** True if a style has loaded an image that may be animated, or that cannot be told. */
const hasMovingBackground = () => {
  const entries = performance.getEntriesByType("resource");
  return (
    entries.length > WATCHED_RESOURCES ||
    entries.some((entry) => entry.initiatorType === "css" && mayBeAnimated(entry.name))
  );
};

const FONT_SIGNS = ["loading", "loadingdone", "loadingerror"];

/**
 * The rest that is watched: `{token, waiting, moved, hopeless, states, stop}`. One is, at most; a new one takes its place.
 * `waiting`: the page has not come to rest yet, so nobody has the token.
 */
let rest = null;
let lastRest = 0;

/** Ends the watch and forgets it: whoever has its token, or waits for it, is not told that the page rests. */
const endRest = () => {
  rest?.stop();
  rest = null;
};

/** The same where nobody has the token yet. A picture may have been taken for one that was given. */
const endWaitingForRest = () => {
  if (rest !== null && rest.waiting) endRest();
};

/** A watch that has not looked at the page yet. */
const newRest = (waiting) => {
  endRest();
  lastRest += 1;
  rest = { token: lastRest, waiting, moved: false, hopeless: false, states: null, stop: () => {} };
  return rest;
};

/** Begins to watch the page. `hopeless`: it will not be told whether it rests. */
const beginRest = (waiting = false) => {
  const begun = newRest(waiting);
  const roots = knownRoots();
  if (roots !== null) begun.states = pageStates(roots);
  if (begun.states === null || hasMovingBackground()) {
    begun.moved = true;
    begun.hopeless = true;
    return begun;
  }
  const moved = () => {
    begun.moved = true;
    begun.stop();
  };
  const stop = watchSigns(moved, roots);
  const fonts = fontsOf(document);
  for (const type of FONT_SIGNS) listenTo(fonts, type, moved);
  begun.stop = () => {
    stop();
    for (const type of FONT_SIGNS) unlisten(fonts, type, moved);
  };
  return begun;
};

const isUndisturbed = (begun) => {
  if (begun !== rest || begun.moved) return false;
  const roots = knownRoots();
  if (roots === null || movesByItself(roots)) return false;
  const states = pageStates(roots);
  return states !== null && sameStates(begun.states, states);
};

/** Begins to watch; the answer is for `rests`. */
const watchRest = () => beginRest().token;

/** True if there was no sign of change since this was begun to be watched. */
const rests = (token) => rest !== null && rest.token === token && isUndisturbed(rest);

/**
 * Resolves when the page has shown no sign of change for some frames; with what `watchRest` answers, or `null` at the limit
 * in ms, at once where it will not be told, and with the next frame where the watch has ended meanwhile.
 */
const comesToRest = async (limit) => {
  const deadline = performance.now() + limit;
  /** With the next frame: whether it came before the limit, and the watch is still the one that counts. */
  const goesOn = async (begun) => {
    const isInTime = await nextFrame(deadline);
    if (begun !== rest) return false;
    if (!isInTime) endRest();
    return isInTime;
  };
  // Nothing is looked at before the next frame: what is asked of the page in a hurry has been answered by then.
  if (!(await goesOn(newRest(true)))) return null;
  for (;;) {
    const begun = beginRest(true);
    if (begun.hopeless) return null;
    for (let frames = 0; frames <= REST_FRAMES; frames += 1) {
      if (frames === REST_FRAMES) {
        begun.waiting = false;
        return begun.token;
      }
      if (!(await goesOn(begun))) return null;
      if (!isUndisturbed(begun)) break;
    }
  }
};
