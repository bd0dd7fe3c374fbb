// Finding elements by locators (rule U4 of seed 002).

/** What cannot be read as a locator. */
class InvalidLocator extends Error {}

const WIDGETS = new Set(
  `button checkbox combobox gridcell link listbox menuitem menuitemcheckbox menuitemradio meter option progressbar radio
  radiogroup searchbox slider spinbutton status switch tab textbox tree treeitem`.split(/\s+/),
);

const isControl = (element) => typeOf(element) !== "hidden" && WIDGETS.has(roleOf(element));

const byTestid = (value) => findEverywhere(`[${CSS.escape(TESTID)}="${CSS.escape(value)}"]`);

const byRole = ({ role, name }) => {
  const wanted = canonicalRole(normalised(role).toLowerCase());
  const wantedName = name === null || name === undefined ? null : normalised(name);
  return findEverywhere(candidateSelector(wanted)).filter(
    (element) =>
      roleOf(element) === wanted &&
      (wantedName === null || hasName(element, wantedName)) &&
      !isHiddenForAll(element),
  );
};

const byLabel = (value) => {
  const wanted = normalised(value);
  if (wanted === "") return [];
  const found = new Set();
  for (const label of findEverywhere("label")) {
    const control = labelControl(label);
    if (control !== null && typeOf(control) !== "hidden" && isLabelled(label, control, wanted)) found.add(control);
  }
  for (const element of findEverywhere("[aria-label],[aria-labelledby],[aria-labeledby]")) {
    const parts = labelling(element);
    const text =
      parts.length > 0
        ? normalised(parts.map((part) => labelText(part, element)).join(" "))
        : normalised(getAttribute(element, "aria-label") ?? "");
    if (text === wanted && isControl(element)) found.add(element);
  }
  return found.size > 1 ? inComposedOrder(found) : [...found];
};

const invalidCss = (value, error) => new InvalidLocator(`css ${JSON.stringify(cut(value, 200))}: ${error.name}`);

const byCss = (value) => {
  try {
    return findEverywhere(value);
  } catch (error) {
    throw invalidCss(value, error);
  }
};

const evaluateXpath = method(Document.prototype, "evaluate");

const byXpath = (value) => {
  const refuse = (why) => {
    throw new InvalidLocator(`xpath ${JSON.stringify(cut(value, 200))}: ${why}`);
  };
  let result;
  try {
    result = evaluateXpath(document, value, document, null, XPathResult.ORDERED_NODE_SNAPSHOT_TYPE, null);
  } catch (error) {
    return refuse(error.name === "TypeError" ? "it gives no nodes" : error.name);
  }
  const found = [];
  for (let index = 0; index < result.snapshotLength; index += 1) {
    const node = result.snapshotItem(index);
    if (!isElement(node)) refuse("it selects something else than elements");
    found.push(node);
  }
  return found;
};

/** Text nodes of the document and its open shadow roots, a function for each. */
const eachText = (visit) => {
  const roots = [document, ...shadowRoots()];
  for (const root of roots) {
    const walker = treeWalker(document, root, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) visit(node);
  }
};

/** The smallest visible elements whose text is this one. */
const byText = (value) => {
  const wanted = normalised(value);
  if (wanted === "") return [];
  const found = new Set();
  const texts = new Map();
  const textWithin = (element) => {
    if (!texts.has(element)) texts.set(element, textOf(element));
    return texts.get(element);
  };
  const climb = (from) => {
    for (let element = from; element !== null; element = flatParent(element)) {
      // A slot is a place, and nothing that a person could see or use.
      if (localName(element) === "slot") continue;
      const text = textWithin(element);
      // The text node is not seen, so nothing around it reads as wanted because of it.
      if (text === "") return;
      if (text === wanted) {
        if (isRendered(element)) found.add(element);
        return;
      }
      if (!wanted.includes(text)) return;
    }
  };
  eachText((node) => {
    const text = data(node).trim();
    // Any element that reads as wanted consists of parts of it.
    if (text === "" || !(wanted.includes(text) || wanted.includes(normalised(text)))) return;
    const parent = parentNode(node);
    climb(isElement(parent) ? (textSlot(node) ?? parent) : (flatParent(node) ?? null));
  });
  for (const input of findEverywhere("input")) if (textWithin(input) === wanted && isRendered(input)) found.add(input);
  return found.size > 1 ? inComposedOrder(found) : [...found];
};

