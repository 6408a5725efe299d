/* Connection and NetworkTurn: the ordinary part of a processor's turn (network_turn.h). A NetworkTurn does not keep its
 * connections alive: a Connection that goes away takes itself out. */
#include "python/py_shm.h"
#include "shm/heap_image.h"
#include "network/network_turn.h"
#include <stddef.h>
#include <structmember.h>
#include <sys/socket.h>

typedef struct {
    PyObject_HEAD PyObject *port;
    struct mpb_turn turn;
} TurnObject;

typedef struct {
    PyObject_HEAD PyObject *turn; /* the one that knows it, NULL: none */
    struct mpb_connection connection;
} ConnectionObject;

static PyTypeObject *connection_type;

#define TURN(object) (&((TurnObject *)(object))->turn)
#define CONNECTION(object) (&((ConnectionObject *)(object))->connection)

/* ------------------------------------------------------------------ Connection */
static PyObject *connection_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *self = type->tp_alloc(type, 0);
    (void)args;
    (void)kwargs;
    if (self != NULL)
        CONNECTION(self)->fd = -1;
    return self;
}

static int connection_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fd", "number", "generation", "now_ns", NULL};
    unsigned long long now_ns;
    struct mpb_connection *c = CONNECTION(object);
    int fd;
    unsigned int number, generation;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "iIIK", names, &fd, &number, &generation, &now_ns))
        return -1;
    if (c->fd >= 0) {
        PyErr_SetString(PyExc_ValueError, "a connection is made once");
        return -1;
    }
    c->fd = fd;
    c->number = number;
    c->generation = generation;
    c->last_active_ns = c->first_ns = c->later_ns = now_ns;
    c->readable = true;
    return 0;
}

static void leave(ConnectionObject *self)
{
    if (self->turn != NULL)
        mpb_turn_forget(TURN(self->turn), &self->connection);
    Py_CLEAR(self->turn);
}

static void connection_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    leave((ConnectionObject *)object);
    mpb_connection_close(CONNECTION(object));
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *connection_buffered(PyObject *object, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(mpb_connection_buffered(CONNECTION(object)));
}

static PyObject *connection_peek(PyObject *object, PyObject *arg)
{
    const struct mpb_connection *c = CONNECTION(object);
    uint32_t have = mpb_connection_buffered(c);
    unsigned long most = PyLong_AsUnsignedLong(arg);
    if (PyErr_Occurred())
        return NULL;
    if (have == 0)
        return PyBytes_FromStringAndSize(NULL, 0);
    return PyBytes_FromStringAndSize((const char *)c->buffer + c->start, most < have ? (Py_ssize_t)most : have);
}

