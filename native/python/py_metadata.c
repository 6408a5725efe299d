/* Binds metadata.c: topic rows, journal, partition chains as plain functions over a Core. mpbroker/shm/topic_table.py
 * describes them. */
#include "python/py_shm.h"
#include "shm/metadata.h"
#include <string.h>

static struct mpb_core *core_and_row(PyObject *object, unsigned long row)
{
    struct mpb_core *core = mpb_core_of(object);
    if (core != NULL && row >= core->topic_count) {
        PyErr_Format(PyExc_IndexError, "no topic row %lu, the table has %u", row, core->topic_count);
        return NULL;
    }
    return core;
}

static struct mpb_core *core_and_ordinal(PyObject *object, unsigned long ordinal)
{
    struct mpb_core *core = mpb_core_of(object);
    if (core != NULL && ordinal >= core->partition_count) {
        PyErr_Format(PyExc_IndexError, "no partition row %lu, the table has %u", ordinal, core->partition_count);
        return NULL;
    }
    return core;
}

static PyObject *metadata_generation(PyObject *module, PyObject *object)
{
    (void)module;
    struct mpb_core *core = mpb_core_of(object);
    return core ? PyLong_FromUnsignedLongLong(mpb_metadata_generation(core)) : NULL;
}

static PyObject *topic_count(PyObject *module, PyObject *object)
{
    (void)module;
    struct mpb_core *core = mpb_core_of(object);
    return core ? PyLong_FromUnsignedLong(core->topic_count) : NULL;
}

static PyObject *topic_write(PyObject *module, PyObject *args)
{
    unsigned int row, flags, partitions, first;
    const char *id, *name, *overrides;
    Py_ssize_t id_length, name_length, overrides_length;
    unsigned long long version;
    struct mpb_topic_copy next;
    (void)module;
    MPB_TARGET_ARGS("IIy#s#IIy#K", &row, &flags, &id, &id_length, &name, &name_length, &partitions, &first, &overrides,
                    &overrides_length, &version);
    struct mpb_core *core = core_and_row(target, row);
    if (core == NULL)
        return NULL;
    if (id_length != 16 || name_length >= (Py_ssize_t)sizeof next.name || overrides_length > MPB_TOPIC_BLOB)
        return PyErr_Format(PyExc_ValueError, "a topic has an id of 16 bytes, a name below %zu and settings up to %d",
                            sizeof next.name, MPB_TOPIC_BLOB);
    memset(&next, 0, sizeof next);
    memcpy(next.id, id, 16);
    memcpy(next.name, name, (size_t)name_length);
    memcpy(next.overrides, overrides, (size_t)overrides_length);
    next.flags = flags;
    next.partition_count = partitions;
    next.first_ordinal = first;
    next.name_length = (uint32_t)name_length;
    next.overrides_length = (uint32_t)overrides_length;
    next.version = version;
    mpb_topic_write(core, row, &next);
    Py_RETURN_NONE;
}

static PyObject *topic_read(PyObject *module, PyObject *args)
{
    unsigned int row;
    uint64_t selector;
    struct mpb_topic_copy copy;
    (void)module;
    MPB_TARGET_ARGS("I", &row);
    struct mpb_core *core = core_and_row(target, row);
    if (core == NULL)
        return NULL;
    if (mpb_topic_read(core, row, &copy, &selector) != 0)
        return PyErr_Format(PyExc_RuntimeError, "topic row %u changed under every look at it", row);
    if (selector == 0)
        Py_RETURN_NONE;
    if (copy.name_length >= sizeof copy.name || copy.overrides_length > MPB_TOPIC_BLOB)
        return PyErr_Format(PyExc_RuntimeError, "topic row %u holds impossible lengths", row);
    return Py_BuildValue("(KIy#s#IIy#K)", (unsigned long long)selector, copy.flags, copy.id, (Py_ssize_t)16,
                         (const char *)copy.name, (Py_ssize_t)copy.name_length, copy.partition_count,
                         copy.first_ordinal, copy.overrides, (Py_ssize_t)copy.overrides_length,
                         (unsigned long long)copy.version);
}

