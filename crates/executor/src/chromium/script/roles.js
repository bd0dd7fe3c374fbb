// ARIA roles, explicit or implied by the element (ARIA in HTML, HTML-AAM). Where HTML has no role for a control, it has the
// one that people look for: an input of text or of a date is a textbox, a file input and a summary are buttons.

const ROLES = new Set(
  `alert alertdialog application article banner blockquote button caption cell checkbox code columnheader combobox
  comment complementary contentinfo definition deletion dialog directory document emphasis feed figure form generic grid
  gridcell group heading image img insertion link list listbox listitem log main mark marquee math menu menubar menuitem
  menuitemcheckbox menuitemradio meter navigation none note option paragraph presentation progressbar radio radiogroup
  region row rowgroup rowheader scrollbar search searchbox sectionfooter sectionheader separator slider spinbutton status
  strong subscript suggestion superscript switch tab table tablist tabpanel term textbox time timer toolbar tooltip tree
  treegrid treeitem`.split(/\s+/),
);

/** Names that mean the same role. */
const SAME_ROLE = { image: "img", none: "presentation", directory: "list" };
const canonicalRole = (role) => (Object.hasOwn(SAME_ROLE, role) ? SAME_ROLE[role] : role);

const GLOBAL_ARIA = [
  "aria-atomic", "aria-busy", "aria-controls", "aria-current", "aria-describedby", "aria-description", "aria-details",
  "aria-dropeffect", "aria-flowto", "aria-grabbed", "aria-keyshortcuts", "aria-label", "aria-labelledby", "aria-live",
  "aria-owns", "aria-relevant", "aria-roledescription",
];

const FOCUSABLE =
  "a[href],area[href],button:enabled,input:enabled:not([type=hidden i]),select:enabled,textarea:enabled,summary,[tabindex],[contenteditable]:not([contenteditable=false i])";

/** Tags whose role never depends on anything else. */
const SIMPLE = {
  address: "group", article: "article", blockquote: "blockquote", button: "button", caption: "caption", code: "code",
  datalist: "listbox", dd: "definition", del: "deletion", details: "group", dfn: "term", dialog: "dialog", dt: "term",
  em: "emphasis", fieldset: "group", figure: "figure", h1: "heading", h2: "heading", h3: "heading", h4: "heading",
  h5: "heading", h6: "heading", hgroup: "group", hr: "separator", html: "document", ins: "insertion", main: "main",
  mark: "mark", menu: "list", meter: "meter", nav: "navigation", ol: "list", optgroup: "group",
  option: "option", output: "status", p: "paragraph", progress: "progressbar", s: "deletion", search: "search",
  strong: "strong", sub: "subscript", sup: "superscript", table: "table", tbody: "rowgroup", textarea: "textbox",
  tfoot: "rowgroup", thead: "rowgroup", time: "time", tr: "row", ul: "list",
};

const INPUT_ROLES = {
  button: "button", image: "button", reset: "button", submit: "button", file: "button", checkbox: "checkbox",
  radio: "radio", range: "slider", number: "spinbutton", hidden: "",
};

const SECTIONING =
  "article,aside,main,nav,section,[role=article],[role=complementary],[role=main],[role=navigation],[role=region]";

const outsideSections = (element) => {
  const parent = composedParent(element);
  return parent === null || composedClosest(parent, SECTIONING) === null;
};

/** True if the author gave the element a name, which is what makes a `section` or `form` a landmark. */
const hasAuthorName = (element) =>
  ["aria-label", "aria-labelledby", "aria-labeledby", "title"].some((name) => normalised(getAttribute(element, name) ?? "") !== "");

const TABLES = new Set(["table", "grid", "treegrid"]);
const TABLE_PARTS = new Set(["tbody", "tfoot", "thead", "tr"]);
const tableOf = (cell) => composedClosest(cell, "table,[role=table],[role=grid],[role=treegrid]");

/** The role of the table around a part of it; empty where that is none by its own role. */
const tableRole = (part) => {
  const table = tableOf(part);
  const role = table === null ? "" : roleOf(table);
  return TABLES.has(role) ? role : "";
};

const headerRole = (header) => {
  switch ((getAttribute(header, "scope") ?? "").toLowerCase()) {
    case "col":
    case "colgroup":
      return "columnheader";
    case "row":
    case "rowgroup":
      return "rowheader";
    default: {
      // As browsers guess: a header beside data cells heads its row, any other its column.
      const row = parentElement(header);
      const besides = row === null ? [] : within(row, ":scope > td");
      return besides.length > 0 && previousElementSibling(header) === null ? "rowheader" : "columnheader";
    }
  }
};

