/* Binder of the codec: arguments, buffers and reference counts. mpbroker/protocol/codec.py and headers.py are its
 * only callers; they say what each function promises. Everything here runs under the GIL in whichever process
 * decodes or encodes; nothing is shared between processes. */
#include "python/py_codec.h"
#include "record/wire.h"

#define SCRATCH_BYTES 1024
#define API_KEYS 256

PyObject *mpb_protocol_error, *mpb_buffer_too_small;

static PyObject *plans;      /* message class → list of Plan or None, indexed by version */
static PyObject *build_plan; /* (class, version) → Plan; raises for a class or a version that does not exist */
static PyTypeObject *header_class;
static Py_ssize_t header_slots[5];
static int first_flexible[API_KEYS]; /* by API key; -1: no such key */

static int check_count(const char *name, Py_ssize_t given, Py_ssize_t least, Py_ssize_t most)
{
    if (given >= least && given <= most)
        return 0;
    PyErr_Format(PyExc_TypeError, "%s takes %zd to %zd positional arguments, not %zd", name, least, most, given);
    return -1;
}

/* New reference. */
static mpb_plan *find_plan(PyObject *cls, PyObject *version)
{
    PyObject *by_version = plans == NULL ? NULL : PyDict_GetItemWithError(plans, cls), *plan = NULL;
    Py_ssize_t index = PyLong_AsSsize_t(version);
    if (PyErr_Occurred())
        return NULL;
    if (by_version != NULL && PyList_Check(by_version) && index >= 0 && index < PyList_GET_SIZE(by_version))
        plan = PyList_GET_ITEM(by_version, index);
    if (plan != NULL && Py_IS_TYPE(plan, &mpb_plan_type))
        return (mpb_plan *)Py_NewRef(plan);
    plan = build_plan == NULL ? NULL : PyObject_CallFunctionObjArgs(build_plan, cls, version, NULL);
    if (plan == NULL) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_RuntimeError, "mpbroker.protocol.codec is not loaded");
        return NULL;
    }
    if (!Py_IS_TYPE(plan, &mpb_plan_type) || (PyObject *)((mpb_plan *)plan)->cls != cls) {
        Py_DECREF(plan);
        PyErr_SetString(PyExc_TypeError, "the plan belongs to another class");
        return NULL;
    }
    return (mpb_plan *)plan;
}

/* Opens `source` for reading from `offset` (may be NULL: 0). */
static int open_reader(mpb_reader *reader, Py_buffer *buffer, PyObject *source, PyObject *offset)
{
    Py_ssize_t start = offset == NULL ? 0 : PyLong_AsSsize_t(offset);
    if (start == -1 && PyErr_Occurred())
        return -1;
    if (PyObject_GetBuffer(source, buffer, PyBUF_SIMPLE) < 0)
        return -1;
    if (start < 0 || start > buffer->len) {
        PyErr_Format(mpb_protocol_error, "offset %zd lies outside a buffer of %zd bytes", start, buffer->len);
        PyBuffer_Release(buffer);
        return -1;
    }
    const uint8_t *base = buffer->buf;
    *reader = (mpb_reader){.base = base, .at = base + start, .end = base + buffer->len, .source = source};
    return 0;
}

/* args: class, version, buffer, [offset]; *end is where reading stopped */
static PyObject *decode_from(PyObject *const *args, Py_ssize_t nargs, Py_ssize_t *end)
{
    Py_buffer buffer;
    mpb_reader reader;
    mpb_plan *plan = find_plan(args[0], args[1]);
    if (plan == NULL)
        return NULL;
    PyObject *message = NULL;
    if (open_reader(&reader, &buffer, args[2], nargs > 3 ? args[3] : NULL) == 0) {
        message = mpb_decode_message(&reader, plan);
        *end = reader.at - reader.base;
        Py_XDECREF(reader.view);
        PyBuffer_Release(&buffer);
    }
    Py_DECREF(plan);
    return message;
}

static PyObject *codec_decode(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    Py_ssize_t end;
    return check_count("decode", nargs, 3, 4) < 0 ? NULL : decode_from(args, nargs, &end);
}

