/* Python glue of checkers._core; the logic files know nothing of Python. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "aut_module.h"
#include "ingest_module.h"
#include "lin.h"
#include "mon_module.h"
#include "txn_module.h"

#include <string.h>

/* One borrowed column. `taken` tells whether `view` must be released. */
struct column {
    Py_buffer view;
    int taken;
};

/* Borrows a one-dimensional contiguous buffer whose format is one of `formats`. */
static int take(struct column *column, PyObject *from, const char *name, const char *formats,
                Py_ssize_t itemsize, int writable)
{
    int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(from, &column->view, flags) != 0) {
        return -1;
    }
    column->taken = 1;
    const char *format = column->view.format == NULL ? "B" : column->view.format;
    if (*format == '=' || *format == '@' || *format == '<') {
        format++;
    }
    if (column->view.ndim != 1 || column->view.itemsize != itemsize || format[0] == '\0' ||
        format[1] != '\0' || strchr(formats, format[0]) == NULL) {
        PyErr_Format(PyExc_ValueError, "%s: need one dimension of format %s with %zd bytes each",
                     name, formats, itemsize);
        return -1;
    }
    return 0;
}

static int64_t length(const struct column *column)
{
    return column->view.len / column->view.itemsize;
}

enum { KIND, A, B, INVOKE, COMPLETE, OFFSETS, VERDICT, BAD, PREFIX, STEPS, STATES, STOP, COLUMNS };

static const struct {
    const char *name;
    const char *formats;
    Py_ssize_t itemsize;
    int writable;
} layout[COLUMNS] = {
    {"kind", "B", 1, 0},    {"a", "il", 4, 0},        {"b", "il", 4, 0},
    {"invoke", "lq", 8, 0}, {"complete", "lq", 8, 0}, {"offsets", "lq", 8, 0},
    {"verdict", "B", 1, 1}, {"bad", "lq", 8, 1},      {"prefix", "lq", 8, 1},
    {"steps", "lq", 8, 1},  {"states", "il", 4, 1},   {"stop", "il", 4, 0},
};

static int check_lengths(const struct column *columns)
{
    int64_t n_ops = length(&columns[KIND]), n_keys = length(&columns[VERDICT]);
    for (int i = A; i <= COMPLETE; i++) {
        if (length(&columns[i]) != n_ops) {
            PyErr_Format(PyExc_ValueError, "%s: length differs from kind's", layout[i].name);
            return -1;
        }
    }
    for (int i = BAD; i <= STEPS; i++) {
        if (length(&columns[i]) != n_keys) {
            PyErr_Format(PyExc_ValueError, "%s: length differs from verdict's", layout[i].name);
            return -1;
        }
    }
    if (length(&columns[OFFSETS]) != n_keys + 1) {
        PyErr_SetString(PyExc_ValueError, "offsets: need one more than there are keys");
        return -1;
    }
    if (n_keys == 0 ? length(&columns[STATES]) != 0 : length(&columns[STATES]) % n_keys != 0) {
        PyErr_SetString(PyExc_ValueError, "states: need the same number for each key");
        return -1;
    }
    if (length(&columns[STOP]) < 1) {
        PyErr_SetString(PyExc_ValueError, "stop: need one element");
        return -1;
    }
    return 0;
}

PyDoc_STRVAR(check_doc,
             "check_registers(kind, a, b, invoke, complete, offsets, verdict, bad, prefix, steps,\n"
             "                states, stop, n_values, initial, time_ns, memory_bytes, steps_max,\n"
             "                exact_states)\n--\n\n"
             "Linearizability of many registers at once; see checkers/csrc/lin.h for the columns.\n"
             "Fills verdict, bad, prefix, steps and states. Raises ValueError for bad input.");

static PyObject *check_registers(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *objects[COLUMNS];
    struct column columns[COLUMNS] = {{.taken = 0}};
    struct lin_report report = {NULL, 0};
    int n_values, initial, exact, bad = -1;
    long long time_ns, memory_bytes, steps_max;
    if (!PyArg_ParseTuple(args, "OOOOOOOOOOOOiiLLLp:check_registers", &objects[KIND], &objects[A],
                          &objects[B], &objects[INVOKE], &objects[COMPLETE], &objects[OFFSETS],
                          &objects[VERDICT], &objects[BAD], &objects[PREFIX], &objects[STEPS],
                          &objects[STATES], &objects[STOP], &n_values, &initial, &time_ns,
                          &memory_bytes, &steps_max, &exact)) {
        return NULL;
    }
    for (int i = 0; i < COLUMNS; i++) {
        if (take(&columns[i], objects[i], layout[i].name, layout[i].formats, layout[i].itemsize,
                 layout[i].writable) != 0) {
            goto cleanup;
        }
    }
    if (check_lengths(columns) != 0) {
        goto cleanup;
    }
    struct lin_input in = {
        .kind = columns[KIND].view.buf,
        .a = columns[A].view.buf,
        .b = columns[B].view.buf,
        .invoke = columns[INVOKE].view.buf,
        .complete = columns[COMPLETE].view.buf,
        .n_ops = length(&columns[KIND]),
        .offsets = columns[OFFSETS].view.buf,
        .n_keys = length(&columns[VERDICT]),
        .n_values = n_values,
        .initial = initial,
    };
    struct lin_limits limits = {time_ns, memory_bytes, steps_max, columns[STOP].view.buf, exact};
    struct lin_output out = {
        .verdict = columns[VERDICT].view.buf,
        .bad = columns[BAD].view.buf,
        .prefix = columns[PREFIX].view.buf,
        .steps = columns[STEPS].view.buf,
        .states = columns[STATES].view.buf,
        .n_states = in.n_keys == 0 ? 0 : length(&columns[STATES]) / in.n_keys,
    };
    Py_BEGIN_ALLOW_THREADS
    bad = lin_check(&in, &limits, &out, &report);
    Py_END_ALLOW_THREADS
    if (bad) {
        PyErr_Format(PyExc_ValueError, "at %lld: %s", (long long)report.where, report.invalid);
    }
cleanup:
    for (int i = 0; i < COLUMNS; i++) {
        if (columns[i].taken) {
            PyBuffer_Release(&columns[i].view);
        }
    }
    if (bad) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"chains", mon_chains_py, METH_VARARGS, MON_CHAINS_DOC},
    {"check_automaton", aut_check_py, METH_VARARGS, AUT_CHECK_DOC},
    {"check_registers", check_registers, METH_VARARGS, check_doc},
    {"check_transactions", txn_check_py, METH_VARARGS, TXN_CHECK_DOC},
    {"monitor", mon_check_py, METH_VARARGS, MON_CHECK_DOC},
    {"read_history", ing_module_read, METH_VARARGS, ing_module_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "checkers._core", .m_doc = "C core of the checkers.",
    .m_size = 0,           .m_methods = methods,       .m_slots = slots,
};

PyMODINIT_FUNC PyInit__core(void);

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}
