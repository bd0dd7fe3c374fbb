// The page for a model to read: a line for each element that can be read or used, with a reference to it.

/** Roles whose content says no more than their name, but for what can be used in it, such as a link in a heading. */
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

/** Options of a select that are listed at most. */
const OPTIONS_LISTED = 30;

const optionsShown = (select) => {
  const options = [...selectOptionsOf(select)];
  const labels = options.slice(0, OPTIONS_LISTED).map((option) => JSON.stringify(cut(normalised(optionLabel(option)), 80)));
  const more = options.length > OPTIONS_LISTED ? ` and ${options.length - OPTIONS_LISTED} more` : "";
  return `options=${labels.join("|")}${more}`;
};

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
  // `widgets`: only what can be used is told, since the rest is in the name of what it is in.
  const walk = (parent, depth, nesting, widgets) => {
    if (nesting > DEPTH_LIMIT || hidesContent(parent)) return;
    const texts = !widgets && isRendered(parent);
    for (const child of flatChildren(parent)) {
      if (truncated) return;
      const type = nodeType(child);
      if (type === ELEMENT) visit(child, depth, nesting + 1, widgets);
      else if (type === TEXT && texts) reading += data(child);
    }
  };
  const visit = (element, depth, nesting, widgets) => {
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
      if (!widgets) reading += ` ${REDACTED} `;
      return;
    }
    // Something without a role that the Tab key reaches is there to be used.
    const reached = role === "" && isReachable(element);
    const told = reached || (widgets ? WIDGETS.has(role) : role !== "" && !TRANSPARENT.has(role));
    if (!told || !isRendered(element)) {
      const inline = isInline(displayOf(element));
      if (!inline) flush(depth);
      walk(element, depth, nesting, widgets);
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
    if (isSelect(element) && !mask(element)) states.push(optionsShown(element));
    const words = [reached ? "focusable" : role];
    if (accessibleName !== "") words.push(JSON.stringify(accessibleName));
    for (const state of states) words.push(`[${state}]`);
    const referable = (reached || REFERABLE.has(role)) && (isVisible(element) || role === "option");
    if (referable) words.push(`[ref=${prefix}e${handleOf(element)}]`);
    write(depth, words.join(" "));
    const { length: before } = lines;
    if (isSelect(element) || isTextarea(element)) return;
    walk(element, depth + 1, nesting, leaf);
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
  const root = documentElementOf(document);
  if (root !== null) visit(root, 0, 0, false);
  flush(0);
  return { text: lines.length === 0 ? "" : `${lines.join("\n")}\n`, truncated };
};

/** The text of the whole page as it is read, in normal form. With a redaction, without what is secret. */
const pageText = (redaction = undefined) => {
  const root = documentElementOf(document);
  return root === null ? "" : textOf(root, redaction === undefined ? null : maskOf(redaction));
};
