// What is to be known of an element before and after it is acted on, and how it is described to people.

const NAME_LIMIT = 200;
const PATH_LIMIT = 12;

const segment = (element) => {
  const name = localName(element);
  const id = getAttribute(element, "id");
  if (id !== null && id !== "") return `${name}#${CSS.escape(id)}`;
  let position = 1;
  let alone = true;
  for (let other = previousElementSibling(element); other !== null; other = previousElementSibling(other)) {
    if (localName(other) === name) position += 1;
  }
  for (let other = nextElementSibling(element); other !== null && alone; other = nextElementSibling(other)) {
    alone = localName(other) !== name;
  }
  return position === 1 && alone ? name : `${name}:nth-of-type(${position})`;
};

/** A CSS path from the nearest root or element with an id. */
const pathOf = (element) => {
  const segments = [];
  for (let at = element; at !== null && segments.length < PATH_LIMIT; at = parentElement(at)) {
    segments.unshift(segment(at));
    if (segments[0].includes("#")) break;
  }
  return cut(segments.join(" > "), 500);
};

const descriptionOf = (element, mask) => ({
  tag: localName(element),
  role: roleOf(element),
  name: cut(nameOf(element, mask), NAME_LIMIT),
  testid: getAttribute(element, TESTID),
  id: getAttribute(element, "id"),
  path: pathOf(element),
});

/** The content of an element that has no box itself, as a range. */
const contentRange = (element) => {
  const range = new Range();
  range.selectNodeContents(shadowRoot(element) ?? element);
  return range;
};

/** The box of an element; of one that has none itself, the box of its content. */
const boxOf = (element) => {
  const box = boundingRect(element);
  if ((box.width > 0 && box.height > 0) || displayOf(element) !== "contents") return box;
  return contentRange(element).getBoundingClientRect();
};

const isVisible = (element) => {
  const box = boxOf(element);
  return box.width > 0 && box.height > 0 && isRendered(element);
};

const CONTROL = "button,input,select,textarea,option,optgroup";

/** True if a disabled fieldset is around the element. Its first legend, and links, work all the same. */
const isInDisabledFieldset = (element) => {
  const fieldset = composedClosest(element, "fieldset:disabled");
  if (fieldset === null || composedClosest(element, LINK) !== null) return false;
  const legend = composedClosest(element, "legend");
  return legend === null || parentNode(legend) !== fieldset || within(fieldset, ":scope > legend")[0] !== legend;
};

/** What lies in a disabled control is disabled with it: a press on it does nothing. */
const isEnabled = (element) => {
  if (composedClosest(element, '[aria-disabled="true" i],[inert]') !== null) return false;
  const control = composedClosest(element, CONTROL);
  return control === null ? !elementMatches(element, ":disabled") && !isInDisabledFieldset(element) : !elementMatches(control, ":disabled");
};

const isEditable = (element) => {
  if (isInput(element)) {
    const type = inputType(element);
    return (TEXT_TYPES.has(type) || PICKER_TYPES.has(type)) && elementMatches(element, ":not([readonly],:disabled)");
  }
  if (isTextarea(element)) return elementMatches(element, ":not([readonly],:disabled)");
  if (elementMatches(element, '[aria-readonly="true" i]')) return false;
  return namespaceUri(element) === HTML && isEditableHost(element);
};

const CHECKABLE = new Set(["checkbox", "radio", "switch", "menuitemcheckbox", "menuitemradio"]);

const isChecked = (element, role) => {
  const type = typeOf(element);
  if (type === "checkbox" || type === "radio") return inputChecked(element);
  const state = getAttribute(element, "aria-checked");
  return CHECKABLE.has(role) || state !== null ? state === "true" : null;
};

const valueOf = (element) => {
  if (isInput(element)) return inputType(element) === "file" ? null : bounded(inputValue(element));
  if (isTextarea(element)) return bounded(textareaValue(element));
  if (isSelect(element)) return selectedOptions(element).map((option) => optionValue(option))[0] ?? "";
  return null;
};

const optionDisabled = (option) => elementMatches(option, ":disabled");

const optionsOf = (element) =>
  isSelect(element)
    ? [...selectOptionsOf(element)].map((option) => ({
        value: optionValue(option),
        label: normalised(optionLabel(option)),
        selected: optionSelected(option),
        disabled: optionDisabled(option),
      }))
    : [];

