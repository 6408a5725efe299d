/* Encoding: objects our own code made → bytes. What does not fit its field is a programming error and raises
 * TypeError or ValueError naming the field. No Python code runs in here, so the objects cannot change meanwhile. */
#include "python/py_codec.h"
#include "record/wire.h"

#define FIRST_HEAP_BYTES 4096

static bool grow(mpb_writer *writer, size_t need)
{
    size_t cap = writer->heap != NULL ? writer->cap * 2 : FIRST_HEAP_BYTES;
    if (cap < need)
        cap = need;
    if (writer->heap == NULL) {
        writer->heap = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)cap);
        if (writer->heap != NULL)
            memcpy(PyBytes_AS_STRING(writer->heap), writer->base, writer->pos);
    } else
        _PyBytes_Resize(&writer->heap, (Py_ssize_t)cap);
    if (writer->heap == NULL) {
        writer->failed = true;
        writer->growing = false;
        writer->cap = 0; /* from here on it only counts */
        return false;
    }
    writer->base = (uint8_t *)PyBytes_AS_STRING(writer->heap);
    writer->cap = cap;
    return true;
}

/* Room for `size` more bytes; NULL when there is none (the writer then only counts). */
uint8_t *mpb_room(mpb_writer *writer, size_t size)
{
    size_t start = writer->pos, need = start + size;
    if (need > writer->cap && !(writer->growing && grow(writer, need))) {
        writer->pos = need;
        return NULL;
    }
    writer->pos = need;
    return writer->base + start;
}

static inline void put_bytes(mpb_writer *writer, const void *bytes, size_t size)
{
    uint8_t *at = mpb_room(writer, size);
    if (at != NULL && size > 0)
        memcpy(at, bytes, size);
}

static void put_uvarint(mpb_writer *writer, uint32_t value)
{
    uint8_t scratch[MPB_UVARINT_MAX_BYTES];
    put_bytes(writer, scratch, mpb_put_uvarint(scratch, value));
}

/* Length or count; -1 is null. */
static void put_length(mpb_writer *writer, const mpb_field *field, bool short_form, Py_ssize_t length)
{
    if (field->flags & MPB_COMPACT) {
        put_uvarint(writer, (uint32_t)(length + 1));
        return;
    }
    uint8_t *at = mpb_room(writer, short_form ? 2 : 4);
    if (at == NULL)
        return;
    if (short_form)
        mpb_put_be16(at, (uint16_t)length);
    else
        mpb_put_be32(at, (uint32_t)length);
}

static int unfit(const mpb_plan *plan, const mpb_field *field, PyObject *error, PyObject *value, const char *what)
{
    if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_OverflowError))
        PyErr_Format(error, "%s.%U: %.100R %s", plan->cls->tp_name, field->name, value, what);
    return -1;
}

static int put_null(mpb_writer *writer, const mpb_plan *plan, const mpb_field *field, bool short_form)
{
    if (!(field->flags & MPB_NULLABLE))
        return unfit(plan, field, PyExc_ValueError, Py_None, "is not allowed in this version");
    put_length(writer, field, short_form, -1);
    return 0;
}

static int encode_string(mpb_writer *writer, const mpb_plan *plan, const mpb_field *field, PyObject *value)
{
    Py_ssize_t length;
    if (!PyUnicode_Check(value))
        return unfit(plan, field, PyExc_TypeError, value, "is not a str");
    const char *text = PyUnicode_AsUTF8AndSize(value, &length);
    if (text == NULL)
        return -1;
    if (length > INT16_MAX)
        return unfit(plan, field, PyExc_ValueError, value, "has more than 32767 bytes");
    put_length(writer, field, true, length);
    put_bytes(writer, text, (size_t)length);
    return 0;
}