const byReference = (value) => {
  const number = /^e([1-9][0-9]{0,15})$/.exec(value)?.[1];
  const element = number === undefined ? null : elementOf(Number(number));
  return element === null ? [] : [element];
};

const matchesOf = (locator) => {
  switch (locator.kind) {
    case "ref":
      return byReference(locator.value);
    case "testid":
      return byTestid(locator.value);
    case "role":
      return byRole(locator);
    case "label":
      return byLabel(locator.value);
    case "css":
      return byCss(locator.value);
    case "xpath":
      return byXpath(locator.value);
    case "text":
      return byText(locator.value);
    default:
      throw new InvalidLocator(`there is no locator ${JSON.stringify(locator.kind)}`);
  }
};

/** What of CSS selectors and XPath expressions cannot be read: a message for each, or `null`. */
const unreadable = (locators) =>
  locators.map((locator) => {
    try {
      if (locator.kind === "css") within(new DocumentFragment(), locator.value);
      else matchesOf(locator);
      return null;
    } catch (error) {
      if (error instanceof InvalidLocator) return error.message;
      return invalidCss(locator.value, error).message;
    }
  });

/** Matches that are described at most. */
const SAMPLE_LIMIT = 5;

/** A part of a target of which there is not exactly one: which part, and what was found of it. */
class PartMissing extends Error {
  constructor(part, found) {
    super(part);
    this.part = part;
    this.found = found;
  }
}

/** Of what was found, what is in the smallest element around a text that has any of it. */
const nearText = (found, texts) => {
  if (texts.length !== 1) throw new PartMissing("near", texts);
  for (let around = texts[0]; around !== null; around = flatParent(around)) {
    const near = found.filter((element) => isWithin(element, around));
    if (near.length > 0) return near;
  }
  return [];
};

/** What a query without its `nth` finds: the first of its locators that matches anything inside of the container decides. */
const findAllOf = ({ locators, within: around = null, near = null }) => {
  let container = null;
  if (around !== null) {
    try {
      const { found } = findAllOf(around);
      const chosen = around.nth === null || around.nth === undefined ? found : found.slice(around.nth, around.nth + 1);
      if (chosen.length !== 1) throw new PartMissing("", chosen);
      [container] = chosen;
    } catch (error) {
      if (error instanceof PartMissing) throw new PartMissing(error.part === "" ? "within" : `within.${error.part}`, error.found);
      throw error;
    }
  }
  const inside = (elements) =>
    container === null ? elements : elements.filter((element) => element !== container && isWithin(element, container));
  const tried = [];
  for (const locator of locators) {
    const found = inside(matchesOf(locator));
    if (found.length > 0) return { locator: locator.kind, tried, found: near === null ? found : nearText(found, inside(byText(near))) };
    tried.push(locator.kind);
  }
  return { locator: null, tried, found: [] };
};

/** Tries the locators in their order; the first that matches anything decides. */
const look = (query, redaction = null) => {
  const { nth = null, attributes = [] } = query;
  const answer = {
    locator: null, tried: [], count: 0, sample: [], handles: [], element: null, partMissing: null, invalid: null,
  };
  let found = [];
  let chosen;
  try {
    const all = findAllOf(query);
    found = all.found;
    answer.locator = all.locator;
    answer.tried = all.tried;
    chosen = nth === null ? (found.length === 1 ? found[0] : undefined) : found[nth];
  } catch (error) {
    if (error instanceof InvalidLocator) {
      answer.invalid = error.message;
      return answer;
    }
    if (!(error instanceof PartMissing)) throw error;
    answer.partMissing = error.part;
    found = error.found;
  }
  const mask = maskOf(redaction);
  answer.count = found.length;
  if (chosen !== undefined) {
    const description = descriptionOf(chosen, mask);
    answer.element = { handle: handleOf(chosen), description, facts: factsOf(chosen, attributes, mask) };
  }
  // One match alone is described with its element.
  if (found.length > 1 || chosen === undefined) {
    const sampled = found.slice(0, SAMPLE_LIMIT);
    answer.handles = sampled.map(handleOf);
    answer.sample = sampled.map((element) => descriptionOf(element, mask));
  }
  return answer;
};
