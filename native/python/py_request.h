/* The objects behind HandlerPort, Request and Cell. A Request keeps its HandlerPort alive, that its Core. */
#ifndef MPB_PY_REQUEST_H
#define MPB_PY_REQUEST_H
#include "python/py_shm.h"

typedef struct {
    PyObject_HEAD CoreObject *core;
    struct mpb_handler port;
} HandlerObject;

typedef struct {
    PyObject_HEAD HandlerObject *handler;
    uint32_t entry, generation;
    PyObject *client_id; /* str; NULL until the header is read */
} RequestObject;

static inline struct mpb_entry *entry_of(const RequestObject *request)
{
    return &request->handler->port.core->entries[request->entry];
}

/* The Request of an entry that this handler has just claimed. NULL: exception set. */
PyObject *mpb_py_new_request(HandlerObject *self, int64_t index);
/* A request of this handler that is still claimed, or NULL with an exception. Borrowed. */
RequestObject *mpb_py_request_arg(PyObject *handler, PyObject *object);
/* A cell as a Cell; NULL: exception set. */
PyObject *mpb_py_cell(const struct mpb_cell *cell);

#endif
