/* Functions of checkers._core that read operations. */
#ifndef DSTEST_OPS_MODULE_H
#define DSTEST_OPS_MODULE_H

#define OPS_READ_DOC                                                                               \
    "read_operations(text, threads, memory_bytes)\n--\n\n"                                         \
    "Columns of a history of ours as a tuple of bytes; see checkers/ops/read.py. Raises\n"         \
    "ValueError(why, offset) for what this reader leaves to another."

PyObject *ops_read_py(PyObject *module, PyObject *args);

#endif
