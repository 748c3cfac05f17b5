#include "core_exit_module.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* exit() calls what atexit() was given without arguments, so these are of the process. */
static pid_t guarded;
static int status_else;

static void last_word(void)
{
    if (Py_IsInitialized() && guarded == getpid()) {
        fflush(NULL);
        _exit(status_else);
    }
}

PyObject *exit_guard_py(PyObject *module, PyObject *args)
{
    (void)module;
    int status = 0;
    if (!PyArg_ParseTuple(args, "i", &status)) {
        return NULL;
    }
    if (guarded == 0 && atexit(last_word) != 0) {
        return PyErr_NoMemory();
    }
    guarded = getpid();
    status_else = status;
    Py_RETURN_NONE;
}