static PyObject *codec_decode_prefix(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    Py_ssize_t end;
    PyObject *message = check_count("decode_prefix", nargs, 3, 4) < 0 ? NULL : decode_from(args, nargs, &end);
    return message == NULL ? NULL : Py_BuildValue("Nn", message, end);
}

static int encode_body(mpb_writer *writer, PyObject *message, PyObject *version)
{
    mpb_plan *plan = find_plan((PyObject *)Py_TYPE(message), version);
    if (plan == NULL)
        return -1;
    int status = mpb_encode_message(writer, plan, message);
    Py_DECREF(plan);
    return writer->failed ? -1 : status;
}

/* The bytes object of a growing writer; steals its heap object. */
static PyObject *finish_bytes(mpb_writer *writer, int status)
{
    if (status < 0) {
        Py_CLEAR(writer->heap);
        return NULL;
    }
    if (writer->heap == NULL)
        return PyBytes_FromStringAndSize((const char *)writer->base, (Py_ssize_t)writer->pos);
    _PyBytes_Resize(&writer->heap, (Py_ssize_t)writer->pos);
    return writer->heap;
}

static PyObject *codec_encode(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    uint8_t scratch[SCRATCH_BYTES];
    mpb_writer writer = {.base = scratch, .cap = sizeof scratch, .growing = true};
    if (check_count("encode", nargs, 2, 2) < 0)
        return NULL;
    return finish_bytes(&writer, encode_body(&writer, args[0], args[1]));
}

static PyObject *codec_encoded_size(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    mpb_writer writer = {.base = NULL};
    if (check_count("encoded_size", nargs, 2, 2) < 0)
        return NULL;
    writer.ranges = PyList_New(0); /* an int in a records field counts as the bytes it reserves */
    int status = writer.ranges == NULL ? -1 : encode_body(&writer, args[0], args[1]);
    Py_XDECREF(writer.ranges);
    return status < 0 ? NULL : PyLong_FromSize_t(writer.pos);
}

/* Frame = length, header, body. The length is filled in by close_frame. */
static size_t open_request(mpb_writer *writer, int key, int version, int32_t correlation_id, const char *client_id,
                           Py_ssize_t client_id_bytes)
{
    size_t start = writer->pos;
    bool flexible = version >= first_flexible[key], bare = key == 7 && version == 0;
    size_t size = 12 + (bare ? 0 : 2 + (size_t)client_id_bytes) + flexible;
    uint8_t *at = mpb_room(writer, size);
    if (at == NULL)
        return start;
    mpb_put_be16(at + 4, (uint16_t)key);
    mpb_put_be16(at + 6, (uint16_t)version);
    mpb_put_be32(at + 8, (uint32_t)correlation_id);
    if (!bare) {
        mpb_put_be16(at + 12, (uint16_t)client_id_bytes);
        memcpy(at + 14, client_id, (size_t)client_id_bytes);
    }
    if (flexible)
        at[size - 1] = 0;
    return start;
}

static size_t open_response(mpb_writer *writer, int key, int version, int32_t correlation_id)
{
    size_t start = writer->pos;
    bool tags = version >= first_flexible[key] && key != 18; /* ApiVersions: readable by any client, so never tags */
    uint8_t *at = mpb_room(writer, tags ? 9 : 8);
    if (at != NULL) {
        mpb_put_be32(at + 4, (uint32_t)correlation_id);
        if (tags)
            at[8] = 0;
    }
    return start;
}

static int close_frame(mpb_writer *writer, size_t start, int status)
{
    size_t length = writer->pos - start - 4;
    if (status < 0)
        return -1;
    if (length > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a frame cannot have more than 2147483647 bytes");
        return -1;
    }
    if (writer->pos <= writer->cap)
        mpb_put_be32(writer->base + start, (uint32_t)length);
    return 0;
}

/* args: api_key, version, correlation_id */
static int read_frame_arguments(PyObject *const *args, int *key, int *version, int32_t *correlation_id)
{
    long numbers[3];
    for (int i = 0; i < 3; i++) {
        numbers[i] = PyLong_AsLong(args[i]);
        if (numbers[i] == -1 && PyErr_Occurred())
            return -1;
    }
    if (numbers[0] < 0 || numbers[0] >= API_KEYS || first_flexible[numbers[0]] < 0 || numbers[1] < 0 ||
        numbers[1] > INT16_MAX || numbers[2] < INT32_MIN || numbers[2] > INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "no frame has key %ld, version %ld and correlation id %ld", numbers[0],
                     numbers[1], numbers[2]);
        return -1;
    }
    *key = (int)numbers[0], *version = (int)numbers[1], *correlation_id = (int32_t)numbers[2];
    return 0;
}