static PyObject *connection_preload(PyObject *object, PyObject *args)
{
    Py_buffer bytes;
    unsigned long long now_ns;
    if (!PyArg_ParseTuple(args, "y*K:preload", &bytes, &now_ns))
        return NULL;
    bool done = bytes.len <= UINT32_MAX &&
                mpb_connection_preload(CONNECTION(object), bytes.buf, (uint32_t)bytes.len, now_ns);
    PyBuffer_Release(&bytes);
    if (!done)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *connection_wants_arena_bytes(PyObject *object, PyObject *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(mpb_connection_wants_arena(CONNECTION(object)));
}

static PyObject *connection_move_to(PyObject *object, PyObject *arg)
{
    struct mpb_connection *c = CONNECTION(object);
    uint32_t have = mpb_connection_buffered(c);
    Py_buffer view;
    if (PyObject_GetBuffer(arg, &view, PyBUF_WRITABLE) < 0)
        return NULL;
    if (have < 4 || have - 4 > (uint64_t)view.len) {
        PyBuffer_Release(&view);
        return PyErr_Format(PyExc_ValueError, "no unfinished frame of %zd bytes is in the buffer", view.len);
    }
    memcpy(view.buf, c->buffer + c->start + 4, have - 4);
    PyBuffer_Release(&view);
    mpb_connection_take(c, have);
    return PyLong_FromUnsignedLong(have - 4);
}

static PyObject *connection_take_introduction(PyObject *object, PyObject *unused)
{
    uint32_t bytes;
    (void)unused;
    uint8_t *taken = mpb_connection_take_introduction(CONNECTION(object), &bytes);
    PyObject *copy = PyBytes_FromStringAndSize((const char *)taken, bytes);
    free(taken);
    return copy;
}

static PyMethodDef connection_methods[] = {
    {"take_introduction", connection_take_introduction, METH_NOARGS,
     "take_introduction() -> beginning of the last request that said who the client is; empty: told already"},
    {"buffered", connection_buffered, METH_NOARGS, "buffered() -> bytes received and not yet taken"},
    {"peek", connection_peek, METH_O, "peek(most) -> the first of those bytes, at most so many; they stay"},
    {"preload", connection_preload, METH_VARARGS,
     "preload(bytes, now_ns): what another processor had received of it, before anything else is"},
    {"wants_arena_bytes", connection_wants_arena_bytes, METH_NOARGS,
     "wants_arena_bytes() -> length of the unfinished frame if it should now move to the arena, else 0"},
    {"move_to", connection_move_to, METH_O,
     "move_to(view) -> bytes of the unfinished frame moved there from the buffer"},
    {NULL, NULL, 0, NULL},
};

#define FIELD(name, type, flags, doc) \
    {#name, type, offsetof(ConnectionObject, connection) + offsetof(struct mpb_connection, name), flags, doc}
static PyMemberDef connection_members[] = {
    FIELD(fd, T_INT, READONLY, NULL),
    FIELD(number, T_UINT, READONLY, "its name in request entries, with `generation`"),
    FIELD(generation, T_UINT, READONLY, NULL),
    FIELD(readable, T_BOOL, 0, "the kernel may have more bytes"),
    FIELD(closed, T_BOOL, READONLY, NULL),
    FIELD(large, T_BOOL, 0, "a frame is being received straight into the arena"),
    FIELD(waits, T_BOOL, 0, "a frame waits for room: it is not read"),
    FIELD(in_flight, T_BOOL, READONLY, "a request of it is in the broker: it is not read until that is answered"),
    FIELD(requests, T_ULONGLONG, 0, "frames given to the handlers"),
    FIELD(last_active_ns, T_ULONGLONG, 0, NULL),
    FIELD(first_ns, T_ULONGLONG, 0, "when the first byte of the next frame was received"),
    FIELD(later_ns, T_ULONGLONG, 0, "when that of the frames behind it was"),
    FIELD(first_arrival_ns, T_ULONGLONG, 0, "when the kernel had that byte; 0: not known"),
    FIELD(frame_started_ns, T_ULONGLONG, 0, "when the frame under way last brought a fair share; 0: none under way"),
    FIELD(frame_bytes_seen, T_ULONGLONG, 0, NULL),
    FIELD(out_count, T_UINT, READONLY, "answers held or under way"),
    FIELD(blocked, T_BOOL, READONLY, "the kernel took a part of them; the rest waits for room in the socket"),
    FIELD(out_started_ns, T_ULONGLONG, READONLY, "when they began to go"),
    FIELD(sent_bytes, T_ULONGLONG, READONLY, "that the kernel took of all answers"),
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot connection_slots[] = {
    {Py_tp_doc, "Connection(fd, number, generation, now_ns): what a processor knows of one connection"},
    {Py_tp_new, connection_new},
    {Py_tp_init, connection_init},
    {Py_tp_dealloc, connection_dealloc},
    {Py_tp_methods, connection_methods},
    {Py_tp_members, connection_members},
    {0, NULL},
};
static PyType_Spec connection_spec = {"mpbroker._native.Connection", sizeof(ConnectionObject), 0,
                                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, connection_slots};

/* A connection this turn knows, or NULL with an exception. */
static struct mpb_connection *known(PyObject *turn, PyObject *object)
{
    if (PyObject_TypeCheck(object, connection_type) && ((ConnectionObject *)object)->turn == turn)
        return CONNECTION(object);
    PyErr_SetString(PyExc_ValueError, "not a connection of this processor");
    return NULL;
}

/* ------------------------------------------------------------------ NetworkTurn */
static bool read_apis(struct mpb_turn *turn, PyObject *versions)
{
    PyObject *key, *range;
    Py_ssize_t at = 0;
    while (PyDict_Next(versions, &at, &key, &range)) {
        short oldest, newest;
        long number = PyLong_AsLong(key);
        if (PyErr_Occurred() || !mpb_py_parse_row(range, "hh", &oldest, &newest))
            return false;
        if (number < 0 || number >= MPB_API_KEYS) {
            PyErr_Format(PyExc_ValueError, "api key %ld is above %d", number, MPB_API_KEYS - 1);
            return false;
        }
        turn->apis[number] = (struct mpb_api_range){oldest, newest};
    }
    return true;
}

static PyObject *turn_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"port",     "epoll",      "plane", "listener", "max_request_bytes", "queued_bytes_limit",
                            "versions", "classifies", NULL};
    PyObject *port, *versions;
    int epoll, classifies = 0;
    unsigned int plane, listener, max_bytes;
    long long limit;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OiIIILO!|p", names, &port, &epoll, &plane, &listener, &max_bytes,
                                     &limit, &PyDict_Type, &versions, &classifies))
        return NULL;
    struct mpb_processor *processor = mpb_processor_of(port);
    if (processor == NULL || plane > MPB_PLANE_CONTROL)
        return processor ? PyErr_Format(PyExc_ValueError, "plane is 0 (data) or 1 (control)") : NULL;
    TurnObject *self = (TurnObject *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    if (mpb_turn_open(&self->turn, processor, epoll) < 0) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    self->port = Py_NewRef(port);
    self->turn.plane = plane;
    self->turn.listener = listener;
    self->turn.max_request_bytes = max_bytes;
    self->turn.queued_bytes_limit = limit;
    self->turn.classifies = classifies != 0;
    if (!read_apis(&self->turn, versions))
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void turn_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    mpb_turn_close(TURN(object));
    Py_XDECREF(((TurnObject *)object)->port);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *turn_add(PyObject *object, PyObject *arg)
{
    if (!PyObject_TypeCheck(arg, connection_type) || ((ConnectionObject *)arg)->turn != NULL || CONNECTION(arg)->closed)
        return PyErr_Format(PyExc_ValueError, "a new Connection is needed");
    if (mpb_turn_add(TURN(object), CONNECTION(arg)) < 0)
        return PyErr_NoMemory();
    ((ConnectionObject *)arg)->turn = Py_NewRef(object);
    Py_RETURN_NONE;
}

static PyObject *turn_forget(PyObject *object, PyObject *arg)
{
    if (known(object, arg) == NULL)
        return NULL;
    leave((ConnectionObject *)arg);
    Py_RETURN_NONE;
}

static PyObject *turn_schedule(PyObject *object, PyObject *arg)
{
    struct mpb_connection *c = known(object, arg);
    if (c == NULL)
        return NULL;
    mpb_turn_schedule(TURN(object), c);
    Py_RETURN_NONE;
}

static PyObject *turn_untaken(PyObject *object, PyObject *arg)
{
    struct mpb_connection *c = known(object, arg);
    return c ? PyLong_FromUnsignedLongLong(mpb_connection_untaken(c, TURN(object)->port->core)) : NULL;
}

static PyObject *turn_submit(PyObject *object, PyObject *arg)
{
    struct mpb_connection *c = known(object, arg);
    return c ? PyBool_FromLong(mpb_turn_submit(TURN(object), c)) : NULL;
}

/* (connection, frame, ...) -> the connection and its frame of at least a header, which the caller releases; else NULL. */
static struct mpb_connection *with_frame(PyObject *turn, PyObject *const *args, Py_ssize_t n, Py_ssize_t wanted,
                                         Py_buffer *frame)
{
    struct mpb_connection *c = n == wanted ? known(turn, args[0]) : NULL;
    if (c == NULL) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "takes %zd arguments, a connection and its frame first, not %zd", wanted, n);
        return NULL;
    }
    if (PyObject_GetBuffer(args[1], frame, PyBUF_SIMPLE) < 0)
        return NULL;
    if (frame->len >= MPB_MIN_FRAME_BYTES && frame->len <= INT32_MAX)
        return c;
    PyErr_Format(PyExc_ValueError, "a frame of %zd bytes", frame->len);
    PyBuffer_Release(frame);
    return NULL;
}

