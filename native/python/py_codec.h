/* The codec's shared shapes. A plan is one message class at one version, flattened: C knows no message by name,
 * it walks plans that mpbroker/protocol/codec.py built from the annotated classes.
 *
 *   class ──version──▶ plan: fields in wire order ─┬─ scalar at a slot of the object
 *                            tagged fields by tag  ├─ array of scalars
 *                            defaults of the rest  └─ (array of) sub-plan
 *
 * A plan is never changed once it is made. Plans nest as deep as the classes do (bounded when they are built), so
 * no input decides how deep the decoder recurses. */
#ifndef MPB_PY_CODEC_H
#define MPB_PY_CODEC_H
#include "python/module.h"
#include <stdbool.h>
#include <stdint.h>

/* Numbers agree with KINDS in mpbroker/protocol/types.py; a test compares them. */
enum mpb_kind {
    MPB_BOOL,
    MPB_INT8,
    MPB_INT16,
    MPB_UINT16,
    MPB_INT32,
    MPB_INT64,
    MPB_FLOAT64,
    MPB_UUID,
    MPB_STRING,
    MPB_BYTES,
    MPB_RECORDS,
    MPB_STRUCT,
    MPB_KINDS
};

enum mpb_field_flags {
    MPB_ARRAY = 1,
    MPB_NULLABLE = 2, /* the value, or with MPB_ARRAY the array, may be null */
    MPB_COMPACT = 4,  /* lengths are varints, one more than the length */
};

typedef struct mpb_plan mpb_plan;

typedef struct {
    uint8_t kind;
    uint8_t flags;
    uint32_t tag;
    uint32_t element_min; /* fewest bytes one element can take: bounds a count before anything is allocated */
    Py_ssize_t slot;      /* where the object keeps this field, bytes from its start */
    PyObject *name;
    PyObject *fallback; /* value of a field the bytes do not carry; the type `list` means a new empty list */
    mpb_plan *sub;
} mpb_field;

struct mpb_plan {
    PyObject_HEAD PyTypeObject *cls;
    bool flexible;
    uint32_t min_bytes;
    Py_ssize_t carried, tagged, absent; /* fields[] holds them in this order */
    mpb_field *fields;
};

typedef struct {
    const uint8_t *base, *at, *end;
    PyObject *source; /* the object whose bytes these are, borrowed */
    PyObject *view;   /* memoryview over source, made when the first records field needs it */
} mpb_reader;

/* Writes into `base` up to `cap`, and goes on counting beyond it: one pass tells how much room was missing. */
typedef struct {
    uint8_t *base;
    size_t pos, cap;
    bool growing;     /* may move to a larger bytes object */
    bool failed;      /* out of memory; the exception is set */
    PyObject *heap;   /* the bytes object of a writer that has grown */
    PyObject *ranges; /* list of reserved (position, length), or NULL when reserving is not allowed */
} mpb_writer;

extern PyTypeObject mpb_plan_type;
extern PyObject *mpb_protocol_error, *mpb_buffer_too_small;

static inline PyObject **mpb_slot(PyObject *object, Py_ssize_t slot) { return (PyObject **)((char *)object + slot); }

/* New reference to the value a missing field gets. */
static inline PyObject *mpb_fallback(const mpb_field *field)
{
    if (field->fallback == (PyObject *)&PyList_Type)
        return PyList_New(0);
    return Py_NewRef(field->fallback);
}

/* Offset of a slot of a class, or -1 with TypeError: `name` is not a plain slot there. */
Py_ssize_t mpb_slot_offset(PyTypeObject *cls, PyObject *name);

PyObject *mpb_decode_message(mpb_reader *reader, const mpb_plan *plan);
int mpb_skip_tags(mpb_reader *reader);
PyObject *mpb_malformed(const mpb_reader *reader, const char *where, const char *what);

int mpb_encode_message(mpb_writer *writer, const mpb_plan *plan, PyObject *message);
uint8_t *mpb_room(mpb_writer *writer, size_t size);

#endif