static PyObject *codec_encode_response_frame(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    uint8_t scratch[SCRATCH_BYTES];
    mpb_writer writer = {.base = scratch, .cap = sizeof scratch, .growing = true};
    int key, version;
    int32_t correlation_id;
    if (check_count("encode_response_frame", nargs, 4, 4) < 0 ||
        read_frame_arguments(args, &key, &version, &correlation_id) < 0)
        return NULL;
    size_t start = open_response(&writer, key, version, correlation_id);
    return finish_bytes(&writer, close_frame(&writer, start, encode_body(&writer, args[3], args[1])));
}

static PyObject *codec_encode_request_frame(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    uint8_t scratch[SCRATCH_BYTES];
    mpb_writer writer = {.base = scratch, .cap = sizeof scratch, .growing = true};
    int key, version;
    int32_t correlation_id;
    Py_ssize_t size;
    if (check_count("encode_request_frame", nargs, 5, 5) < 0 ||
        read_frame_arguments(args, &key, &version, &correlation_id) < 0)
        return NULL;
    const char *client_id = PyUnicode_AsUTF8AndSize(args[3], &size);
    if (client_id == NULL)
        return NULL;
    if (size > INT16_MAX) {
        PyErr_SetString(PyExc_ValueError, "a client id cannot have more than 32767 bytes");
        return NULL;
    }
    size_t start = open_request(&writer, key, version, correlation_id, client_id, size);
    return finish_bytes(&writer, close_frame(&writer, start, encode_body(&writer, args[4], args[1])));
}

/* What encode_into and its kin need besides the message. */
typedef struct {
    mpb_writer writer;
    Py_buffer buffer;
    size_t start;
} target;

static int open_target(target *target, PyObject *object, PyObject *offset, bool reserving)
{
    Py_ssize_t start = offset == NULL ? 0 : PyLong_AsSsize_t(offset);
    if ((start == -1 && PyErr_Occurred()) || PyObject_GetBuffer(object, &target->buffer, PyBUF_WRITABLE) < 0)
        return -1;
    if (start < 0 || start > target->buffer.len)
        PyErr_Format(PyExc_ValueError, "offset %zd lies outside a buffer of %zd bytes", start, target->buffer.len);
    target->start = (size_t)start;
    target->writer = (mpb_writer){.base = target->buffer.buf, .pos = (size_t)start};
    target->writer.cap = (size_t)target->buffer.len;
    if (reserving && !PyErr_Occurred())
        target->writer.ranges = PyList_New(0);
    if (PyErr_Occurred()) {
        PyBuffer_Release(&target->buffer);
        return -1;
    }
    return 0;
}

/* end, or (end, ranges) when reserving; BufferTooSmall when the message went beyond the buffer */
static PyObject *close_target(target *target, int status)
{
    mpb_writer *writer = &target->writer;
    PyObject *result = NULL;
    if (status == 0 && writer->pos > writer->cap) {
        PyObject *error = PyObject_CallFunction(mpb_buffer_too_small, "nn", (Py_ssize_t)(writer->pos - target->start),
                                                (Py_ssize_t)(writer->cap - target->start));
        if (error != NULL)
            PyErr_SetObject(mpb_buffer_too_small, error);
        Py_XDECREF(error);
    } else if (status == 0 && writer->ranges != NULL)
        result = Py_BuildValue("nO", (Py_ssize_t)writer->pos, writer->ranges);
    else if (status == 0)
        result = PyLong_FromSize_t(writer->pos);
    Py_CLEAR(writer->ranges);
    PyBuffer_Release(&target->buffer);
    return result;
}

static PyObject *encode_to(PyObject *const *args, Py_ssize_t nargs, const char *name, bool reserving)
{
    target target;
    if (check_count(name, nargs, 3, 4) < 0 || open_target(&target, args[2], nargs > 3 ? args[3] : NULL, reserving) < 0)
        return NULL;
    return close_target(&target, encode_body(&target.writer, args[0], args[1]));
}

