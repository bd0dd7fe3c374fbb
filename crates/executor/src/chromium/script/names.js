// Accessible names, as "Accessible Name and Description Computation" has them.

const NAMED_BY_CONTENT = new Set(
  `button cell checkbox columnheader comment gridcell heading link menuitem menuitemcheckbox menuitemradio option radio row
  rowheader switch tab tooltip treeitem`.split(/\s+/),
);

/** Characters of icon fonts: they have no reading, and nobody can write them into a name. */
const PRIVATE_USE = /[\p{Co}]/gu;

/** True if a box of this kind stands within a word; what stands beside it as a box of its own begins a new one. */
const joinsWords = (display) => display === "inline" || display === "contents" || display.startsWith("ruby");

const styleText = (element, pseudo) => {
  const { content, display } = getComputedStyle(element, pseudo);
  if (content === "none" || content === "normal" || content === "" || display === "none") return "";
  // Quoted strings one after the other; after a slash, the alternative text that counts instead.
  const spoken = content.slice(slashOf(content) + 1);
  let text = "";
  for (const [, quoted] of spoken.matchAll(/"((?:[^"\\]|\\.)*)"/gsu)) {
    text += quoted.replace(/\\([0-9a-f]{1,6})\s?|\\(.)/gisu, (_, code, plain) =>
      code === undefined ? plain : String.fromCodePoint(Math.min(Number.parseInt(code, 16) || 0xfffd, 0x10ffff)),
    );
  }
  text = text.replace(PRIVATE_USE, "");
  return joinsWords(display) ? text : ` ${text} `;
};

/** Where the alternative text of a `content` value begins: the last slash outside quotes. */
const slashOf = (content) => {
  let found = -1;
  let quoted = false;
  for (let index = 0; index < content.length; index += 1) {
    const character = content[index];
    if (character === "\\") index += 1;
    else if (character === '"') quoted = !quoted;
    else if (character === "/" && !quoted) found = index;
  }
  return found;
};

const referenced = (element, attribute) => {
  const ids = getAttribute(element, attribute);
  if (ids === null) return [];
  const root = getRootNode(element);
  const find = findById[nodeType(root)];
  if (find === undefined) return [];
  return ids.split(/\s+/).flatMap((id) => (id === "" ? [] : (find(root, id) ?? [])));
};

/** Those that `aria-labelledby` names; browsers read the spelling with one `l`, too. */
const labelling = (element) => {
  const parts = referenced(element, "aria-labelledby");
  return parts.length > 0 ? parts : referenced(element, "aria-labeledby");
};

const isHiddenInName = (element) => elementMatches(element, '[aria-hidden="true" i]') || !isRendered(element);

/** The options that are chosen within an element, or among those that it owns. */
const chosenOptions = (element) => {
  const CHOSEN = "[role=option][aria-selected=true]";
  const owned = referenced(element, "aria-owns").flatMap((one) => [...(elementMatches(one, CHOSEN) ? [one] : []), ...within(one, CHOSEN)]);
  return [...within(element, CHOSEN), ...owned];
};

/** What is entered in the field that a combobox is made of, or what the combobox shows. */
const comboboxValue = (element, mask) => {
  const [field] = within(element, "input:not([type=hidden i]),textarea,select,[role=textbox],[role=searchbox]");
  if (field === undefined) return renderedText(element, mask);
  return mask !== null && mask(field) ? "" : (embeddedValue(field, roleOf(field), mask) ?? "");
};

/** What a control inside another's name contributes: what is entered in it. `null`: nothing of its own. */
const embeddedValue = (element, role, mask) => {
  switch (role) {
    case "textbox":
    case "searchbox":
    case "combobox":
    case "listbox": {
      if (holdsSecret(element)) return "";
      if (isSelect(element)) return ownText(element);
      if (isInput(element)) return inputValue(element);
      if (isTextarea(element)) return textareaValue(element);
      if (role === "textbox" || role === "searchbox") return renderedText(element, mask);
      const chosen = chosenOptions(element).map((option) => renderedText(option, mask)).join(" ");
      return chosen === "" && role === "combobox" ? comboboxValue(element, mask) : chosen;
    }
    case "slider":
    case "spinbutton":
    case "scrollbar":
    case "meter":
    case "progressbar": {
      const stated = getAttribute(element, "aria-valuetext") ?? getAttribute(element, "aria-valuenow");
      return stated ?? (isInput(element) && !holdsSecret(element) ? inputValue(element) : "");
    }
    default:
      return null;
  }
};

