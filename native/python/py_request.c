/* Binds a claimed request (struct mpb_entry) as Request and the result of one of its partitions (struct mpb_cell) as
 * Cell. Only a HandlerPort makes them. */
#include "python/py_request.h"
#include "request/known_rows.h"
#include "shm/arena.h"
#include "trace/trace_record.h"

static PyTypeObject *request_type;

/* The entry if this process still holds the claim, else NULL and ValueError. */
static struct mpb_entry *held(RequestObject *request)
{
    if (mpb_handler_owns(&request->handler->port, request->entry, request->generation))
        return entry_of(request);
    PyErr_Format(PyExc_ValueError, "request %u is answered already", request->entry);
    return NULL;
}

static void request_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_DECREF(((RequestObject *)object)->handler);
    Py_XDECREF(((RequestObject *)object)->client_id);
    type->tp_free(object);
    Py_DECREF(type);
}

static int request_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    RequestObject *request = (RequestObject *)object;
    const struct mpb_entry *entry = held(request);
    if (entry == NULL) {
        view->obj = NULL;
        return -1;
    }
    return PyBuffer_FillInfo(view, object, (void *)(uintptr_t)mpb_payload(request->handler->port.core, entry),
                             (Py_ssize_t)entry->payload_length, 1, flags);
}

static PyObject *request_payload(PyObject *object, void *unused)
{
    (void)unused;
    return PyMemoryView_FromObject(object);
}

enum field {
    F_ENTRY,
    F_FILL_NUMBER,
    F_API_KEY,
    F_API_VERSION,
    F_CORRELATION_ID,
    F_LISTENER,
    F_PLANE,
    F_ATTEMPTS,
    F_CONNECTION,
    F_CONNECTION_GENERATION,
    F_PROCESSOR,
    F_PARKED_KIND,
    F_PHASE,
    F_CELL_COUNT,
    F_GENERATION
};

static PyObject *request_get(PyObject *object, void *which)
{
    RequestObject *request = (RequestObject *)object;
    if ((intptr_t)which == F_ENTRY)
        return PyLong_FromUnsignedLong(request->entry);
    const struct mpb_entry *entry = held(request);
    if (entry == NULL)
        return NULL;
    switch ((enum field)(intptr_t)which) {
    case F_FILL_NUMBER:
        return PyLong_FromUnsignedLongLong(entry->fill_number);
    case F_API_KEY:
        return PyLong_FromLong(entry->api_key);
    case F_API_VERSION:
        return PyLong_FromLong(entry->api_version);
    case F_CORRELATION_ID:
        return PyLong_FromLong(entry->correlation_id);
    case F_LISTENER:
        return PyLong_FromLong(entry->listener);
    case F_PLANE:
        return PyLong_FromLong(entry->plane);
    case F_ATTEMPTS:
        return PyLong_FromUnsignedLong(mpb_attempts(entry));
    case F_CONNECTION:
        return PyLong_FromUnsignedLong(entry->connection);
    case F_CONNECTION_GENERATION:
        return PyLong_FromUnsignedLong(entry->connection_generation);
    case F_PROCESSOR:
        return PyLong_FromUnsignedLong(request->entry / request->handler->port.core->header->entries_per_processor);
    case F_PARKED_KIND:
        return PyLong_FromUnsignedLong(entry->parked_kind);
    case F_PHASE:
        return PyLong_FromUnsignedLong(mpb_load_relaxed(&entry_of(request)->phase));
    case F_CELL_COUNT:
        return PyLong_FromUnsignedLong(entry->cell_count);
    default:
        return PyLong_FromUnsignedLong(request->generation);
    }
}

static PyObject *request_client_address(PyObject *object, void *unused)
{
    const struct mpb_entry *entry = held((RequestObject *)object);
    const struct mpb_core *core = ((RequestObject *)object)->handler->port.core;
    uint8_t address[16];
    (void)unused;
    if (entry == NULL)
        return NULL;
    uint32_t processor = ((RequestObject *)object)->entry / core->header->entries_per_processor;
    if (!mpb_address_of(core, processor, entry->connection, entry->connection_generation, address))
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize((const char *)address, sizeof address);
}

