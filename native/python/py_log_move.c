/* Binds move.h: how request handlers ask for a move between log directories, and the log keeper makes it. */
#include "python/py_log.h"

#include "log/move.h"

static PyObject *log_ask_move(PyObject *object, PyObject *args)
{
    PyObject *topic;
    unsigned int to;
    uint8_t id[16];
    const uint8_t *topic_id;
    MPB_ROW_ARGS("OI:ask_move", &topic, &to);
    if (!mpb_py_topic_id(topic, id, &topic_id))
        return NULL;
    return PyLong_FromLong(mpb_move_ask(&self->log, ordinal, topic_id, to));
}

static PyObject *log_give_up_move(PyObject *object, PyObject *args)
{
    unsigned int number;
    MPB_ROW_ARGS("I:give_up_move", &number);
    return PyLong_FromLong(mpb_move_give_up(&self->log, ordinal, number));
}

static PyObject *log_show_future(PyObject *object, PyObject *args)
{
    long long end, bytes;
    MPB_ROW_ARGS("LL:show_future", &end, &bytes);
    struct mpb_partition *row = &self->log.core->partitions[ordinal];
    mpb_store_release(&row->future_end, (uint64_t)end);
    mpb_store_release(&row->future_bytes, (uint64_t)bytes);
    Py_RETURN_NONE;
}

static PyObject *log_move_of(PyObject *object, PyObject *argument)
{
    MPB_ROW_ARG();
    const struct mpb_partition *row = &self->log.core->partitions[ordinal];
    uint32_t to = mpb_load_acquire(&row->move_to);
    if (to == 0)
        Py_RETURN_NONE;
    return Py_BuildValue("(IIKK)", to - 1, mpb_load_acquire(&row->move_number),
                         (unsigned long long)mpb_load_acquire(&row->future_end),
                         (unsigned long long)mpb_load_acquire(&row->future_bytes));
}

static PyObject *log_moves(PyObject *object, PyObject *Py_UNUSED(none))
{
    LogObject *self = (LogObject *)object;
    uint32_t found[256], next = 0, count;
    PyObject *list = mpb_py_ordinal(self, 0) ? PyList_New(0) : NULL;
    do {
        count = list == NULL ? 0 : mpb_moves(&self->log, &next, found, 256);
        for (uint32_t i = 0; list != NULL && i < count; i++) {
            PyObject *ordinal = PyLong_FromUnsignedLong(found[i]);
            if (ordinal == NULL || PyList_Append(list, ordinal) < 0)
                Py_CLEAR(list);
            Py_XDECREF(ordinal);
        }
    } while (count == 256);
    return list;
}

static PyObject *log_end_move(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ordinal",     "topic_id",  "to",     "number",  "truncations", "segment_count",
                            "active_base", "log_start", "synced", "lengths", "tail_bytes",  NULL};
    LogObject *self = (LogObject *)object;
    struct mpb_move move = {0};
    unsigned int ordinal;
    long long active_base, log_start, synced;
    unsigned long long lengths[MPB_ALL_SEGMENT_FILES];
    PyObject *topic;
    uint8_t id[16];
    const uint8_t *topic_id;
    int error;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "IOIIIILLL(KKKK)|I", names, &ordinal, &topic, &move.to, &move.number,
                                     &move.truncations, &move.segment_count, &active_base, &log_start, &synced,
                                     &lengths[0], &lengths[1], &lengths[2], &lengths[3], &move.tail_bytes) ||
        !mpb_py_ordinal(self, ordinal) || !mpb_py_topic_id(topic, id, &topic_id))
        return NULL;
    move.active_base = active_base;
    move.log_start = log_start;
    move.synced = synced;
    for (int file = 0; file < MPB_ALL_SEGMENT_FILES; file++)
        move.lengths[file] = lengths[file];
    Py_BEGIN_ALLOW_THREADS
        error = mpb_move_end(&self->log, ordinal, topic_id, &move);
    Py_END_ALLOW_THREADS
    return error == MPB_MOVE_CHANGED ? Py_NewRef(Py_None) : PyLong_FromLong(error);
}

PyMethodDef mpb_log_move_methods[] = {
    {"ask_move", log_ask_move, METH_VARARGS,
     "ask_move(ordinal, topic_id, to) -> error; the partition shall lie in that log directory. The one where it lies "
     "calls a\nmove off"},
    {"give_up_move", log_give_up_move, METH_VARARGS,
     "give_up_move(ordinal, number) -> error; nobody has asked, unless somebody asked again"},
    {"move_of", log_move_of, METH_O,
     "move_of(ordinal) -> (log directory, number of the ask, end of the copy, its bytes), or None: it stays"},
    {"moves", log_moves, METH_NOARGS, "moves() -> rows that shall lie in another log directory"},
    {"show_future", log_show_future, METH_VARARGS,
     "show_future(ordinal, end, bytes): how far the copy in the new log directory is"},
    {"end_move", (PyCFunction)(void *)log_end_move, METH_VARARGS | METH_KEYWORDS,
     "end_move(ordinal, topic_id, to, number, truncations, segment_count, active_base, log_start, synced, lengths, "
     "tail_bytes=0)\n-> error, or None when the log is another one than was copied, or too much of it is missing"},
    {NULL, NULL, 0, NULL},
};
