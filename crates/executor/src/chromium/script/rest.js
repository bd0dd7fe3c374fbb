// Rest: a page that looks as it did, so that a picture of it is still its picture.

/** Frames without a sign of change, after which the page has come to rest. */
const REST_FRAMES = 3;

/** The rest that is watched: `{token, moved, states, stop}`. One is, at most; a new one takes its place. */
let rest = null;
let lastRest = 0;

const beginRest = () => {
  rest?.stop();
  lastRest += 1;
  const begun = { token: lastRest, moved: false, states: controlStates(), stop: null };
  begun.stop = watchSigns(() => {
    begun.moved = true;
    begun.stop();
  });
  rest = begun;
  return begun;
};

/** What is drawn without a sign. */
const MOVES_BY_ITSELF = "canvas,video,embed,object";

const movesByItself = () =>
  watchedRoots(openRoots()).some((root) => animationsOf(root).some(isMoving)) || findEverywhere(MOVES_BY_ITSELF).some((element) => isVisible(element));

const isUndisturbed = (begun) =>
  begun === rest && !begun.moved && !movesByItself() && sameStates(begun.states, controlStates());

/** Begins to watch; the answer is for `rests`. */
const watchRest = () => beginRest().token;

/** True if there was no sign of change since this was begun to be watched. */
const rests = (token) => rest !== null && rest.token === token && isUndisturbed(rest);

/** Resolves when the page has shown no sign of change for some frames; with what `watchRest` answers, or `null` at the limit in ms. */
const comesToRest = async (limit) => {
  const deadline = performance.now() + limit;
  for (;;) {
    const begun = beginRest();
    for (let frames = 0; frames <= REST_FRAMES; frames += 1) {
      if (frames === REST_FRAMES) return begun.token;
      if (!(await nextFrame(deadline)) || begun !== rest) return null;
      if (!isUndisturbed(begun)) break;
    }
  }
};
