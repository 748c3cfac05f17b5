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
    struct iso_report report = {.rest = {.where = -1}};
    static const struct buffer_kind kinds[2] = {{"first", "il", 4, 0}, {"then", "il", 4, 0}};
    struct txn_call call = {.models = 0};
    struct buffer pairs[2] = {{.taken = 0}};
    PyObject *result = NULL, *shared = NULL, *known[2];
    if (PyArg_ParseTuple(args, "O!OO:check_isolation", &PyTuple_Type, &shared, &known[0],
                         &known[1]) &&
        buffer_take_all(pairs, known, kinds, 2) == 0 &&
        buffer_expect(&pairs[1], &kinds[1], buffer_length(&pairs[0])) == 0 &&
        txn_call_take(shared, "OOOOOOOOOOOOOOLLLLILL:check_isolation", &call) == 0) {
        struct iso_known both = {pairs[0].view.buf, pairs[1].view.buf, buffer_length(&pairs[0])};
        int status;
        Py_BEGIN_ALLOW_THREADS
        status = iso_check(&call.in, &call.options, call.models, both, &report);
        Py_END_ALLOW_THREADS
        result = answer(status, &report);
    }
    iso_report_free(&report);
    buffer_release(pairs, 2);
    txn_call_release(&call);
    return result;
}
