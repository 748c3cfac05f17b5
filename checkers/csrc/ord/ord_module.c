/* Python glue of the search for an order; see ord.h. */
#include "txn/txn_columns.h"

#include "ord.h"
#include "ord_module.h"

static PyObject *answer(int status, struct ord_report *report)
{
    if (status == TXN_INVALID) {
        buffer_refuse(report->rest.where, report->rest.invalid);
        return NULL;
    }
    int64_t answers[ORD_MODELS];
    for (int m = 0; m < ORD_MODELS; m++) {
        answers[m] = report->answers[m];
    }
    struct txn_rows by_model = {answers, ORD_MODELS, ORD_MODELS};
    return Py_BuildValue("iNiNNLLLLLL", status, txn_rows_py(&by_model), report->order_model,
                         txn_rows_py(&report->order), txn_rows_py(&report->rest.cycles),
                         (long long)report->faults, (long long)report->overlapping,
                         (long long)report->nil_writes, (long long)report->pairs,
                         (long long)report->choices, (long long)report->conflicts);
}

PyObject *ord_check_py(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct ord_report report = {.order_model = -1, .rest = {.where = -1}};
    struct txn_call call = {.models = 0};
    PyObject *result = NULL, *shared = NULL;
    unsigned slack;
    if (PyArg_ParseTuple(args, "O!I:check_order", &PyTuple_Type, &shared, &slack) &&
        txn_call_take(shared, "OOOOOOOOOOOOOOLLLLILL:check_order", &call) == 0) {
        int status;
        Py_BEGIN_ALLOW_THREADS
        status = ord_check(&call.in, &call.options, call.models, slack, &report);
        Py_END_ALLOW_THREADS
        result = answer(status, &report);
    }
    ord_report_free(&report);
    txn_call_release(&call);
    return result;
}
