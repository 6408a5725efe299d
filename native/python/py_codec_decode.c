/* Decoding: bytes that may say anything → objects. Every length and count is compared with the bytes that are left
 * before anything is allocated for it. Follows Kafka's own readers: any negative length means null. */
#include "python/py_codec.h"
#include "record/wire.h"

PyObject *mpb_malformed(const mpb_reader *reader, const char *where, const char *what)
{
    PyErr_Format(mpb_protocol_error, "%s at byte %zd: %s", where, (Py_ssize_t)(reader->at - reader->base), what);
    return NULL;
}

static PyObject *malformed_field(const mpb_reader *reader, const mpb_plan *plan, const mpb_field *field,
                                 const char *what)
{
    PyErr_Format(mpb_protocol_error, "%s.%U at byte %zd: %s", plan->cls->tp_name, field->name,
                 (Py_ssize_t)(reader->at - reader->base), what);
    return NULL;
}

static inline size_t left(const mpb_reader *reader) { return (size_t)(reader->end - reader->at); }

/* Reads a length or count into *length (negative: null). Returns NULL and leaves the reader alone on a cut-off. */
static inline const uint8_t *read_length(const mpb_reader *reader, const mpb_field *field, bool short_form,
                                         int32_t *length)
{
    if (field->flags & MPB_COMPACT) {
        uint32_t raw;
        const uint8_t *next = mpb_get_uvarint(reader->at, reader->end, &raw);
        *length = next == NULL ? 0 : (int32_t)(raw - 1u);
        return next;
    }
    size_t size = short_form ? 2 : 4;
    if (left(reader) < size)
        return NULL;
    *length = short_form ? (int16_t)mpb_get_be16(reader->at) : (int32_t)mpb_get_be32(reader->at);
    return reader->at + size;
}

/* The bytes are a window on the buffer that was handed in: nothing is copied, and the buffer stays alive. */
static PyObject *records_view(mpb_reader *reader, size_t length)
{
    if (reader->view == NULL) {
        PyObject *view = PyMemoryView_FromObject(reader->source);
        if (view != NULL) {
            const Py_buffer *buffer = PyMemoryView_GET_BUFFER(view);
            if (buffer->ndim != 1 || buffer->itemsize != 1)
                Py_SETREF(view, PyObject_CallMethod(view, "cast", "s", "B"));
        }
        if (view == NULL)
            return NULL;
        reader->view = view;
    }
    Py_ssize_t start = reader->at - reader->base;
    PyObject *from = PyLong_FromSsize_t(start), *to = PyLong_FromSsize_t(start + (Py_ssize_t)length);
    PyObject *slice = from && to ? PySlice_New(from, to, NULL) : NULL;
    PyObject *records = slice ? PyObject_GetItem(reader->view, slice) : NULL;
    Py_XDECREF(from);
    Py_XDECREF(to);
    Py_XDECREF(slice);
    return records;
}

/* Bytes that are no UTF-8 become U+FFFD, as Java reads them: such a name is answered (with an error), not hung up on. */
static PyObject *read_text(mpb_reader *reader, size_t length)
{
    return PyUnicode_DecodeUTF8((const char *)reader->at, (Py_ssize_t)length, "replace");
}

/* string, bytes, records: a length and that many bytes */
static PyObject *decode_counted(mpb_reader *reader, const mpb_plan *plan, const mpb_field *field)
{
    int32_t length;
    const uint8_t *start = read_length(reader, field, field->kind == MPB_STRING, &length);
    if (start == NULL)
        return malformed_field(reader, plan, field, "the message ends inside a length");
    if (length < 0) {
        if (!(field->flags & MPB_NULLABLE) || field->flags & MPB_ARRAY)
            return malformed_field(reader, plan, field, "null is not allowed in this version");
        reader->at = start;
        return Py_NewRef(Py_None);
    }
    if ((size_t)length > (size_t)(reader->end - start))
        return malformed_field(reader, plan, field, "the length exceeds the bytes that are left");
    if (field->kind == MPB_STRING && length > INT16_MAX)
        return malformed_field(reader, plan, field, "a string may have at most 32767 bytes");
    reader->at = start;
    PyObject *value;
    if (field->kind == MPB_STRING)
        value = read_text(reader, (size_t)length);
    else if (field->kind == MPB_RECORDS)
        value = records_view(reader, (size_t)length);
    else
        value = PyBytes_FromStringAndSize((const char *)start, length);
    reader->at = start + length;
    return value;
}

static PyObject *read_float(const uint8_t *at)
{
    uint64_t bits = mpb_get_be64(at);
    double value;
    memcpy(&value, &bits, sizeof value);
    return PyFloat_FromDouble(value);
}

static PyObject *decode_fixed(mpb_reader *reader, const mpb_plan *plan, const mpb_field *field)
{
    const uint8_t *at = reader->at;
    if (left(reader) < field->element_min)
        return malformed_field(reader, plan, field, "the message ends inside this field");
    reader->at += field->element_min;
    switch (field->kind) {
    case MPB_BOOL:
        return PyBool_FromLong(*at != 0);
    case MPB_INT8:
        return PyLong_FromLong((int8_t)*at);
    case MPB_INT16:
        return PyLong_FromLong((int16_t)mpb_get_be16(at));
    case MPB_UINT16:
        return PyLong_FromLong(mpb_get_be16(at));
    case MPB_INT32:
        return PyLong_FromLong((int32_t)mpb_get_be32(at));
    case MPB_INT64:
        return PyLong_FromLongLong((int64_t)mpb_get_be64(at));
    case MPB_FLOAT64:
        return read_float(at);
    default:
        return PyBytes_FromStringAndSize((const char *)at, 16);
    }
}

