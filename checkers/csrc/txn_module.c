/* Python glue of the transaction checker; see txn.h. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "txn.h"
#include "txn_module.h"

#include <string.h>

enum {
    OUTCOME, PROCESS, INVOKE, COMPLETE, MOP_START, KIND, KEY, VALUE, KNOWN, ELEM_START, ELEM, ORDER,
    VALUE_HASH, STOP, COLUMNS
};

static const struct {
    const char *name;
    const char *formats;
    Py_ssize_t itemsize;
} layout[COLUMNS] = {
    {"outcome", "B", 1},      {"process", "lq", 8},    {"invoke_pos", "lq", 8},
    {"complete_pos", "lq", 8}, {"mop_start", "lq", 8},  {"mop_kind", "B", 1},
    {"mop_key", "il", 4},     {"mop_value", "il", 4},  {"mop_known", "B", 1},
    {"elem_start", "lq", 8},  {"elem", "il", 4},       {"order", "lq", 8},
    {"value_hash", "IL", 4},  {"stop", "il", 4},
};

struct column {
    Py_buffer view;
    int taken;
};

static int take(struct column *column, PyObject *from, int i)
{
    if (PyObject_GetBuffer(from, &column->view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0) {
        return -1;
    }
    column->taken = 1;
    const char *format = column->view.format == NULL ? "B" : column->view.format;
    if (*format == '=' || *format == '@' || *format == '<') {
        format++;
    }
    if (column->view.ndim != 1 || column->view.itemsize != layout[i].itemsize ||
        format[0] == '\0' || format[1] != '\0' || strchr(layout[i].formats, format[0]) == NULL) {
        PyErr_Format(PyExc_ValueError, "%s: need one dimension of format %s with %zd bytes each",
                     layout[i].name, layout[i].formats, layout[i].itemsize);
        return -1;
    }
    return 0;
}

static int check_lengths(const struct column *columns, struct txn_input *in, int64_t n_values)
{
    int64_t length[COLUMNS];
    for (int i = 0; i < COLUMNS; i++) {
        length[i] = columns[i].view.len / columns[i].view.itemsize;
    }
    in->n = length[OUTCOME];
    in->m = length[KIND];
    in->e = length[ELEM];
    int64_t wanted[COLUMNS] = {in->n, in->n, in->n,     in->n, in->n + 1, in->m,        in->m,
                               in->m, in->m, in->m + 1, in->e, in->n,     0,
                               length[STOP]};
    wanted[ORDER] = length[ORDER] == 0 ? 0 : in->n;
    wanted[VALUE_HASH] = length[VALUE_HASH] == 0 ? 0 : n_values;
    for (int i = 0; i < COLUMNS; i++) {
        if (length[i] != wanted[i]) {
            PyErr_Format(PyExc_ValueError, "%s: %lld elements, need %lld", layout[i].name,
                         (long long)length[i], (long long)wanted[i]);
            return -1;
        }
    }
    if (length[STOP] < 1) {
        PyErr_SetString(PyExc_ValueError, "stop: need one element");
        return -1;
    }
    return 0;
}

static PyObject *rows_of(const struct txn_rows *rows)
{
    return PyBytes_FromStringAndSize((const char *)rows->at,
                                     (Py_ssize_t)(rows->used * sizeof *rows->at));
}

/* (status, findings, cycles, counts, edges, components, largest, undecided) */
static PyObject *answer(int status, struct txn_report *report)
{
    if (status == TXN_INVALID) {
        PyErr_Format(PyExc_ValueError, "at %lld: %s", (long long)report->where, report->invalid);
        return NULL;
    }
    struct txn_rows counts = {report->counts, TXN_FINDINGS, TXN_FINDINGS};
    return Py_BuildValue("iNNNLLLL", status, rows_of(&report->findings), rows_of(&report->cycles),
                         rows_of(&counts), (long long)report->edges,
                         (long long)report->components, (long long)report->largest,
                         (long long)report->undecided);
}

PyObject *txn_check_py(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *objects[COLUMNS], *result = NULL;
    struct column columns[COLUMNS] = {{.taken = 0}};
    struct txn_input in = {0};
    struct txn_options options = {0};
    struct txn_report report = {.where = -1};
    long long n_keys, n_values, n_processes, n_positions, time_ns, memory_bytes;
    if (!PyArg_ParseTuple(args, "OOOOOOOOOOOOOOLLLLiiiLL:check_transactions", &objects[OUTCOME],
                          &objects[PROCESS], &objects[INVOKE], &objects[COMPLETE],
                          &objects[MOP_START], &objects[KIND], &objects[KEY], &objects[VALUE],
                          &objects[KNOWN], &objects[ELEM_START], &objects[ELEM], &objects[ORDER],
                          &objects[VALUE_HASH], &objects[STOP], &n_keys, &n_values, &n_processes,
                          &n_positions, &options.workload, &options.between, &options.sources,
                          &time_ns, &memory_bytes)) {
        return NULL;
    }
    for (int i = 0; i < COLUMNS; i++) {
        if (take(&columns[i], objects[i], i) != 0) {
            goto cleanup;
        }
    }
    if (check_lengths(columns, &in, n_values) != 0) {
        goto cleanup;
    }
    in.outcome = columns[OUTCOME].view.buf;
    in.process = columns[PROCESS].view.buf;
    in.invoke_pos = columns[INVOKE].view.buf;
    in.complete_pos = columns[COMPLETE].view.buf;
    in.mop_start = columns[MOP_START].view.buf;
    in.mop_kind = columns[KIND].view.buf;
    in.mop_key = columns[KEY].view.buf;
    in.mop_value = columns[VALUE].view.buf;
    in.mop_known = columns[KNOWN].view.buf;
    in.elem_start = columns[ELEM_START].view.buf;
    in.elem = columns[ELEM].view.buf;
    in.order = columns[ORDER].view.len == 0 ? NULL : columns[ORDER].view.buf;
    in.value_hash = columns[VALUE_HASH].view.len == 0 ? NULL : columns[VALUE_HASH].view.buf;
    in.n_keys = n_keys;
    in.n_values = n_values;
    in.n_processes = n_processes;
    in.n_positions = n_positions;
    options.time_ns = time_ns;
    options.memory_bytes = memory_bytes;
    options.stop = columns[STOP].view.buf;
    if (n_keys < 0 || n_values < 0 || n_processes < 0 || n_positions < 0) {
        PyErr_SetString(PyExc_ValueError, "a count is negative");
        goto cleanup;
    }
    int status;
    Py_BEGIN_ALLOW_THREADS
    status = txn_check(&in, &options, &report);
    Py_END_ALLOW_THREADS
    result = answer(status, &report);
cleanup:
    txn_report_free(&report);
    for (int i = 0; i < COLUMNS; i++) {
        if (columns[i].taken) {
            PyBuffer_Release(&columns[i].view);
        }
    }
    return result;
}
