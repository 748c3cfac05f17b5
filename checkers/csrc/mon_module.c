/* Python glue of the monitors; see mon.h. */
#include "buffers.h"

#include "mon.h"
#include "mon_chain.h"
#include "mon_module.h"

enum { KIND, VALUE, INVOKE, COMPLETE, OFFSETS, VERDICT, STOP, COLUMNS, B = COLUMNS, ALL };

static const struct buffer_kind kinds[ALL] = {
    {"kind", "B", 1, 0},      {"value", "il", 4, 0},   {"invoke", "lq", 8, 0},
    {"complete", "lq", 8, 0}, {"offsets", "lq", 8, 0}, {"verdict", "B", 1, 1},
    {"stop", "il", 4, 0},     {"b", "il", 4, 0},
};

static int check_lengths(const struct buffer *columns)
{
    int64_t n_ops = buffer_length(&columns[KIND]), n_keys = buffer_length(&columns[VERDICT]);
    int64_t want[STOP] = {n_ops, n_ops, n_ops, n_ops, n_keys + 1, n_keys};
    for (int i = 0; i < STOP; i++) {
        if (buffer_expect(&columns[i], &kinds[i], want[i]) != 0) {
            return -1;
        }
    }
    if (buffer_length(&columns[STOP]) < 1) {
        PyErr_SetString(PyExc_ValueError, "stop: need one element");
        return -1;
    }
    return 0;
}

PyObject *mon_check_py(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *from[COLUMNS];
    struct buffer columns[COLUMNS] = {{.taken = 0}};
    struct lin_report report = {NULL, 0};
    int n_values, model, bad = -1;
    long long memory_bytes;
    if (!PyArg_ParseTuple(args, "OOOOOOOiiL:monitor", &from[KIND], &from[VALUE], &from[INVOKE],
                          &from[COMPLETE], &from[OFFSETS], &from[VERDICT], &from[STOP], &n_values,
                          &model, &memory_bytes)) {
        return NULL;
    }
    for (int i = 0; i < COLUMNS; i++) {
        if (buffer_take(&columns[i], from[i], &kinds[i]) != 0) {
            goto cleanup;
        }
    }
    if (check_lengths(columns) != 0) {
        goto cleanup;
    }
    struct mon_input in = {
        .kind = columns[KIND].view.buf,
        .value = columns[VALUE].view.buf,
        .invoke = columns[INVOKE].view.buf,
        .complete = columns[COMPLETE].view.buf,
        .n_ops = buffer_length(&columns[KIND]),
        .offsets = columns[OFFSETS].view.buf,
        .n_keys = buffer_length(&columns[VERDICT]),
        .n_values = n_values,
        .model = model,
    };
    struct lin_limits limits = {0, memory_bytes, 0, columns[STOP].view.buf, 0};
    uint8_t *verdict = columns[VERDICT].view.buf;
    Py_BEGIN_ALLOW_THREADS
    bad = mon_check(&in, &limits, verdict, &report);
    Py_END_ALLOW_THREADS
    if (bad) {
        PyErr_Format(PyExc_ValueError, "at %lld: %s", (long long)report.where, report.invalid);
    }
cleanup:
    buffer_release(columns, COLUMNS);
    if (bad) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyObject *mon_chains_py(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *from[ALL];
    struct buffer columns[ALL] = {{.taken = 0}};
    struct lin_report report = {NULL, 0};
    int n_values, bad = -1;
    long long memory_bytes;
    if (!PyArg_ParseTuple(args, "OOOOOOOOiL:chains", &from[KIND], &from[VALUE], &from[B],
                          &from[INVOKE], &from[COMPLETE], &from[OFFSETS], &from[VERDICT],
                          &from[STOP], &n_values, &memory_bytes)) {
        return NULL;
    }
    for (int i = 0; i < ALL; i++) {
        if (buffer_take(&columns[i], from[i], &kinds[i]) != 0) {
            goto cleanup;
        }
    }
    if (check_lengths(columns) != 0 ||
        buffer_expect(&columns[B], &kinds[B], buffer_length(&columns[KIND])) != 0) {
        goto cleanup;
    }
    struct lin_input in = {
        .kind = columns[KIND].view.buf,
        .a = columns[VALUE].view.buf,
        .b = columns[B].view.buf,
        .invoke = columns[INVOKE].view.buf,
        .complete = columns[COMPLETE].view.buf,
        .n_ops = buffer_length(&columns[KIND]),
        .offsets = columns[OFFSETS].view.buf,
        .n_keys = buffer_length(&columns[VERDICT]),
        .n_values = n_values,
        .initial = 0,
    };
    struct lin_limits limits = {0, memory_bytes, 0, columns[STOP].view.buf, 0};
    uint8_t *verdict = columns[VERDICT].view.buf;
    Py_BEGIN_ALLOW_THREADS
    bad = mon_chains(&in, &limits, verdict, &report);
    Py_END_ALLOW_THREADS
    if (bad) {
        PyErr_Format(PyExc_ValueError, "at %lld: %s", (long long)report.where, report.invalid);
    }
cleanup:
    buffer_release(columns, ALL);
    if (bad) {
        return NULL;
    }
    Py_RETURN_NONE;
}
