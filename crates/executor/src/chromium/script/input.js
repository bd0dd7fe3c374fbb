// What makes an element ready for input, and input that has no key or pointer of its own.

const focusElement = method(HTMLElement.prototype, "focus");
const focusSvg = method(SVGElement.prototype, "focus");
const selectInput = method(HTMLInputElement.prototype, "select");
const selectTextarea = method(HTMLTextAreaElement.prototype, "select");
const setter = (prototype, name) => {
  const { set } = Object.getOwnPropertyDescriptor(prototype, name);
  return (object, value) => set.call(object, value);
};
const setInputValue = setter(HTMLInputElement.prototype, "value");
const setTextareaValue = setter(HTMLTextAreaElement.prototype, "value");
const setOptionSelected = setter(HTMLOptionElement.prototype, "selected");
const selectionOf = method(Document.prototype, "getSelection");
const runCommand = method(Document.prototype, "execCommand");
const dispatch = method(EventTarget.prototype, "dispatchEvent");

const tellPage = (element) => {
  dispatch(element, new Event("input", { bubbles: true, composed: true }));
  dispatch(element, new Event("change", { bubbles: true }));
  touched();
};

const moveFocus = (element) => {
  const options = { preventScroll: true };
  if (namespaceUri(element) === HTML) focusElement(element, options);
  else if (namespaceUri(element) === "http://www.w3.org/2000/svg") focusSvg(element, options);
  hideCaret();
  touched();
};

/** Gives it the focus. A page may take it away again at once: then, `reason`. */
const focusHandle = (handle) =>
  withElement(handle, (element) => {
    moveFocus(element);
    if (elementOf(handle) === null) return DETACHED;
    const focused = focusedElement();
    return focused !== null && isWithin(focused, element) ? { ok: true } : { reason: "takes no focus" };
  });

/**
 * Focuses it and selects all that is in it, so that text which is inserted replaces it. `direct`: characters cannot be
 * typed there, `setValue` is to be called instead. `adds`: the text is to come after what is in it.
 */
const focusForFill = (handle, adds = false) =>
  withElement(handle, (element) => {
    if (!isEnabled(element)) return { reason: "disabled" };
    if (!isEditable(element)) return { reason: "not editable" };
    const outcome = focusHandle(handle);
    if (outcome.ok !== true) return outcome;
    if (isInput(element)) {
      if (PICKER_TYPES.has(inputType(element))) return { ok: true, direct: true };
      selectInput(element);
    } else if (isTextarea(element)) {
      selectTextarea(element);
    } else {
      selectionOf(document).selectAllChildren(element);
    }
    // Beyond the end of what is selected.
    if (adds) {
      if (isInput(element) || isTextarea(element)) selectionOf(document).modify("move", "forward", "character");
      else selectionOf(document).collapseToEnd();
    }
    return elementOf(handle) === null ? DETACHED : { ok: true, direct: false };
  });

/** What is in it, for telling whether it took what was typed. */
const enteredIn = (element) => ({ value: valueOf(element), text: valueOf(element) === null ? textOf(element) : null });

/**
 * As `focusForFill`; then it is armed for typing, and the answer has its `token` and what is entered, `before`. Where
 * `direct`, nothing is armed.
 */
const readyToFill = (handle, types, adds = false) => {
  endRest();
  const element = elementOf(handle);
  if (element === null) return DETACHED;
  const before = enteredIn(element);
  const outcome = focusForFill(handle, adds);
  return outcome.ok && !outcome.direct ? { ...outcome, before, token: arm(handle, types) } : outcome;
};

/** After typing: what `disarm` says, with what is entered `now`; `null` where the element is gone. */
const filled = (handle, token, redaction = null) => {
  const verdict = disarm(token, redaction);
  const element = elementOf(handle);
  return { verdict, now: element === null ? null : enteredIn(element) };
};

