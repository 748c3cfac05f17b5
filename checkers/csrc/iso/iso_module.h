/* Functions of checkers._core that decide weak isolation. */
#ifndef DSTEST_ISO_MODULE_H
#define DSTEST_ISO_MODULE_H

#define ISO_CHECK_DOC                                                                              \
    "check_isolation(call, first, then)\n--\n\n"                                                   \
    "Which weak models a register history satisfies; see checkers/csrc/iso/iso.h. `call` is\n"     \
    "(outcome, process, invoke_pos, complete_pos, mop_start, mop_kind, mop_key, mop_value,\n"      \
    "mop_known, elem_start, elem, order, value_hash, stop, n_keys, n_values, n_processes,\n"       \
    "n_positions, models, time_ns, memory_bytes); first[i] comes before then[i]. Returns\n"        \
    "(status, answers, counts, steps, reads, stale, demands, overlapping, nil_writes). Raises\n"   \
    "ValueError for bad input."

PyObject *iso_check_py(PyObject *module, PyObject *args);

#endif
