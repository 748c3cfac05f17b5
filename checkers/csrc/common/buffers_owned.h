/* Arrays of C as Python objects that own them, and are read as buffers without a copy. */
#ifndef DSTEST_BUFFERS_OWNED_H
#define DSTEST_BUFFERS_OWNED_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

/* Adds the type of the arrays to the module. 0, or -1 with an exception set. */
int buffers_register(PyObject *module);

/* n elements of `size` bytes at `array`, which is freed with the object, and at once where there
 * is none: NULL with an exception set. */
PyObject *buffers_owned(PyObject *module, void *array, int64_t n, size_t size);

#endif