/** Empties it, as a person who deletes all that is selected. */
const clear = (handle) => {
  endRest();
  const outcome = focusForFill(handle);
  if (outcome.ok !== true) return outcome;
  if (outcome.direct) return setValue(handle, "");
  const element = elementOf(handle);
  runCommand(document, "delete");
  touched();
  if (elementOf(handle) === null) return DETACHED;
  const left = isInput(element) || isTextarea(element) ? valueOf(element) : textContent(element);
  return left === "" ? { ok: true } : { reason: "still has a value" };
};

/** Sets the value of an input that is filled through a picker, in the form that HTML gives it, such as `2026-05-04`. */
const setValue = (handle, text) =>
  withElement(handle, (element) => {
    if (!isInput(element) || !PICKER_TYPES.has(inputType(element))) return { reason: "not a picker" };
    if (!isEnabled(element)) return { reason: "disabled" };
    if (!isEditable(element)) return { reason: "not editable" };
    const before = inputValue(element);
    setInputValue(element, text);
    const accepted = inputValue(element);
    const same = inputType(element) === "color" ? accepted.toLowerCase() === text.toLowerCase() : accepted === text;
    // Times may come back in a shorter form; an empty value is how a malformed one is refused.
    if (!same && (accepted === "" || inputType(element) === "color" || inputType(element) === "range")) {
      setInputValue(element, before);
      return { reason: "malformed value" };
    }
    if (accepted !== before) tellPage(element);
    return elementOf(handle) === null ? DETACHED : { ok: true };
  });

/** Selects the options with these values, and no others. */
const selectOptions = (handle, values) =>
  withElement(handle, (element) => {
    endRest();
    if (!isSelect(element)) return { reason: "not a select" };
    if (!isEnabled(element)) return { reason: "disabled" };
    if (values.length > 1 && !selectMultiple(element)) return { reason: "takes one option" };
    const options = [...selectOptionsOf(element)];
    const missing = values.filter((value) => !options.some((option) => optionValue(option) === value));
    if (missing.length > 0) return { reason: "no such option", missing };
    // Of several options with the same value the first is chosen, or the one that is selected already.
    const chosen = values.map((value) => {
      const same = options.filter((option) => optionValue(option) === value);
      return same.find((option) => optionSelected(option)) ?? same.find((option) => !optionDisabled(option)) ?? same[0];
    });
    if (chosen.some(optionDisabled)) return { reason: "option disabled" };
    const before = options.map((option) => optionSelected(option));
    moveFocus(element);
    for (const option of options) {
      const wanted = chosen.includes(option);
      if (optionSelected(option) !== wanted) setOptionSelected(option, wanted);
    }
    const differs = options.some((option, index) => optionSelected(option) !== before[index]);
    if (differs) tellPage(element);
    return elementOf(handle) === null ? DETACHED : { ok: true, changed: differs };
  });

const requestSubmit = method(HTMLFormElement.prototype, "requestSubmit");
const formElements = getter(HTMLFormElement.prototype, "elements");
const isUnvalidated = getter(HTMLFormElement.prototype, "noValidate");
const controlIsInvalid = (control) => elementMatches(control, ":invalid");

/**
 * Submits the form of the element as its default button would. `direct`: the element is, or is in, a button of a form, so it
 * is to be clicked instead. A form that is not valid is not submitted.
 */
const submit = (handle, redaction = null) =>
  withElement(handle, (element) => {
    endRest();
    if (pressedButton(element) !== null) return { ok: true, direct: true };
    const form = formOf(element) ?? composedClosest(element, "form");
    if (form === null) return { reason: "no form" };
    const controls = [...formElements(form)];
    // The list of a form's controls leaves image buttons out.
    const button = controls.find(isSubmitter) ?? within(form, "input[type=image i]")[0] ?? null;
    if (button !== null && !isEnabled(button)) return { reason: "disabled" };
    const unchecked = isUnvalidated(form) || (button !== null && hasAttribute(button, "formnovalidate"));
    const invalid = unchecked ? [] : controls.filter(controlIsInvalid);
    if (invalid.length > 0) {
      const mask = maskOf(redaction);
      return { reason: "invalid", fields: invalid.slice(0, SAMPLE_LIMIT).map((field) => descriptionOf(field, mask)) };
    }
    requestSubmit(form, button);
    return { ok: true };
  });