static PyObject *request_client_id(PyObject *object, void *unused)
{
    PyObject *client_id = ((RequestObject *)object)->client_id;
    (void)unused;
    return client_id != NULL ? Py_NewRef(client_id) : PyUnicode_New(0, 0);
}

static int request_set_client_id(PyObject *object, PyObject *value, void *unused)
{
    (void)unused;
    if (value == NULL || !PyUnicode_CheckExact(value)) {
        PyErr_SetString(PyExc_TypeError, "a client id is a str");
        return -1;
    }
    Py_XSETREF(((RequestObject *)object)->client_id, Py_NewRef(value));
    return 0;
}

static PyObject *request_stamp(PyObject *object, PyObject *arg)
{
    long stage = PyLong_AsLong(arg);
    if (PyErr_Occurred())
        return NULL;
    struct mpb_entry *entry = held((RequestObject *)object);
    if (entry == NULL)
        return NULL;
    if (stage < 0 || stage >= MPB_TRACE_STAGES)
        return PyErr_Format(PyExc_IndexError, "no trace stage %ld", stage);
    if (stage > MPB_STAGE_LOCAL_DONE ||
        mpb_trace_of(entry->trace)->stage[MPB_STAGE_LOCAL_DONE] == MPB_TRACE_NOT_REACHED)
        mpb_trace_mark(entry->trace,
                       (int)stage); /* stages never go backwards: what is read after a wait is part of that */
    Py_RETURN_NONE;
}

static PyObject *request_set_trace(PyObject *object, PyObject *args)
{
    unsigned int partitions, topic_hash, aux, flags;
    if (!PyArg_ParseTuple(args, "IIII", &partitions, &topic_hash, &aux, &flags))
        return NULL;
    struct mpb_entry *entry = held((RequestObject *)object);
    if (entry == NULL)
        return NULL;
    struct mpb_trace *trace = mpb_trace_of(entry->trace);
    trace->nparts = (uint16_t)(partitions > UINT16_MAX ? UINT16_MAX : partitions);
    trace->topic_hash = topic_hash;
    trace->aux = aux;
    trace->flags |= (uint16_t)flags;
    Py_RETURN_NONE;
}

static PyObject *request_set_error(PyObject *object, PyObject *arg)
{
    long code = PyLong_AsLong(arg);
    struct mpb_entry *entry = PyErr_Occurred() ? NULL : held((RequestObject *)object);
    if (entry == NULL)
        return NULL;
    if (entry->error == 0)
        entry->error = (int32_t)code;
    Py_RETURN_NONE;
}

static PyObject *request_flag_timed_out(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct mpb_entry *entry = held((RequestObject *)object);
    if (entry == NULL)
        return NULL;
    mpb_trace_of(entry->trace)->flags |= MPB_TF_PURG_TIMEOUT;
    Py_RETURN_NONE;
}

static PyMethodDef request_methods[] = {
    {"stamp", request_stamp, METH_O, "stamp(stage): the time of a trace stage is now"},
    {"set_trace", request_set_trace, METH_VARARGS, "set_trace(nparts, topic_hash, aux, flags)"},
    {"flag_timed_out", request_flag_timed_out, METH_NOARGS, "flag_timed_out(): its purgatory time ran out (trace)"},
    {"set_error", request_set_error, METH_O, "set_error(code): kept for the trace if it is the first that is not 0"},
    {NULL, NULL, 0, NULL},
};

