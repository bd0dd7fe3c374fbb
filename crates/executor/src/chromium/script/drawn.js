// The text that is drawn, and where each part of it is: for secrets that only their looks tell. Whoever knows those reads
// the text, and asks for the boxes of ranges of it.

/** The pieces of the newest reading, in order: `{at, end}` of the text, with a text `node` or an `element` that counts as a whole. */
let drawnPieces = [];

/** White space that is not one plain space. */
const UNEVEN = /[^\S ]| {2}/;
const SPACE = /\s/;

const keepsSpaces = (node) => {
  const kept = String(styleMap(flatParent(node)).get("white-space-collapse"));
  return kept.startsWith("preserve") || kept === "break-spaces";
};

const WITHOUT_TEXT = new Set(["hidden", "checkbox", "radio", "range", "color"]);

/** What a control shows: what was chosen or typed, else what it asks for. */
const shownIn = (control) => {
  if (isSelect(control)) {
    const isList = selectMultiple(control) || selectSize(control) > 1;
    return isList ? [...selectOptionsOf(control)].map((option) => optionLabel(option)).join("\n") : ownText(control);
  }
  const type = typeOf(control);
  if (type === "image") return getAttribute(control, "alt") ?? "";
  if (type === "file") return [...inputFiles(control)].map((file) => file.name).join("\n");
  if (type !== null && BUTTON_TYPES.has(type)) return ownText(control);
  if (type !== null && WITHOUT_TEXT.has(type)) return "";
  const value = valueOf(control);
  return value === "" ? (getAttribute(control, "placeholder") ?? "") : value;
};

/**
 * All of it, in the order of the page; what is secret by its element is left out. White space is as it is seen: single
 * spaces within a line of text, a line feed between blocks and around what a control shows.
 */
const drawnText = (redaction = null) => {
  const mask = maskOf(redaction);
  const parts = [];
  const pieces = [];
  let length = 0;
  let last = "\n";
  const write = (text) => {
    if (text === "") return;
    parts.push(text);
    length += text.length;
    last = text[text.length - 1];
  };
  const separate = () => {
    if (last !== "\n") write("\n");
  };
  const add = (text, piece) => {
    if (text === "") return;
    pieces.push({ at: length, end: length + text.length, ...piece });
    write(text);
  };
  const addWhole = (element, text) => {
    separate();
    add(text.replace(/[^\S\n]/g, " "), { element });
    separate();
  };
  const addText = (node) => {
    const raw = data(node);
    const parent = parentNode(node);
    if (!UNEVEN.test(raw) && !(raw[0] === " " && SPACE.test(last))) {
      add(raw, { node, parent, raw, collapses: false });
    } else if (keepsSpaces(node)) {
      add(raw.replace(/[^\S\n]/g, " "), { node, parent, raw, collapses: false });
    } else {
      const skips = SPACE.test(raw[0]) && SPACE.test(last);
      const text = raw.replace(/\s+/g, " ");
      // Where reading such a text has got to: the place in it, and the same place in the node.
      const cursor = { shown: skips ? -1 : 0, at: 0 };
      add(skips ? text.slice(1) : text, { node, parent, raw, collapses: true, skips, cursor });
    }
  };
  const visit = (parent, depth, isVisible) => {
    if (hidesContent(parent)) return;
    for (const child of flatChildren(parent)) {
      const type = nodeType(child);
      if (type === ELEMENT) visitElement(child, depth);
      else if (type === TEXT && isVisible) addText(child);
    }
  };
  const visitElement = (element, depth) => {
    if (SILENT.has(localName(element))) return;
    if (localName(element) === "br") {
      separate();
      return;
    }
    // A child of something that is invisible by `visibility` may be visible itself.
    if (!isRendered(element, RENDERED)) return;
    const isVisible = visibilityOf(element) === "visible";
    const isBlock = !isInline(displayOf(element));
    if (isBlock) separate();
    if (mask(element)) write(REDACTED);
    else if (isInput(element) || isTextarea(element) || isSelect(element)) {
      if (isVisible) addWhole(element, shownIn(element));
    } else if (depth > DEPTH_LIMIT) addWhole(element, textContent(element));
    else visit(element, depth + 1, isVisible);
    if (isBlock) separate();
  };
  const root = documentElementOf(document);
  if (root !== null) visitElement(root, 0);
  drawnPieces = pieces;
  return bounded(parts.join(""));
};

/** The place in the node for a place in the piece's text. Asked for in ascending order this costs one walk. */
const placeInNode = (piece, offset) => {
  if (!piece.collapses) return offset;
  const { raw, cursor } = piece;
  if (offset < cursor.shown) Object.assign(cursor, { shown: piece.skips ? -1 : 0, at: 0 });
  while (cursor.shown < offset && cursor.at < raw.length) {
    if (SPACE.test(raw[cursor.at])) {
      while (cursor.at < raw.length && SPACE.test(raw[cursor.at])) cursor.at += 1;
    } else {
      cursor.at += 1;
    }
    cursor.shown += 1;
  }
  return cursor.at;
};

const rectsOfContent = (node, from = null, to = null) => {
  const range = new Range();
  range.selectNodeContents(node);
  if (from !== null) {
    range.setStart(node, from);
    range.setEnd(node, to);
  }
  return range.getClientRects();
};

/** Where a part of a piece is drawn now. Where the page has changed it meanwhile: all that it may have become. */
const rectsOfPiece = (piece, from, to) => {
  const { element, node, parent, raw } = piece;
  if (element !== undefined) return isConnected(element) ? clientRects(element) : rectsOfContent(document);
  if (!isConnected(node)) return rectsOfContent(isConnected(parent) ? parent : document);
  if (data(node) !== raw) return rectsOfContent(node);
  return rectsOfContent(node, placeInNode(piece, from), placeInNode(piece, to));
};

/**
 * Boxes that cover these ranges, `[from, to]` in ascending order, of the text that was read last, in CSS pixels of this
 * frame's viewport.
 */
const drawnBoxes = (ranges) => {
  const boxes = [];
  let first = 0;
  for (const [from, to] of ranges) {
    while (first < drawnPieces.length && drawnPieces[first].end <= from) first += 1;
    for (let index = first; index < drawnPieces.length && drawnPieces[index].at < to; index += 1) {
      const piece = drawnPieces[index];
      const rects = rectsOfPiece(piece, Math.max(from, piece.at) - piece.at, Math.min(to, piece.end) - piece.at);
      for (const box of rects) if (box.width > 0 && box.height > 0) boxes.push(plainRect(box));
    }
  }
  return boxes;
};
