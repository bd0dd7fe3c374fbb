function(given) {
  const element = capataz.node(given[0]);
  if (!(element instanceof Element)) return { detached: true };
  const box = element.getBoundingClientRect();
  const style = getComputedStyle(element);
  const number = (text) => Number.parseFloat(text) || 0;
  // The size that layout gave it, of which `offsetWidth` is only the nearest whole number: far from the corner of a frame a
  // part of a pixel makes a whole one.
  const ends = (one, other) => number(style[one]) + number(style[other]);
  const isWhole = style.boxSizing === "border-box";
  const edges = (a, b) => (isWhole ? 0 : ends(`padding${a}`, `padding${b}`) + ends(`border${a}Width`, `border${b}Width`));
  const laidOut = (size, edge, whole) => (Math.abs(size + edge - whole) < 1 ? size + edge : whole);
  const width = laidOut(number(style.width), edges("Left", "Right"), element.offsetWidth);
  const height = laidOut(number(style.height), edges("Top", "Bottom"), element.offsetHeight);
  // How much transforms stretch it; what is rotated has no box that says so.
  const scaleX = width > 0 ? box.width / width : 1;
  const scaleY = height > 0 ? box.height / height : 1;
  const [left, top] = [number(style.paddingLeft), number(style.paddingTop)];
  return {
    x: box.x + (element.clientLeft + left) * scaleX,
    y: box.y + (element.clientTop + top) * scaleY,
    width: (element.clientWidth - left - number(style.paddingRight)) * scaleX,
    height: (element.clientHeight - top - number(style.paddingBottom)) * scaleY,
    scaleX,
    scaleY,
    outerWidth: innerWidth,
    outerHeight: innerHeight,
  };
}