/* An int in a records field: leave that many bytes free and tell where. */
static int reserve_records(mpb_writer *writer, const mpb_plan *plan, const mpb_field *field, PyObject *value)
{
    Py_ssize_t length = PyLong_AsSsize_t(value);
    if (writer->ranges == NULL)
        return unfit(plan, field, PyExc_TypeError, value, "bytes can only be reserved by encode_reserving");
    if (length < 0 || length > INT32_MAX)
        return unfit(plan, field, PyExc_ValueError, value, "is not a length");
    put_length(writer, field, false, length);
    PyObject *range = Py_BuildValue("nn", (Py_ssize_t)writer->pos, length);
    int status = range == NULL ? -1 : PyList_Append(writer->ranges, range);
    Py_XDECREF(range);
    mpb_room(writer, (size_t)length);
    return status;
}

static int encode_bytes(mpb_writer *writer, const mpb_plan *plan, const mpb_field *field, PyObject *value)
{
    if (field->kind == MPB_RECORDS && PyLong_Check(value))
        return reserve_records(writer, plan, field, value);
    Py_buffer buffer;
    if (PyObject_GetBuffer(value, &buffer, PyBUF_SIMPLE) < 0)
        return -1;
    int status = 0;
    if (buffer.len > INT32_MAX)
        status = unfit(plan, field, PyExc_ValueError, value, "is longer than 2147483647 bytes");
    else {
        put_length(writer, field, false, buffer.len);
        put_bytes(writer, buffer.buf, (size_t)buffer.len);
    }
    PyBuffer_Release(&buffer);
    return status;
}

static const struct {
    long long low, high;
} integer_range[] = {
    [MPB_BOOL] = {0, 1},
    [MPB_INT8] = {INT8_MIN, INT8_MAX},
    [MPB_INT16] = {INT16_MIN, INT16_MAX},
    [MPB_UINT16] = {0, UINT16_MAX},
    [MPB_INT32] = {INT32_MIN, INT32_MAX},
    [MPB_INT64] = {INT64_MIN, INT64_MAX},
};

static int encode_integer(mpb_writer *writer, const mpb_plan *plan, const mpb_field *field, PyObject *value)
{
    if (!PyLong_Check(value))
        return unfit(plan, field, PyExc_TypeError, value, "is not an int");
    long long number = PyLong_AsLongLong(value);
    if (number == -1 && PyErr_Occurred())
        return unfit(plan, field, PyExc_ValueError, value, "does not fit the field");
    if (number < integer_range[field->kind].low || number > integer_range[field->kind].high)
        return unfit(plan, field, PyExc_ValueError, value, "does not fit the field");
    uint8_t *at = mpb_room(writer, field->element_min);
    if (at == NULL)
        return 0;
    switch (field->element_min) {
    case 1:
        *at = (uint8_t)number;
        break;
    case 2:
        mpb_put_be16(at, (uint16_t)number);
        break;
    case 4:
        mpb_put_be32(at, (uint32_t)number);
        break;
    default:
        mpb_put_be64(at, (uint64_t)number);
    }
    return 0;
}

static int encode_float(mpb_writer *writer, const mpb_plan *plan, const mpb_field *field, PyObject *value)
{
    if (!PyFloat_Check(value))
        return unfit(plan, field, PyExc_TypeError, value, "is not a float");
    double number = PyFloat_AS_DOUBLE(value);
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    uint8_t *at = mpb_room(writer, sizeof bits);
    if (at != NULL)
        mpb_put_be64(at, bits);
    return 0;
}

static int encode_uuid(mpb_writer *writer, const mpb_plan *plan, const mpb_field *field, PyObject *value)
{
    if (!PyBytes_Check(value) || PyBytes_GET_SIZE(value) != 16)
        return unfit(plan, field, PyExc_TypeError, value, "is not 16 bytes");
    put_bytes(writer, PyBytes_AS_STRING(value), 16);
    return 0;
}

static int encode_struct(mpb_writer *writer, const mpb_plan *plan, const mpb_field *field, PyObject *value)
{
    if (field->flags & MPB_NULLABLE && !(field->flags & MPB_ARRAY)) {
        int8_t marker = value == Py_None ? -1 : 1;
        put_bytes(writer, &marker, 1);
        if (value == Py_None)
            return 0;
    }
    if (!PyObject_TypeCheck(value, field->sub->cls))
        return unfit(plan, field, PyExc_TypeError, value, "is not of the class this field holds");
    return mpb_encode_message(writer, field->sub, value);
}

