/* Functions of checkers._core that check automata. */
#ifndef DSTEST_AUT_MODULE_H
#define DSTEST_AUT_MODULE_H

#define AUT_CHECK_DOC                                                                              \
    "check_automaton(class, invoke, complete, offsets, pure, lo, hi, delta, verdict, bad,\n"       \
    "                prefix, steps, states, n_found, stop, initial, ask, time_ns,\n"               \
    "                memory_bytes, steps_max)\n--\n\n"                                             \
    "Linearizability of many objects of one model; see checkers/csrc/aut/aut.h for the columns.\n" \
    "`ask(state, class)` returns a tuple of states; None = steps are computed from lo, hi and\n"   \
    "delta. Raises ValueError for bad input, and whatever `ask` raises."

PyObject *aut_check_py(PyObject *module, PyObject *args);

#endif
