#include "buffers_owned.h"

#include <stdlib.h>

#define NAME "Array"

struct owned {
    PyObject_HEAD void *array;
    Py_ssize_t bytes;
};

static int get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    struct owned *owned = (struct owned *)self;
    return PyBuffer_FillInfo(view, self, owned->array, owned->bytes, 1, flags);
}

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc give_back = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free(((struct owned *)self)->array);
    give_back(self);
    Py_DECREF(type);
}

int buffers_register(PyObject *module)
{
    PyType_Slot slots[] = {
        {Py_bf_getbuffer, get_buffer},
        {Py_tp_dealloc, dealloc},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "checkers._core." NAME,
        .basicsize = sizeof(struct owned),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
        .slots = slots,
    };
    PyObject *type = PyType_FromModuleAndSpec(module, &spec, NULL);
    if (type == NULL) {
        return -1;
    }
    int status = PyModule_AddObjectRef(module, NAME, type);
    Py_DECREF(type);
    return status;
}

PyObject *buffers_owned(PyObject *module, void *array, int64_t n, size_t size)
{
    PyObject *type = PyObject_GetAttrString(module, NAME);
    PyObject *made = type == NULL ? NULL : PyType_GenericAlloc((PyTypeObject *)type, 0);
    Py_XDECREF(type);
    if (made == NULL) {
        free(array);
        return NULL;
    }
    ((struct owned *)made)->array = array;
    ((struct owned *)made)->bytes = (Py_ssize_t)n * (Py_ssize_t)size;
    return made;
}