static PyObject *codec_encode_into(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    return encode_to(args, nargs, "encode_into", false);
}

static PyObject *codec_encode_reserving(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    return encode_to(args, nargs, "encode_reserving", true);
}

static PyObject *codec_encode_response_frame_into(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    target target;
    int key, version;
    int32_t correlation_id;
    if (check_count("encode_response_frame_into", nargs, 5, 6) < 0 ||
        read_frame_arguments(args, &key, &version, &correlation_id) < 0 ||
        open_target(&target, args[4], nargs > 5 ? args[5] : NULL, true) < 0)
        return NULL;
    size_t start = open_response(&target.writer, key, version, correlation_id);
    return close_target(&target, close_frame(&target.writer, start, encode_body(&target.writer, args[3], args[1])));
}

/* The nullable client id of headers 1 and 2; null reads as "". */
static PyObject *read_client_id(mpb_reader *reader)
{
    if (reader->end - reader->at < 2)
        return mpb_malformed(reader, "request header", "it ends before the client id");
    int16_t size = (int16_t)mpb_get_be16(reader->at);
    if (size > reader->end - reader->at - 2)
        return mpb_malformed(reader, "request header", "the client id is longer than the bytes that are left");
    reader->at += 2;
    PyObject *client_id = PyUnicode_DecodeUTF8((const char *)reader->at, size < 0 ? 0 : size, "replace");
    reader->at += size < 0 ? 0 : size;
    return client_id;
}

/* Steals client_id. */
static PyObject *make_header(const uint8_t *at, PyObject *client_id, Py_ssize_t body_offset)
{
    PyObject *values[5] = {PyLong_FromLong((int16_t)mpb_get_be16(at)), PyLong_FromLong((int16_t)mpb_get_be16(at + 2)),
                           PyLong_FromLong((int32_t)mpb_get_be32(at + 4)), client_id, PyLong_FromSsize_t(body_offset)};
    PyObject *header = header_class->tp_alloc(header_class, 0);
    for (int i = 0; i < 5; i++) {
        if (values[i] == NULL)
            Py_CLEAR(header);
        if (header != NULL)
            *mpb_slot(header, header_slots[i]) = values[i];
        else
            Py_XDECREF(values[i]);
    }
    return header;
}

static PyObject *read_request_header(mpb_reader *reader)
{
    const uint8_t *at = reader->at;
    if (reader->end - at < 8)
        return mpb_malformed(reader, "request header", "it is shorter than 8 bytes");
    int16_t key = (int16_t)mpb_get_be16(at), version = (int16_t)mpb_get_be16(at + 2);
    if (key < 0 || key >= API_KEYS || first_flexible[key] < 0 || version < 0) {
        PyErr_Format(mpb_protocol_error, "request header: there is no API with key %d and version %d", key, version);
        return NULL;
    }
    reader->at += 8;
    bool bare = key == 7 && version == 0; /* ControlledShutdown 0 predates the client id */
    PyObject *client_id = bare ? PyUnicode_FromStringAndSize(NULL, 0) : read_client_id(reader);
    if (client_id == NULL)
        return NULL;
    if (version >= first_flexible[key] && mpb_skip_tags(reader) < 0) {
        Py_DECREF(client_id);
        return NULL;
    }
    return make_header(at, client_id, reader->at - reader->base);
}

static PyObject *codec_decode_request_header(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    Py_buffer buffer;
    mpb_reader reader;
    if (check_count("decode_request_header", nargs, 1, 2) < 0 ||
        open_reader(&reader, &buffer, args[0], nargs > 1 ? args[1] : NULL) < 0)
        return NULL;
    PyObject *header = NULL;
    if (header_class == NULL)
        PyErr_SetString(PyExc_RuntimeError, "mpbroker.protocol.headers is not loaded");
    else
        header = read_request_header(&reader);
    PyBuffer_Release(&buffer);
    return header;
}

