/* Lets another binder (the processor's) commit through a lane that Python opened. */
#ifndef MPB_PY_TRACE_H
#define MPB_PY_TRACE_H
#include "python/module.h"
#include "trace/trace_lane.h"

/* The lane behind a TraceLane object, borrowed: the object must outlive it. None gives NULL without an exception
 * (tracing is off); anything else gives NULL with TypeError set. */
struct mpb_lane *mpb_lane_of(PyObject *object);

#endif
