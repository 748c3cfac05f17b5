/* Functions of checkers._core that look for an order of transactions. */
#ifndef DSTEST_ORD_MODULE_H
#define DSTEST_ORD_MODULE_H

#define ORD_CHECK_DOC                                                                              \
    "check_order(call, slack, read, first, write)\n--\n\n"                                         \
    "Is a register history serializable, or a snapshot isolated one; see "                         \
    "checkers/csrc/ord/ord.h.\n"                                                                   \
    "`call` has the arguments of check_isolation, the others are open reads. Returns (status,\n"   \
    "answers, order_model, order, sources, involved, faults, overlapping, nil_writes, pairs,\n"    \
    "choices, conflicts). Raises ValueError for bad input."

PyObject *ord_check_py(PyObject *module, PyObject *args);

#endif
