// The `dom_snapshot_partial` of seed 002, section 3: url, title, the targets with ancestors and siblings, visible anchors
// and inputs.

const VALUE_LIMIT = 500;
const ANCESTOR_LIMIT = 50;
const SIBLING_LIMIT = 50;
const LIST_LIMIT = 200;
const ATTRIBUTE_LIMIT = 50;

/** Attributes that say what an element is; of secret elements they alone are shown. */
const HARMLESS = new Set(["id", "class", "name", "type", "role", "for", "data-testid", TESTID, "autocomplete", "tabindex"]);

/** An attribute of an element, without what is secret. */
const shownAttribute = (element, name, value, secret) => {
  if (!secret) return value;
  if (!HARMLESS.has(name)) return REDACTED;
  return value;
};

const attributesShown = (element, secret) => {
  const shown = {};
  let count = 0;
  for (const { name, value } of attributesOf(element)) {
    count += 1;
    if (count > ATTRIBUTE_LIMIT) break;
    shown[name] = cut(shownAttribute(element, name, value, secret), VALUE_LIMIT);
  }
  return shown;
};

/** Text of the element's own, not of elements inside it. */
const directText = (element) => {
  let text = "";
  for (let child = firstChild(element); child !== null && text.length < VALUE_LIMIT; child = nextSibling(child)) {
    if (nodeType(child) === TEXT) text += data(child);
  }
  return cut(normalised(text), VALUE_LIMIT);
};

const nodeShown = (element, mask) => {
  const secret = mask(element);
  const node = {
    tag: localName(element),
    role: roleOf(element),
    name: cut(nameNow(element, mask), VALUE_LIMIT),
    text: SILENT.has(localName(element)) || isTextarea(element) ? "" : secret ? REDACTED : directText(element),
    visible: isVisibleNow(element),
    attributes: attributesShown(element, secret),
  };
  if (secret) node.secret = true;
  return node;
};

const targetShown = (element, mask) => {
  const ancestors = [];
  let more = 0;
  for (let at = composedParent(element); at !== null; at = composedParent(at)) {
    if (ancestors.length < ANCESTOR_LIMIT) {
      // Names of ancestors are texts of whole regions.
      const { tag, attributes } = { tag: localName(at), attributes: attributesShown(at, mask(at)) };
      ancestors.push({ tag, role: roleOf(at), attributes });
    } else {
      more += 1;
    }
  }
  const before = [];
  for (let at = previousElementSibling(element); at !== null; at = previousElementSibling(at)) before.unshift(at);
  const after = [];
  for (let at = nextElementSibling(element); at !== null; at = nextElementSibling(at)) after.push(at);
  const near = [...before.slice(-SIBLING_LIMIT / 2), ...after.slice(0, SIBLING_LIMIT / 2)];
  return {
    path: pathOf(element),
    element: nodeShown(element, mask),
    ancestors,
    ancestorsOmitted: more,
    siblings: near.map((sibling) => nodeShown(sibling, mask)),
    siblingsOmitted: before.length + after.length - near.length,
  };
};

const listShown = (elements, show) => ({
  items: elements.slice(0, LIST_LIMIT).map(show),
  omitted: Math.max(0, elements.length - LIST_LIMIT),
});

const inputShown = (element, mask) => {
  const role = roleOf(element);
  const [, , name, fieldName, state] = JSON.parse(inputLine(element, role, nameNow(element, mask), mask));
  return {
    tag: localName(element),
    type: typeOf(element),
    role,
    name: cut(name, VALUE_LIMIT),
    fieldName,
    testid: getAttribute(element, TESTID),
    state: typeof state === "string" ? cut(state, VALUE_LIMIT) : state,
    states: statesOf(element, role),
  };
};

/** Handles of elements that are gone are left out. */
const snapshot = (handles, redaction = null) => snapshotOf(handles, maskOf(redaction));

const snapshotOf = (handles, mask) => {
  const targets = handles.map(elementOf).filter((element) => element !== null);
  const anchors = findEverywhere(LINK).filter(isVisibleNow);
  const inputs = findEverywhere("input,textarea,select,[contenteditable]").filter(
    (element) => isField(element, roleOf(element)) && isVisibleNow(element),
  );
  const anchorsShown = listShown(anchors, (link) => ({
    name: cut(nameNow(link, mask), VALUE_LIMIT),
    href: mask(link) ? REDACTED : cut(targetNow(link), VALUE_LIMIT),
    testid: getAttribute(link, TESTID),
  }));
  const inputsShown = listShown(inputs, (input) => inputShown(input, mask));
  return {
    url: location.href,
    title: cut(normalised(documentTitle(document)), VALUE_LIMIT),
    targets: targets.slice(0, SAMPLE_LIMIT).map((element) => targetShown(element, mask)),
    anchors: anchorsShown.items,
    anchorsOmitted: anchorsShown.omitted,
    inputs: inputsShown.items,
    inputsOmitted: inputsShown.omitted,
  };
};

/** Both at once, of the same moment. */
const state = (handles, redaction = null) => {
  const mask = maskOf(redaction);
  return { skeleton: skeletonOf(mask), snapshot: snapshotOf(handles, mask) };
};
