// What a model is told of an element beside its role, name and state: what a field takes, and what a thing without a name is.

/** Types of inputs that the role does not tell. */
const UNTOLD_TYPES = new Set("password email tel url date time datetime-local month week color file".split(" "));

/** Roles with a value between two others. */
const RANGES = new Set("slider spinbutton scrollbar progressbar meter".split(" "));

const WORD = /^[\w.:+/-]{1,40}$/;
const TRAIT_LIMIT = 120;

/** The whole words at the beginning of a text: a part of a secret would not be known for one. */
const beginning = (text, length) => {
  const words = normalised(text);
  if (words.length <= length) return words;
  const end = words.lastIndexOf(" ", length - 1);
  return end <= 0 ? "…" : `${words.slice(0, end)} …`;
};

const quoted = (text) => JSON.stringify(beginning(text, TRAIT_LIMIT));

/** What the element's author wrote as its description. */
const descriptionText = (element, mask) => {
  const how = { ...howOf(element, mask, PLAIN_NAME), inReference: true };
  const parts = referenced(element, "aria-describedby").map((part) =>
    alternative(part, { ...how, inHidden: isHiddenInName(part) }, "reference", 0),
  );
  return normalised(parts.join(" ")) || normalised(getAttribute(element, "aria-description") ?? "");
};

/** What a field takes, as words, and its place in its range. */
const limitsOf = (element, role) => {
  const words = [];
  const add = (name, value) => {
    const text = value === null ? "" : normalised(value);
    if (text !== "") words.push(`${name}=${WORD.test(text) ? text : quoted(text)}`);
  };
  const type = typeOf(element);
  if (type !== null && UNTOLD_TYPES.has(type)) words.push(`type=${type}`);
  if (elementMatches(element, ":required") || getAttribute(element, "aria-required") === "true") words.push("required");
  if (type === "file" || type === "email" ? inputMultiple(element) : isSelect(element) && selectMultiple(element)) {
    words.push("multiple");
  }
  const isRange = type === "range";
  const own = type !== null || isHtml(element, "meter") || isHtml(element, "progress");
  if (RANGES.has(role) || PICKER_TYPES.has(type)) {
    add("min", getAttribute(element, own ? "min" : "aria-valuemin") ?? (isRange ? "0" : null));
    add("max", getAttribute(element, own ? "max" : "aria-valuemax") ?? (isRange ? "100" : null));
    if (own) add("step", getAttribute(element, "step"));
    const value = own ? getAttribute(element, "value") : (getAttribute(element, "aria-valuetext") ?? getAttribute(element, "aria-valuenow"));
    if (type === null) add("value", value);
  }
  if (TEXT_TYPES.has(type) || isTextarea(element)) {
    add("minlength", getAttribute(element, "minlength"));
    add("maxlength", getAttribute(element, "maxlength"));
    if (type !== null) add("pattern", getAttribute(element, "pattern"));
  }
  if (type === "file") add("accept", getAttribute(element, "accept"));
  return words;
};

/** What a model must know of the element; a secret one does not tell what its author wrote about it. */
const traitsOf = (element, role, name, mask) => {
  const words = limitsOf(element, role);
  if (focusedElement() === element) words.push("focused");
  if (mask(element) && !holdsSecret(element)) return words;
  const description = descriptionText(element, mask);
  if (description !== "" && description !== name) words.push(`description=${quoted(description)}`);
  const title = normalised(getAttribute(element, "title") ?? "");
  if (title !== "" && title !== name && title !== description) words.push(`title=${quoted(title)}`);
  return words;
};

/** Nodes that are looked at for all hints of one outline, and for one of them. */
const HINT_NODES = 20_000;
const NODES_OF_ONE_HINT = 300;
/** How far from an element a text may be to count as near it, in levels of nesting. */
const NEAR_LEVELS = 6;
const NEAR_LIMIT = 80;