static PyObject *turn_serves(PyObject *object, PyObject *const *args, Py_ssize_t n)
{
    Py_buffer frame;
    struct mpb_connection *c = with_frame(object, args, n, 2, &frame);
    if (c == NULL)
        return NULL;
    bool served = mpb_turn_serves(TURN(object), c, frame.buf);
    PyBuffer_Release(&frame);
    return PyBool_FromLong(served);
}

static PyObject *turn_submitted(PyObject *object, PyObject *const *args, Py_ssize_t n)
{
    Py_buffer frame;
    struct mpb_connection *c = with_frame(object, args, n, 4, &frame);
    if (c == NULL)
        return NULL;
    long long code = PyLong_AsLongLong(args[2]);
    unsigned long long now_ns = PyErr_Occurred() ? 0 : PyLong_AsUnsignedLongLong(args[3]);
    struct mpb_submission s = {.frame = frame.buf,
                               .length = (uint32_t)frame.len,
                               .frame_done_ns = now_ns,
                               .client_hash = mpb_client_hash(frame.buf, (uint32_t)frame.len)};
    bool taken = !PyErr_Occurred() && mpb_turn_submitted(TURN(object), c, &s, code);
    PyBuffer_Release(&frame);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(taken);
}

static PyObject *turn_answer(PyObject *object, PyObject *arg)
{
    unsigned long limit = PyLong_AsUnsignedLong(arg);
    if (PyErr_Occurred())
        return NULL;
    return PyLong_FromUnsignedLong(mpb_turn_answer(TURN(object), (uint32_t)limit));
}

