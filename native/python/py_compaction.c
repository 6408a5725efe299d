/* Binds compaction.h: KeyMap, the newest offset of each key, and what compaction leaves of batches. */
#include "python/module.h"

#include "record/compaction.h"

typedef struct {
    PyObject_HEAD struct mpb_key_map map;
    struct mpb_aborted_ranges aborted; /* memory of its own */
    struct mpb_producer_set open;
} KeyMapObject;

static PyObject *key_map_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"memory_bytes", "load_factor", "seed", NULL};
    unsigned long long memory_bytes;
    double load_factor;
    const char *seed;
    Py_ssize_t seed_length;
    uint64_t words[2];
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Kdy#", names, &memory_bytes, &load_factor, &seed, &seed_length))
        return NULL;
    uint64_t capacity = memory_bytes / sizeof(struct mpb_key_place);
    if (seed_length != sizeof words || capacity < 2 || !(load_factor > 0 && load_factor < 1))
        return PyErr_Format(PyExc_ValueError, "memory for two keys, a load factor between 0 and 1, 16 bytes of seed");
    memcpy(words, seed, sizeof words);
    KeyMapObject *self = (KeyMapObject *)type->tp_alloc(type, 0);
    uint64_t limit = (uint64_t)((double)capacity * load_factor);
    if (self != NULL && !mpb_key_map_open(&self->map, capacity, limit == 0 ? 1 : limit, words)) {
        Py_CLEAR(self);
        PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static void key_map_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    mpb_key_map_close(&((KeyMapObject *)object)->map);
    PyMem_Free((void *)((KeyMapObject *)object)->aborted.range);
    mpb_producer_set_close(&((KeyMapObject *)object)->open);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *key_map_set_aborted(PyObject *object, PyObject *argument)
{
    KeyMapObject *self = (KeyMapObject *)object;
    Py_buffer bytes;
    if (PyObject_GetBuffer(argument, &bytes, PyBUF_SIMPLE) < 0)
        return NULL;
    void *copy = PyMem_Malloc(bytes.len > 0 ? (size_t)bytes.len : 1);
    if (copy != NULL) {
        memcpy(copy, bytes.buf, (size_t)bytes.len);
        PyMem_Free((void *)self->aborted.range);
        self->aborted.range = copy;
        self->aborted.count = (size_t)bytes.len / sizeof(struct mpb_aborted_range);
    }
    PyBuffer_Release(&bytes);
    if (copy == NULL)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *key_map_learn(PyObject *object, PyObject *args)
{
    KeyMapObject *self = (KeyMapObject *)object;
    Py_buffer bytes;
    long long from, until;
    enum mpb_compaction_stop stop;
    size_t at = 0;
    if (!PyArg_ParseTuple(args, "y*LL:learn", &bytes, &from, &until))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
        stop = mpb_compaction_learn(&self->map, &self->aborted, bytes.buf, (size_t)bytes.len, &at, from, until);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&bytes);
    return Py_BuildValue("(iK)", (int)stop, (unsigned long long)at);
}

/* Reads the header that begins `batch`; false with Python's error if it is too short. */
static bool read_header(const Py_buffer *batch, struct mpb_batch_info *info)
{
    if (batch->len < MPB_BATCH_HEADER_BYTES) {
        PyErr_SetString(PyExc_ValueError, "a batch has at least 61 bytes");
        return false;
    }
    mpb_batch_read(batch->buf, info);
    return true;
}

static PyObject *key_map_learn_batch(PyObject *object, PyObject *args)
{
    KeyMapObject *self = (KeyMapObject *)object;
    Py_buffer batch, records;
    long long from;
    struct mpb_batch_info info;
    enum mpb_compaction_stop stop = MPB_COMPACT_CORRUPT;
    if (!PyArg_ParseTuple(args, "y*y*L:learn_batch", &batch, &records, &from))
        return NULL;
    bool readable = read_header(&batch, &info);
    if (readable) {
        Py_BEGIN_ALLOW_THREADS
            stop = mpb_compaction_learn_batch(&self->map, &info, records.buf, (size_t)records.len, from);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&batch);
    PyBuffer_Release(&records);
    return readable ? PyLong_FromLong((int)stop) : NULL;
}

struct given { /* what both ways to apply are given */
    Py_buffer producers;
    long long now_ms, delete_retention_ms;
};

static struct mpb_compaction rules_of(KeyMapObject *self, const struct given *given)
{
    return (struct mpb_compaction){
        .aborted = self->aborted,
        .map = &self->map,
        .now_ms = given->now_ms,
        .delete_retention_ms = given->delete_retention_ms,
        .producers = given->producers.buf,
        .producer_count = (size_t)given->producers.len / sizeof(struct mpb_producer_end),
        .open = &self->open,
    };
}

static PyObject *key_map_apply(PyObject *object, PyObject *args)
{
    KeyMapObject *self = (KeyMapObject *)object;
    Py_buffer bytes, out;
    struct given given;
    enum mpb_compaction_stop stop;
    size_t at = 0, produced = 0;
    if (!PyArg_ParseTuple(args, "y*w*LLy*:apply", &bytes, &out, &given.now_ms, &given.delete_retention_ms,
                          &given.producers))
        return NULL;
    struct mpb_compaction rules = rules_of(self, &given);
    Py_BEGIN_ALLOW_THREADS
        stop = mpb_compaction_apply(&rules, bytes.buf, (size_t)bytes.len, &at, out.buf, (size_t)out.len, &produced);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&bytes);
    PyBuffer_Release(&out);
    PyBuffer_Release(&given.producers);
    return Py_BuildValue("(iKK)", (int)stop, (unsigned long long)at, (unsigned long long)produced);
}

