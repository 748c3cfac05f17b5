/* Python glue of the reader of operations: a buffer in, columns as bytes out. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "ops.h"
#include "ops_module.h"

/* Bytes of n elements as item `at`, to be filled in. */
static void *column(PyObject *tuple, Py_ssize_t at, int64_t n, size_t size)
{
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)n * (Py_ssize_t)size);
    if (bytes == NULL || PyTuple_SetItem(tuple, at, bytes) != 0) {
        return NULL;
    }
    return PyBytes_AsString(bytes);
}

#define COLUMN(tuple, at, type, table, field)                                                      \
    do {                                                                                           \
        type *to = column(tuple, at, (table)->row.n, sizeof *to);                                  \
        for (int64_t i = 0; to != NULL && i < (table)->row.n; i++) {                               \
            to[i] = (table)->row.p[i].field;                                                       \
        }                                                                                          \
        bad = bad || to == NULL;                                                                   \
    } while (0)

static int names(PyObject *tuple, Py_ssize_t at, const struct ing_names *names)
{
    PyObject *rows = PyBytes_FromStringAndSize(
        (const char *)names->name.p, (Py_ssize_t)names->name.n * (Py_ssize_t)sizeof *names->name.p);
    PyObject *text = PyBytes_FromStringAndSize(names->text.p, (Py_ssize_t)names->text.n);
    if (rows == NULL || text == NULL) {
        Py_XDECREF(rows);
        Py_XDECREF(text);
        return -1;
    }
    int status = PyTuple_SetItem(tuple, at, rows);
    return PyTuple_SetItem(tuple, at + 1, text) != 0 ? -1 : status;
}

static PyObject *result(const struct ops_table *table)
{
    enum { COLUMNS = 10, ITEMS = COLUMNS + 6 };
    PyObject *tuple = PyTuple_New(ITEMS);
    if (tuple == NULL) {
        return NULL;
    }
    int bad = 0;
    COLUMN(tuple, 0, int64_t, table, op_id);
    COLUMN(tuple, 1, int64_t, table, invoke);
    COLUMN(tuple, 2, int64_t, table, complete);
    COLUMN(tuple, 3, int64_t, table, offset);
    COLUMN(tuple, 4, int32_t, table, process);
    COLUMN(tuple, 5, int32_t, table, type);
    COLUMN(tuple, 6, int32_t, table, key);
    COLUMN(tuple, 7, int32_t, table, input);
    COLUMN(tuple, 8, int32_t, table, output);
    COLUMN(tuple, 9, uint8_t, table, outcome);
    bad = bad || names(tuple, COLUMNS, &table->values) ||
          names(tuple, COLUMNS + 2, &table->types) || names(tuple, COLUMNS + 4, &table->processes);
    if (bad) {
        Py_DECREF(tuple);
        return NULL;
    }
    return tuple;
}

PyObject *ops_read_py(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *text;
    Py_buffer view;
    int threads, status;
    long long memory_bytes;
    struct ops_table table;
    const char *why = NULL;
    int64_t where = 0;
    if (!PyArg_ParseTuple(args, "OiL:read_operations", &text, &threads, &memory_bytes)) {
        return NULL;
    }
    if (memory_bytes < 0) {
        PyErr_SetString(PyExc_ValueError, "a negative budget");
        return NULL;
    }
    if (PyObject_GetBuffer(text, &view, PyBUF_SIMPLE) != 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = ops_read(view.buf, view.len, threads, memory_bytes, &table, &why, &where);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&view);
    if (status != 0) {
        PyObject *reason = Py_BuildValue("(sL)", why, (long long)where);
        if (reason != NULL) {
            PyErr_SetObject(PyExc_ValueError, reason);
            Py_DECREF(reason);
        }
        return NULL;
    }
    PyObject *made = result(&table);
    ops_free(&table);
    return made;
}