const absolute = (element, url) => {
  try {
    return new URL(url, baseUri(element)).href;
  } catch {
    return null;
  }
};

const linkTarget = (link) => {
  const href = getAttribute(link, "href") ?? getAttribute(link, "xlink:href");
  return href === null ? null : absolute(link, href);
};

const LINK = "a[href],area[href],a[*|href]";

/** Where a link around the element, or the form of a control, leads. */
const destinationOf = (element) => {
  const link = composedClosest(element, LINK);
  if (link !== null) return linkTarget(link);
  const form = formOf(element);
  if (form === null) return null;
  const own = isSubmitter(element) ? getAttribute(element, "formaction") : null;
  const method = (isSubmitter(element) ? getAttribute(element, "formmethod") : null) ?? getAttribute(form, "method");
  if (method !== null && method.toLowerCase() === "dialog") return null;
  return absolute(form, own ?? getAttribute(form, "action") ?? "") ?? null;
};

const buttonType = getter(HTMLButtonElement.prototype, "type");

const isSubmitter = (element) => {
  const type = isHtml(element, "button") ? buttonType(element) : typeOf(element);
  return type === "submit" || (type === "image" && isInput(element));
};

/** The part of a box that is inside the viewport; `null`: none of it. */
const inView = (box) => {
  const left = Math.max(box.left, 0);
  const top = Math.max(box.top, 0);
  const right = Math.min(box.right, window.innerWidth);
  const bottom = Math.min(box.bottom, window.innerHeight);
  return right > left && bottom > top ? { x: left, y: top, width: right - left, height: bottom - top } : null;
};

const centreOf = (rect) => [rect.x + rect.width / 2, rect.y + rect.height / 2];

/** The control that gets the clicks on an element through the label around it, unless something in the label takes them. */
const controlOf = (element) => {
  const label = composedClosest(element, "label");
  const control = label === null ? null : labelControl(label);
  if (control === null) return null;
  const taker = composedClosest(element, "a[href],button,input,select,textarea,summary,[tabindex],[contenteditable]");
  return taker === null || taker === control || taker === label || !isWithin(taker, label) ? control : null;
};

/** True if a click on what was hit is one on the target, by its label. */
const labelLeadsTo = (hit, target) => controlOf(hit) === target;

/** True if the element that was hit passes its events to the target: it is the target, lies inside it, or is its label. */
const receives = (hit, target) => isWithin(hit, target) || labelLeadsTo(hit, target);

/** The layer that an element which covers another belongs to: the outermost one without the target, if it is a layer. */
const layerOf = (hit, target) => {
  let layer = hit;
  for (let at = hit; at !== null && !isWithin(target, at); at = flatParent(at)) {
    const { position } = getComputedStyle(at);
    if ((position !== "static" && position !== "relative") || isHtml(at, "dialog")) layer = at;
  }
  return layer;
};

/** What covers an element, with its text in the place of a name that it has not. */
const coverOf = (hit, target, mask) => {
  const layer = layerOf(hit, target);
  const description = descriptionOf(layer, mask);
  if (description.name === "") description.name = cut(mask(layer) ? REDACTED : textOf(layer, mask), NAME_LIMIT);
  return description;
};

/**
 * Where the element can be hit: the first of its boxes, cut to the viewport, whose centre gives its events to it. Inline
 * elements that wrap have several. `hit` is what lies over the first box instead.
 */
const hittable = (element) => {
  let first;
  const boxes = [...clientRects(element)];
  // Lines of text stand apart, and the middle of all of them may be beside each.
  if (displayOf(element) === "contents") boxes.push(...contentRange(element).getClientRects());
  else if (boxes.length === 0) boxes.push(boxOf(element));
  for (const box of boxes) {
    const rect = inView(box);
    if (rect === null) continue;
    const hit = elementAt(...centreOf(rect));
    if (hit === null) continue;
    if (receives(hit, element)) return { rect };
    first ??= hit;
  }
  return first === undefined ? { outside: true } : { hit: first };
};

/** As `hittable`, at a place within the element. */
const hittableAt = (element, { x, y }) => {
  const box = boxOf(element);
  if (x > box.width || y > box.height) return { misplaced: true };
  const point = [box.x + x, box.y + y];
  if (point[0] < 0 || point[1] < 0 || point[0] >= innerWidth || point[1] >= innerHeight) return { outside: true };
  const hit = elementAt(...point);
  if (hit === null) return { outside: true };
  return receives(hit, element) ? { rect: { x: point[0], y: point[1], width: 0, height: 0 } } : { hit };
};

