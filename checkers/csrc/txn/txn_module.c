/* Python glue of the transaction checker; see txn.h. */
#include "txn_columns.h"

#include "txn_module.h"

static const struct buffer_kind kinds[TXN_BUFFERS] = {
    {"outcome", "B", 1, 0},       {"process", "lq", 8, 0},   {"invoke_pos", "lq", 8, 0},
    {"complete_pos", "lq", 8, 0}, {"mop_start", "lq", 8, 0}, {"mop_kind", "B", 1, 0},
    {"mop_key", "il", 4, 0},      {"mop_value", "il", 4, 0}, {"mop_known", "B", 1, 0},
    {"elem_start", "lq", 8, 0},   {"elem", "il", 4, 0},      {"order", "lq", 8, 0},
    {"value_hash", "IL", 4, 0},   {"stop", "il", 4, 0},
};

int txn_take_columns(PyObject *const *objects, struct buffer *columns, struct txn_input *in)
{
    struct txn_column plain[TXN_COLUMNS];
    int which;
    int64_t wanted;
    if (buffer_take_all(columns, objects, kinds, TXN_BUFFERS) != 0) {
        return -1;
    }
    for (int i = 0; i < TXN_COLUMNS; i++) {
        plain[i] = (struct txn_column){columns[i].view.buf, buffer_length(&columns[i])};
    }
    if (txn_input_of(plain, in, &which, &wanted) != 0) {
        PyErr_Format(PyExc_ValueError, "%s: %lld elements, need %lld", kinds[which].name,
                     (long long)plain[which].length, (long long)wanted);
        return -1;
    }
    if (buffer_length(&columns[TXN_STOP]) < 1) {
        PyErr_SetString(PyExc_ValueError, "stop: need one element");
        return -1;
    }
    return 0;
}

int txn_call_take(PyObject *args, const char *format, struct txn_call *call)
{
    PyObject *objects[TXN_BUFFERS];
    long long n_keys, n_values, n_processes, n_positions, time_ns, memory_bytes;
    *call = (struct txn_call){.options = {.workload = TXN_RW_REGISTER}};
    if (!PyArg_ParseTuple(
            args, format, &objects[TXN_OUTCOME], &objects[TXN_PROCESSES], &objects[TXN_INVOKE],
            &objects[TXN_COMPLETE], &objects[TXN_MOP_START], &objects[TXN_KIND], &objects[TXN_KEY],
            &objects[TXN_VALUE], &objects[TXN_KNOWN], &objects[TXN_ELEM_START], &objects[TXN_ELEM],
            &objects[TXN_ORDER], &objects[TXN_VALUE_HASH], &objects[TXN_STOP], &n_keys, &n_values,
            &n_processes, &n_positions, &call->models, &time_ns, &memory_bytes)) {
        return -1;
    }
    call->in.n_keys = n_keys;
    call->in.n_values = n_values;
    call->in.n_processes = n_processes;
    call->in.n_positions = n_positions;
    if (txn_take_columns(objects, call->columns, &call->in) != 0) {
        return -1;
    }
    call->options.time_ns = time_ns;
    call->options.memory_bytes = memory_bytes;
    call->options.stop = call->columns[TXN_STOP].view.buf;
    return 0;
}

void txn_call_release(struct txn_call *call)
{
    buffer_release(call->columns, TXN_BUFFERS);
}

PyObject *txn_rows_py(const struct txn_rows *rows)
{
    return PyBytes_FromStringAndSize((const char *)rows->at,
                                     (Py_ssize_t)(rows->used * sizeof *rows->at));
}

/* (status, findings, cycles, counts, edges, components, largest, undecided, proved) */
static PyObject *answer(int status, struct txn_report *report)
{
    if (status == TXN_INVALID) {
        buffer_refuse(report->where, report->invalid);
        return NULL;
    }
    struct txn_rows counts = {report->counts, TXN_FINDINGS, TXN_FINDINGS};
    return Py_BuildValue("iNNNLLLLi", status, txn_rows_py(&report->findings),
                         txn_rows_py(&report->cycles), txn_rows_py(&counts),
                         (long long)report->edges, (long long)report->components,
                         (long long)report->largest, (long long)report->undecided, report->proved);
}

PyObject *txn_check_py(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *objects[TXN_BUFFERS], *result = NULL;
    struct buffer columns[TXN_BUFFERS] = {{.taken = 0}};
    struct txn_input in = {0};
    struct txn_options options = {0};
    struct txn_report report = {.where = -1};
    long long n_keys, n_values, n_processes, n_positions, time_ns, memory_bytes;
    if (!PyArg_ParseTuple(args, "OOOOOOOOOOOOOOLLLLiiiLL:check_transactions", &objects[TXN_OUTCOME],
                          &objects[TXN_PROCESSES], &objects[TXN_INVOKE], &objects[TXN_COMPLETE],
                          &objects[TXN_MOP_START], &objects[TXN_KIND], &objects[TXN_KEY],
                          &objects[TXN_VALUE], &objects[TXN_KNOWN], &objects[TXN_ELEM_START],
                          &objects[TXN_ELEM], &objects[TXN_ORDER], &objects[TXN_VALUE_HASH],
                          &objects[TXN_STOP], &n_keys, &n_values, &n_processes, &n_positions,
                          &options.workload, &options.between, &options.sources, &time_ns,
                          &memory_bytes)) {
        return NULL;
    }
    in.n_keys = n_keys;
    in.n_values = n_values;
    in.n_processes = n_processes;
    in.n_positions = n_positions;
    if (txn_take_columns(objects, columns, &in) != 0) {
        goto cleanup;
    }
    options.time_ns = time_ns;
    options.memory_bytes = memory_bytes;
    options.stop = columns[TXN_STOP].view.buf;
    int status;
    Py_BEGIN_ALLOW_THREADS
    status = txn_check(&in, &options, &report);
    Py_END_ALLOW_THREADS
    result = answer(status, &report);
cleanup:
    txn_report_free(&report);
    buffer_release(columns, TXN_BUFFERS);
    return result;
}
