// The page's state in canonical texts, for its signature: no positions, no handles, nothing that only time changes.

const INTERACTIVE = [
  "a[href],area[href],button,input:not([type=hidden i]),select,textarea,summary,option",
  "[role],[contenteditable],[tabindex]",
  "h1,h2,h3,h4,h5,h6,dialog,details,form,main,nav,header,footer,aside,section,fieldset,output,progress,meter",
].join(",");

/** Elements that are listed at most; of the others, how many there are. */
const SKELETON_LIMIT = 5_000;

const TRUE_OR_FALSE = new Set(["true", "false", "mixed"]);

/** States that change what an element offers, as words. */
const statesOf = (element, role) => {
  const states = [];
  const aria = (name, otherwise = null) => {
    const value = getAttribute(element, `aria-${name}`)?.toLowerCase() ?? null;
    const state = TRUE_OR_FALSE.has(value) ? value : otherwise;
    if (state !== null) states.push(`${name}=${state}`);
  };
  const type = typeOf(element);
  if (!isEnabled(element)) states.push("disabled");
  if (type === "checkbox" && elementMatches(element, ":indeterminate")) states.push("checked=mixed");
  else if (type === "checkbox" || type === "radio") states.push(`checked=${inputChecked(element)}`);
  else aria("checked", CHECKABLE.has(role) ? "false" : null);
  const details = localName(element) === "summary" ? parentElement(element) : null;
  if (details !== null && isHtml(details, "details")) states.push(`expanded=${hasAttribute(details, "open")}`);
  else aria("expanded");
  aria("pressed");
  aria("selected");
  const current = getAttribute(element, "aria-current");
  if (current !== null && current !== "" && current !== "false") states.push(`current=${current}`);
  if (getAttribute(element, "aria-invalid") === "true") states.push("invalid");
  if (elementMatches(element, "[readonly]")) states.push("readonly");
  const level = /^h([1-6])$/.exec(localName(element))?.[1] ?? getAttribute(element, "aria-level");
  if (role === "heading" && level !== null) states.push(`level=${level}`);
  return states;
};

/**
 * What is known of elements from one reading of the page, which both its skeleton and its snapshot need: in a task that only
 * reads, nothing of it changes.
 */
const reading = perTask(() => ({ visible: new Map(), targets: new Map(), names: new WeakMap() }));

const once = (known, element, find) => {
  let found = known.get(element);
  if (found === undefined) {
    found = find(element);
    known.set(element, found);
  }
  return found;
};

const isVisibleNow = (element) => once(reading().visible, element, isVisible);

/** The URL that a link leads to; empty: none. */
const targetNow = (link) => once(reading().targets, link, (one) => linkTarget(one) ?? "");

/** The name without generated text, as this mask lets it be seen. */
const nameNow = (element, mask) => {
  const { names } = reading();
  if (!names.has(mask)) names.set(mask, new Map());
  return once(names.get(mask), element, (one) => plainName(one, mask));
};

/** Roles whose text is announced when it changes: it tells states apart as much as any button does. */
const ANNOUNCED = new Set(["alert", "status"]);

const listedName = (element, role, mask) => {
  const name = nameNow(element, mask);
  if (name !== "") return name;
  if (role === "" && !mask(element)) return directText(element);
  return ANNOUNCED.has(role) ? cut(textOf(element, mask), VALUE_LIMIT) : "";
};

/** What has no role, but can be reached with the Tab key. */
const isReachable = (element) => hasAttribute(element, "tabindex") && !getAttribute(element, "tabindex").startsWith("-");

const isListed = (element, role) =>
  (role === "" || role === "presentation" ? isReachable(element) : true) && isVisibleNow(element);

const inputLine = (element, role, name, mask) => {
  const type = typeOf(element);
  const kind = type ?? localName(element);
  let state;
  if (type === "checkbox" || type === "radio") {
    state = inputChecked(element);
  } else if (type === "file") {
    state = [...inputFiles(element)].map((file) => file.name);
  } else if (mask(element)) {
    const value = valueOf(element) ?? textContent(element);
    state = { filled: value !== "" };
  } else if (isSelect(element)) {
    state = selectedOptions(element).map((option) => optionValue(option));
  } else {
    state = valueOf(element) ?? textOf(element, mask);
  }
  return JSON.stringify([kind, role, name, getAttribute(element, "name"), state]);
};

const isField = (element, role) =>
  (isInput(element) && !BUTTON_TYPES.has(inputType(element))) ||
  isTextarea(element) ||
  isSelect(element) ||
  (role === "textbox" && isOwnEditingHost(element));

const documentTitle = getter(Document.prototype, "title");

const cutLines = (lines, total) =>
  total > lines.length ? [...lines, `(${total - lines.length} more)`].join("\n") : lines.join("\n");

const skeleton = (redaction = null) => skeletonOf(maskOf(redaction));

const skeletonOf = (mask) => {
  const lines = { dom: [], anchors: [], inputs: [] };
  const totals = { dom: 0, anchors: 0, inputs: 0 };
  const add = (list, line) => {
    totals[list] += 1;
    if (lines[list].length < SKELETON_LIMIT) lines[list].push(line());
  };
  for (const element of findEverywhere(INTERACTIVE)) {
    const role = roleOf(element);
    if (!isListed(element, role)) continue;
    if (totals.dom >= SKELETON_LIMIT) {
      totals.dom += 1;
      continue;
    }
    const name = listedName(element, role, mask);
    add("dom", () => JSON.stringify([role, name, ...statesOf(element, role)]));
    if (elementMatches(element, LINK)) add("anchors", () => JSON.stringify([name, mask(element) ? REDACTED : targetNow(element)]));
    if (isField(element, role)) add("inputs", () => inputLine(element, role, name, mask));
  }
  return {
    url: location.href,
    title: normalised(documentTitle(document)),
    dom: cutLines(lines.dom, totals.dom),
    anchors: cutLines(lines.anchors, totals.anchors),
    inputs: cutLines(lines.inputs, totals.inputs),
  };
};
