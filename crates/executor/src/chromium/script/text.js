// Text as a person reads it, and its normal form.

/** Unicode NFC, each run of white space one space, none at the ends; case is kept (rule U2 of seed 002). */
const normalise = (text) => text.normalize("NFC").replace(/\p{White_Space}+/gu, " ").replace(/^ | $/g, "");

/** A cheaper test for what `normalise` leaves as it is. */
const PLAIN = /^[!-~]+(?: [!-~]+)*$/;
const normalised = (text) => (text === "" || PLAIN.test(text) ? text : normalise(text));

const cut = (text, length) => {
  if (text.length <= length) return text;
  // Half of a surrogate pair would not survive the way to the other side.
  const end = /[\ud800-\udbff]/.test(text[length - 2]) ? length - 2 : length - 1;
  return `${text.slice(0, end)}…`;
};

/** Characters of one text that are handed out; what is longer is refused, since a part of it would prove nothing. */
const TEXT_LIMIT = 8_000_000;
const bounded = (text) => {
  if (text.length > TEXT_LIMIT) throw new Error(`a text of more than ${TEXT_LIMIT} characters`);
  return text;
};

/** Nesting that is followed; a page that nests deeper is cut there, so that nothing here can exhaust the stack. */
const DEPTH_LIMIT = 1_000;

const REDACTED = "[redacted]";

const SILENT = new Set(["script", "style", "noscript", "template", "head", "title", "datalist", "iframe", "object", "video", "audio", "canvas"]);

const VISIBLE = { visibilityProperty: true };
const RENDERED = {};

const styleMap = method(Element.prototype, "computedStyleMap");
const displayOf = (element) => String(styleMap(element).get("display"));
const visibilityOf = (element) => String(styleMap(element).get("visibility"));

/** True if the element's box or its content is drawn: not `display: none`, not hidden by an ancestor, not `visibility: hidden`. */
const isRendered = (element, options = VISIBLE) => {
  if (checkVisibility(element, options)) return true;
  // An element without a box of its own whose content has one.
  if (displayOf(element) !== "contents" || visibilityOf(element) !== "visible") return false;
  const parent = flatParent(element);
  return parent !== null && isRendered(parent, RENDERED);
};

/** True if the element has a box and its content is not drawn, as with `hidden=until-found`. */
const hidesContent = (element) => String(styleMap(element).get("content-visibility")) === "hidden";

const isInline = (display) => display.startsWith("inline") || display === "contents" || display.startsWith("ruby") || display === "none";

/**
 * The rendered text below an element, blocks and line breaks as spaces, not normalised. CSS changes of case do not count:
 * the text is what the page's author wrote. `mask` tells elements whose text is replaced.
 */
const renderedText = (element, mask = null) => {
  const parts = [];
  const visit = (parent, depth) => {
    if (depth > DEPTH_LIMIT || hidesContent(parent)) return;
    for (const child of flatChildren(parent)) {
      const type = nodeType(child);
      if (type === TEXT) {
        parts.push(data(child));
      } else if (type === ELEMENT) {
        visitElement(child, depth);
      }
    }
  };
  const visitElement = (child, depth) => {
    const name = localName(child);
    if (SILENT.has(name)) return;
    if (name === "br") {
      parts.push(" ");
      return;
    }
    // A child of something that is invisible by `visibility` may be visible itself.
    if (!isRendered(child, RENDERED)) return;
    const space = isInline(displayOf(child)) ? "" : " ";
    parts.push(space);
    if (mask !== null && mask(child)) parts.push(REDACTED);
    else if (isInput(child) || isTextarea(child) || isSelect(child)) parts.push(` ${ownText(child)} `);
    else if (visibilityOf(child) === "visible") visit(child, depth + 1);
    else visitVisible(child, depth + 1);
    parts.push(space);
  };
  const visitVisible = (parent, depth) => {
    if (depth > DEPTH_LIMIT) return;
    for (const child of flatChildren(parent)) if (nodeType(child) === ELEMENT) visitElement(child, depth);
  };
  if (isRendered(element)) {
    if (isInput(element) || isTextarea(element) || isSelect(element)) return ownText(element);
    visit(element, 0);
  } else if (isRendered(element, RENDERED)) {
    visitVisible(element, 0);
  }
  return parts.join("");
};

/** What a control shows as its text: a button its caption, a select what is chosen; what is typed is a value, not text. */
const ownText = (control) => {
  if (isSelect(control)) return selectedOptions(control).map((option) => optionLabel(option)).join(" ");
  const type = typeOf(control);
  return type !== null && type !== "image" && BUTTON_TYPES.has(type) ? buttonCaption(control) : "";
};

const buttonCaption = (input) => {
  const value = inputValue(input);
  if (value !== "" || hasAttribute(input, "value")) return value;
  return { submit: "Submit", reset: "Reset" }[inputType(input)] ?? "";
};

const textOf = (element, mask = null) => bounded(normalised(renderedText(element, mask)));