const childNamed = (element, name) => {
  for (let child = firstElementChild(element); child !== null; child = nextElementSibling(child)) {
    if (localName(child) === name) return child;
  }
  return null;
};

/** The child that names its parent. */
const CAPTIONS = { fieldset: "legend", table: "caption", figure: "figcaption" };

/** What the element's own language gives as its name (HTML-AAM, SVG-AAM). */
const nativeName = (element, how, depth) => {
  const name = localName(element);
  if (namespaceUri(element) !== HTML) {
    const title = name === "svg" ? childNamed(element, "title") : null;
    return title === null ? "" : textContent(title);
  }
  const labels = labelsOf(element);
  if (labels.length > 0) return labels.map((label) => alternative(label, how, "label", depth + 1)).join(" ");
  if (Object.hasOwn(CAPTIONS, name)) {
    const caption = childNamed(element, CAPTIONS[name]);
    return caption === null ? "" : alternative(caption, how, "label", depth + 1);
  }
  switch (name) {
    case "input": {
      const type = inputType(element);
      if (type === "image") return getAttribute(element, "alt") || getAttribute(element, "title") || "Submit";
      return BUTTON_TYPES.has(type) ? buttonCaption(element) : "";
    }
    case "img":
    case "area":
      return getAttribute(element, "alt") ?? "";
    case "optgroup":
    case "option":
      return getAttribute(element, "label") ?? "";
    default:
      return "";
  }
};

/** When whoever wants many names has no more time for them; what is missing then is empty. */
let namesEnd = Infinity;

/** Without the spaces of blocks; without text that styles generate, which is slow to ask for; with both. */
const [LEAST, PLAIN_NAME, FULL] = [0, 1, 2];

const contentName = (element, how, depth) => {
  const parts = how.detail === FULL ? [styleText(element, "::before")] : [];
  for (const child of flatChildren(element)) {
    const type = nodeType(child);
    if (type === TEXT) {
      parts.push(data(child));
    } else if (type === ELEMENT) {
      if (localName(child) === "br") parts.push(" ");
      const text = alternative(child, how, "content", depth + 1);
      if (text !== "") parts.push(how.detail === LEAST || joinsWords(displayOf(child)) ? text : ` ${text} `);
    }
  }
  if (how.detail === FULL) parts.push(styleText(element, "::after"));
  return parts.join("");
};

/** What is visible of something that is not drawn itself, by `visibility`: its own texts are not. */
const visibleContent = (element, how, depth) => {
  if (elementMatches(element, '[aria-hidden="true" i]') || !isRendered(element, RENDERED)) return "";
  const parts = [];
  for (const child of flatChildren(element)) {
    if (nodeType(child) !== ELEMENT) continue;
    const text = alternative(child, how, "content", depth + 1);
    if (text !== "") parts.push(how.detail === LEAST || joinsWords(displayOf(child)) ? text : ` ${text} `);
  }
  return parts.join("");
};

const tooltip = (element, role) => {
  const title = getAttribute(element, "title") ?? "";
  if (normalised(title) !== "") return title;
  if (role !== "textbox" && role !== "searchbox" && role !== "combobox" && role !== "spinbutton") return "";
  return getAttribute(element, "placeholder") ?? getAttribute(element, "aria-placeholder") ?? "";
};

/**
 * The text alternative of an element, not normalised; the steps of the specification in their order.
 * - `how.subject`: the element that is being named; `how.mask`: elements whose text is replaced; `how.named`: what references
 *   have contributed, which content does not once more.
 * - `mode`: the element is the subject itself (`own`), what aria-labelledby names (`reference`), a native label or caption
 *   (`label`), or inside one of these (`content`).
 */