static PyObject *topics_changed(PyObject *module, PyObject *args)
{
    PyObject *seen, *rows;
    (void)module;
    MPB_TARGET_ARGS("O!", &PyList_Type, &seen);
    struct mpb_core *core = mpb_core_of(target);
    if (core == NULL)
        return NULL;
    uint32_t high = mpb_topics_high(core);
    rows = PyList_New(0);
    for (uint32_t row = 0; rows != NULL && row < high && row < core->topic_count; row++) {
        unsigned long long known = 0;
        if ((Py_ssize_t)row < PyList_GET_SIZE(seen))
            known = PyLong_AsUnsignedLongLong(PyList_GET_ITEM(seen, row));
        PyObject *number = NULL;
        bool changed = mpb_load_acquire(&core->topics[row].selector) != known;
        if (PyErr_Occurred() ||
            (changed && ((number = PyLong_FromUnsignedLong(row)) == NULL || PyList_Append(rows, number) < 0)))
            Py_CLEAR(rows);
        Py_XDECREF(number);
    }
    return rows;
}

static PyObject *rows_high(PyObject *module, PyObject *object)
{
    (void)module;
    struct mpb_core *core = mpb_core_of(object);
    return core ? Py_BuildValue("(II)", mpb_topics_high(core), mpb_partitions_high(core)) : NULL;
}

static PyObject *rows_raise(PyObject *module, PyObject *args)
{
    unsigned int topics, partitions;
    (void)module;
    MPB_TARGET_ARGS("II", &topics, &partitions);
    struct mpb_core *core = mpb_core_of(target);
    if (core == NULL)
        return NULL;
    if (topics > core->topic_count || partitions > core->partition_count)
        return PyErr_Format(PyExc_IndexError, "the tables have %u topic and %u partition rows", core->topic_count,
                            core->partition_count);
    mpb_rows_raise(core, topics, partitions);
    Py_RETURN_NONE;
}

static PyObject *journal_append(PyObject *module, PyObject *args)
{
    unsigned int row;
    (void)module;
    MPB_TARGET_ARGS("I", &row);
    struct mpb_core *core = core_and_row(target, row);
    return core ? PyLong_FromUnsignedLongLong(mpb_journal_append(core, row)) : NULL;
}

static PyObject *journal_skip(PyObject *module, PyObject *object)
{
    (void)module;
    struct mpb_core *core = mpb_core_of(object);
    return core ? PyLong_FromUnsignedLongLong(mpb_journal_skip(core)) : NULL;
}

#define ROWS_AT_ONCE 256
static PyObject *journal_since(PyObject *module, PyObject *args)
{
    unsigned long long since;
    uint32_t numbers[ROWS_AT_ONCE];
    uint64_t reached;
    (void)module;
    MPB_TARGET_ARGS("K", &since);
    struct mpb_core *core = mpb_core_of(target);
    if (core == NULL)
        return NULL;
    int count = mpb_journal_since(core, since, numbers, ROWS_AT_ONCE, &reached);
    if (count == MPB_METADATA_RESCAN)
        return Py_BuildValue("(KO)", (unsigned long long)reached, Py_None);
    PyObject *rows = mpb_py_numbers(numbers, (uint32_t)count);
    return rows == NULL ? NULL : Py_BuildValue("(KN)", (unsigned long long)reached, rows);
}

static PyObject *partition_link(PyObject *module, PyObject *args)
{
    unsigned int ordinal, next_plus_one;
    (void)module;
    MPB_TARGET_ARGS("II", &ordinal, &next_plus_one);
    struct mpb_core *core = core_and_ordinal(target, ordinal);
    if (core == NULL)
        return NULL;
    mpb_partition_link(core, ordinal, next_plus_one);
    Py_RETURN_NONE;
}

