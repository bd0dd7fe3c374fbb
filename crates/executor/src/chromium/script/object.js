// What the adapter calls.

/** Half of a surrogate pair alone, as `JSON.stringify` escapes it: no other language reads that. */
const LONE_SURROGATE = /(?<!\\)((?:\\\\)*)\\u(d[89a-f][0-9a-f]{2})/g;

const json = (answer) => {
  const text = JSON.stringify(answer);
  return text?.includes("\\ud") ? text.replace(LONE_SURROGATE, "$1\ufffd") : text;
};

const capataz = Object.freeze({
  /** Calls one of these functions. The answer, or what the promise comes to, is text: one is read faster than an object. */
  answer: (name, given) => {
    const answer = capataz[name](...given);
    return answer instanceof Promise ? answer.then(json) : json(answer);
  },
  unreadable,
  look,
  facts: (handle, attributes = [], redaction = null) =>
    withElement(handle, (element) => factsOf(element, attributes, maskOf(redaction))),
  node: elementOf,
  handle: handleOf,
  settle: (handle, limit, redaction = null, at = null) =>
    settle(handle, limit, redaction, at).then((settled) => withStruck(settled, handle, redaction)),
  bring,
  hit,
  takesDrop,
  arm,
  disarm,
  held,
  focus: focusHandle,
  focusedKeys,
  markPlain,
  keysOf: (handle) => withElement(handle, submittingKeys),
  readyToFill,
  filled,
  clear,
  setValue,
  selectOptions,
  submit,
  skeleton,
  snapshot,
  state,
  html,
  pageText,
  outline,
  extent,
  beforePicture,
  secretBoxes,
  drawnText,
  drawnBoxes,
  table,
  changed,
  comesToRest,
  watchRest,
  rests,
});

Object.defineProperty(globalThis, "capataz", { value: capataz });