/** The button of a form that is pressed when this is: the element, what is around it, or what its label leads to. */
const pressedButton = (element) => {
  const around = composedClosest(element, "button,input");
  const label = around === null ? composedClosest(element, "label") : null;
  const control = label === null ? around : labelControl(label);
  return control !== null && isSubmitter(control) ? control : null;
};

/** The same, where it submits its form. */
const submitterOf = (element) => {
  const button = pressedButton(element);
  return button !== null && submitsForm(button) ? button : null;
};

/** True if a person sees it as the thing that a click on something in it is for. */
const takesClicks = (element) => {
  const role = roleOf(element);
  return NAMED_BY_CONTENT.has(role) && WIDGETS.has(role);
};

/** What a click on the element is for besides: the nearest thing around it that takes clicks, and the control of its label. */
const usedThrough = (element) => {
  let around = element;
  while (around !== null && !takesClicks(around)) around = flatParent(around);
  return [around, controlOf(element)].filter((used) => used !== null && used !== element);
};

/** What has a use of its own. */
const USABLE =
  "a[href],area[href],a[*|href],button,input,select,textarea,summary,label,[role],[tabindex],[onclick],[contenteditable],[aria-label]";

/** What the pointer uses at a point of the target's where that is something within it; else `null`. */
const struckWithin = (element, point, mask) => {
  const hit = elementAt(...point);
  if (hit === null || hit === element || !isWithin(hit, element)) return null;
  const used = [];
  for (let at = hit; at !== null && at !== element; at = flatParent(at)) {
    if (!isElement(at) || !elementMatches(at, USABLE)) continue;
    used.push(at);
    const control = isHtml(at, "label") ? labelControl(at) : null;
    if (control !== null && control !== element) used.push(control);
  }
  if (used.length === 0) return null;
  const submitter = submitterOf(hit);
  const names = used.map((one) => descriptionOf(one, mask).name).filter((name) => name !== "");
  return { names, submits: submitter !== null, destination: destinationOf(submitter ?? hit) };
};

/** With what is used at the point where the element settled. */
const withStruck = (settled, handle, redaction = null) => {
  const element = settled.rect === undefined ? null : elementOf(handle);
  if (element === null) return settled;
  return { ...settled, struck: struckWithin(element, centreOf(settled.rect), maskOf(redaction)) };
};

/** A form that only closes its dialog sends nothing. */
const submitsForm = (control) => {
  const form = formOf(control);
  if (form === null) return false;
  const own = isSubmitter(control) ? getAttribute(control, "formmethod") : null;
  return (own ?? getAttribute(form, "method") ?? "").toLowerCase() !== "dialog";
};

const TICKED = new Set(["checkbox", "radio"]);

const isSubmittedByEnter = (element) => {
  if (isSelect(element)) return true;
  if (!isInput(element)) return false;
  const type = inputType(element);
  return TEXT_TYPES.has(type) || PICKER_TYPES.has(type) || TICKED.has(type);
};

/** True if Enter submits the form of a field: by its button, or where it is the only field (HTML, implicit submission). */
const submitsByEnter = (element) => {
  if (submitterOf(element) !== null) return true;
  if (!isSubmittedByEnter(element) || !submitsForm(element)) return false;
  const form = formOf(element);
  const fields = [...formElements(form)];
  if (fields.some(isSubmitter) || within(form, "input[type=image i]").length > 0) return true;
  return isInput(element) && fields.filter((field) => isInput(field) && (TEXT_TYPES.has(inputType(field)) || PICKER_TYPES.has(inputType(field)))).length <= 1;
};

/** What may get a key that is pressed on the element: the element, the control of a label, or what has the focus, or is given it, within. */
const keyTakersOf = (element) => {
  const focused = focusedElement();
  const takers = focused !== null && isWithin(focused, element) ? [element, focused] : [element];
  const control = isHtml(element, "label") ? labelControl(element) : null;
  if (control !== null) takers.push(control);
  const shadow = shadowRoot(element);
  return shadow?.delegatesFocus ? [...takers, ...within(shadow, "button,input,select")] : takers;
};