static PyObject *decode_struct(mpb_reader *reader, const mpb_plan *plan, const mpb_field *field)
{
    if (field->flags & MPB_NULLABLE && !(field->flags & MPB_ARRAY)) {
        if (left(reader) < 1)
            return malformed_field(reader, plan, field, "the message ends inside this field");
        if ((int8_t)*reader->at++ < 0)
            return Py_NewRef(Py_None);
    }
    return mpb_decode_message(reader, field->sub);
}

static inline PyObject *decode_element(mpb_reader *reader, const mpb_plan *plan, const mpb_field *field)
{
    if (field->kind < MPB_STRING)
        return decode_fixed(reader, plan, field);
    return field->kind == MPB_STRUCT ? decode_struct(reader, plan, field) : decode_counted(reader, plan, field);
}

static PyObject *decode_array(mpb_reader *reader, const mpb_plan *plan, const mpb_field *field)
{
    int32_t count;
    const uint8_t *first = read_length(reader, field, false, &count);
    if (first == NULL)
        return malformed_field(reader, plan, field, "the message ends inside a count");
    if (count < 0 && !(field->flags & MPB_NULLABLE))
        return malformed_field(reader, plan, field, "null is not allowed in this version");
    if (count > 0 && (size_t)count > (size_t)(reader->end - first) / field->element_min)
        return malformed_field(reader, plan, field, "the count exceeds what the bytes left can hold");
    reader->at = first;
    if (count < 0)
        return Py_NewRef(Py_None);
    PyObject *list = PyList_New(count);
    for (int32_t i = 0; list != NULL && i < count; i++) {
        PyObject *element = decode_element(reader, plan, field);
        if (element == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, element);
    }
    return list;
}

static inline PyObject *decode_field(mpb_reader *reader, const mpb_plan *plan, const mpb_field *field)
{
    return field->flags & MPB_ARRAY ? decode_array(reader, plan, field) : decode_element(reader, plan, field);
}

/* Reads one (tag, size) pair; the size is known to fit. Returns 0, or -1 with ProtocolError. */
static int read_tag(mpb_reader *reader, uint32_t *tag, uint32_t *size)
{
    const uint8_t *next = mpb_get_uvarint(reader->at, reader->end, tag);
    next = next == NULL ? NULL : mpb_get_uvarint(next, reader->end, size);
    if (next == NULL || *size > (size_t)(reader->end - next)) {
        mpb_malformed(reader, "tagged field", "it is longer than the bytes that are left");
        return -1;
    }
    reader->at = next;
    return 0;
}

static int read_tag_count(mpb_reader *reader, uint32_t *count)
{
    const uint8_t *next = mpb_get_uvarint(reader->at, reader->end, count);
    if (next != NULL && *count > INT32_MAX)
        *count = 0; /* negative to a Java broker, whose loop then reads none */
    if (next == NULL || *count > (size_t)(reader->end - next) / 2) {
        mpb_malformed(reader, "tagged fields", "there are more than the bytes left can hold");
        return -1;
    }
    reader->at = next;
    return 0;
}

int mpb_skip_tags(mpb_reader *reader)
{
    uint32_t count, tag, size;
    if (read_tag_count(reader, &count) < 0)
        return -1;
    for (; count > 0; count--) {
        if (read_tag(reader, &tag, &size) < 0)
            return -1;
        reader->at += size;
    }
    return 0;
}

/* A known field must fill exactly the size its tag announced; unknown tags are skipped. */
static int decode_tagged(mpb_reader *reader, const mpb_plan *plan, PyObject *message, uint32_t tag, uint32_t size)
{
    const mpb_field *field = plan->fields + plan->carried, *stop = field + plan->tagged;
    while (field < stop && field->tag != tag)
        field++;
    if (field == stop) {
        reader->at += size;
        return 0;
    }
    mpb_reader inner = *reader;
    inner.end = reader->at + size;
    PyObject *value = decode_field(&inner, plan, field);
    reader->view = inner.view;
    if (value == NULL)
        return -1;
    Py_XSETREF(*mpb_slot(message, field->slot), value);
    if (inner.at != inner.end) {
        malformed_field(&inner, plan, field, "the tagged field has bytes left over");
        return -1;
    }
    reader->at = inner.end;
    return 0;
}

static int decode_tags(mpb_reader *reader, const mpb_plan *plan, PyObject *message)
{
    uint32_t count, tag, size;
    if (left(reader) > 0 && *reader->at == 0) { /* nearly every message */
        reader->at++;
        return 0;
    }
    if (read_tag_count(reader, &count) < 0)
        return -1;
    for (; count > 0; count--)
        if (read_tag(reader, &tag, &size) < 0 || decode_tagged(reader, plan, message, tag, size) < 0)
            return -1;
    return 0;
}

PyObject *mpb_decode_message(mpb_reader *reader, const mpb_plan *plan)
{
    PyObject *message = plan->cls->tp_alloc(plan->cls, 0);
    if (message == NULL)
        return NULL;
    const mpb_field *field = plan->fields, *stop = field + plan->carried;
    for (; field < stop; field++) {
        PyObject *value = decode_field(reader, plan, field);
        if (value == NULL)
            goto fail;
        *mpb_slot(message, field->slot) = value;
    }
    for (stop = field + plan->tagged + plan->absent; field < stop; field++) {
        PyObject *value = mpb_fallback(field);
        if (value == NULL)
            goto fail;
        *mpb_slot(message, field->slot) = value;
    }
    if (plan->flexible && decode_tags(reader, plan, message) < 0)
        goto fail;
    return message;
fail:
    Py_DECREF(message);
    return NULL;
}