#define GET(name, field, doc) {name, request_get, NULL, doc, (void *)(intptr_t)(field)}
static PyGetSetDef request_getset[] = {
    GET("entry", F_ENTRY, "row of the entry table"),
    GET("generation", F_GENERATION, NULL),
    GET("fill_number", F_FILL_NUMBER, "unique within a boot; the same when another handler runs the request again"),
    GET("api_key", F_API_KEY, NULL),
    GET("api_version", F_API_VERSION, NULL),
    GET("correlation_id", F_CORRELATION_ID, NULL),
    GET("listener", F_LISTENER, NULL),
    GET("plane", F_PLANE, "0 data, 1 control"),
    GET("attempts", F_ATTEMPTS, "handlers that died executing it; at 2 answer an error and close, do not execute"),
    GET("connection", F_CONNECTION, NULL),
    GET("connection_generation", F_CONNECTION_GENERATION, NULL),
    GET("processor", F_PROCESSOR, NULL),
    GET("parked_kind", F_PARKED_KIND, "ParkedKind: how an earlier run (perhaps of a dead handler) parked it; 0: not"),
    GET("phase", F_PHASE, "0 nothing, 1 effect begun, 2 effect done"),
    GET("cell_count", F_CELL_COUNT, "result cells made, 0: none"),
    {"client_id", request_client_id, request_set_client_id, "who sent it, from its header; '' until that is read",
     NULL},
    {"client_address", request_client_address, NULL, "16 bytes, IPv4 mapped into IPv6; None: not known", NULL},
    {"payload", request_payload, NULL, "memoryview of the frame without its length; use it before answering", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot request_slots[] = {
    {Py_tp_dealloc, request_dealloc},
    {Py_tp_methods, request_methods},
    {Py_tp_getset, request_getset},
    {Py_bf_getbuffer, request_getbuffer},
    {Py_tp_doc, "A claimed request. Attributes raise ValueError once it is answered (except entry and client_id)."},
    {0, NULL},
};
static PyType_Spec request_spec = {"mpbroker._native.Request", sizeof(RequestObject), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, request_slots};

RequestObject *mpb_py_request_arg(PyObject *handler, PyObject *object)
{
    if (!Py_IS_TYPE(object, request_type) || ((RequestObject *)object)->handler != (HandlerObject *)handler) {
        PyErr_SetString(PyExc_TypeError, "a Request of this handler is needed");
        return NULL;
    }
    return held((RequestObject *)object) ? (RequestObject *)object : NULL;
}

PyObject *mpb_py_new_request(HandlerObject *self, int64_t index)
{
    RequestObject *request = PyObject_New(RequestObject, request_type);
    if (request == NULL)
        return NULL;
    request->handler = (HandlerObject *)Py_NewRef(self);
    request->entry = (uint32_t)index;
    request->client_id = NULL;
    request->generation = (uint32_t)(mpb_load_relaxed(&self->port.core->entries[index].state) >> 32);
    return (PyObject *)request;
}

/* ------------------------------------------------------------------ Cell */
static PyTypeObject *cell_type;

static PyStructSequence_Field cell_fields[] = {
    {"error", "Kafka error code, 0 none"},
    {"base_offset", "of the first record; -1 with an error"},
    {"end_offset", "base offset of the next append: what the high watermark must reach"},
    {"append_time_ms", "milliseconds since 1970; -1: records keep their own times"},
    {"log_start", "log start offset; -1 where the error does not carry it"},
    {"leader_epoch", "of the append"},
    {"ordinal", "row of the partition table"},
    {NULL, NULL},
};

static PyStructSequence_Desc cell_desc = {"mpbroker._native.Cell", "The result of one partition of a request.",
                                          cell_fields, 7};

PyObject *mpb_py_cell(const struct mpb_cell *cell)
{
    const int64_t values[] = {cell->error,     cell->base_offset,  cell->end_offset, cell->append_time_ms,
                              cell->log_start, cell->leader_epoch, cell->ordinal};
    PyObject *result = PyStructSequence_New(cell_type);
    for (Py_ssize_t i = 0; result != NULL && i < (Py_ssize_t)(sizeof values / sizeof *values); i++) {
        PyObject *value = PyLong_FromLongLong(values[i]);
        if (value == NULL)
            Py_CLEAR(result);
        else
            PyStructSequence_SetItem(result, i, value);
    }
    return result;
}

int mpb_add_request(PyObject *module)
{
    cell_type = PyStructSequence_NewType(&cell_desc);
    if (cell_type == NULL || PyModule_AddObjectRef(module, "Cell", (PyObject *)cell_type) < 0)
        return -1;
    return (request_type = mpb_add_type(module, &request_spec)) == NULL ? -1 : 0;
}
