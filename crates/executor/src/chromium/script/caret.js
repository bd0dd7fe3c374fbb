// The caret blinks: two pictures of the same page would differ by it.

const animate = method(Element.prototype, "animate");

/** What hides the caret while a picture is taken: nothing of the document, and no event tells of it. */
let caretHider = null;

const hideCaret = () => {
  showCaret();
  const focused = focusedElement();
  if (focused === null) return;
  caretHider = animate(focused, { caretColor: ["transparent", "transparent"] }, { duration: 1_000_000 });
  caretHider.pause();
};

const showCaret = () => {
  caretHider?.cancel();
  caretHider = null;
};
