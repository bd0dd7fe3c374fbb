// Properties and methods of the DOM, taken from their prototypes. A page can shadow those of a form or of the document
// by naming a control `parentNode` or an image `body`, so nothing here ever reads a property of an element directly.
const getter = (prototype, name) => {
  const { get } = Object.getOwnPropertyDescriptor(prototype, name);
  return (object) => get.call(object);
};
const method = (prototype, name) => {
  const run = prototype[name];
  return (object, ...values) => run.call(object, ...values);
};

const nodeType = getter(Node.prototype, "nodeType");
const parentNode = getter(Node.prototype, "parentNode");
const parentElement = getter(Node.prototype, "parentElement");
const firstChild = getter(Node.prototype, "firstChild");
const nextSibling = getter(Node.prototype, "nextSibling");
const previousSibling = getter(Node.prototype, "previousSibling");
const isConnected = getter(Node.prototype, "isConnected");
const ownerDocument = getter(Node.prototype, "ownerDocument");
const textContent = getter(Node.prototype, "textContent");
const baseUri = getter(Node.prototype, "baseURI");
const getRootNode = method(Node.prototype, "getRootNode");
const contains = method(Node.prototype, "contains");
const data = getter(CharacterData.prototype, "data");
const localName = getter(Element.prototype, "localName");
const namespaceUri = getter(Element.prototype, "namespaceURI");
const shadowRoot = getter(Element.prototype, "shadowRoot");
const elementSlot = getter(Element.prototype, "assignedSlot");
const textSlot = getter(Text.prototype, "assignedSlot");
const firstElementChild = getter(Element.prototype, "firstElementChild");
const nextElementSibling = getter(Element.prototype, "nextElementSibling");
const previousElementSibling = getter(Element.prototype, "previousElementSibling");
const attributesOf = getter(Element.prototype, "attributes");
const getAttribute = method(Element.prototype, "getAttribute");
const hasAttribute = method(Element.prototype, "hasAttribute");
const elementMatches = method(Element.prototype, "matches");
const elementClosest = method(Element.prototype, "closest");
const checkVisibility = method(Element.prototype, "checkVisibility");
const boundingRect = method(Element.prototype, "getBoundingClientRect");
const clientRects = method(Element.prototype, "getClientRects");
const scrollIntoView = method(Element.prototype, "scrollIntoView");
const elementAnimations = method(Element.prototype, "getAnimations");
const assignedNodes = method(HTMLSlotElement.prototype, "assignedNodes");
const shadowHost = getter(ShadowRoot.prototype, "host");
const treeWalker = method(Document.prototype, "createTreeWalker");
const documentElementOf = getter(Document.prototype, "documentElement");
const activeElementOf = { 9: getter(Document.prototype, "activeElement"), 11: getter(ShadowRoot.prototype, "activeElement") };
const fromPoint = { 9: method(Document.prototype, "elementFromPoint"), 11: method(ShadowRoot.prototype, "elementFromPoint") };
const allFromPoint = method(Document.prototype, "elementsFromPoint");
const findAll = {
  1: method(Element.prototype, "querySelectorAll"),
  9: method(Document.prototype, "querySelectorAll"),
  11: method(DocumentFragment.prototype, "querySelectorAll"),
};
const findById = {
  9: method(Document.prototype, "getElementById"),
  11: method(DocumentFragment.prototype, "getElementById"),
};

const ELEMENT = 1;
const TEXT = 3;
const DOCUMENT = 9;
const FRAGMENT = 11;
const HTML = "http://www.w3.org/1999/xhtml";

const isElement = (node) => node !== null && nodeType(node) === ELEMENT;

/** A static list, in the order of that one root. */
const within = (root, selector) => findAll[nodeType(root)](root, selector);

/** The host of a shadow root; `null` for any other node, a detached fragment included. */
const hostOf = (root) => {
  if (nodeType(root) !== FRAGMENT) return null;
  try {
    return shadowHost(root);
  } catch {
    return null;
  }
};

/** The parent in the composed tree: for a child of a shadow root, the root's host. */
const composedParent = (element) => {
  const parent = parentNode(element);
  if (parent === null || nodeType(parent) === ELEMENT) return parent;
  return hostOf(parent);
};

