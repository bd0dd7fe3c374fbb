// The page for a model to read: a line for each element that can be read or used, with a reference to it.

/** Roles whose content says no more than their name. */
const LEAVES = new Set(
  `button checkbox combobox heading img link listbox menuitem menuitemcheckbox menuitemradio meter option progressbar radio
  searchbox slider spinbutton switch tab textbox`.split(/\s+/),
);

/** Roles without a line of their own: their content is read as if it stood in their place. */
const TRANSPARENT = new Set(
  "presentation paragraph strong emphasis code time mark subscript superscript deletion insertion document rowgroup".split(" "),
);

const REFERABLE = new Set([...LEAVES, ...WIDGETS, "dialog", "alertdialog", "table", "grid", "row", "cell", "listitem"]);

const OUTLINE_DEFAULT = 20_000;

/** A word for what is in a control. */
const contentState = (element, role, mask) => {
  if (!isField(element, role)) return null;
  const type = typeOf(element);
  if (type === "checkbox" || type === "radio") return null;
  if (type === "file") return `files=${JSON.stringify([...inputFiles(element)].map((file) => file.name))}`;
  if (mask(element)) return (valueOf(element) ?? textContent(element)) === "" ? null : "filled";
  const value = isSelect(element) ? ownText(element) : (valueOf(element) ?? textOf(element, mask));
  return value === "" ? null : `value=${JSON.stringify(cut(value, NAME_LIMIT))}`;
};

/** At most `max` characters, whole lines. `prefix` goes in front of each reference, so that it can name the document. */
const outline = ({ max = OUTLINE_DEFAULT, prefix = "", redaction = null } = {}) => {
  const mask = maskOf(redaction);
  const lines = [];
  let length = 0;
  let truncated = false;
  const write = (depth, line) => {
    const text = "  ".repeat(Math.min(depth, 20)) + line;
    if (truncated || length + text.length + 1 > max) {
      truncated = true;
      return;
    }
    length += text.length + 1;
    lines.push(text);
  };
  let reading = "";
  const flush = (depth) => {
    const text = normalised(reading);
    reading = "";
    if (text !== "") write(depth, `text ${JSON.stringify(cut(text, VALUE_LIMIT))}`);
  };
  const walk = (parent, depth, nesting) => {
    if (nesting > DEPTH_LIMIT) return;
    for (const child of flatChildren(parent)) {
      if (truncated) return;
      const type = nodeType(child);
      if (type === TEXT) {
        if (isRendered(parent) || displayOf(parent) === "contents") reading += data(child);
      } else if (type === ELEMENT) {
        visit(child, depth, nesting);
      }
    }
  };
  const visit = (element, depth, nesting) => {
    const name = localName(element);
    if (name === "iframe" || name === "frame") {
      if (!isVisible(element) || isHiddenForAll(element)) return;
      flush(depth);
      write(depth, `iframe ${JSON.stringify(cut(nameOf(element, mask), NAME_LIMIT))} [ref=${prefix}e${handleOf(element)}]`);
      return;
    }
    if (SILENT.has(name) || elementMatches(element, HIDDEN_OR_INERT) || !isRendered(element, RENDERED)) return;
    if (name === "br") {
      reading += " ";
      return;
    }
    const role = roleOf(element);
    if (mask(element) && !isField(element, role)) {
      reading += ` ${REDACTED} `;
      return;
    }
    const shown = role !== "" && !TRANSPARENT.has(role) && isRendered(element);
    if (!shown) {
      const inline = isInline(displayOf(element));
      if (!inline) flush(depth);
      walk(element, depth, nesting + 1);
      if (!inline) flush(depth);
      return;
    }
    flush(depth);
    const leaf = LEAVES.has(role);
    // A row or cell is named by what is written below it anyway.
    const named = leaf || !NAMED_BY_CONTENT.has(role) || hasAuthorName(element);
    const accessibleName = named ? cut(nameOf(element, mask), NAME_LIMIT) : "";
    const states = statesOf(element, role);
    const content = contentState(element, role, mask);
    if (content !== null) states.push(content);
    const words = [role];
    if (accessibleName !== "") words.push(JSON.stringify(accessibleName));
    for (const state of states) words.push(`[${state}]`);
    if (REFERABLE.has(role) && (isVisible(element) || role === "option")) words.push(`[ref=${prefix}e${handleOf(element)}]`);
    write(depth, words.join(" "));
    const { length: before } = lines;
    if (leaf) {
      if (!isSelect(element)) innerControls(element, depth + 1);
      return;
    }
    walk(element, depth + 1, nesting + 1);
    flush(depth + 1);
    if (lines.length === before + 1 && before > 0 && !truncated) joinText(before, depth);
  };
  /** A text that is all there is inside stands on the line of what it is in. */
  const joinText = (index, depth) => {
    const indented = `${"  ".repeat(Math.min(depth + 1, 20))}text `;
    if (!lines[index].startsWith(indented)) return;
    const text = lines.pop().slice(indented.length);
    // The line's end and a colon with its space take the place of the indentation and the end of the text's line.
    length -= indented.length - 1;
    lines[index - 1] += `: ${text}`;
  };
  /** What can be used inside something that is named as a whole, such as a link in a heading. */
  const innerControls = (element, depth) => {
    for (const inner of within(element, "a[href],button,input,select,textarea,summary,[role]")) {
      const role = roleOf(inner);
      if (WIDGETS.has(role) && typeOf(inner) !== "hidden" && isVisible(inner) && !isHiddenForAll(inner)) visit(inner, depth, 0);
    }
  };
  const root = documentElementOf(document);
  if (root !== null) visit(root, 0, 0);
  flush(0);
  return { text: lines.length === 0 ? "" : `${lines.join("\n")}\n`, truncated };
};

/** The text of the whole page as it is read, in normal form. With a redaction, without what is secret. */
const pageText = (redaction = undefined) => {
  const root = documentElementOf(document);
  return root === null ? "" : textOf(root, redaction === undefined ? null : maskOf(redaction));
};
