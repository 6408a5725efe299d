/* FetchSessions: the table of fetch sessions (session_table.h) for the Python handler of Fetch. It holds at most one row. */
#include "python/py_shm.h"

#include "fetch/session_table.h"

#define NO_ROW UINT32_MAX

typedef struct {
    PyObject_HEAD CoreObject *core;
    uint32_t slot;
    uint32_t row; /* held, or NO_ROW */
} SessionsObject;

#define SELF(object) ((SessionsObject *)(object))
#define CORE(object) (&SELF(object)->core->core)

static PyObject *sessions_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *core_object;
    unsigned int slot;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "OI:FetchSessions", &core_object, &slot))
        return NULL;
    CoreObject *core = mpb_core_object(core_object);
    if (core == NULL)
        return NULL;
    if (slot >= MPB_MAX_SLOTS)
        return PyErr_Format(PyExc_IndexError, "no process slot %u", slot);
    SessionsObject *self = (SessionsObject *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->core = (CoreObject *)Py_NewRef(core);
    self->slot = slot;
    self->row = NO_ROW;
    return (PyObject *)self;
}

static void sessions_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(SELF(object)->core);
    type->tp_free(object);
    Py_DECREF(type);
}

static bool check_held(PyObject *object, bool held)
{
    if ((SELF(object)->row != NO_ROW) != held)
        PyErr_SetString(PyExc_ValueError, held ? "no session is held" : "a session is held already");
    return PyErr_Occurred() == NULL;
}

static PyObject *sessions_hold(PyObject *object, PyObject *arg)
{
    unsigned long id = PyLong_AsUnsignedLong(arg);
    if (PyErr_Occurred() || !check_held(object, false))
        return NULL;
    if (id > INT32_MAX)
        return PyLong_FromLong(MPB_SESSION_UNKNOWN);
    return PyLong_FromLong(mpb_session_hold(CORE(object), SELF(object)->slot, (uint32_t)id, &SELF(object)->row));
}

static PyObject *sessions_read(PyObject *object, PyObject *unused)
{
    (void)unused;
    if (!check_held(object, true))
        return NULL;
    const struct mpb_fetch_session *session = &CORE(object)->fetch_sessions[SELF(object)->row];
    return Py_BuildValue("(IIKIIy#)", session->epoch, session->flags, (unsigned long long)session->fill_number,
                         session->topics, session->partitions,
                         (const char *)mpb_session_topics(CORE(object), SELF(object)->row),
                         (Py_ssize_t)mpb_session_bytes(session->topics, session->partitions));
}

/* What is written into the row that is held; false with an exception. */
static bool check_image(uint32_t topics, uint32_t partitions, Py_ssize_t length)
{
    if (mpb_session_bytes(topics, partitions) == (uint64_t)length)
        return true;
    PyErr_Format(PyExc_ValueError, "%zd bytes for %u topics and %u partitions", length, topics, partitions);
    return false;
}

static PyObject *sessions_write(PyObject *object, PyObject *args)
{
    unsigned int topics, partitions;
    Py_buffer image;
    if (!PyArg_ParseTuple(args, "IIy*:write", &topics, &partitions, &image))
        return NULL;
    bool written = check_held(object, true) && check_image(topics, partitions, image.len) &&
                   mpb_session_resize(CORE(object), SELF(object)->row, topics, partitions);
    if (written)
        memcpy(mpb_session_topics(CORE(object), SELF(object)->row), image.buf, (size_t)image.len);
    PyBuffer_Release(&image);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(written);
}

static PyObject *sessions_keep(PyObject *object, PyObject *args)
{
    unsigned int epoch, flags;
    unsigned long long fill_number, now_ms;
    if (!PyArg_ParseTuple(args, "IIKK:keep", &epoch, &flags, &fill_number, &now_ms) || !check_held(object, true))
        return NULL;
    struct mpb_fetch_session *session = &CORE(object)->fetch_sessions[SELF(object)->row];
    session->epoch = epoch;
    session->flags = flags;
    session->fill_number = fill_number;
    if (now_ms != 0)
        mpb_store_relaxed(&session->used_ms, now_ms);
    mpb_session_release(CORE(object), SELF(object)->row);
    SELF(object)->row = NO_ROW;
    Py_RETURN_NONE;
}

