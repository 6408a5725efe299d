/* Named crash points: moments at which a test kills the process, compiled in only with -DMPB_INJECT (make test builds
 * with it, a release wheel does not). A point is armed in the `inject` region, by a test or from the start's
 * MPBROKER_CRASH=name[:nth][=stop][,name...]; `remaining` counts down over all processes, and the one that brings it
 * to 0 kills itself with SIGKILL, or stops itself with SIGSTOP. Unarmed, a point costs one relaxed load: row 0 counts the armed rows. */
#ifndef MPB_INJECT_H
#define MPB_INJECT_H

#include "shm/core.h"

/* Arms the points of `spec`. Returns 0, -1 for a spec that cannot be read, -2 when the rows are used up, -3 when the
 * points are not compiled in. */
int mpb_inject_arm(struct mpb_core *core, const char *spec);
/* Disarms every point. */
void mpb_inject_clear(struct mpb_core *core);
/* How often the point was passed while armed (it stays counted after clear until armed anew); 0 if never armed. */
uint64_t mpb_inject_hits(struct mpb_core *core, const char *name);

#ifdef MPB_INJECT
void mpb_crash_point_armed(struct mpb_core *core, const char *name);
static inline void mpb_crash_point(struct mpb_core *core, const char *name)
{
    if (mpb_load_relaxed(&core->injects[0].hits) != 0)
        mpb_crash_point_armed(core, name);
}
#define MPB_CRASH(core, name) mpb_crash_point((core), (name))
#else
#define MPB_CRASH(core, name) ((void)0)
#endif

#endif