static int encode_element(mpb_writer *writer, const mpb_plan *plan, const mpb_field *field, PyObject *value)
{
    switch (field->kind) {
    case MPB_FLOAT64:
        return encode_float(writer, plan, field, value);
    case MPB_UUID:
        return encode_uuid(writer, plan, field, value);
    case MPB_STRUCT:
        return encode_struct(writer, plan, field, value);
    case MPB_STRING:
    case MPB_BYTES:
    case MPB_RECORDS:
        if (value == Py_None && !(field->flags & MPB_ARRAY))
            return put_null(writer, plan, field, field->kind == MPB_STRING);
        return field->kind == MPB_STRING ? encode_string(writer, plan, field, value)
                                         : encode_bytes(writer, plan, field, value);
    default:
        return encode_integer(writer, plan, field, value);
    }
}

static int encode_array(mpb_writer *writer, const mpb_plan *plan, const mpb_field *field, PyObject *value)
{
    if (value == Py_None)
        return put_null(writer, plan, field, false);
    if (!PyList_Check(value) && !PyTuple_Check(value))
        return unfit(plan, field, PyExc_TypeError, value, "is neither a list nor a tuple");
    Py_ssize_t count = PySequence_Fast_GET_SIZE(value);
    if (count > INT32_MAX)
        return unfit(plan, field, PyExc_ValueError, Py_Ellipsis, "has too many elements");
    put_length(writer, field, false, count);
    for (Py_ssize_t i = 0; i < count; i++)
        if (encode_element(writer, plan, field, PySequence_Fast_GET_ITEM(value, i)) < 0)
            return -1;
    return 0;
}

static int encode_field(mpb_writer *writer, const mpb_plan *plan, const mpb_field *field, PyObject *message)
{
    PyObject *value = *mpb_slot(message, field->slot);
    if (value == NULL)
        return unfit(plan, field, PyExc_ValueError, Py_None, "was deleted");
    return field->flags & MPB_ARRAY ? encode_array(writer, plan, field, value)
                                    : encode_element(writer, plan, field, value);
}

/* A tagged field that holds its default is not sent. */
static bool is_default(const mpb_field *field, PyObject *message)
{
    PyObject *value = *mpb_slot(message, field->slot), *fallback = field->fallback;
    if (value == fallback)
        return true;
    if (fallback == (PyObject *)&PyList_Type)
        return value != NULL && (PyList_Check(value) || PyTuple_Check(value)) && PySequence_Fast_GET_SIZE(value) == 0;
    if (value == NULL || !Py_IS_TYPE(value, Py_TYPE(fallback)))
        return false;
    return PyObject_RichCompareBool(value, fallback, Py_EQ) == 1;
}

static int encode_tagged(mpb_writer *writer, const mpb_plan *plan, const mpb_field *field, PyObject *message)
{
    mpb_writer counter = {.base = NULL};
    if (encode_field(&counter, plan, field, message) < 0)
        return -1;
    put_uvarint(writer, field->tag);
    put_uvarint(writer, (uint32_t)counter.pos);
    return encode_field(writer, plan, field, message);
}

static int encode_tags(mpb_writer *writer, const mpb_plan *plan, PyObject *message)
{
    const mpb_field *first = plan->fields + plan->carried, *stop = first + plan->tagged;
    uint32_t present = 0;
    for (const mpb_field *field = first; field < stop; field++)
        present += !is_default(field, message);
    put_uvarint(writer, present);
    for (const mpb_field *field = first; field < stop && present > 0; field++)
        if (!is_default(field, message) && encode_tagged(writer, plan, field, message) < 0)
            return -1;
    return 0;
}

int mpb_encode_message(mpb_writer *writer, const mpb_plan *plan, PyObject *message)
{
    const mpb_field *field = plan->fields, *stop = field + plan->carried;
    for (; field < stop; field++)
        if (encode_field(writer, plan, field, message) < 0)
            return -1;
    if (plan->flexible)
        return encode_tags(writer, plan, message);
    return 0;
}
