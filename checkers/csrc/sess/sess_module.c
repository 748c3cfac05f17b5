/* Python glue of session files: a buffer in, rows out; rows in, columns out. */
#include "sess_module.h"

#include "common/buffers.h"
#include "common/buffers_owned.h"
#include "sess.h"

/* An array that is given to a tuple, and set to NULL here. */
struct given {
    void **array;
    int64_t n;
    size_t size;
};

/* 0, or -1 with an exception set. */
static int give(PyObject *module, PyObject *tuple, const struct given *given, int count)
{
    for (int i = 0; i < count; i++) {
        PyObject *made = buffers_owned(module, *given[i].array, given[i].n, given[i].size);
        *given[i].array = NULL;
        if (made == NULL || PyTuple_SetItem(tuple, i, made) != 0) {
            return -1;
        }
    }
    return 0;
}

static PyObject *refused(const struct sess_error *error)
{
    PyObject *reason = Py_BuildValue("(iLLLL)", (int)error->flaw, (long long)error->line,
                                     (long long)error->a, (long long)error->b, (long long)error->c);
    if (reason != NULL) {
        PyErr_SetObject(PyExc_ValueError, reason);
        Py_DECREF(reason);
    }
    return NULL;
}

static PyObject *rows_py(PyObject *module, struct sess_rows *rows)
{
    enum { ARRAYS = 8 };
    const struct given given[ARRAYS] = {
        {(void **)&rows->kind, rows->m, sizeof *rows->kind},
        {(void **)&rows->key, rows->m, sizeof *rows->key},
        {(void **)&rows->value, rows->m, sizeof *rows->value},
        {(void **)&rows->txn, rows->m, sizeof *rows->txn},
        {(void **)&rows->outcome, rows->n, sizeof *rows->outcome},
        {(void **)&rows->session, rows->n, sizeof *rows->session},
        {(void **)&rows->name, rows->n, sizeof *rows->name},
        {(void **)&rows->wide, rows->n_wide, sizeof *rows->wide},
    };
    PyObject *tuple = PyTuple_New(ARRAYS + 1), *lost = PyLong_FromLongLong(rows->lost);
    if (tuple == NULL || lost == NULL || give(module, tuple, given, ARRAYS) != 0) {
        Py_XDECREF(tuple);
        Py_XDECREF(lost);
        return NULL;
    }
    return PyTuple_SetItem(tuple, ARRAYS, lost) == 0 ? tuple : NULL;
}

PyObject *sess_read_py(PyObject *module, PyObject *args)
{
    PyObject *text;
    Py_buffer view;
    int format, status;
    long long memory_bytes;
    struct sess_rows rows;
    struct sess_error error;
    if (!PyArg_ParseTuple(args, "OiL:read_sessions", &text, &format, &memory_bytes)) {
        return NULL;
    }
    if (format < 0 || format >= SESS_FORMATS || memory_bytes < 0) {
        PyErr_SetString(PyExc_ValueError, "no such format, or a negative budget");
        return NULL;
    }
    if (PyObject_GetBuffer(text, &view, PyBUF_SIMPLE) != 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = sess_read(view.buf, view.len, format, memory_bytes, &rows, &error);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&view);
    if (status != 0) {
        return refused(&error);
    }
    PyObject *made = rows_py(module, &rows);
    sess_rows_free(&rows);
    return made;
}

