/* Python glue of the transaction checker; see txn.h. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "txn.h"
#include "txn_module.h"

#include <string.h>

enum { STOP = TXN_COLUMNS, COLUMNS };

static const struct {
    const char *name;
    const char *formats;
    Py_ssize_t itemsize;
} layout[COLUMNS] = {
    {"outcome", "B", 1},       {"process", "lq", 8},   {"invoke_pos", "lq", 8},
    {"complete_pos", "lq", 8}, {"mop_start", "lq", 8}, {"mop_kind", "B", 1},
    {"mop_key", "il", 4},      {"mop_value", "il", 4}, {"mop_known", "B", 1},
    {"elem_start", "lq", 8},   {"elem", "il", 4},      {"order", "lq", 8},
    {"value_hash", "IL", 4},   {"stop", "il", 4},
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

static int check_lengths(const struct column *columns, struct txn_input *in)
{
    struct txn_column plain[TXN_COLUMNS];
    int which;
    int64_t wanted;
    for (int i = 0; i < TXN_COLUMNS; i++) {
        const Py_buffer *view = &columns[i].view;
        plain[i] = (struct txn_column){view->buf, view->len / view->itemsize};
    }
    if (txn_input_of(plain, in, &which, &wanted) != 0) {
        PyErr_Format(PyExc_ValueError, "%s: %lld elements, need %lld", layout[which].name,
                     (long long)plain[which].length, (long long)wanted);
        return -1;
    }
    if (columns[STOP].view.len < columns[STOP].view.itemsize) {
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
                         rows_of(&counts), (long long)report->edges, (long long)report->components,
                         (long long)report->largest, (long long)report->undecided);
}

PyObject *txn_check_py(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *objects[COLUMNS], *result = NULL;
    struct column columns[COLUMNS] = {{.taken = 0}};
    struct txn_input in = {0};
    struct txn_options options = {0};
    struct txn_report report = {.where = -1};
    long long n_keys, n_values, n_processes, n_positions, time_ns, memory_bytes;
    if (!PyArg_ParseTuple(args, "OOOOOOOOOOOOOOLLLLiiiLL:check_transactions", &objects[TXN_OUTCOME],
                          &objects[TXN_PROCESSES], &objects[TXN_INVOKE], &objects[TXN_COMPLETE],
                          &objects[TXN_MOP_START], &objects[TXN_KIND], &objects[TXN_KEY],
                          &objects[TXN_VALUE], &objects[TXN_KNOWN], &objects[TXN_ELEM_START],
                          &objects[TXN_ELEM], &objects[TXN_ORDER], &objects[TXN_VALUE_HASH],
                          &objects[STOP], &n_keys, &n_values, &n_processes, &n_positions,
                          &options.workload, &options.between, &options.sources, &time_ns,
                          &memory_bytes)) {
        return NULL;
    }
    for (int i = 0; i < COLUMNS; i++) {
        if (take(&columns[i], objects[i], i) != 0) {
            goto cleanup;
        }
    }
    in.n_keys = n_keys;
    in.n_values = n_values;
    in.n_processes = n_processes;
    in.n_positions = n_positions;
    if (check_lengths(columns, &in) != 0) {
        goto cleanup;
    }
    options.time_ns = time_ns;
    options.memory_bytes = memory_bytes;
    options.stop = columns[STOP].view.buf;
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
