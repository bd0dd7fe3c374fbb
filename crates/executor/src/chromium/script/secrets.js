// What must never leave the page in clear: values of password inputs and their like, and what the script's policy names.

/** Inputs that were seen as passwords: a page's "show password" turns them into plain text inputs. */
const oncePassword = new WeakSet();

const SECRET_AUTOFILL = /(?:^|\s)(?:current-password|new-password|one-time-code|cc-[a-z-]+)(?:\s|$)/i;

/** True if the value of this control is a secret by its nature. */
const holdsSecret = (element) => {
  const input = isInput(element);
  if (!input && !isTextarea(element) && !isSelect(element)) return false;
  if (input) {
    const type = inputType(element);
    if (type === "hidden") return true;
    if (type === "password") oncePassword.add(element);
    if (type === "password" || oncePassword.has(element)) return true;
    if (BUTTON_TYPES.has(type)) return false;
  }
  const autofill = getAttribute(element, "autocomplete");
  if (autofill !== null && SECRET_AUTOFILL.test(autofill)) return true;
  // Dots instead of characters, without a password input.
  return getComputedStyle(element).webkitTextSecurity !== "none" && isRendered(element);
};

/**
 * Tells the secret elements of a policy: a predicate. A selector that cannot be read is an error, since a mask that
 * silently covers nothing would leak.
 */
const maskOf = (redaction) => {
  const selectors = redaction?.selectors ?? [];
  for (const selector of selectors) {
    try {
      within(new DocumentFragment(), selector);
    } catch {
      throw new Error(`the redaction selector ${JSON.stringify(selector)} cannot be read`);
    }
  }
  if (selectors.length === 0) return holdsSecret;
  return (element) =>
    holdsSecret(element) || selectors.some((selector) => composedClosest(element, selector) !== null);
};

/** The secret elements that a policy names, and controls that hold secrets; not what is inside them. */
const secretElements = (redaction) => {
  const mask = maskOf(redaction);
  const found = new Set(findEverywhere("input,textarea,select").filter((element) => mask(element)));
  for (const selector of redaction?.selectors ?? []) {
    for (const element of findEverywhere(selector)) found.add(element);
  }
  return found;
};

const plainRect = (box) => ({ x: box.x, y: box.y, width: box.width, height: box.height });

/** Boxes that cover everything secret, content that sticks out included, in CSS pixels of this frame's viewport. */
const secretBoxes = (redaction) => {
  const boxes = [];
  const add = (rects) => {
    for (const box of rects) if (box.width > 0 && box.height > 0) boxes.push(plainRect(box));
  };
  for (const element of secretElements(redaction)) {
    if (!isRendered(element, RENDERED)) continue;
    add(clientRects(element));
    for (const content of [element, shadowRoot(element)]) {
      if (content === null) continue;
      const range = new Range();
      range.selectNodeContents(content);
      add(range.getClientRects());
    }
  }
  return boxes;
};

/** What a picture must not show, told before it is taken. */
const beforePicture = (redaction) => {
  // It is taken now, so nothing waits any more to take it ahead.
  endWaitingForRest();
  hideCaret();
  return secretBoxes(redaction);
};
