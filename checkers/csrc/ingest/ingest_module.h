/* The reader as a method of checkers._core. */
#ifndef DSTEST_INGEST_MODULE_H
#define DSTEST_INGEST_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

extern const char ing_module_doc[];
PyObject *ing_module_read(PyObject *module, PyObject *args);

#endif
