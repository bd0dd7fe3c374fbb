// The caret blinks: two pictures of the same page would differ by it. It is hidden from when we give something the focus,
// or take a picture of what has it, until that loses it: hiding it for each picture would cost two frames each time.

const animate = method(Element.prototype, "animate");

/** What hides the caret, and whose: nothing of the document, and no event tells of it. */
let caretHider = null;
let caretOwner = null;

const hideCaret = () => {
  const focused = focusedElement();
  const owner = focused !== null && isEditable(focused) ? focused : null;
  if (owner === caretOwner) return;
  caretHider?.cancel();
  caretHider = owner === null ? null : animate(owner, { caretColor: ["transparent", "transparent"] }, { duration: 1_000_000 });
  caretHider?.pause();
  caretOwner = owner;
};