static PyObject *sessions_release(PyObject *object, PyObject *unused)
{
    (void)unused;
    if (!check_held(object, true))
        return NULL;
    mpb_session_release(CORE(object), SELF(object)->row);
    SELF(object)->row = NO_ROW;
    Py_RETURN_NONE;
}

static PyObject *sessions_drop(PyObject *object, PyObject *unused)
{
    (void)unused;
    if (!check_held(object, true))
        return NULL;
    mpb_session_drop(CORE(object), SELF(object)->row);
    SELF(object)->row = NO_ROW;
    Py_RETURN_NONE;
}

static PyObject *sessions_create(PyObject *object, PyObject *args)
{
    struct mpb_session_wish wish;
    unsigned long long now_ms, eviction_ms;
    if (!PyArg_ParseTuple(args, "KKIII:create", &now_ms, &eviction_ms, &wish.flags, &wish.topics, &wish.partitions) ||
        !check_held(object, false))
        return NULL;
    wish.now_ms = now_ms;
    wish.eviction_ms = eviction_ms;
    uint32_t row, id = mpb_session_create(CORE(object), SELF(object)->slot, &wish, &row);
    if (id != 0)
        SELF(object)->row = row;
    return PyLong_FromUnsignedLong(id);
}

static PyObject *sessions_recover(PyObject *object, PyObject *unused)
{
    (void)unused;
    SELF(object)->row = NO_ROW;
    return PyLong_FromUnsignedLong(mpb_session_recover(CORE(object), SELF(object)->slot));
}

static PyMethodDef sessions_methods[] = {
    {"hold", sessions_hold, METH_O,
     "hold(id) -> SESSION_HELD, _UNKNOWN or _BUSY (for 20 ms). What is held must be kept, released or dropped soon"},
    {"read", sessions_read, METH_NOARGS,
     "read() -> (epoch, flags, fill number, topics, partitions, their rows) of the session that is held"},
    {"write", sessions_write, METH_VARARGS, "write(topics, partitions, their rows) -> False: there is no room"},
    {"keep", sessions_keep, METH_VARARGS,
     "keep(epoch, flags, fill number, now_ms or 0): puts these down and releases; 0: it was not used"},
    {"release", sessions_release, METH_NOARGS, "release(): others may have it, as it is"},
    {"drop", sessions_drop, METH_NOARGS, "drop(): the session that is held is no more"},
    {"create", sessions_create, METH_VARARGS,
     "create(now_ms, eviction_ms, flags, topics, partitions) -> id of a session that is now held; 0: none is to be "
     "had"},
    {"recover", sessions_recover, METH_NOARGS,
     "recover() -> sessions dropped because the slot's last process held them"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot sessions_slots[] = {
    {Py_tp_new, sessions_new},
    {Py_tp_dealloc, sessions_dealloc},
    {Py_tp_methods, sessions_methods},
    {Py_tp_doc, "FetchSessions(core, slot): the table of fetch sessions, for the process in the slot"},
    {0, NULL},
};
static PyType_Spec sessions_spec = {"mpbroker._native.FetchSessions", sizeof(SessionsObject), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, sessions_slots};

int mpb_add_session(PyObject *module)
{
    if (PyModule_AddIntConstant(module, "SESSION_HELD", MPB_SESSION_HELD) < 0 ||
        PyModule_AddIntConstant(module, "SESSION_UNKNOWN", MPB_SESSION_UNKNOWN) < 0 ||
        PyModule_AddIntConstant(module, "SESSION_BUSY", MPB_SESSION_BUSY) < 0)
        return -1;
    return mpb_add_type(module, &sessions_spec) == NULL ? -1 : 0;
}
