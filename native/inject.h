/* Named crash points: moments at which a test kills the process, compiled in only with -DMPB_INJECT (make test builds
 * with it, a release wheel does not). A point is armed through MPB_CRASH=name[:nth][,name...] at start, or by a test
 * through the `inject` region; `remaining` counts down and the process that brings it to 0 kills itself with SIGKILL. */
#ifndef MPB_INJECT_H
#define MPB_INJECT_H

#include "core.h"

#ifdef MPB_INJECT
void mpb_crash_point(struct mpb_core *core, const char *name);
#define MPB_CRASH(core, name) mpb_crash_point((core), (name))
#else
#define MPB_CRASH(core, name) ((void)0)
#endif

#endif