/* args: api_key, version, buffer, [offset] → (correlation_id, body_offset) */
static PyObject *codec_decode_response_header(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    (void)module;
    Py_buffer buffer;
    mpb_reader reader;
    if (check_count("decode_response_header", nargs, 3, 4) < 0)
        return NULL;
    long key = PyLong_AsLong(args[0]), version = PyLong_AsLong(args[1]);
    if (PyErr_Occurred() || open_reader(&reader, &buffer, args[2], nargs > 3 ? args[3] : NULL) < 0)
        return NULL;
    PyObject *result = NULL;
    bool known = key >= 0 && key < API_KEYS && first_flexible[key] >= 0;
    if (!known)
        PyErr_Format(PyExc_ValueError, "there is no API with key %ld", key);
    else if (reader.end - reader.at < 4)
        mpb_malformed(&reader, "response header", "it is shorter than 4 bytes");
    else {
        int32_t correlation_id = (int32_t)mpb_get_be32(reader.at);
        reader.at += 4;
        if (key == 18 || version < first_flexible[key] || mpb_skip_tags(&reader) == 0)
            result = Py_BuildValue("in", (int)correlation_id, (Py_ssize_t)(reader.at - reader.base));
    }
    PyBuffer_Release(&buffer);
    return result;
}

/* args: dict of plans, builder */
static PyObject *codec_connect_plans(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *dict, *builder;
    if (!PyArg_ParseTuple(args, "O!O:codec_connect_plans", &PyDict_Type, &dict, &builder))
        return NULL;
    Py_XSETREF(plans, Py_NewRef(dict));
    Py_XSETREF(build_plan, Py_NewRef(builder));
    Py_RETURN_NONE;
}

/* args: header class, names of its five fields in wire order, then {api key: first flexible version} */
static PyObject *codec_connect_headers(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *cls, *names, *flexible, *key, *version;
    Py_ssize_t position = 0;
    if (!PyArg_ParseTuple(args, "O!O!O!:codec_connect_headers", &PyType_Type, &cls, &PyTuple_Type, &names, &PyDict_Type,
                          &flexible))
        return NULL;
    for (Py_ssize_t i = 0; i < 5; i++) {
        if (i >= PyTuple_GET_SIZE(names))
            return PyErr_Format(PyExc_TypeError, "a request header has five fields");
        header_slots[i] = mpb_slot_offset((PyTypeObject *)cls, PyTuple_GET_ITEM(names, i));
        if (header_slots[i] < 0)
            return NULL;
    }
    for (int i = 0; i < API_KEYS; i++)
        first_flexible[i] = -1;
    while (PyDict_Next(flexible, &position, &key, &version)) {
        long k = PyLong_AsLong(key), v = PyLong_AsLong(version);
        if (PyErr_Occurred() || k < 0 || k >= API_KEYS || v < 0 || v > INT16_MAX + 1)
            return PyErr_Format(PyExc_ValueError, "API keys run from 0 to %d", API_KEYS - 1);
        first_flexible[k] = (int)v;
    }
    Py_XSETREF(header_class, (PyTypeObject *)Py_NewRef(cls));
    Py_RETURN_NONE;
}

#define FAST(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}
static PyMethodDef codec_methods[] = {
    FAST(codec_decode),
    FAST(codec_decode_prefix),
    FAST(codec_encode),
    FAST(codec_encoded_size),
    FAST(codec_encode_into),
    FAST(codec_encode_reserving),
    FAST(codec_encode_response_frame),
    FAST(codec_encode_response_frame_into),
    FAST(codec_encode_request_frame),
    FAST(codec_decode_request_header),
    FAST(codec_decode_response_header),
    {"codec_connect_plans", codec_connect_plans, METH_VARARGS, NULL},
    {"codec_connect_headers", codec_connect_headers, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int mpb_add_codec(PyObject *module)
{
    PyObject *errors = PyImport_ImportModule("mpbroker.errors");
    if (errors == NULL)
        return -1;
    mpb_protocol_error = PyObject_GetAttrString(errors, "ProtocolError");
    mpb_buffer_too_small = PyObject_GetAttrString(errors, "BufferTooSmall");
    Py_DECREF(errors);
    for (int i = 0; i < API_KEYS; i++)
        first_flexible[i] = -1;
    if (mpb_protocol_error == NULL || mpb_buffer_too_small == NULL || PyModule_AddType(module, &mpb_plan_type) < 0)
        return -1;
    return PyModule_AddFunctions(module, codec_methods);
}
