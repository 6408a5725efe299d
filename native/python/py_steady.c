/* SteadyFetches: a fetcher process's wait for its leaders. Those connections whose session is in order are served here
 * (replication/steady_fetch.h); what happens on any other descriptor, and what is not ordinary, is told to Python. */
#include "python/py_log.h"
#include "python/py_shm.h"

#include <errno.h>
#include <sys/epoll.h>
#include <time.h>

#include "replication/steady_fetch.h"

enum { MOST_LEADERS = 64, MOST_EVENTS = 16 };

typedef struct {
    struct mpb_steady_fetch *fetch; /* made when first used, kept for the next one */
    bool is_begun;
    bool has_ended; /* Python is told and takes it back */
} Slot;

typedef struct {
    PyObject_HEAD PyObject *log;
    int epoll;
    uint32_t used; /* slots that were ever used */
    Slot slots[MOST_LEADERS];
} SteadyObject;

static PyObject *steady_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"log", "epoll", NULL};
    PyObject *log;
    int epoll;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Oi", names, &log, &epoll) || mpb_log_of(log) == NULL)
        return NULL;
    SteadyObject *self = (SteadyObject *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->log = Py_NewRef(log);
    self->epoll = epoll;
    return (PyObject *)self;
}

static void steady_dealloc(PyObject *object)
{
    SteadyObject *self = (SteadyObject *)object;
    PyTypeObject *type = Py_TYPE(object);
    for (uint32_t i = 0; i < self->used; i++)
        PyMem_Free(self->slots[i].fetch);
    Py_XDECREF(self->log);
    type->tp_free(object);
    Py_DECREF(type);
}

/* NULL: not begun. */
static Slot *slot_of(SteadyObject *self, int fd)
{
    for (uint32_t i = 0; i < self->used; i++)
        if (self->slots[i].is_begun && self->slots[i].fetch->fd == fd)
            return &self->slots[i];
    return NULL;
}

/* One that is free, with memory; NULL: all are used, or there is no memory for another. */
static Slot *free_slot(SteadyObject *self)
{
    uint32_t i = 0;
    while (i < self->used && self->slots[i].is_begun)
        i++;
    if (i == MOST_LEADERS)
        return NULL;
    if (i == self->used) {
        self->slots[i].fetch = PyMem_Calloc(1, sizeof *self->slots[i].fetch);
        self->used += self->slots[i].fetch != NULL;
    }
    return self->slots[i].fetch == NULL ? NULL : &self->slots[i];
}

/* ------------------------------------------------------------------ begin and take back */
static bool read_partition(PyObject *tuple, LogObject *log, struct mpb_steady_partition *one)
{
    const char *id;
    Py_ssize_t id_bytes;
    long long offset, log_start, hw;
    PyObject *options;
    memset(one, 0, sizeof *one);
    if (!mpb_py_parse_row(tuple, "y#iIiLiLLO!", &id, &id_bytes, &one->partition, &one->ordinal, &one->leader_epoch,
                          &offset, &one->last_epoch, &log_start, &hw, mpb_log_options_type, &options) ||
        !mpb_py_ordinal(log, one->ordinal))
        return false;
    if (id_bytes != sizeof one->topic_id) {
        PyErr_SetString(PyExc_ValueError, "a topic id has 16 bytes");
        return false;
    }
    memcpy(one->topic_id, id, sizeof one->topic_id);
    one->offset = offset;
    one->log_start = log_start;
    one->leader_hw = hw;
    one->options = ((LogOptionsObject *)options)->append;
    return true;
}

static bool read_session(PyObject *args, struct mpb_steady_fetch *fetch, PyObject **partitions)
{
    struct mpb_steady_session *session = &fetch->session;
    const char *client_id;
    Py_ssize_t client_id_bytes;
    long long broker_epoch;
    unsigned long long asked_ns;
    memset(session, 0, sizeof *session);
    if (!PyArg_ParseTuple(args, "is#iiiiLiiiiKO!:begin", &fetch->fd, &client_id, &client_id_bytes,
                          &session->correlation_id, &session->session_id, &session->session_epoch, &session->node_id,
                          &broker_epoch, &session->max_wait_ms, &session->min_bytes, &session->max_bytes,
                          &session->partition_max_bytes, &asked_ns, &PyList_Type, partitions))
        return false;
    if (client_id_bytes > MPB_STEADY_CLIENT_BYTES || PyList_GET_SIZE(*partitions) > MPB_STEADY_PARTITIONS) {
        PyErr_SetString(PyExc_ValueError, "a longer name, or more partitions, than are served here");
        return false;
    }
    memcpy(session->client_id, client_id, (size_t)client_id_bytes);
    session->client_id_bytes = (uint32_t)client_id_bytes;
    session->broker_epoch = broker_epoch;
    session->count = (uint32_t)PyList_GET_SIZE(*partitions);
    session->partitions = fetch->partitions;
    fetch->asked_ns = asked_ns;
    return true;
}

static PyObject *steady_begin(PyObject *object, PyObject *args)
{
    SteadyObject *self = (SteadyObject *)object;
    Slot *slot = free_slot(self);
    PyObject *partitions;
    if (slot == NULL)
        Py_RETURN_FALSE;
    struct mpb_steady_fetch *fetch = slot->fetch;
    if (!read_session(args, fetch, &partitions))
        return NULL;
    for (uint32_t i = 0; i < fetch->session.count; i++)
        if (!read_partition(PyList_GET_ITEM(partitions, i), (LogObject *)self->log, &fetch->partitions[i]))
            return NULL;
    fetch->log = &((LogObject *)self->log)->log;
    fetch->is_asked = true;
    fetch->filled = fetch->unsent = 0;
    fetch->answers = 0;
    slot->is_begun = true;
    slot->has_ended = false;
    Py_RETURN_TRUE;
}

