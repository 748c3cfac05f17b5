/* Functions of checkers._core that check registers. */
#ifndef DSTEST_LIN_MODULE_H
#define DSTEST_LIN_MODULE_H

#define LIN_CHECK_DOC                                                                              \
    "check_registers(kind, a, b, invoke, complete, offsets, verdict, bad, prefix, steps,\n"        \
    "                states, stop, n_values, initial, time_ns, memory_bytes, steps_max,\n"         \
    "                exact_states)\n--\n\n"                                                        \
    "Linearizability of many registers at once; see checkers/csrc/lin/lin.h for the columns.\n"    \
    "Fills verdict, bad, prefix, steps and states. Raises ValueError for bad input."

#define LIN_REDUCE_DOC                                                                             \
    "reduce_registers(kind, a, b, invoke, complete, stays, stop, n_values, initial, time_ns,\n"    \
    "                 memory_bytes, steps_max, checks_max)\n--\n\n"                                \
    "What of an illegal register must stay; see checkers/csrc/lin/lin_reduce.h. Fills stays.\n"    \
    "Whether nothing more can go. Raises ValueError for bad input."

#define LIN_ENCODE_DOC                                                                             \
    "encode_registers(ops, key_ids, new_key, value_ids, new_value, key, kind, a, b, invoke,\n"     \
    "                 complete, cas)\n--\n\n"                                                      \
    "Operations as columns of registers. A kind of 250 failed, 251 is a read of unknown "          \
    "outcome,\n"                                                                                   \
    "255 is left to be read otherwise."

PyObject *lin_check_py(PyObject *module, PyObject *args);
PyObject *lin_encode_py(PyObject *module, PyObject *args);
PyObject *lin_reduce_py(PyObject *module, PyObject *args);

#endif
