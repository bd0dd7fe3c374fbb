// What the adapter calls.

const capataz = Object.freeze({
  look,
  facts: (handle, attributes = [], redaction = null) =>
    withElement(handle, (element) => factsOf(element, attributes, maskOf(redaction))),
  describe: (handle, redaction = null) => withElement(handle, (element) => descriptionOf(element, maskOf(redaction))),
  node: elementOf,
  handle: handleOf,
  settle,
  hit,
  arm,
  disarm,
  focus: focusHandle,
  focusForFill,
  clear,
  setValue,
  selectOptions,
  submit,
  scrollTo,
  skeleton,
  snapshot,
  html,
  pageText,
  outline,
  secretBoxes,
  drawnText,
  drawnBoxes,
  table,
  changed,
});

Object.defineProperty(globalThis, "capataz", { value: capataz });
