/* Functions of checkers._core that look for an order of transactions. */
#ifndef DSTEST_ORD_MODULE_H
#define DSTEST_ORD_MODULE_H

#define ORD_CHECK_DOC                                                                              \
    "check_order(outcome, process, invoke_pos, complete_pos, mop_start, mop_kind, mop_key,\n"      \
    "            mop_value, mop_known, elem_start, elem, order, value_hash, stop, n_keys,\n"       \
    "            n_values, n_processes, n_positions, models, time_ns, memory_bytes)\n--\n\n"       \
    "Is a register history serializable, or a snapshot isolated one; see "                         \
    "checkers/csrc/ord/ord.h.\n"                                                                   \
    "Returns (status, answers, order_model, order, involved, faults, overlapping, nil_writes,\n"   \
    "pairs, choices, conflicts). Raises ValueError for bad input."

PyObject *ord_check_py(PyObject *module, PyObject *args);

#endif
