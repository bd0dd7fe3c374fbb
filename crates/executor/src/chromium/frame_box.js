function(given) {
  const element = capataz.node(given[0]);
  if (!(element instanceof Element)) return { detached: true };
  const box = element.getBoundingClientRect();
  const style = getComputedStyle(element);
  const number = (text) => Number.parseFloat(text) || 0;
  // How much transforms stretch it; what is rotated has no box that says so.
  const scaleX = element.offsetWidth > 0 ? box.width / element.offsetWidth : 1;
  const scaleY = element.offsetHeight > 0 ? box.height / element.offsetHeight : 1;
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
