/* Python glue of the reader: a buffer in, columns as buffers out. */
#include "ingest_module.h"

#include "common/buffers_owned.h"
#include "ingest.h"

#include <stdlib.h>

const char ing_module_doc[] =
    "read_history(text, format, threads, memory_bytes)\n--\n\n"
    "Columns of a transactional history as a tuple of buffers; see checkers/txn/ingest.py.\n"
    "Format: 0 ours, 1 EDN, 2 JSON. Raises ValueError(message, line, column), line 0 where the\n"
    "cause is not in the text.";

/* Gives the array to the tuple. */
#define MOVE(tuple, at, array, n)                                                                  \
    do {                                                                                           \
        PyObject *made = bad ? NULL : buffers_owned(module, array, n, sizeof *(array));            \
        (array) = bad ? (array) : NULL;                                                            \
        bad = bad || made == NULL || PyTuple_SetItem(tuple, at, made) != 0;                        \
    } while (0)

static int names(PyObject *tuple, Py_ssize_t at, struct ing_names *names)
{
    int64_t n = names->name.n;
    PyObject *bits = PyBytes_FromStringAndSize((const char *)names->name.p,
                                               (Py_ssize_t)n * (Py_ssize_t)sizeof *names->name.p);
    PyObject *text = PyBytes_FromStringAndSize(names->text.p, (Py_ssize_t)names->text.n);
    if (bits == NULL || text == NULL) {
        Py_XDECREF(bits);
        Py_XDECREF(text);
        return -1;
    }
    int status = PyTuple_SetItem(tuple, at, bits);
    return PyTuple_SetItem(tuple, at + 1, text) != 0 ? -1 : status;
}

/* How many events have each field that nobody knows, by its name. */
static PyObject *fields(const struct ing_columns *c)
{
    PyObject *made = PyDict_New();
    for (int64_t i = 0; made != NULL && i < c->fields.name.n; i++) {
        const struct ing_name *name = &c->fields.name.p[i];
        if (c->n_fields == NULL || (name->tag != ING_STRING && name->tag != ING_KEYWORD)) {
            continue;
        }
        PyObject *key = PyUnicode_DecodeUTF8(c->fields.text.p + name->bits, name->size, "replace");
        PyObject *count = PyLong_FromLongLong(c->n_fields[i]);
        if (key == NULL || count == NULL || PyDict_SetItem(made, key, count) != 0) {
            Py_CLEAR(made);
        }
        Py_XDECREF(key);
        Py_XDECREF(count);
    }
    return made;
}

static PyObject *result(PyObject *module, struct ing_columns *c)
{
    enum { ARRAYS = 12, NAMES = 4, ITEMS = ARRAYS + NAMES + ING_SKIPS + 2 };
    PyObject *tuple = PyTuple_New(ITEMS);
    if (tuple == NULL) {
        return NULL;
    }
    int bad = 0;
    MOVE(tuple, 0, c->outcome, c->n);
    MOVE(tuple, 1, c->process, c->n);
    MOVE(tuple, 2, c->invoke_pos, c->n);
    MOVE(tuple, 3, c->complete_pos, c->n);
    MOVE(tuple, 4, c->op_index, c->n);
    MOVE(tuple, 5, c->mop_start, c->n + 1);
    MOVE(tuple, 6, c->mop_kind, c->m);
    MOVE(tuple, 7, c->mop_key, c->m);
    MOVE(tuple, 8, c->mop_value, c->m);
    MOVE(tuple, 9, c->mop_known, c->m);
    MOVE(tuple, 10, c->elem_start, c->m + 1);
    MOVE(tuple, 11, c->elem, c->e);
    bad = bad || names(tuple, ARRAYS, &c->keys) || names(tuple, ARRAYS + 2, &c->values);
    for (int i = 0; i <= ING_SKIPS && !bad; i++) {
        PyObject *count = PyLong_FromLongLong(i < ING_SKIPS ? c->skipped[i] : c->writes);
        bad = count == NULL || PyTuple_SetItem(tuple, ARRAYS + NAMES + i, count) != 0;
    }
    PyObject *counts = bad ? NULL : fields(c);
    bad = counts == NULL || PyTuple_SetItem(tuple, ITEMS - 1, counts) != 0;
    if (bad) {
        Py_DECREF(tuple);
        return NULL;
    }
    return tuple;
}

PyObject *ing_module_read(PyObject *module, PyObject *args)
{
    PyObject *text;
    Py_buffer view;
    int format, threads, status;
    long long memory_bytes;
    struct ing_columns columns;
    struct ing_error error;
    if (!PyArg_ParseTuple(args, "OiiL:read_history", &text, &format, &threads, &memory_bytes)) {
        return NULL;
    }
    if (format < ING_OURS || format > ING_JSON || memory_bytes < 0) {
        PyErr_SetString(PyExc_ValueError, "no such format, or a negative budget");
        return NULL;
    }
    if (PyObject_GetBuffer(text, &view, PyBUF_SIMPLE) != 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = ing_read(view.buf, view.len, format, threads, memory_bytes, &columns, &error);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&view);
    if (status != 0) {
        PyObject *reason = Py_BuildValue("(sLL)", error.message, (long long)error.line,
                                         (long long)error.column);
        if (reason != NULL) {
            PyErr_SetObject(PyExc_ValueError, reason);
            Py_DECREF(reason);
        }
        return NULL;
    }
    PyObject *made = result(module, &columns);
    ing_free(&columns);
    return made;
}