static PyObject *partition_who(PyObject *module, PyObject *args)
{
    unsigned int ordinal;
    (void)module;
    MPB_TARGET_ARGS("I", &ordinal);
    struct mpb_core *core = core_and_ordinal(target, ordinal);
    if (core == NULL)
        return NULL;
    const struct mpb_partition *row = &core->partitions[ordinal];
    Py_ssize_t dir_length = row->dir_length < sizeof row->dir ? row->dir_length : 0;
    return Py_BuildValue("(IIIIy#s#I)", mpb_load_acquire(&core->partitions[ordinal].flags), row->topic_row,
                         row->partition, mpb_load_acquire(&core->partitions[ordinal].next_ordinal), row->topic_id,
                         (Py_ssize_t)16, row->dir, dir_length, row->log_dir);
}

static PyObject *topic_partitions(PyObject *module, PyObject *args)
{
    PyObject *list = NULL;
    const char *id;
    Py_ssize_t id_length;
    unsigned int first, count;
    (void)module;
    MPB_TARGET_ARGS("y#II", &id, &id_length, &first, &count);
    struct mpb_core *core = mpb_core_of(target);
    if (core == NULL)
        return NULL;
    if (id_length != 16 || count > core->partition_count)
        return PyErr_Format(PyExc_ValueError, "a topic has an id of 16 bytes and at most %u partitions",
                            core->partition_count);
    uint32_t *ordinals = PyMem_Malloc((count ? count : 1) * sizeof *ordinals);
    if (ordinals == NULL)
        return PyErr_NoMemory();
    if (mpb_topic_partitions(core, (const uint8_t *)id, first, count, ordinals) != 0)
        list = Py_NewRef(Py_None);
    else
        list = mpb_py_numbers(ordinals, count);
    PyMem_Free(ordinals);
    return list;
}

static PyMethodDef metadata_functions[] = {
    {"metadata_generation", metadata_generation, METH_O, "metadata_generation(core) -> changes published so far"},
    {"topic_count", topic_count, METH_O, "topic_count(core) -> rows of the topic table"},
    {"topic_write", topic_write, METH_VARARGS,
     "topic_write(core, row, flags, id, name, partition_count, first_ordinal, overrides, version)"},
    {"topic_read", topic_read, METH_VARARGS,
     "topic_read(core, row) -> (selector, flags, id, name, partition_count, first_ordinal, overrides, version), or "
     "None "
     "for a row never written"},
    {"topics_changed", topics_changed, METH_VARARGS,
     "topics_changed(core, selectors) -> used rows with another selector; a list that is too short counts as 0"},
    {"rows_high", rows_high, METH_O, "rows_high(core) -> (topic rows, partition rows) ever used: the first of them"},
    {"rows_raise", rows_raise, METH_VARARGS, "rows_raise(core, topics, partitions): before further rows are used"},
    {"journal_append", journal_append, METH_VARARGS,
     "journal_append(core, row) -> the generation that shows the change"},
    {"journal_skip", journal_skip, METH_O, "journal_skip(core) -> a generation that makes readers look at every row"},
    {"journal_since", journal_since, METH_VARARGS,
     "journal_since(core, generation) -> (reached, [topic row, ...]), or (reached, None): look at every row"},
    {"partition_link", partition_link, METH_VARARGS, "partition_link(core, ordinal, next ordinal + 1 or 0)"},
    {"partition_who", partition_who, METH_VARARGS,
     "partition_who(core, ordinal) -> (flags, topic_row, partition, next ordinal + 1, topic_id, dir, log_dir)"},
    {"topic_partitions", topic_partitions, METH_VARARGS,
     "topic_partitions(core, topic_id, first_ordinal, count) -> ordinals in order, or None while they change"},
    {NULL, NULL, 0, NULL},
};

int mpb_add_metadata(PyObject *module) { return PyModule_AddFunctions(module, metadata_functions); }
