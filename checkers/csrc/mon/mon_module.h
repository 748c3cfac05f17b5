/* Functions of checkers._core that monitor containers. */
#ifndef DSTEST_MON_MODULE_H
#define DSTEST_MON_MODULE_H

#define MON_CHECK_DOC                                                                              \
    "monitor(kind, value, invoke, complete, offsets, verdict, stop, n_values, model,\n"            \
    "        memory_bytes)\n--\n\n"                                                                \
    "Linearizability of containers whose values are unique; see checkers/csrc/mon/mon.h for the\n" \
    "columns. Fills verdict. Raises ValueError for bad input."

#define MON_CHAINS_DOC                                                                             \
    "chains(kind, a, b, invoke, complete, offsets, verdict, stop, n_values, memory_bytes)\n"       \
    "--\n\n"                                                                                       \
    "Linearizability of registers whose values are unique; see checkers/csrc/mon/mon_chain.h, "    \
    "and\n"                                                                                        \
    "lin.h for the columns. Fills verdict. Raises ValueError for bad input."

PyObject *mon_chains_py(PyObject *module, PyObject *args);
PyObject *mon_check_py(PyObject *module, PyObject *args);

#endif
