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

/** Elements that are visited at most, and the longest time that it takes, in ms: what comes after is left out. */
const OUTLINE_ELEMENTS = 100_000;
const OUTLINE_LONGEST = 5_000;

/** Roles without a name that a person knows by what they show and where they are. */
const HINTED = new Set([...LEAVES].filter((role) => role !== "heading" && role !== "option"));

/** True if the name of something else, which has a line of its own, says all that is written here. */
const isNameOfAnother = (element, mask) => {
  const name = localName(element);
  if (name === "label") {
    const control = labelControl(element);
    if (control === null || typeOf(control) === "hidden" || !isVisible(control) || isHiddenForAll(control)) return false;
    const text = labelText(element, control);
    return text !== "" && plainName(control, mask).includes(text);
  }
  const parent = parentElement(element);
  if (parent === null || CAPTIONS[localName(parent)] !== name || childNamed(parent, name) !== element) return false;
  return plainName(parent, mask) === textOf(element, mask);
};

/** The check box, radio button or file input that is not drawn, so that people use its label; else `null`. */
const usedThroughLabel = (element) => {
  const control = isHtml(element, "label") ? labelControl(element) : null;
  const type = control === null ? null : typeOf(control);
  if (type !== "checkbox" && type !== "radio" && type !== "file") return null;
  return isVisible(control) || labelToUse(control) !== element ? null : control;
};

/**
 * At most `max` characters, whole lines. `prefix` goes in front of each reference, so that it can name the document.
 * `clickable`: handles of elements that are known to listen for clicks.
 */