static PyObject *turn_receive(PyObject *object, PyObject *arg)
{
    int may_read = PyObject_IsTrue(arg);
    if (may_read < 0)
        return NULL;
    mpb_turn_receive(TURN(object), may_read);
    Py_RETURN_NONE;
}

static PyObject *turn_has_work(PyObject *object, PyObject *arg)
{
    int may_read = PyObject_IsTrue(arg);
    return may_read < 0 ? NULL : PyBool_FromLong(mpb_turn_has_work(TURN(object), may_read));
}

static PyObject *turn_over_limit(PyObject *object, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(mpb_turn_over_limit(TURN(object)));
}

static PyObject *turn_end(PyObject *object, PyObject *arg)
{
    int will_sleep = PyObject_IsTrue(arg);
    if (will_sleep < 0)
        return NULL;
    mpb_turn_end(TURN(object), will_sleep);
    Py_RETURN_NONE;
}

static PyObject *turn_events(PyObject *object, PyObject *unused)
{
    struct mpb_turn *turn = TURN(object);
    (void)unused;
    if (turn->out_of_memory) {
        turn->out_of_memory = false;
        return PyErr_NoMemory(); /* an event is lost: this process ends, its successor begins anew */
    }
    PyObject *list = PyList_New(turn->event_count);
    for (uint32_t i = 0; list != NULL && i < turn->event_count; i++) {
        const struct mpb_event *event = &turn->events[i];
        struct mpb_connection *c = event->connection;
        PyObject *of = c ? (PyObject *)((char *)c - offsetof(ConnectionObject, connection)) : Py_None;
        PyObject *row = Py_BuildValue("(iOLL)", (int)event->kind, of, (long long)event->first,
                                      (long long)event->second);
        if (row == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, row);
    }
    if (list != NULL)
        turn->event_count = 0;
    return list;
}

static void wait_for_sockets(struct mpb_turn *turn, long timeout_ms)
{
    if (timeout_ms > 0 && mpb_processor_prepare_sleep(turn->port)) {
        Py_BEGIN_ALLOW_THREADS
            mpb_turn_sleep(turn, (int)timeout_ms);
        Py_END_ALLOW_THREADS
        if (turn->event_count == 0 && turn->scheduled.count == 0)
            mpb_heap_image_idle(turn->awake_since_ns);
    } else {
        mpb_turn_poll(turn, 0);
    }
}

static PyObject *turn_poll(PyObject *object, PyObject *const *args, Py_ssize_t n)
{
    struct mpb_turn *turn = TURN(object);
    if (n != 5)
        return PyErr_Format(PyExc_TypeError, "poll takes 5 arguments, not %zd", n);
    long timeout_ms = PyLong_AsLong(args[0]), turns = PyLong_AsLong(args[1]), answers = PyLong_AsLong(args[2]);
    unsigned long long until_ns = PyLong_AsUnsignedLongLong(args[3]);
    long idle_ms = PyLong_AsLong(args[4]);
    if (PyErr_Occurred())
        return NULL;
    uint32_t left = (uint32_t)turns;
    wait_for_sockets(turn, timeout_ms);
    while ((left = mpb_turn_run(turn, left, until_ns, (uint32_t)answers)) > 0 && idle_ms > 0) {
        if (PyErr_CheckSignals() < 0)
            return NULL;
        wait_for_sockets(turn, turn->port->look_again ? 1 : idle_ms);
    }
    if (PyErr_CheckSignals() < 0)
        return NULL;
    return PyBool_FromLong(turn->event_count > 0);
}