/** The elements without a name of the page's own that can have a shadow root (DOM, `attachShadow`). */
const SHADOW_HOSTS = "article,aside,blockquote,body,div,footer,h1,h2,h3,h4,h5,h6,header,main,nav,p,section,span";

/** Elements of which the adapter has found out that they have no closed shadow root, which no script can see. */
const plainHosts = new WeakSet();

const markPlain = (handle) =>
  withElement(handle, (element) => {
    plainHosts.add(element);
    return true;
  });

/**
 * True if nobody can tell what has the focus in the element: it may have a shadow root that is closed, which shows as the
 * focus of the element, whether it takes one by itself or not. `hasFocus`: the element has the focus of its document.
 */
const mayHideFocus = (element, hasFocus) => {
  if (namespaceUri(element) !== HTML || shadowRoot(element) !== null) return false;
  if (localName(element).includes("-")) return true;
  if (!hasFocus || !elementMatches(element, SHADOW_HOSTS) || plainHosts.has(element)) return false;
  // The body stands for no focus at all, too.
  return !isHtml(element, "body") || elementMatches(element, ":focus-within");
};

/**
 * Which keys submit a form when they are pressed on the element, or may. `hiddenIn`: they may because of this element alone,
 * of which the adapter can tell whether it hides the focus.
 */
const submittingKeys = (element) => {
  const takers = keyTakersOf(element);
  const focused = focusedElement();
  const hiding = takers.filter((taker) => mayHideFocus(taker, taker === focused));
  const isHidden = hiding.length > 0;
  const host = hiding.find((taker) => elementMatches(taker, SHADOW_HOSTS));
  return {
    submitsByEnter: isHidden || takers.some(submitsByEnter),
    submitsBySpace: isHidden || takers.some((taker) => submitterOf(taker) !== null),
    hiddenIn: host === undefined ? null : handleOf(host),
  };
};

const submitsByKey = (element, key) => {
  const { submitsByEnter, submitsBySpace } = submittingKeys(element);
  return key === "Enter" ? submitsByEnter : key === " " && submitsBySpace;
};

/** What a key does that arrives at the element, with the element's handle. */
const keyUse = (element, key, mask) => ({
  handle: handleOf(element),
  names: [descriptionOf(element, mask).name].filter((name) => name !== ""),
  submits: submitsByKey(element, key),
  hiddenIn: submittingKeys(element).hiddenIn,
  destination: destinationOf(submitterOf(element) ?? element),
});

/** The same of what has the focus in this document. That of an iframe is told by the document in it. */
const focusedKeys = () => {
  const focused = focusedElement();
  return focused === null ? { submitsByEnter: false, submitsBySpace: false, hiddenIn: null } : submittingKeys(focused);
};

/** The label that a person uses in the place of a control that is not seen. */
const labelToUse = (element) => labelsOf(element).find((label) => isVisible(label)) ?? null;

const handleOrNull = (element) => (element === null ? null : handleOf(element));

const factsOf = (element, attributes, mask) => {
  const role = roleOf(element);
  const box = boxOf(element);
  const visible = box.width > 0 && box.height > 0 && isRendered(element);
  const place = visible ? hittable(element) : {};
  const type = typeOf(element);
  const secret = mask(element);
  const submitter = submitterOf(element);
  const control = controlOf(element);
  return {
    attached: true,
    visible,
    enabled: isEnabled(element),
    editable: isEditable(element),
    checked: isChecked(element, role),
    text: textOf(element, secret ? null : mask),
    value: valueOf(element),
    secret,
    attributes: Object.fromEntries(
      attributes.flatMap((name) => {
        const value = getAttribute(element, name);
        return value === null ? [] : [[name, bounded(value)]];
      }),
    ),
    inputType: type,
    options: optionsOf(element),
    multiple: type === "file" ? inputMultiple(element) : isSelect(element) && selectMultiple(element),
    files: type === "file" ? [...inputFiles(element)].map((file) => file.name) : [],
    usedNames: usedThrough(element).map((used) => descriptionOf(used, mask).name),
    destination: destinationOf(submitter ?? element),
    submits: submitter !== null,
    ...submittingKeys(element),
    label: visible ? null : handleOrNull(labelToUse(element)),
    control: control === element ? null : handleOrNull(control),
    rect: plainRect(box),
    coveredBy: place.hit ? coverOf(place.hit, element, mask) : null,
    inViewport: visible && inView(box) !== null,
  };
};
