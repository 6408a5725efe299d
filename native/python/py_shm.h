/* Types of the shared-memory binders. A Core keeps the mapped buffers alive; ports keep their Core alive; a Request
 * keeps its port alive, and memoryviews of a request keep the Request alive. */
#ifndef MPB_PY_SHM_H
#define MPB_PY_SHM_H
#include "python/module.h"
#include "shm/core.h"
#include "request/handler.h"

typedef struct {
    PyObject_HEAD struct mpb_core core;
    Py_buffer buffers[3]; /* core, page, arena */
    PyObject *arena_view; /* memoryview of the arena, writable */
    bool ready;
} CoreObject;

/* Any process may look at the memory; which words it may write is its role's business. Borrowed; NULL and TypeError
 * for any other object. */
struct mpb_core *mpb_core_of(PyObject *object);
CoreObject *mpb_core_object(PyObject *object);
/* arena[offset : offset + length] as a memoryview. */
PyObject *mpb_arena_slice(CoreObject *core, uint64_t offset, uint64_t length);
/* The handler of a HandlerPort, borrowed; NULL with an exception for anything else. */
struct mpb_handler *mpb_handler_of(PyObject *port);
/* The processor of a ProcessorPort. Borrowed; NULL with an exception for anything else. */
struct mpb_processor;
struct mpb_processor *mpb_processor_of(PyObject *port);
/* A number below `limit`; else false with IndexError, or what Python says of a number that is none. */
bool mpb_py_below(PyObject *number, unsigned long limit, unsigned long *value);
extern PyTypeObject *mpb_process_row_type;
/* Makes a heap type, adds it to the module under the last part of its name. NULL: exception set. */
PyTypeObject *mpb_add_type(PyObject *module, PyType_Spec *spec);

#endif
