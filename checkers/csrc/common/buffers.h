/* Borrowed Python buffers with a known shape. */
#ifndef DSTEST_BUFFERS_H
#define DSTEST_BUFFERS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

struct buffer {
    Py_buffer view;
    int taken; /* must be released */
};

struct buffer_kind {
    const char *name;
    const char *formats; /* struct codes, any of them */
    Py_ssize_t itemsize;
    int writable;
};

/* Borrows a one-dimensional contiguous buffer. 0, or -1 with an exception set. */
int buffer_take(struct buffer *buffer, PyObject *from, const struct buffer_kind *kind);
/* As many as there are objects, until one fails; buffer_release is due in either case. */
int buffer_take_all(struct buffer *buffers, PyObject *const *from, const struct buffer_kind *kinds,
                    int n);
void buffer_release(struct buffer *buffers, int n);

/* Elements. */
int64_t buffer_length(const struct buffer *buffer);

/* 0 where the buffer has `want` elements, else -1 with an exception set. */
int buffer_expect(const struct buffer *buffer, const struct buffer_kind *kind, int64_t want);

/* ValueError: what is wrong with the columns, and at which position. */
void buffer_refuse(int64_t where, const char *why);

#endif
