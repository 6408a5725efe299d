/* KnownRows: the rows of groups and member ids that outlive the coordinator (known_rows.h). */
#include "python/py_shm.h"
#include "request/known_rows.h"

typedef struct {
    PyObject_HEAD CoreObject *core;
    struct mpb_known_table table;
} KnownObject;

#define TABLE(object) (&((KnownObject *)(object))->table)

static PyObject *known_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"core", "members", NULL};
    PyObject *core_object;
    int members;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Op", names, &core_object, &members))
        return NULL;
    CoreObject *core = mpb_core_object(core_object);
    if (core == NULL)
        return NULL;
    KnownObject *self = (KnownObject *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->core = (CoreObject *)Py_NewRef(core);
    self->table = mpb_known_table(&core->core, members ? MPB_KNOWN_MEMBERS : MPB_KNOWN_GROUPS);
    return (PyObject *)self;
}

static void known_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(((KnownObject *)object)->core);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *known_put(PyObject *object, PyObject *args)
{
    unsigned int row;
    unsigned long long word;
    const char *key;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(args, "Iy#K", &row, &key, &length, &word))
        return NULL;
    if (row >= TABLE(object)->count || length != 16 || word == 0)
        return PyErr_Format(PyExc_ValueError, "row %u, key of %zd bytes, word %llu", row, length, word);
    mpb_known_put(TABLE(object), row, (const uint8_t *)key, word);
    Py_RETURN_NONE;
}

static PyObject *known_drop(PyObject *object, PyObject *arg)
{
    unsigned long row;
    if (!mpb_py_below(arg, TABLE(object)->count, &row))
        return NULL;
    mpb_known_drop(TABLE(object), (uint32_t)row);
    Py_RETURN_NONE;
}

static PyObject *known_rows(PyObject *object, PyObject *unused)
{
    (void)unused;
    const struct mpb_known_table *table = TABLE(object);
    uint32_t high = mpb_load_acquire(table->high);
    PyObject *found = PyList_New(0);
    for (uint32_t i = 0; found != NULL && i < high && i < table->count; i++) {
        uint64_t word = mpb_known_word(table, i);
        if (word == 0)
            continue;
        PyObject *row = Py_BuildValue("(Iy#K)", i, (const char *)table->rows[i].key, (Py_ssize_t)16,
                                      (unsigned long long)word);
        if (row == NULL || PyList_Append(found, row) < 0)
            Py_CLEAR(found);
        Py_XDECREF(row);
    }
    return found;
}

static PyObject *known_count(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(TABLE(object)->count);
}

static PyMethodDef known_methods[] = {
    {"put", known_put, METH_VARARGS,
     "put(row, key, word): fills a free row, or changes the word of a row with this key; the key has 16 bytes"},
    {"drop", known_drop, METH_O, "drop(row): it is free"},
    {"rows", known_rows, METH_NOARGS, "rows() -> [(row, key, word)] of those that are not free"},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef known_getset[] = {{"count", known_count, NULL, "rows there are", NULL},
                                     {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot known_slots[] = {
    {Py_tp_new, known_new},
    {Py_tp_dealloc, known_dealloc},
    {Py_tp_methods, known_methods},
    {Py_tp_getset, known_getset},
    {Py_tp_doc, "KnownRows(core, members): rows of groups, or of member ids, that outlive the coordinator"},
    {0, NULL},
};
static PyType_Spec known_spec = {"mpbroker._native.KnownRows", sizeof(KnownObject), 0, Py_TPFLAGS_DEFAULT, known_slots};

int mpb_add_known(PyObject *module) { return mpb_add_type(module, &known_spec) == NULL ? -1 : 0; }
