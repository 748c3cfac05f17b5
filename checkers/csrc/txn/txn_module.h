/* Functions of checkers._core that check transactions. */
#ifndef DSTEST_TXN_MODULE_H
#define DSTEST_TXN_MODULE_H

#define TXN_CHECK_DOC                                                                              \
    "check_transactions(outcome, process, invoke_pos, complete_pos, mop_start, mop_kind,\n"        \
    "                   mop_key, mop_value, mop_known, elem_start, elem, order, stop, n_keys,\n"   \
    "                   n_values, n_processes, n_positions, workload, between, sources,\n"         \
    "                   time_ns, memory_bytes)\n--\n\n"                                            \
    "Anomalies of a transactional history; see checkers/csrc/txn/txn.h. Returns (status, "         \
    "findings,\n"                                                                                  \
    "cycles, counts, edges, components, largest, undecided). Raises ValueError for bad input."

PyObject *txn_check_py(PyObject *module, PyObject *args);

#endif
