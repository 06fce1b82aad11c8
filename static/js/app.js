// What every page has. Loaded as a module, so after the document and after htmx.

import { startCopying } from "./copy.js";
import { startFragments } from "./fragments.js";
import { startKeys } from "./keys.js";
import { startLive } from "./live.js";
import { startLook } from "./look.js";
import { startTimes } from "./times.js";

startTimes();
startLook();
startCopying();
startKeys();
startFragments();
startLive();