/** The parent in the flat tree, by which events travel and boxes nest: for a slotted node, its slot. */
const flatParent = (node) => {
  const slot = nodeType(node) === ELEMENT ? elementSlot(node) : nodeType(node) === TEXT ? textSlot(node) : null;
  return slot ?? composedParent(node);
};

const isWithin = (inner, outer) => {
  for (let node = inner; node !== null; node = flatParent(node)) if (node === outer) return true;
  return false;
};

/** Like `closest`, through open shadow roots. */
const composedClosest = (element, selector) => {
  for (let from = element; from !== null; ) {
    const found = elementClosest(from, selector);
    if (found !== null) return found;
    from = hostOf(getRootNode(from));
  }
  return null;
};

/**
 * The children that are rendered: for a host those of its shadow tree, for a slot the nodes assigned to it, for details that
 * are not open their summary.
 */
const flatChildren = (element) => {
  const shadow = shadowRoot(element);
  const name = localName(element);
  if (shadow === null && name === "slot" && namespaceUri(element) === HTML) {
    const assigned = assignedNodes(element);
    if (assigned.length > 0) return assigned;
  }
  const children = [];
  if (name === "details" && !hasAttribute(element, "open")) {
    for (let child = firstElementChild(element); child !== null; child = nextElementSibling(child)) {
      if (localName(child) === "summary") return [child];
    }
    return children;
  }
  for (let child = firstChild(shadow ?? element); child !== null; child = nextSibling(child)) children.push(child);
  return children;
};

/** Functions that forget answers: at the end of the present task, or when `touched` says that code of the page ran in between. */
const forgettable = [];
const touched = () => {
  for (const forget of forgettable) forget();
};

/** Makes something once for each task: the page cannot have changed in between. */
const perTask = (make) => {
  let made = null;
  const forget = () => {
    made = null;
  };
  forgettable.push(forget);
  return () => {
    if (made === null) {
      made = make();
      queueMicrotask(forget);
    }
    return made;
  };
};

/** Open shadow roots below a root, outermost first. Closed ones cannot be entered. */
const shadowRootsBelow = (root) => {
  const found = [];
  // Done for each element of a page and often; a walker is the fastest way through. To match a selector that leaves out what
  // can have no shadow root takes the browser longer.
  const walker = treeWalker(document, root, NodeFilter.SHOW_ELEMENT);
  for (let element = walker.nextNode(); element !== null; element = walker.nextNode()) {
    const shadow = shadowRoot(element);
    if (shadow !== null) found.push(shadow, ...shadowRootsBelow(shadow));
  }
  return found;
};

/** Sorts elements of several roots as the composed tree has them: a host, its shadow tree, its children. */
const inComposedOrder = (elements) => {
  const wanted = new Set(elements);
  const sorted = [];
  const visit = (root) => {
    for (const element of within(root, "*")) {
      if (wanted.has(element)) sorted.push(element);
      const shadow = shadowRoot(element);
      if (shadow !== null) visit(shadow);
    }
  };
  visit(document);
  return sorted;
};

const shadowRoots = perTask(() => shadowRootsBelow(document));

/** Elements of the document and its open shadow roots that a selector names, in composed order. */
const findEverywhere = (selector) => {
  const found = [...within(document, selector)];
  const ofDocument = found.length;
  for (const root of shadowRoots()) found.push(...within(root, selector));
  return found.length === ofDocument ? found : inComposedOrder(found);
};

/** The element that a point hits, through open shadow roots. */
const elementAt = (x, y) => {
  let hit = fromPoint[DOCUMENT](document, x, y);
  while (hit !== null) {
    const shadow = shadowRoot(hit);
    const inner = shadow === null ? null : fromPoint[FRAGMENT](shadow, x, y);
    if (inner === null || inner === hit) break;
    hit = inner;
  }
  return hit;
};

/** The element that has the focus, through open shadow roots. */
const focusedElement = () => {
  let focused = activeElementOf[DOCUMENT](document);
  while (focused !== null) {
    const shadow = shadowRoot(focused);
    const inner = shadow === null ? null : activeElementOf[FRAGMENT](shadow);
    if (inner === null) break;
    focused = inner;
  }
  return focused;
};