static PyObject *apply_to(KeyMapObject *self, const struct given *given, const Py_buffer *batch,
                          const Py_buffer *records)
{
    struct mpb_batch_info info;
    struct mpb_compaction rules = rules_of(self, given);
    enum mpb_compaction_verdict verdict;
    size_t length = 0;
    if (!read_header(batch, &info))
        return NULL;
    size_t room = mpb_compaction_room((size_t)records->len, info.record_count);
    uint8_t *out = PyMem_Malloc(room);
    if (out == NULL)
        return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
        verdict = mpb_compaction_batch(&rules, batch->buf, records->buf, (size_t)records->len, out, &length);
    Py_END_ALLOW_THREADS
    PyObject *result = Py_BuildValue("(iy#)", (int)verdict, out, (Py_ssize_t)length);
    PyMem_Free(out);
    return result;
}

static PyObject *key_map_apply_batch(PyObject *object, PyObject *args)
{
    Py_buffer batch, records;
    struct given given;
    if (!PyArg_ParseTuple(args, "y*y*LLy*:apply_batch", &batch, &records, &given.now_ms, &given.delete_retention_ms,
                          &given.producers))
        return NULL;
    PyObject *result = apply_to((KeyMapObject *)object, &given, &batch, &records);
    PyBuffer_Release(&batch);
    PyBuffer_Release(&records);
    PyBuffer_Release(&given.producers);
    return result;
}

static PyObject *seal_batch(PyObject *module, PyObject *argument)
{
    Py_buffer batch;
    (void)module;
    if (PyObject_GetBuffer(argument, &batch, PyBUF_WRITABLE) < 0)
        return NULL;
    bool fits = batch.len >= MPB_BATCH_HEADER_BYTES && batch.len <= INT32_MAX;
    if (fits)
        mpb_compaction_seal(batch.buf, (size_t)batch.len);
    PyBuffer_Release(&batch);
    if (!fits)
        return PyErr_Format(PyExc_ValueError, "a batch has 61 bytes to 2 GiB");
    Py_RETURN_NONE;
}

static PyObject *key_map_count(PyObject *object, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLongLong(((KeyMapObject *)object)->map.count);
}

static PyMethodDef key_map_methods[] = {
    {"set_aborted", key_map_set_aborted, METH_O,
     "set_aborted(ranges): triples of int64, producer id, first offset and offset of the marker, sorted; what is in "
     "them\n"
     "counts for nothing."},
    {"learn", key_map_learn, METH_VARARGS,
     "learn(batches, from_offset, until_offset) -> (stop, bytes)\n\n"
     "Puts the keys of whole batches into the map. `stop` is one of COMPACT_*; `bytes` were taken in."},
    {"learn_batch", key_map_learn_batch, METH_VARARGS,
     "learn_batch(batch, records, from_offset) -> stop\n\nThe same for one batch with its decompressed records."},
    {"apply", key_map_apply, METH_VARARGS,
     "apply(batches, out, now_ms, delete_retention_ms, producers) -> (stop, bytes, produced)\n\n"
     "Copies what compaction leaves to `out`. `producers`: pairs of int64, id and last offset, sorted by id. Batches\n"
     "come in the log's order, from its beginning: a marker goes when nothing of its transaction came before it."},
    {"apply_batch", key_map_apply_batch, METH_VARARGS,
     "apply_batch(batch, records, now_ms, delete_retention_ms, producers) -> (verdict, bytes)\n\n"
     "What is left of one batch, with its records uncompressed; COMPACT_KEEP, COMPACT_DROP, COMPACT_REWRITE or\n"
     "COMPACT_BROKEN."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef key_map_getset[] = {
    {"count", key_map_count, NULL, "Keys in the map.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot key_map_slots[] = {
    {Py_tp_doc, "KeyMap(memory_bytes, load_factor, seed): the newest offset of each key; 24 bytes a key."},
    {Py_tp_new, key_map_new},
    {Py_tp_dealloc, key_map_dealloc},
    {Py_tp_methods, key_map_methods},
    {Py_tp_getset, key_map_getset},
    {0, NULL},
};

static PyType_Spec key_map_spec = {"mpbroker._native.KeyMap", sizeof(KeyMapObject), 0, Py_TPFLAGS_DEFAULT,
                                   key_map_slots};

static PyMethodDef functions[] = {
    {"seal_batch", seal_batch, METH_O, "seal_batch(batch): sets length and CRC of a whole batch."},
    {NULL, NULL, 0, NULL},
};

int mpb_add_compaction(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&key_map_spec);
    if (type == NULL || PyModule_AddObjectRef(module, "KeyMap", type) < 0)
        return -1;
    Py_DECREF(type);
    static const struct {
        const char *name;
        int value;
    } numbers[] = {
        {"COMPACT_END", MPB_COMPACT_END},       {"COMPACT_COMPRESSED", MPB_COMPACT_COMPRESSED},
        {"COMPACT_FULL", MPB_COMPACT_FULL},     {"COMPACT_CORRUPT", MPB_COMPACT_CORRUPT},
        {"COMPACT_UNTIL", MPB_COMPACT_UNTIL},   {"COMPACT_KEEP", MPB_COMPACT_KEEP},
        {"COMPACT_DROP", MPB_COMPACT_DROP},     {"COMPACT_REWRITE", MPB_COMPACT_REWRITE},
        {"COMPACT_BROKEN", MPB_COMPACT_BROKEN},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (PyModule_AddIntConstant(module, numbers[i].name, numbers[i].value) < 0)
            return -1;
    return PyModule_AddFunctions(module, functions);
}
