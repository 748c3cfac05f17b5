/* Functions of checkers._core that read and place session files. */
#ifndef DSTEST_SESS_MODULE_H
#define DSTEST_SESS_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define SESS_READ_DOC                                                                              \
    "read_sessions(text, format, memory_bytes)\n--\n\n"                                            \
    "(kind u8[m], key i64[m], value i64[m], txn i32[m], outcome u8[n], session i64[n],\n"          \
    "name i64[n], wide i64[2 w], lost) as buffers; see checkers/csrc/sess/sess.h. Format: 0\n"     \
    "Plume, 1 AWDIT. Raises ValueError(flaw, line, a, b, c), as enum sess_flaw there."

#define SESS_PLACE_DOC                                                                             \
    "place_sessions(kind, null, outcome, key, value, session, name, txn, start, memory_bytes)\n"   \
    "--\n\n"                                                                                       \
    "The columns of those rows, codes of keys and of values by id, and whether somebody writes\n"  \
    "`start`. `null` (which operations name no value) and `start` may be None. Raises\n"           \
    "ValueError as read_sessions."

PyObject *sess_read_py(PyObject *module, PyObject *args);
PyObject *sess_place_py(PyObject *module, PyObject *args);

#endif
