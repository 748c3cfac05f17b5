/* Python glue of histories that come in pieces. A stream is a capsule that one thread uses at a time. */
#include "stream_module.h"

#include "common/buffers.h"
#include "stream.h"

#include <stdlib.h>

#define CAPSULE "checkers._core.stream"

struct held {
    struct stream *stream;
    int busy; /* a call is at work without the interpreter's lock */
};

static void release(PyObject *capsule)
{
    struct held *held = PyCapsule_GetPointer(capsule, CAPSULE);
    if (held != NULL) {
        stream_free(held->stream);
        free(held);
    }
}

static struct held *held_by(PyObject *capsule)
{
    struct held *held = PyCapsule_GetPointer(capsule, CAPSULE);
    if (held != NULL && held->busy) {
        PyErr_SetString(PyExc_RuntimeError, "the stream is in use by another thread");
        return NULL;
    }
    return held;
}

PyObject *stream_open_py(PyObject *Py_UNUSED(module), PyObject *args)
{
    long long memory_bytes, window_bytes;
    if (!PyArg_ParseTuple(args, "LL:stream_open", &memory_bytes, &window_bytes)) {
        return NULL;
    }
    if (memory_bytes < 0 || window_bytes < 0) {
        PyErr_SetString(PyExc_ValueError, "a negative budget");
        return NULL;
    }
    struct held *held = calloc(1, sizeof *held);
    if (held != NULL) {
        held->stream = stream_open(memory_bytes, window_bytes);
    }
    if (held == NULL || held->stream == NULL) {
        free(held);
        return PyErr_NoMemory();
    }
    PyObject *capsule = PyCapsule_New(held, CAPSULE, release);
    if (capsule == NULL) {
        stream_free(held->stream);
        free(held);
    }
    return capsule;
}

PyObject *stream_feed_py(PyObject *Py_UNUSED(module), PyObject *args)
{
    static const struct buffer_kind kinds[] = {{"stop", "il", 4, 0}};
    PyObject *capsule, *lines, *flag;
    long long time_ns;
    struct ing_error error = {NULL, 0, 0};
    struct buffer stop = {.taken = 0};
    Py_buffer text;
    int status;
    if (!PyArg_ParseTuple(args, "OOLO:stream_feed", &capsule, &lines, &time_ns, &flag)) {
        return NULL;
    }
    struct held *held = held_by(capsule);
    if (held == NULL || PyObject_GetBuffer(lines, &text, PyBUF_SIMPLE) != 0) {
        return NULL;
    }
    if (buffer_take(&stop, flag, kinds) != 0) {
        PyBuffer_Release(&text);
        return NULL;
    }
    if (buffer_length(&stop) < 1) {
        buffer_release(&stop, 1);
        PyBuffer_Release(&text);
        PyErr_SetString(PyExc_ValueError, "stop: need one element");
        return NULL;
    }
    const int32_t *raised = stop.view.buf;
    held->busy = 1;
    Py_BEGIN_ALLOW_THREADS
    status = text.len > 0 ? stream_feed(held->stream, text.buf, text.len, time_ns, raised, &error)
                          : stream_finish(held->stream, time_ns, raised, &error);
    Py_END_ALLOW_THREADS
    held->busy = 0;
    buffer_release(&stop, 1);
    PyBuffer_Release(&text);
    return Py_BuildValue("izLL", status, error.message, (long long)error.line,
                         (long long)error.column);
}

static PyObject *scalar_py(const struct stream_scalar *scalar)
{
    switch (scalar->tag) {
    case ING_INT:
        return PyLong_FromLongLong(scalar->bits);
    case ING_BOOL:
        return PyBool_FromLong((long)scalar->bits);
    case ING_STRING:
        return PyUnicode_FromStringAndSize(scalar->text, (Py_ssize_t)scalar->size);
    default: /* other kinds do not stay what they are on the way through another reader */
        return Py_NewRef(Py_None);
    }
}

static PyObject *involved_py(const struct stream *s, const struct stream_report *report)
{
    PyObject *list = PyList_New((Py_ssize_t)report->n_involved);
    for (int64_t i = 0; list != NULL && i < report->n_involved; i++) {
        struct stream_scalar scalar;
        stream_scalar_of(s, report->involved[i], &scalar);
        PyObject *key = scalar_py(&scalar);
        if (key == NULL || PyList_SetItem(list, (Py_ssize_t)i, key) != 0) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

PyObject *stream_report_py(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *capsule;
    struct stream_report r;
    if (!PyArg_ParseTuple(args, "O:stream_report", &capsule)) {
        return NULL;
    }
    struct held *held = held_by(capsule);
    if (held == NULL) {
        return NULL;
    }
    stream_report(held->stream, &r);
    PyObject *involved = involved_py(held->stream, &r);
    if (involved == NULL) {
        return NULL;
    }
    return Py_BuildValue(
        "LLLLLLLniL(LLL)N", (long long)r.ok, (long long)r.failed, (long long)r.unknown,
        (long long)r.seen, (long long)r.keys, (long long)r.touching, (long long)r.last_ns,
        (Py_ssize_t)r.memory_bytes, r.end, (long long)r.op_id, (long long)r.skipped[ING_UNMARKED],
        (long long)r.skipped[ING_UNANSWERED], (long long)r.skipped[ING_LACKING], involved);
}

PyObject *stream_select_py(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *capsule, *lines;
    long long n;
    int first;
    int64_t found = -1;
    Py_buffer text;
    if (!PyArg_ParseTuple(args, "OOLp:stream_select", &capsule, &lines, &n, &first)) {
        return NULL;
    }
    struct held *held = held_by(capsule);
    if (held == NULL || PyObject_GetBuffer(lines, &text, PyBUF_SIMPLE) != 0) {
        return NULL;
    }
    int64_t rows_max = ((int64_t)text.len / STREAM_LINE_MIN + 1) * 2;
    int64_t *rows = calloc((size_t)rows_max, sizeof *rows);
    held->busy = 1;
    Py_BEGIN_ALLOW_THREADS
    if (first) {
        stream_rewind(held->stream);
    }
    if (rows != NULL) {
        found = stream_select(held->stream, text.buf, text.len, n, rows, rows_max);
    }
    Py_END_ALLOW_THREADS
    held->busy = 0;
    PyBuffer_Release(&text);
    PyObject *result = rows == NULL ? PyErr_NoMemory()
                       : found < 0
                           ? Py_NewRef(Py_None)
                           : PyBytes_FromStringAndSize(
                                 (const char *)rows, (Py_ssize_t)found * (Py_ssize_t)sizeof *rows);
    free(rows);
    return result;
}
