#include "buffers.h"

#include <string.h>

int buffer_take(struct buffer *buffer, PyObject *from, const struct buffer_kind *kind)
{
    int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (kind->writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(from, &buffer->view, flags) != 0) {
        return -1;
    }
    buffer->taken = 1;
    const char *format = buffer->view.format == NULL ? "B" : buffer->view.format;
    if (*format == '=' || *format == '@' || *format == '<') {
        format++;
    }
    if (buffer->view.ndim != 1 || buffer->view.itemsize != kind->itemsize || format[0] == '\0' ||
        format[1] != '\0' || strchr(kind->formats, format[0]) == NULL) {
        PyErr_Format(PyExc_ValueError, "%s: need one dimension of format %s with %zd bytes each",
                     kind->name, kind->formats, kind->itemsize);
        return -1;
    }
    return 0;
}

int buffer_take_all(struct buffer *buffers, PyObject *const *from, const struct buffer_kind *kinds,
                    int n)
{
    for (int i = 0; i < n; i++) {
        if (buffer_take(&buffers[i], from[i], &kinds[i]) != 0) {
            return -1;
        }
    }
    return 0;
}

void buffer_release(struct buffer *buffers, int n)
{
    for (int i = 0; i < n; i++) {
        if (buffers[i].taken) {
            PyBuffer_Release(&buffers[i].view);
        }
    }
}

int64_t buffer_length(const struct buffer *buffer)
{
    return buffer->view.len / buffer->view.itemsize;
}

int buffer_expect(const struct buffer *buffer, const struct buffer_kind *kind, int64_t want)
{
    if (buffer_length(buffer) == want) {
        return 0;
    }
    PyErr_Format(PyExc_ValueError, "%s: %lld elements, need %lld", kind->name,
                 (long long)buffer_length(buffer), (long long)want);
    return -1;
}

void buffer_refuse(int64_t where, const char *why)
{
    PyErr_Format(PyExc_ValueError, "at %lld: %s", (long long)where, why);
}
