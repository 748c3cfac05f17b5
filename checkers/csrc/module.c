/* Python glue of checkers._core; the logic files know nothing of Python. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "aut/aut_module.h"
#include "common/buffers_owned.h"
#include "common/core_exit_module.h"
#include "ingest/ingest_module.h"
#include "iso/iso_module.h"
#include "lin/lin_module.h"
#include "mon/mon_module.h"
#include "ops/ops_module.h"
#include "ord/ord_module.h"
#include "sess/sess_module.h"
#include "stream/stream_module.h"
#include "txn/txn_module.h"

static PyMethodDef methods[] = {
    {"chains", mon_chains_py, METH_VARARGS, MON_CHAINS_DOC},
    {"check_automaton", aut_check_py, METH_VARARGS, AUT_CHECK_DOC},
    {"check_isolation", iso_check_py, METH_VARARGS, ISO_CHECK_DOC},
    {"check_order", ord_check_py, METH_VARARGS, ORD_CHECK_DOC},
    {"check_registers", lin_check_py, METH_VARARGS, LIN_CHECK_DOC},
    {"check_transactions", txn_check_py, METH_VARARGS, TXN_CHECK_DOC},
    {"encode_registers", lin_encode_py, METH_VARARGS, LIN_ENCODE_DOC},
    {"exit_guard", exit_guard_py, METH_VARARGS, EXIT_GUARD_DOC},
    {"monitor", mon_check_py, METH_VARARGS, MON_CHECK_DOC},
    {"place_sessions", sess_place_py, METH_VARARGS, SESS_PLACE_DOC},
    {"read_history", ing_module_read, METH_VARARGS, ing_module_doc},
    {"read_operations", ops_read_py, METH_VARARGS, OPS_READ_DOC},
    {"read_sessions", sess_read_py, METH_VARARGS, SESS_READ_DOC},
    {"reduce_registers", lin_reduce_py, METH_VARARGS, LIN_REDUCE_DOC},
    {"stream_feed", stream_feed_py, METH_VARARGS, STREAM_FEED_DOC},
    {"stream_open", stream_open_py, METH_VARARGS, STREAM_OPEN_DOC},
    {"stream_report", stream_report_py, METH_VARARGS, STREAM_REPORT_DOC},
    {"stream_select", stream_select_py, METH_VARARGS, STREAM_SELECT_DOC},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, buffers_register},
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