/** The role that the element has by itself; empty: none. */
const implicitRole = (element) => {
  const name = localName(element);
  const namespace = namespaceUri(element);
  if (namespace !== HTML) {
    if (name === "svg" || name === "math") return name === "svg" ? "img" : "math";
    return name === "a" && (hasAttribute(element, "href") || hasAttribute(element, "xlink:href")) ? "link" : "";
  }
  // What is in a table or a list is a part of it only where that is one by its own role, too.
  if (TABLE_PARTS.has(name) && tableRole(element) === "") return "";
  if (Object.hasOwn(SIMPLE, name)) return SIMPLE[name];
  switch (name) {
    case "a":
    case "area":
      return hasAttribute(element, "href") ? "link" : editableRole(element);
    case "input": {
      const type = inputType(element);
      if (Object.hasOwn(INPUT_ROLES, type)) return INPUT_ROLES[type];
      const suggests = hasAttribute(element, "list") && TEXT_TYPES.has(type) && type !== "password";
      if (suggests) return "combobox";
      return type === "search" ? "searchbox" : "textbox";
    }
    case "select":
      return selectMultiple(element) || selectSize(element) > 1 ? "listbox" : "combobox";
    case "img":
      return getAttribute(element, "alt") === "" && !hasAuthorName(element) ? "presentation" : "img";
    case "li": {
      const parent = parentElement(element);
      return parent !== null && roleOf(parent) === "list" ? "listitem" : "";
    }
    case "header":
      return outsideSections(element) ? "banner" : "";
    case "footer":
      return outsideSections(element) ? "contentinfo" : "";
    case "aside":
      return "complementary";
    case "section":
      return hasAuthorName(element) ? "region" : "";
    case "form":
      return hasAuthorName(element) ? "form" : "";
    case "summary": {
      const parent = parentElement(element);
      return parent !== null && isHtml(parent, "details") ? "button" : "";
    }
    case "td":
    case "th": {
      const row = parentElement(element);
      if (row === null || roleOf(row) !== "row") return "";
      if (name === "th") return headerRole(element);
      return tableRole(element).endsWith("grid") ? "gridcell" : "cell";
    }
    default:
      return editableRole(element);
  }
};

const editableRole = (element) => (isOwnEditingHost(element) ? "textbox" : "");

const explicitRole = (element) => {
  const value = getAttribute(element, "role");
  if (value === null) return "";
  for (const token of value.toLowerCase().split(/\s+/)) {
    if (ROLES.has(token) || /^(?:doc|graphics)-[a-z-]+$/.test(token)) return canonicalRole(token);
  }
  return "";
};

/** The role of an element; empty where it has none. */
const roleOf = (element) => {
  const explicit = explicitRole(element);
  if (explicit === "") return implicitRole(element);
  if (explicit !== "presentation") return explicit === "generic" ? "" : explicit;
  // What can be used is not allowed to hide its role (ARIA, conflict resolution).
  const used = elementMatches(element, FOCUSABLE) || GLOBAL_ARIA.some((name) => hasAttribute(element, name));
  return used ? implicitRole(element) : "presentation";
};

/** Selectors of everything that can have a role by itself; what it really is, `roleOf` says. */
const candidates = (() => {
  const selectors = new Map();
  const add = (role, selector) => selectors.set(role, [...(selectors.get(role) ?? []), selector]);
  for (const [name, role] of Object.entries(SIMPLE)) add(role, name);
  for (const role of ["button", "checkbox", "radio", "slider", "spinbutton", "combobox", "searchbox", "textbox"]) {
    add(role, "input");
  }
  for (const role of ["combobox", "listbox"]) add(role, "select");
  for (const role of ["link", "textbox"]) add(role, "[contenteditable]");
  add("link", "a,area");
  for (const role of ["img", "presentation"]) add(role, "img");
  add("img", "svg");
  add("math", "math");
  add("listitem", "li");
  add("banner", "header");
  add("contentinfo", "footer");
  add("complementary", "aside");
  add("region", "section");
  add("form", "form");
  add("button", "summary");
  for (const role of ["cell", "gridcell"]) add(role, "td");
  for (const role of ["columnheader", "rowheader"]) add(role, "th");
  return selectors;
})();

const candidateSelector = (role) => ["[role]", ...(candidates.get(role) ?? [])].join(",");

const HIDDEN_OR_INERT = '[aria-hidden="true" i],[inert]';

/** True if assistive technology does not see the element; a locator by role then does not find it. */
const isHiddenForAll = (element) => composedClosest(element, HIDDEN_OR_INERT) !== null || !isRendered(element);