static PyMethodDef turn_methods[] = {
    {"add", turn_add, METH_O, "add(connection): serves it until forget()"},
    {"forget", turn_forget, METH_O,
     "forget(connection): its held answers are sent if that works at once, the rest settled"},
    {"schedule", turn_schedule, METH_O, "schedule(connection): looks at it in this turn or the next"},
    {"untaken", turn_untaken, METH_O, "untaken(connection) -> bytes of its answers that the kernel has not taken"},
    {"submit", turn_submit, METH_O,
     "submit(connection) -> whether its buffered frame went to the handlers; else an event"},
    {"serves", (PyCFunction)(void (*)(void))turn_serves, METH_FASTCALL,
     "serves(connection, frame) -> whether its API and version are served; else an event"},
    {"submitted", (PyCFunction)(void (*)(void))turn_submitted, METH_FASTCALL,
     "submitted(connection, frame, result, now_ns): `frame` went to submit_reserved() of the port with this result\n"
     "-> True: it is in the broker, queued or (an event) parked; False: it is not, an event says why"},
    {"answer", turn_answer, METH_O, "answer(limit) -> answers that were there; they are sent or held"},
    {"receive", turn_receive, METH_O, "receive(may_read): one frame of each scheduled connection"},
    {"has_work", turn_has_work, METH_O, "has_work(may_read) -> whether a scheduled connection may be read"},
    {"over_limit", turn_over_limit, METH_NOARGS,
     "over_limit() -> queued.max.request.bytes is reached by all processors"},
    {"end", turn_end, METH_O, "end(will_sleep): sends held answers that waited for long enough, or all"},
    {"events", turn_events, METH_NOARGS,
     "events() -> [(kind, connection or None, number, number)] since the last call"},
    {"poll", (PyCFunction)(void (*)(void))turn_poll, METH_FASTCALL,
     "poll(timeout_ms, turns, answers, until_ns, idle_ms) -> whether there are events: waits for the sockets unless "
     "an\n"
     "answer is there already, then makes at most so many whole turns while everything is ordinary and the clock\n"
     "below until_ns, and waits for idle_ms (0: not) where one finds nothing more to do"},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef turn_members[] = {
    {"queued_bytes_limit", T_LONGLONG, offsetof(TurnObject, turn) + offsetof(struct mpb_turn, queued_bytes_limit), 0,
     NULL},
    {"traced", T_BOOL, offsetof(TurnObject, turn) + offsetof(struct mpb_turn, arrivals.wanted), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot turn_slots[] = {
    {Py_tp_doc,
     "NetworkTurn(port, epoll, plane, listener, max_request_bytes, queued_bytes_limit, versions, classifies=False)"},
    {Py_tp_new, turn_new},
    {Py_tp_dealloc, turn_dealloc},
    {Py_tp_methods, turn_methods},
    {Py_tp_members, turn_members},
    {0, NULL},
};
static PyType_Spec turn_spec = {"mpbroker._native.NetworkTurn", sizeof(TurnObject), 0, Py_TPFLAGS_DEFAULT, turn_slots};

static const struct {
    const char *name;
    long value;
} constants[] = {
    {"EVENT_CLOSE", MPB_EVENT_CLOSE},
    {"EVENT_INVALID", MPB_EVENT_INVALID},
    {"EVENT_UNSUPPORTED", MPB_EVENT_UNSUPPORTED},
    {"EVENT_POISON", MPB_EVENT_POISON},
    {"EVENT_NO_ROOM", MPB_EVENT_NO_ROOM},
    {"EVENT_PARKED", MPB_EVENT_PARKED},
    {"EVENT_LARGE", MPB_EVENT_LARGE},
    {"EVENT_DESCRIPTOR", MPB_EVENT_DESCRIPTOR},
    {"EVENT_INTRODUCED", MPB_EVENT_INTRODUCED},
    {"SO_TIMESTAMPNS", SO_TIMESTAMPNS},
    {"EVENT_STRAY", MPB_EVENT_STRAY},
    {"SMALL_FRAME_BYTES", MPB_SMALL_FRAME_BYTES},
    {"MIN_FRAME_BYTES", MPB_MIN_FRAME_BYTES},
    {"MAX_HELD_ANSWERS", MPB_MAX_HELD},
    {"MAX_HELD_TURNS", MPB_MAX_HELD_TURNS},
};

int mpb_add_network(PyObject *module)
{
    connection_type = mpb_add_type(module, &connection_spec);
    if (connection_type == NULL || mpb_add_type(module, &turn_spec) == NULL)
        return -1;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value) < 0)
            return -1;
    return 0;
}
