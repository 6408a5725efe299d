/* The Plan type: checks what Python hands over once, so that the walkers need not. */
#include "python/py_codec.h"
#include <structmember.h>

Py_ssize_t mpb_slot_offset(PyTypeObject *cls, PyObject *name)
{
    PyObject *descriptor = PyObject_GetAttr((PyObject *)cls, name);
    if (descriptor == NULL)
        return -1;
    Py_ssize_t offset = -1;
    if (Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) {
        const PyMemberDef *member = ((PyMemberDescrObject *)descriptor)->d_member;
        if (member->type == T_OBJECT_EX && !(member->flags & READONLY))
            offset = member->offset;
    }
    Py_DECREF(descriptor);
    if (offset < 0)
        PyErr_Format(PyExc_TypeError, "%s.%U is not a slot a message can be stored in", cls->tp_name, name);
    return offset;
}

static uint32_t kind_min_bytes(const mpb_field *field)
{
    bool compact = field->flags & MPB_COMPACT;
    switch (field->kind) {
    case MPB_BOOL:
    case MPB_INT8:
        return 1;
    case MPB_INT16:
    case MPB_UINT16:
        return 2;
    case MPB_INT32:
        return 4;
    case MPB_INT64:
    case MPB_FLOAT64:
        return 8;
    case MPB_UUID:
        return 16;
    case MPB_STRING:
        return compact ? 1 : 2;
    case MPB_STRUCT:
        return field->flags & MPB_NULLABLE && !(field->flags & MPB_ARRAY) ? 1 : field->sub->min_bytes;
    default:
        return compact ? 1 : 4;
    }
}

static uint32_t field_min_bytes(const mpb_field *field)
{
    if (field->flags & MPB_ARRAY)
        return field->flags & MPB_COMPACT ? 1 : 4;
    return field->element_min;
}

/* row: (name, kind, flags, sub-plan or None, tag, fallback) */
static int fill_field(mpb_plan *plan, mpb_field *field, PyObject *row)
{
    PyObject *name, *sub, *fallback;
    unsigned char kind, flags;
    unsigned int tag;
    if (!mpb_py_parse_row(row, "UbbOIO:field", &name, &kind, &flags, &sub, &tag, &fallback))
        return -1;
    if (kind >= MPB_KINDS || (kind == MPB_STRUCT) != Py_IS_TYPE(sub, &mpb_plan_type)) {
        PyErr_Format(PyExc_TypeError, "%U: kind %d and its sub-plan do not fit", name, (int)kind);
        return -1;
    }
    field->slot = mpb_slot_offset(plan->cls, name);
    if (field->slot < 0)
        return -1;
    field->kind = kind;
    field->flags = flags;
    field->tag = tag;
    field->name = Py_NewRef(name);
    field->fallback = Py_NewRef(fallback);
    field->sub = kind == MPB_STRUCT ? (mpb_plan *)Py_NewRef(sub) : NULL;
    field->element_min = kind_min_bytes(field);
    if (field->element_min == 0) { /* an element of no bytes would leave a count without a bound */
        PyErr_Format(PyExc_TypeError, "%U: an element takes no bytes", name);
        return -1;
    }
    return 0;
}

static int fill_fields(mpb_plan *plan, PyObject *rows, Py_ssize_t first)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(rows); i++)
        if (fill_field(plan, &plan->fields[first + i], PyTuple_GET_ITEM(rows, i)) < 0)
            return -1;
    return 0;
}

static PyObject *plan_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)kwargs;
    PyObject *cls, *carried, *tagged, *absent;
    int flexible;
    if (!PyArg_ParseTuple(args, "O!pO!O!O!:Plan", &PyType_Type, &cls, &flexible, &PyTuple_Type, &carried, &PyTuple_Type,
                          &tagged, &PyTuple_Type, &absent))
        return NULL;
    mpb_plan *plan = (mpb_plan *)type->tp_alloc(type, 0);
    if (plan == NULL)
        return NULL;
    plan->cls = (PyTypeObject *)Py_NewRef(cls);
    plan->flexible = flexible;
    Py_ssize_t c = PyTuple_GET_SIZE(carried), t = PyTuple_GET_SIZE(tagged), a = PyTuple_GET_SIZE(absent);
    plan->fields = PyMem_Calloc((size_t)(c + t + a) + 1, sizeof(mpb_field));
    if (plan->fields == NULL) {
        Py_DECREF(plan);
        return PyErr_NoMemory();
    }
    plan->carried = c, plan->tagged = t, plan->absent = a;
    if (fill_fields(plan, carried, 0) < 0 || fill_fields(plan, tagged, c) < 0 || fill_fields(plan, absent, c + t) < 0) {
        Py_DECREF(plan);
        return NULL;
    }
    plan->min_bytes = plan->flexible ? 1 : 0;
    for (Py_ssize_t i = 0; i < c; i++)
        plan->min_bytes += field_min_bytes(&plan->fields[i]);
    return (PyObject *)plan;
}

static void plan_dealloc(PyObject *self)
{
    mpb_plan *plan = (mpb_plan *)self;
    for (Py_ssize_t i = 0; plan->fields != NULL && i < plan->carried + plan->tagged + plan->absent; i++) {
        Py_XDECREF(plan->fields[i].name);
        Py_XDECREF(plan->fields[i].fallback);
        Py_XDECREF(plan->fields[i].sub);
    }
    PyMem_Free(plan->fields);
    Py_XDECREF(plan->cls);
    Py_TYPE(self)->tp_free(self);
}

static PyMemberDef plan_members[] = {
    {"min_bytes", T_UINT, offsetof(mpb_plan, min_bytes), READONLY, "fewest bytes such a message can take"},
    {NULL, 0, 0, 0, NULL},
};

PyTypeObject mpb_plan_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mpbroker._native.Plan",
    .tp_doc = "Plan(cls, flexible, carried, tagged, absent): one message class at one version, for the codec.",
    .tp_basicsize = sizeof(mpb_plan),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = plan_new,
    .tp_dealloc = plan_dealloc,
    .tp_members = plan_members,
};
