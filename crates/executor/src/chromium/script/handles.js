// Numbers for elements. A number never means another element, and nothing is kept alive by one.

const elementsByHandle = new Map();
const handlesByElement = new WeakMap();
let lastHandle = 0;

const forgotten = new FinalizationRegistry((handle) => elementsByHandle.delete(handle));

const handleOf = (element) => {
  let handle = handlesByElement.get(element);
  if (handle === undefined) {
    lastHandle += 1;
    handle = lastHandle;
    handlesByElement.set(element, handle);
    elementsByHandle.set(handle, new WeakRef(element));
    forgotten.register(element, handle);
  }
  return handle;
};

/** The element while it is in this document, else `null`. */
const elementOf = (handle) => {
  const element = elementsByHandle.get(handle)?.deref();
  return element !== undefined && isConnected(element) && ownerDocument(element) === document ? element : null;
};

/** Every answer about an element that is gone. */
const DETACHED = Object.freeze({ detached: true });

const withElement = (handle, use) => {
  const element = elementOf(handle);
  return element === null ? DETACHED : use(element);
};
