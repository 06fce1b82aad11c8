// The run page: timeline, list and payload, and the keys that drive them.

import { startEvents } from "./events.js";
import { bind } from "./keys.js";
import "./timeline.js";
import { startTrees } from "./tree.js";

const onTimeline = (action) => () => {
  const timeline = document.querySelector("open-timeline");
  if (timeline) action(timeline);
  return Boolean(timeline);
};

bind("w", onTimeline((timeline) => timeline.zoom(0.7)));
bind("s", onTimeline((timeline) => timeline.zoom(1 / 0.7)));
bind("a", onTimeline((timeline) => timeline.pan(-0.2)));
bind("d", onTimeline((timeline) => timeline.pan(0.2)));
bind("f", onTimeline((timeline) => timeline.fit()));
bind("x", onTimeline((timeline) => timeline.toggleAxis()));
bind("o", onTimeline((timeline) => timeline.toggleFollow()));
bind("[", onTimeline((timeline) => timeline.stepWrite(-1)));
bind("]", onTimeline((timeline) => timeline.stepWrite(1)));

startEvents();
startTrees();