const alternative = (element, how, mode, depth) => {
  if (depth > DEPTH_LIMIT || (namesEnd !== Infinity && performance.now() > namesEnd) || (mode !== "own" && SILENT.has(localName(element)))) return "";
  if (mode === "content" && (element === how.subject || how.named.has(element))) return "";
  if (mode === "reference") how.named.add(element);
  // References and labels may lead in a circle.
  if (mode === "label" || mode === "content") {
    if (how.entered.has(element)) return "";
    how.entered.add(element);
  }
  const text = steps(element, how, mode, depth);
  if (mode === "label" || mode === "content") how.entered.delete(element);
  return text;
};

const steps = (element, how, mode, depth) => {
  if (mode === "content" && !how.inHidden && isHiddenInName(element)) return visibleContent(element, how, depth);
  const role = roleOf(element);
  if (mode === "content") {
    const value = embeddedValue(element, role, how.mask);
    if (value !== null) return value !== "" && how.mask !== null && how.mask(element) ? REDACTED : value;
  }
  const isField = isInput(element) || isTextarea(element) || isSelect(element);
  if (how.mask !== null && !(mode === "own" && isField) && how.mask(element)) return REDACTED;
  // A slot stands for what is slotted, and has no name of its own.
  if (mode === "content" && isHtml(element, "slot")) return contentName(element, how, depth);
  if (!how.inReference) {
    const parts = labelling(element).map((part) =>
      alternative(part, { ...how, inReference: true, inHidden: isHiddenInName(part) }, "reference", depth + 1),
    );
    const text = parts.join(" ");
    if (normalised(text) !== "") return text;
  }
  const label = getAttribute(element, "aria-label") ?? "";
  if (normalised(label) !== "") return label;
  if (role !== "presentation") {
    const native = nativeName(element, how, depth);
    if (normalised(native) !== "") return native;
  }
  let space = "";
  if (mode !== "own" || NAMED_BY_CONTENT.has(role)) {
    const content = contentName(element, how, depth);
    if (normalised(content) !== "") return content;
    // White space alone still parts the words around it.
    space = mode === "content" ? content : "";
  }
  // Where there is no other text, a style may have one, which counts before a tooltip.
  return (how.detail === LEAST ? "" : tooltip(element, role)) || space;
};

const howOf = (subject, mask, detail) => ({ subject, mask, detail, entered: new Set(), named: new Set() });

const nameWith = (element, mask, detail) =>
  alternative(element, { ...howOf(element, mask, detail), inReference: false, inHidden: false }, "own", 0);

/** The accessible name, in normal form; with `mask`, without what is secret. */
const nameOf = (element, mask = null, detail = FULL) => normalised(nameWith(element, mask, detail));

/** The name without generated text, for lists of many elements. */
const plainName = (element, mask) => nameOf(element, mask, PLAIN_NAME);

/** True if all characters of `part` occur in `whole`, in their order. */
const isSubsequence = (part, whole) => {
  let at = 0;
  for (const character of part) {
    at = whole.indexOf(character, at);
    if (at === -1) return false;
    at += character.length;
  }
  return true;
};

const SPACES = /\p{White_Space}+/gu;

/** What a text that is to read as `wanted` must consist of at least: so most are ruled out without looking at styles. */
const canRead = (least, wanted) => isSubsequence(least.normalize("NFC").replace(SPACES, ""), wanted);

/** True if the element's name is `wanted`, a text in normal form. */
const hasName = (element, wanted) => canRead(nameWith(element, null, LEAST), wanted) && nameOf(element) === wanted;

const labelWith = (label, subject, detail, mask = null) =>
  alternative(
    label,
    { ...howOf(subject, mask, detail), inReference: true, inHidden: isHiddenInName(label) },
    "label",
    0,
  );

/** The name of one referenced element or label, as a name that is made of it alone. */
const labelText = (label, subject, mask = null) => normalised(labelWith(label, subject, FULL, mask));

/** True if the name that this label alone makes is `wanted`, a text in normal form. */
const isLabelled = (label, subject, wanted) =>
  canRead(labelWith(label, subject, LEAST), wanted) && labelText(label, subject) === wanted;
