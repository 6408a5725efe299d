/* Which functions ran: one byte each in a file that all processes of a test map, so that forks, kills and os._exit
 * lose nothing. Built twice by tests/mutation/record.py: into the C core (compiled with -finstrument-functions), where
 * a function's place is its address; and as a Python module (-DPYTHON), where it is the hash of path and name.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define HIDDEN __attribute__((visibility("hidden"))) /* libc has empty functions of these names: ours have to be taken */
#define PYTHON_PLACES (1u << 20)
#define NATIVE_PLACES (1u << 20)

static uint8_t *places;

static QUIET void open_places(void)
{
    const char *path = getenv("TOUCHED_MAP");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, PYTHON_PLACES + NATIVE_PLACES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        places = mapped;
}

#ifndef PYTHON
static uintptr_t base;

__attribute__((constructor)) static QUIET void begin(void)
{
    Dl_info found;
    if (dladdr((void *)&places, &found))
        base = (uintptr_t)found.dli_fbase;
    open_places();
}

QUIET HIDDEN void __cyg_profile_func_enter(void *function, void *site)
{
    (void)site;
    if (places)
        places[PYTHON_PLACES + ((((uintptr_t)function - base) >> 4) & (NATIVE_PLACES - 1))] = 1;
}

QUIET HIDDEN void __cyg_profile_func_exit(void *function, void *site)
{
    (void)function;
    (void)site;
}
#else
#include <Python.h>
#include <frameobject.h>

static Py_ssize_t extra = -1;

static uint32_t hashed(uint32_t hash, const char *text, size_t length)
{
    for (size_t at = 0; at < length; at++)
        hash = (hash ^ (uint8_t)text[at]) * 16777619u;
    return hash;
}

/* The place of a code object plus one; all bits set for code that is not ours. */
static uintptr_t place_of(PyCodeObject *code)
{
    const char *file = PyUnicode_AsUTF8(code->co_filename), *ours = NULL;
    for (const char *at = file; at && (at = strstr(at, "/mpbroker/")); at++)
        ours = at + 1;
    const char *name = ours ? PyUnicode_AsUTF8(code->co_qualname) : NULL;
    if (!name) {
        PyErr_Clear();
        return UINTPTR_MAX;
    }
    const char *local = strstr(name, ".<locals>");
    uint32_t hash = hashed(2166136261u, ours, strlen(ours));
    hash = hashed(hash, name, local ? (size_t)(local - name) : strlen(name));
    return (uintptr_t)(hash % PYTHON_PLACES) + 1;
}

static int on_call(PyObject *self, PyFrameObject *frame, int what, PyObject *argument)
{
    (void)self;
    (void)argument;
    if (what != PyTrace_CALL || !places)
        return 0;
    PyCodeObject *code = PyFrame_GetCode(frame);
    void *known = NULL;
    _PyCode_GetExtra((PyObject *)code, extra, &known);
    if (!known) {
        known = (void *)place_of(code);
        _PyCode_SetExtra((PyObject *)code, extra, known);
    }
    if ((uintptr_t)known != UINTPTR_MAX)
        places[(uintptr_t)known - 1] = 1;
    Py_DECREF(code);
    return 0;
}

static PyObject *watch(PyObject *self, PyObject *arguments)
{
    (void)self;
    (void)arguments;
    if (!places)
        open_places();
    PyEval_SetProfile(on_call, NULL);
    Py_RETURN_NONE;
}

static PyObject *open_again(PyObject *self, PyObject *arguments)
{
    open_places();
    return watch(self, arguments);
}

static PyMethodDef methods[] = {
    {"watch", watch, METH_VARARGS, "Watch this thread from now on."},
    {"open", open_again, METH_NOARGS, "Map what TOUCHED_MAP names now, then watch."},
    {0},
};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "mpbroker_touched", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_mpbroker_touched(void)
{
    extra = _PyEval_RequestCodeExtraIndex(NULL);
    return PyModule_Create(&module);
}
#endif
