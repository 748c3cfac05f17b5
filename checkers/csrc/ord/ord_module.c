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
    return Py_BuildValue("iNiNNNLLLLLL", status, txn_rows_py(&by_model), report->order_model,
                         txn_rows_py(&report->order), txn_rows_py(&report->sources),
                         txn_rows_py(&report->rest.cycles), (long long)report->faults,
                         (long long)report->overlapping, (long long)report->nil_writes,
                         (long long)report->pairs, (long long)report->choices,
                         (long long)report->conflicts);
}

PyObject *ord_check_py(PyObject *Py_UNUSED(module), PyObject *args)
{
    struct ord_report report = {.order_model = -1, .rest = {.where = -1}};
    static const struct buffer_kind kinds[3] = {
        {"read", "ql", 8, 0}, {"first", "ql", 8, 0}, {"write", "ql", 8, 0}};
    struct txn_call call = {.models = 0};
    struct buffer open[3] = {{.taken = 0}};
    PyObject *result = NULL, *shared = NULL, *of[3];
    unsigned slack;
    if (PyArg_ParseTuple(args, "O!IOOO:check_order", &PyTuple_Type, &shared, &slack, &of[0], &of[1],
                         &of[2]) &&
        buffer_take_all(open, of, kinds, 3) == 0 &&
        buffer_expect(&open[1], &kinds[1], buffer_length(&open[0]) + 1) == 0 &&
        txn_call_take(shared, "OOOOOOOOOOOOOOLLLLILL:check_order", &call) == 0) {
        struct ord_reads reads = {.read = open[0].view.buf,
                                  .first = open[1].view.buf,
                                  .write = open[2].view.buf,
                                  .count = buffer_length(&open[0]),
                                  .candidates = buffer_length(&open[2])};
        int status;
        Py_BEGIN_ALLOW_THREADS
        status = ord_check(&call.in, &call.options, call.models, slack, reads, &report);
        Py_END_ALLOW_THREADS
        result = answer(status, &report);
    }
    ord_report_free(&report);
    buffer_release(open, 3);
    txn_call_release(&call);
    return result;
}