/** Bounds the search for hints: `take` says whether one more node may be looked at. */
const hintBudget = () => {
  let left = HINT_NODES;
  let ofOne = 0;
  return {
    begin: () => {
      ofOne = Math.min(left, NODES_OF_ONE_HINT);
    },
    take: () => {
      if (ofOne <= 0) return false;
      ofOne -= 1;
      left -= 1;
      return true;
    },
  };
};

/** The first children that are rendered, one at a time: a page may have a million of them. */
function* renderedChildren(element) {
  const shadow = shadowRoot(element);
  if (shadow === null && (localName(element) === "slot" || localName(element) === "details")) {
    yield* flatChildren(element);
    return;
  }
  for (let child = firstChild(shadow ?? element); child !== null; child = nextSibling(child)) yield child;
}

/** The beginning of the text below an element, as far as the budget goes. */
const beginningOf = (element, mask, budget, depth = 0) => {
  if (depth > 20 || !budget.take() || SILENT.has(localName(element)) || mask(element)) return "";
  if (elementMatches(element, HIDDEN_OR_INERT) || !isRendered(element) || isField(element, roleOf(element))) return "";
  let text = "";
  for (const child of renderedChildren(element)) {
    if (nodeType(child) === TEXT) {
      if (!budget.take()) break;
      text += data(child).slice(0, VALUE_LIMIT).replace(PRIVATE_USE, "");
    } else if (nodeType(child) === ELEMENT) {
      const inner = beginningOf(child, mask, budget, depth + 1);
      if (inner !== "") text += isInline(displayOf(child)) ? inner : ` ${inner} `;
    }
    if (text.length > NEAR_LIMIT * 2) break;
  }
  return text;
};

const ROW = "tr,[role=row]";

/** The text that says best what an element without a name belongs to: that of its row, before it, or after it. */
const nearestText = (element, mask, budget) => {
  budget.begin();
  const textIn = (node) => {
    if (nodeType(node) === TEXT) return budget.take() ? normalised(data(node).slice(0, VALUE_LIMIT).replace(PRIVATE_USE, "")) : "";
    return isElement(node) ? normalised(beginningOf(node, mask, budget)) : "";
  };
  const row = composedClosest(element, ROW);
  if (row !== null) {
    for (let cell = firstElementChild(row); cell !== null; cell = nextElementSibling(cell)) {
      const text = isWithin(element, cell) ? "" : textIn(cell);
      if (text !== "") return text;
      if (!budget.take()) break;
    }
  }
  let at = element;
  for (let level = 0; level < NEAR_LEVELS && at !== null; level += 1) {
    for (const step of [previousSibling, nextSibling]) {
      for (let sibling = step(at); sibling !== null && budget.take(); sibling = step(sibling)) {
        const text = textIn(sibling);
        if (text !== "") return text;
      }
    }
    at = composedParent(at);
  }
  return "";
};

/** Classes that name an icon, such as `fa-trash` or `icon_close`. */
const ICON_CLASS = /^(?:fa|bi|mdi|ti|ri|icon|ico|lucide|octicon|glyphicon|codicon|feather)[-_]([a-z][a-z0-9_-]{1,30})$/i;
/** Words of such classes that say how an icon looks, and not which one it is. */
const ICON_STYLE = /^(?:solid|regular|light|brands?|fw|lg|sm|xs|\d?x\d?|spin|fixed|small|medium|large|button|btn|only|wrapper|container)$/i;
const ICON_WORD = /^[a-z0-9][a-z0-9_-]{0,39}$/i;
const ICON_ELEMENTS = "svg,svg use,img,i,span,[class*=icon],[data-icon],[data-lucide],[data-feather]";

const iconWord = (text) => (text !== null && ICON_WORD.test(text) ? text : null);

