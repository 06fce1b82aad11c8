// The run page: timeline, list and payload, and the keys that drive them.

import { startEvents } from "./events.js";
import { bind } from "./keys.js";
import "./timeline.js";
import { startTrees } from "./tree.js";

const onTimeline = (action) => () => {
  const timeline = document.querySelector("open-timeline");
  return Boolean(timeline) && action(timeline) !== false;
};

const KEYS = {
  w: (timeline) => timeline.zoom(0.7),
  s: (timeline) => timeline.zoom(1 / 0.7),
  a: (timeline) => timeline.pan(-0.2),
  d: (timeline) => timeline.pan(0.2),
  f: (timeline) => timeline.fit(),
  z: (timeline) => timeline.zoomToSelected(),
  x: (timeline) => timeline.toggleAxis(),
  i: (timeline) => timeline.toggleGaps(),
  o: (timeline) => timeline.toggleFollow(),
  "[": (timeline) => timeline.stepWrite(-1),
  "]": (timeline) => timeline.stepWrite(1),
  u: (timeline) => timeline.onCurrent("fold"),
  U: (timeline) => timeline.foldAll(),
  p: (timeline) => timeline.onCurrent("pin"),
  e: (timeline) => timeline.onCurrent("stack"),
};

for (const [key, action] of Object.entries(KEYS)) bind(key, onTimeline(action));

startEvents();
startTrees();
