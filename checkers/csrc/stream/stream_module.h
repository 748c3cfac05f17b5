/* Methods of the module for histories that come in pieces. */
#ifndef DSTEST_STREAM_MODULE_H
#define DSTEST_STREAM_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define STREAM_OPEN_DOC                                                                            \
    "stream_open(memory_bytes, window_bytes)\n--\n\n"                                              \
    "A list-append history that comes in pieces; see csrc/stream/stream.h."
#define STREAM_FEED_DOC                                                                            \
    "stream_feed(stream, lines, time_ns, stop)\n--\n\n"                                            \
    "Takes the next whole lines; no lines: there are no more. (status, message, line, column)."
#define STREAM_REPORT_DOC                                                                          \
    "stream_report(stream)\n--\n\n"                                                                \
    "(ok, failed, unknown, seen, keys, touching, last_ns, memory_bytes, end, op_id, skipped, "     \
    "involved)."
#define STREAM_SELECT_DOC                                                                          \
    "stream_select(stream, lines, n, first)\n--\n\n"                                               \
    "Where lines stand that name one of the first n involved keys, as bytes of int64 pairs; "      \
    "None\n"                                                                                       \
    "where that cannot be said. `first`: the history begins with these lines."

PyObject *stream_open_py(PyObject *module, PyObject *args);
PyObject *stream_feed_py(PyObject *module, PyObject *args);
PyObject *stream_report_py(PyObject *module, PyObject *args);
PyObject *stream_select_py(PyObject *module, PyObject *args);

#endif