const outline = ({ max = OUTLINE_DEFAULT, prefix = "", redaction = null, clickable = [], longest = null } = {}) => {
  const mask = maskOf(redaction);
  const listeners = new Set(clickable.map(elementOf));
  const budget = hintBudget();
  const deadline = performance.now() + (longest ?? OUTLINE_LONGEST);
  const lines = [];
  /** The name on each line. */
  const names = [];
  let visited = 0;
  let length = 0;
  let truncated = false;
  const write = (depth, line, name = "") => {
    const text = "  ".repeat(Math.min(depth, 20)) + line;
    if (truncated || length + text.length + 1 > max) {
      truncated = true;
      return;
    }
    length += text.length + 1;
    lines.push(text);
    names.push(name);
  };
  let reading = "";
  const flush = (depth) => {
    const text = normalised(reading);
    reading = "";
    if (text !== "") write(depth, `text ${JSON.stringify(cut(text, VALUE_LIMIT))}`);
  };
  const referenceTo = (element) => `[ref=${prefix}e${handleOf(element)}]`;
  // `inside`: the role of what is around, where only what can be used is told, since the rest is in its name.
  const walk = (parent, depth, nesting, inside) => {
    if (nesting > DEPTH_LIMIT || hidesContent(parent)) return;
    const texts = inside === null && isRendered(parent);
    for (const child of flatChildren(parent)) {
      if (truncated) return;
      const type = nodeType(child);
      if (type === ELEMENT) visit(child, depth, nesting + 1, inside);
      else if (type === TEXT && texts) reading += data(child);
    }
  };
  const visit = (element, depth, nesting, inside) => {
    visited += 1;
    if (visited > OUTLINE_ELEMENTS || performance.now() > deadline) truncated = true;
    if (truncated) return;
    const name = localName(element);
    if (name === "iframe" || name === "frame") {
      if (!isVisible(element) || isHiddenForAll(element)) return;
      flush(depth);
      write(depth, `iframe ${JSON.stringify(cut(nameOf(element, mask), NAME_LIMIT))} ${referenceTo(element)}`);
      return;
    }
    if (SILENT.has(name) || elementMatches(element, HIDDEN_OR_INERT) || !isRendered(element, RENDERED)) return;
    if (name === "br") {
      reading += " ";
      return;
    }
    const role = roleOf(element);
    if (mask(element) && !isField(element, role)) {
      if (inside === null) reading += ` ${REDACTED} `;
      return;
    }
    const drawn = isRendered(element);
    const control = drawn ? usedThroughLabel(element) : null;
    if (control !== null) {
      flush(depth);
      const controlRole = roleOf(control);
      const label = cut(labelText(element, control, mask), NAME_LIMIT);
      const states = [...statesOf(control, controlRole), ...limitsOf(control, controlRole)];
      const words = [controlRole, ...(label === "" ? [] : [JSON.stringify(label)]), ...states.map((state) => `[${state}]`)];
      write(depth, [...words, referenceTo(element)].join(" "), label);
      return;
    }
    const plain = role === "" || TRANSPARENT.has(role);
    // Something without a role that the Tab key reaches, or that takes clicks, is there to be used.
    const reached = plain && isReachable(element);
    const clicked = drawn && !WIDGETS.has(role) && !WIDGETS.has(inside) && isClickable(element, listeners);
    const told = reached || (inside === null ? clicked || !plain : (plain && clicked) || WIDGETS.has(role));
    const isName = drawn && isNameOfAnother(element, mask);
    if (!told || !drawn || isName) {
      const inline = isInline(displayOf(element));
      if (!inline) flush(depth);
      walk(element, depth, nesting, isName ? (inside ?? "caption") : inside);
      if (!inline) flush(depth);
      return;
    }
    flush(depth);
    const leaf = LEAVES.has(role);
    // A row or cell is named by what is written below it anyway.
    const named = leaf || !NAMED_BY_CONTENT.has(role) || hasAuthorName(element);
    const fullName = named ? nameOf(element, mask) : "";
    // Nobody can write the characters of an icon font.
    const accessibleName = normalised(cut(fullName, NAME_LIMIT).replace(PRIVATE_USE, ""));
    const states = statesOf(element, role);
    const content = contentState(element, role, mask);
    if (content !== null) states.push(content);
    if (isSelect(element) && !mask(element)) states.push(optionsShown(element));
    states.push(...traitsOf(element, role, fullName, mask));
    if (clicked && (reached || !plain)) states.push("clickable");
    const referable = (reached || clicked || REFERABLE.has(role)) && (isVisible(element) || role === "option");
    const word = reached ? "focusable" : plain ? "clickable" : role;
    if (referable && accessibleName === "") states.push(...hintsFor(element, role, plain));
    const line = (shown) => {
      const words = [word];
      if (shown !== "") words.push(JSON.stringify(shown));
      for (const state of states) words.push(`[${state}]`);
      if (referable) words.push(referenceTo(element));
      return words.join(" ");
    };
    write(depth, line(accessibleName), accessibleName);
    const { length: before } = lines;
    if (truncated || isSelect(element) || isTextarea(element)) return;
    walk(element, depth + 1, nesting, leaf ? (WIDGETS.has(inside) ? inside : role) : null);
    flush(depth + 1);
    if (truncated || lines.length !== before + 1) return;
    if (leaf && !WIDGETS.has(role) && accessibleName !== "" && names[before] === accessibleName) {
      // A heading that is a link, for instance: the name stands with what can be used.
      length -= lines[before - 1].length;
      lines[before - 1] = "  ".repeat(Math.min(depth, 20)) + line("");
      length += lines[before - 1].length;
    } else {
      joinText(before, depth);
    }
  };
  const hintsFor = (element, role, plain) => {
    if (plain) {
      budget.begin();
      return normalised(beginningOf(element, mask, budget)) === "" ? hintsOf(element, mask, budget) : [];
    }
    if (!HINTED.has(role)) return [];
    // A picture that nobody uses is told by what it shows alone.
    const hints = hintsOf(element, mask, budget);
    return WIDGETS.has(role) ? hints : hints.filter((hint) => hint.startsWith("icon="));
  };
  /** A text that is all there is inside stands on the line of what it is in. */
  const joinText = (index, depth) => {
    const indented = `${"  ".repeat(Math.min(depth + 1, 20))}text `;
    if (!lines[index].startsWith(indented)) return;
    const text = lines.pop().slice(indented.length);
    names.pop();
    // The line's end and a colon with its space take the place of the indentation and the end of the text's line.
    length -= indented.length - 1;
    lines[index - 1] += `: ${text}`;
  };
  const root = documentElementOf(document);
  namesEnd = deadline;
  try {
    if (root !== null) visit(root, 0, 0, null);
  } finally {
    namesEnd = Infinity;
  }
  flush(0);
  return { text: lines.length === 0 ? "" : `${lines.join("\n")}\n`, truncated };
};

/** The text of the whole page as it is read, in normal form. With a redaction, without what is secret. */
const pageText = (redaction = undefined) => {
  const root = documentElementOf(document);
  return root === null ? "" : textOf(root, redaction === undefined ? null : maskOf(redaction));
};
