/* A library that ends the process (OpenBLAS does so without memory) picks no exit code of ours. */
#ifndef DSTEST_CORE_EXIT_MODULE_H
#define DSTEST_CORE_EXIT_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define EXIT_GUARD_DOC                                                                             \
    "exit_guard(status): exit() of C ends this process, and none that is forked from it, with\n"   \
    "this status, unless the interpreter has ended before."
PyObject *exit_guard_py(PyObject *module, PyObject *args);

#endif
