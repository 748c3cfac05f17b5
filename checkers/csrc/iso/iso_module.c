/* Python glue of the isolation checker; see iso.h. */
#include "txn/txn_columns.h"

#include "iso.h"
#include "iso_module.h"

static PyObject *answer(int status, struct iso_report *report)
{
    if (status == TXN_INVALID) {
        buffer_refuse(report->rest.where, report->rest.invalid);
        return NULL;
    }
    struct txn_rows counts = {report->counts, TXN_FINDINGS, TXN_FINDINGS};
    int64_t answers[ISO_MODELS];
    for (int m = 0; m < ISO_MODELS; m++) {
        answers[m] = report->answers[m];
    }
    struct txn_rows by_model = {answers, ISO_MODELS, ISO_MODELS};
    return Py_BuildValue("iNNNLLLLL", status, txn_rows_py(&by_model), txn_rows_py(&counts),
                         txn_rows_py(&report->rest.cycles), (long long)report->reads,
                         (long long)report->stale, (long long)report->demands,
                         (long long)report->overlapping, (long long)report->nil_writes);
}

PyObject *iso_check_py(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *objects[TXN_BUFFERS], *result = NULL;
    struct buffer columns[TXN_BUFFERS] = {{.taken = 0}};
    struct txn_input in = {0};
    struct txn_options options = {.workload = TXN_RW_REGISTER};
    struct iso_report report = {.rest = {.where = -1}};
    long long n_keys, n_values, n_processes, n_positions, time_ns, memory_bytes;
    unsigned models;
    if (!PyArg_ParseTuple(args, "OOOOOOOOOOOOOOLLLLILL:check_isolation", &objects[TXN_OUTCOME],
                          &objects[TXN_PROCESSES], &objects[TXN_INVOKE], &objects[TXN_COMPLETE],
                          &objects[TXN_MOP_START], &objects[TXN_KIND], &objects[TXN_KEY],
                          &objects[TXN_VALUE], &objects[TXN_KNOWN], &objects[TXN_ELEM_START],
                          &objects[TXN_ELEM], &objects[TXN_ORDER], &objects[TXN_VALUE_HASH],
                          &objects[TXN_STOP], &n_keys, &n_values, &n_processes, &n_positions,
                          &models, &time_ns, &memory_bytes)) {
        return NULL;
    }
    in.n_keys = n_keys;
    in.n_values = n_values;
    in.n_processes = n_processes;
    in.n_positions = n_positions;
    if (txn_take_columns(objects, columns, &in) == 0) {
        options.time_ns = time_ns;
        options.memory_bytes = memory_bytes;
        options.stop = columns[TXN_STOP].view.buf;
        int status;
        Py_BEGIN_ALLOW_THREADS
        status = iso_check(&in, &options, models, &report);
        Py_END_ALLOW_THREADS
        result = answer(status, &report);
    }
    iso_report_free(&report);
    buffer_release(columns, TXN_BUFFERS);
    return result;
}