static PyObject *columns_py(PyObject *module, struct sess_columns *c)
{
    enum { ARRAYS = 13 };
    const struct given given[ARRAYS] = {
        {(void **)&c->outcome, c->n, sizeof *c->outcome},
        {(void **)&c->process, c->n, sizeof *c->process},
        {(void **)&c->invoke_pos, c->n, sizeof *c->invoke_pos},
        {(void **)&c->complete_pos, c->n, sizeof *c->complete_pos},
        {(void **)&c->op_index, c->n, sizeof *c->op_index},
        {(void **)&c->mop_start, c->n + 1, sizeof *c->mop_start},
        {(void **)&c->mop_kind, c->m, sizeof *c->mop_kind},
        {(void **)&c->mop_key, c->m, sizeof *c->mop_key},
        {(void **)&c->mop_value, c->m, sizeof *c->mop_value},
        {(void **)&c->mop_known, c->m, sizeof *c->mop_known},
        {(void **)&c->elem_start, c->m + 1, sizeof *c->elem_start},
        {(void **)&c->keys, c->n_keys, sizeof *c->keys},
        {(void **)&c->values, c->n_values, sizeof *c->values},
    };
    PyObject *tuple = PyTuple_New(ARRAYS + 1), *wrote = PyBool_FromLong(c->wrote_start);
    if (tuple == NULL || wrote == NULL || give(module, tuple, given, ARRAYS) != 0) {
        Py_XDECREF(tuple);
        Py_XDECREF(wrote);
        return NULL;
    }
    return PyTuple_SetItem(tuple, ARRAYS, wrote) == 0 ? tuple : NULL;
}

enum { KIND, NULLS, OUTCOME, KEY, VALUE, SESSION, NAME, TXN, BUFFERS };

static const struct buffer_kind KINDS[BUFFERS] = {
    [KIND] = {"kind", "B", 1, 0},       [NULLS] = {"null", "B?", 1, 0},
    [OUTCOME] = {"outcome", "B", 1, 0}, [KEY] = {"key", "lq", 8, 0},
    [VALUE] = {"value", "lq", 8, 0},    [SESSION] = {"session", "lq", 8, 0},
    [NAME] = {"name", "lq", 8, 0},      [TXN] = {"txn", "il", 4, 0},
};

/* Borrows the rows. 0, or -1 with an exception set; buffer_release is due in either case. */
static int take(PyObject *const *objects, struct buffer *buffers, struct sess_placing *in)
{
    for (int i = 0; i < BUFFERS; i++) {
        if (objects[i] != Py_None && buffer_take(&buffers[i], objects[i], &KINDS[i]) != 0) {
            return -1;
        }
    }
    in->m = buffer_length(&buffers[KIND]);
    in->n = buffer_length(&buffers[OUTCOME]);
    for (int i = 0; i < BUFFERS; i++) {
        int of_txns = i == OUTCOME || i == SESSION || i == NAME;
        if (buffers[i].taken && buffer_expect(&buffers[i], &KINDS[i], of_txns ? in->n : in->m)) {
            return -1;
        }
    }
    in->kind = buffers[KIND].view.buf;
    in->null = buffers[NULLS].taken ? buffers[NULLS].view.buf : NULL;
    in->outcome = buffers[OUTCOME].view.buf;
    in->key = buffers[KEY].view.buf;
    in->value = buffers[VALUE].view.buf;
    in->session = buffers[SESSION].view.buf;
    in->name = buffers[NAME].view.buf;
    in->txn = buffers[TXN].view.buf;
    return 0;
}

PyObject *sess_place_py(PyObject *module, PyObject *args)
{
    PyObject *objects[BUFFERS], *start, *made = NULL;
    struct buffer buffers[BUFFERS] = {{.taken = 0}};
    struct sess_placing in = {.has_start = 0};
    struct sess_columns columns;
    struct sess_error error;
    long long memory_bytes;
    int status;
    if (!PyArg_ParseTuple(args, "OOOOOOOOOL:place_sessions", &objects[0], &objects[1], &objects[2],
                          &objects[3], &objects[4], &objects[5], &objects[6], &objects[7], &start,
                          &memory_bytes)) {
        return NULL;
    }
    in.has_start = start != Py_None;
    in.start = in.has_start ? PyLong_AsLongLong(start) : 0;
    if (PyErr_Occurred() == NULL && take(objects, buffers, &in) == 0) {
        Py_BEGIN_ALLOW_THREADS
        status = sess_place(&in, memory_bytes, &columns, &error);
        Py_END_ALLOW_THREADS
        if (status != 0) {
            refused(&error);
        } else {
            made = columns_py(module, &columns);
            sess_columns_free(&columns);
        }
    }
    buffer_release(buffers, BUFFERS);
    return made;
}