static PyObject *ends_of(const struct mpb_steady_session *session)
{
    PyObject *list = PyList_New(session->count);
    for (uint32_t i = 0; list != NULL && i < session->count; i++) {
        const struct mpb_steady_partition *one = &session->partitions[i];
        PyObject *row = Py_BuildValue("(ILiLLOi)", one->ordinal, (long long)one->offset, one->last_epoch,
                                      (long long)one->log_start, (long long)one->leader_hw,
                                      one->untold ? Py_True : Py_False, one->error);
        if (row == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, row);
    }
    return list;
}

static PyObject *steady_take_back(PyObject *object, PyObject *argument)
{
    int fd = (int)PyLong_AsLong(argument);
    Slot *slot = PyErr_Occurred() ? NULL : slot_of((SteadyObject *)object, fd);
    if (slot == NULL)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_KeyError, "%d is not served here", fd);
    const struct mpb_steady_fetch *fetch = slot->fetch;
    slot->is_begun = false;
    return Py_BuildValue("(iiOKKy#y#N)", fetch->session.correlation_id, fetch->session.session_epoch,
                         fetch->is_asked ? Py_True : Py_False, (unsigned long long)fetch->asked_ns,
                         (unsigned long long)fetch->answers, (const char *)fetch->answer, (Py_ssize_t)fetch->filled,
                         (const char *)fetch->request + fetch->request_length - fetch->unsent,
                         (Py_ssize_t)fetch->unsent, ends_of(&fetch->session));
}

/* ------------------------------------------------------------------ waiting */
static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* What Python is to know of one event is added to `told`. False: an exception. */
static bool on_event(SteadyObject *self, const struct epoll_event *event, PyObject *told)
{
    Slot *slot = slot_of(self, event->data.fd);
    if (slot != NULL && !slot->has_ended) {
        if (mpb_steady_turn(slot->fetch) == MPB_STEADY_WAITS)
            return true;
        slot->has_ended = true;
    }
    PyObject *pair = Py_BuildValue("(iI)", event->data.fd, (unsigned int)event->events);
    bool is_told = pair != NULL && PyList_Append(told, pair) == 0;
    Py_XDECREF(pair);
    return is_told;
}

static PyObject *steady_poll(PyObject *object, PyObject *argument)
{
    SteadyObject *self = (SteadyObject *)object;
    struct epoll_event events[MOST_EVENTS];
    int64_t wait_ms = PyLong_AsLong(argument), until_ms = now_ms() + wait_ms;
    PyObject *told = PyErr_Occurred() || mpb_log_of(self->log) == NULL ? NULL : PyList_New(0);
    while (told != NULL) {
        int count;
        Py_BEGIN_ALLOW_THREADS
            count = epoll_wait(self->epoll, events, MOST_EVENTS, wait_ms < 0 ? 0 : (int)wait_ms);
        Py_END_ALLOW_THREADS
        bool is_good = count >= 0 || errno == EINTR ? PyErr_CheckSignals() == 0
                                                    : PyErr_SetFromErrno(PyExc_OSError) != NULL;
        for (int i = 0; is_good && i < count; i++)
            is_good = on_event(self, &events[i], told);
        wait_ms = until_ms - now_ms();
        if (!is_good)
            Py_CLEAR(told);
        else if (count < 0 || PyList_GET_SIZE(told) > 0 || wait_ms <= 0)
            return told;
    }
    return NULL;
}

static PyMethodDef steady_methods[] = {
    {"begin", steady_begin, METH_VARARGS,
     "begin(fd, client_id, correlation_id, session_id, session_epoch, node_id, broker_epoch, max_wait_ms, min_bytes,\n"
     "max_bytes, partition_max_bytes, asked_ns, [(topic_id, partition, ordinal, leader_epoch, offset, last_epoch,\n"
     "log_start, leader_hw, options)]) -> whether there is room for it: a request of this session is under way, sent\n"
     "whole, nothing of its answer has come, and the leader knows all these ends"},
    {"take_back", steady_take_back, METH_O,
     "take_back(fd) -> (correlation_id, session_epoch, is_asked, asked_ns, answers, received, unsent, [(ordinal, "
     "offset,\n"
     "last_epoch, log_start, leader_hw, is_untold, error)]): it is not served here any more; KeyError"},
    {"poll", steady_poll, METH_O,
     "poll(timeout_ms) -> [(fd, events)]: what happened on descriptors that are not served here, or on one that is\n"
     "to be taken back"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot steady_slots[] = {
    {Py_tp_doc, "SteadyFetches(log, epoll)"},
    {Py_tp_new, steady_new},
    {Py_tp_dealloc, steady_dealloc},
    {Py_tp_methods, steady_methods},
    {0, NULL},
};
static PyType_Spec steady_spec = {"mpbroker._native.SteadyFetches", sizeof(SteadyObject), 0, Py_TPFLAGS_DEFAULT,
                                  steady_slots};

int mpb_add_steady(PyObject *module)
{
    if (PyModule_AddIntConstant(module, "STEADY_PARTITIONS", MPB_STEADY_PARTITIONS) < 0 ||
        PyModule_AddIntConstant(module, "STEADY_LEADERS", MOST_LEADERS) < 0)
        return -1;
    return mpb_add_type(module, &steady_spec) == NULL ? -1 : 0;
}
