// Properties of form controls, taken from their prototypes for the same reason as those in dom.js.
const inputType = getter(HTMLInputElement.prototype, "type");
const inputValue = getter(HTMLInputElement.prototype, "value");
const inputChecked = getter(HTMLInputElement.prototype, "checked");
const inputIndeterminate = getter(HTMLInputElement.prototype, "indeterminate");
const inputFiles = getter(HTMLInputElement.prototype, "files");
const inputMultiple = getter(HTMLInputElement.prototype, "multiple");
const textareaValue = getter(HTMLTextAreaElement.prototype, "value");
const selectMultiple = getter(HTMLSelectElement.prototype, "multiple");
const selectSize = getter(HTMLSelectElement.prototype, "size");
const selectOptionsOf = getter(HTMLSelectElement.prototype, "options");
const optionSelected = getter(HTMLOptionElement.prototype, "selected");
const optionValue = getter(HTMLOptionElement.prototype, "value");
const optionLabel = getter(HTMLOptionElement.prototype, "label");
const labelControl = getter(HTMLLabelElement.prototype, "control");
const isEditableHost = getter(HTMLElement.prototype, "isContentEditable");

const isHtml = (element, name) => localName(element) === name && namespaceUri(element) === HTML;
const isInput = (element) => isHtml(element, "input");
const isTextarea = (element) => isHtml(element, "textarea");
const isSelect = (element) => isHtml(element, "select");

/** `type` as the browser understands it; of an input only. */
const typeOf = (element) => (isInput(element) ? inputType(element) : null);

const BUTTON_TYPES = new Set(["button", "submit", "reset", "image"]);
const TEXT_TYPES = new Set(["text", "search", "url", "tel", "email", "password", "number"]);
/** Inputs that a person fills through a picker: typing characters means something else in each locale. */
const PICKER_TYPES = new Set(["date", "time", "datetime-local", "month", "week", "color", "range"]);

const isOwnEditingHost = (element) => {
  const value = getAttribute(element, "contenteditable");
  return value !== null && value.toLowerCase() !== "false" && namespaceUri(element) === HTML && isEditableHost(element);
};

const labelsGetters = new Map(
  ["Input", "Select", "TextArea", "Button", "Output", "Meter", "Progress"].map((kind) => {
    const { prototype } = window[`HTML${kind}Element`];
    return [kind.toLowerCase(), getter(prototype, "labels")];
  }),
);

/** Controls whose labels the browser is asked for. It searches the whole page for each, so for more we do it once. */
const LABELS_ASKED = 3;
const labelIndex = perTask(() => ({ asked: 0, byControl: null }));

const indexLabels = () => {
  const byControl = new Map();
  for (const label of findEverywhere("label")) {
    const control = labelControl(label);
    if (control !== null) byControl.set(control, [...(byControl.get(control) ?? []), label]);
  }
  return byControl;
};

/** The label elements of a control, in document order. */
const labelsOf = (control) => {
  const read = namespaceUri(control) === HTML ? labelsGetters.get(localName(control)) : undefined;
  if (read === undefined) return [];
  const index = labelIndex();
  index.asked += 1;
  if (index.asked <= LABELS_ASKED) return [...(read(control) ?? [])];
  index.byControl ??= indexLabels();
  return index.byControl.get(control) ?? [];
};

const formGetters = new Map(
  ["Input", "Select", "TextArea", "Button", "Output", "FieldSet", "Object"].map((kind) => {
    const { prototype } = window[`HTML${kind}Element`];
    return [kind.toLowerCase(), getter(prototype, "form")];
  }),
);

/** The form that a control belongs to; of a form, itself. */
const formOf = (element) => {
  if (isHtml(element, "form")) return element;
  const read = namespaceUri(element) === HTML ? formGetters.get(localName(element)) : undefined;
  return read === undefined ? null : read(element);
};

const selectedOptions = (select) => [...selectOptionsOf(select)].filter((option) => optionSelected(option));