const iconIn = (element) => {
  for (const name of ["data-icon", "data-lucide", "data-feather"]) {
    const word = iconWord(getAttribute(element, name));
    if (word !== null) return word;
  }
  if (localName(element) === "use") {
    const href = getAttribute(element, "href") ?? getAttribute(element, "xlink:href") ?? "";
    return iconWord(href.slice(href.lastIndexOf("#") + 1).slice(0, 100).replace(/^(?:icon|i|svg)[-_]/i, ""));
  }
  if (isHtml(element, "img")) {
    const [, file] = /([^/?#]{1,60})\.(?:svg|png|gif|webp|ico|jpe?g|avif)(?:[?#]|$)/i.exec((getAttribute(element, "src") ?? "").slice(0, 2_000)) ?? [];
    // Many names of files end with a hash of the content.
    return iconWord(file?.replace(/[.@_-](?:[0-9a-f]{8,}|\dx)$/i, "") ?? null);
  }
  for (const token of (getAttribute(element, "class") ?? "").slice(0, 500).split(/\s+/)) {
    const [, word] = ICON_CLASS.exec(token) ?? [];
    if (word !== undefined && !ICON_STYLE.test(word)) return word;
  }
  return null;
};

/** The name of the icon that an element shows, as its page calls it; `null`: none that can be told. */
const iconOf = (element, budget) => {
  budget.begin();
  const own = iconIn(element);
  if (own !== null) return own;
  for (const root of [element, shadowRoot(element)]) {
    if (root === null) continue;
    const walker = treeWalker(document, root, NodeFilter.SHOW_ELEMENT);
    for (let inner = walker.nextNode(); inner !== null && budget.take(); inner = walker.nextNode()) {
      const word = elementMatches(inner, ICON_ELEMENTS) ? iconIn(inner) : null;
      if (word !== null) return word;
    }
  }
  return null;
};

/** What is said of an element in the place of a name. */
const hintsOf = (element, mask, budget) => {
  const words = [];
  const icon = iconOf(element, budget);
  if (icon !== null) words.push(`icon=${icon}`);
  const near = nearestText(element, mask, budget);
  if (near !== "") words.push(`near=${JSON.stringify(beginning(near, NEAR_LIMIT))}`);
  return words;
};

/** What has a use of its own, of which a list that listens for all of its items has several. */
const LISTENED_FOR = 5;

const cursorOf = (element) => String(styleMap(element).get("cursor"));

/** True if the pointer turns into a hand over the element, and not already over what it is in. */
const showsHand = (element) => {
  if (cursorOf(element) !== "pointer") return false;
  const parent = flatParent(element);
  return parent === null || cursorOf(parent) !== "pointer";
};

/**
 * True if the element is there to be clicked, though no role says so: it shows a hand, has a listener for clicks, or is among
 * `listeners`. A whole page, and what listens in the place of more things in it than a few, is not.
 */
const isClickable = (element, listeners) => {
  if (isHtml(element, "html") || isHtml(element, "body") || isHtml(element, "label")) return false;
  if (!isEnabled(element)) return false;
  if (showsHand(element)) return true;
  if (!hasAttribute(element, "onclick") && !listeners.has(element)) return false;
  return within(element, USABLE).length <= LISTENED_FOR;
};

/** Nodes and characters of a document that its listeners may be looked for in. */
const MODEST_NODES = 50_000;
const MODEST_CHARACTERS = 4_000_000;

/** How many nodes and characters of text and attributes the document has; `null` where they are too many. */
const extent = () => {
  let nodes = 0;
  let characters = 0;
  const roots = [document];
  for (const root of roots) {
    const walker = treeWalker(document, root, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT | NodeFilter.SHOW_COMMENT);
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
      nodes += 1;
      if (isElement(node)) {
        for (const { value } of attributesOf(node)) characters += value.length;
        if (isInput(node) || isTextarea(node)) characters += (valueOf(node) ?? "").length;
        const shadow = shadowRoot(node);
        if (shadow !== null) roots.push(shadow);
      } else {
        characters += data(node).length;
      }
      if (nodes > MODEST_NODES || characters > MODEST_CHARACTERS) return null;
    }
  }
  return { nodes, characters };
};
