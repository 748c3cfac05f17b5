/* Python glue of the search for registers; see lin.h. */
#include "common/buffers.h"

#include "lin.h"
#include "lin_module.h"
#include "lin_reduce.h"

enum { KIND, A, B, INVOKE, COMPLETE, OFFSETS, VERDICT, BAD, PREFIX, STEPS, STATES, STOP, COLUMNS };

static const struct buffer_kind kinds[COLUMNS] = {
    {"kind", "B", 1, 0},    {"a", "il", 4, 0},        {"b", "il", 4, 0},
    {"invoke", "lq", 8, 0}, {"complete", "lq", 8, 0}, {"offsets", "lq", 8, 0},
    {"verdict", "B", 1, 1}, {"bad", "lq", 8, 1},      {"prefix", "lq", 8, 1},
    {"steps", "lq", 8, 1},  {"states", "il", 4, 1},   {"stop", "il", 4, 0},
};

static int check_lengths(const struct buffer *columns)
{
    int64_t n_ops = buffer_length(&columns[KIND]), n_keys = buffer_length(&columns[VERDICT]);
    for (int i = A; i <= COMPLETE; i++) {
        if (buffer_length(&columns[i]) != n_ops) {
            PyErr_Format(PyExc_ValueError, "%s: length differs from kind's", kinds[i].name);
            return -1;
        }
    }
    for (int i = BAD; i <= STEPS; i++) {
        if (buffer_length(&columns[i]) != n_keys) {
            PyErr_Format(PyExc_ValueError, "%s: length differs from verdict's", kinds[i].name);
            return -1;
        }
    }
    if (buffer_length(&columns[OFFSETS]) != n_keys + 1) {
        PyErr_SetString(PyExc_ValueError, "offsets: need one more than there are keys");
        return -1;
    }
    if (n_keys == 0 ? buffer_length(&columns[STATES]) != 0
                    : buffer_length(&columns[STATES]) % n_keys != 0) {
        PyErr_SetString(PyExc_ValueError, "states: need the same number for each key");
        return -1;
    }
    if (buffer_length(&columns[STOP]) < 1) {
        PyErr_SetString(PyExc_ValueError, "stop: need one element");
        return -1;
    }
    return 0;
}

PyObject *lin_check_py(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *from[COLUMNS];
    struct buffer columns[COLUMNS] = {{.taken = 0}};
    struct lin_report report = {NULL, 0};
    int n_values, initial, exact, bad = -1;
    long long time_ns, memory_bytes, steps_max;
    if (!PyArg_ParseTuple(args, "OOOOOOOOOOOOiiLLLp:check_registers", &from[KIND], &from[A],
                          &from[B], &from[INVOKE], &from[COMPLETE], &from[OFFSETS], &from[VERDICT],
                          &from[BAD], &from[PREFIX], &from[STEPS], &from[STATES], &from[STOP],
                          &n_values, &initial, &time_ns, &memory_bytes, &steps_max, &exact)) {
        return NULL;
    }
    if (buffer_take_all(columns, from, kinds, COLUMNS) != 0 || check_lengths(columns) != 0) {
        goto cleanup;
    }
    struct lin_input in = {
        .kind = columns[KIND].view.buf,
        .a = columns[A].view.buf,
        .b = columns[B].view.buf,
        .invoke = columns[INVOKE].view.buf,
        .complete = columns[COMPLETE].view.buf,
        .n_ops = buffer_length(&columns[KIND]),
        .offsets = columns[OFFSETS].view.buf,
        .n_keys = buffer_length(&columns[VERDICT]),
        .n_values = n_values,
        .initial = initial,
    };
    struct lin_limits limits = {time_ns, memory_bytes, steps_max, columns[STOP].view.buf, exact};
    struct lin_output out = {
        .verdict = columns[VERDICT].view.buf,
        .bad = columns[BAD].view.buf,
        .prefix = columns[PREFIX].view.buf,
        .steps = columns[STEPS].view.buf,
        .states = columns[STATES].view.buf,
        .n_states = in.n_keys == 0 ? 0 : buffer_length(&columns[STATES]) / in.n_keys,
    };
    Py_BEGIN_ALLOW_THREADS
    bad = lin_check(&in, &limits, &out, &report);
    Py_END_ALLOW_THREADS
    if (bad) {
        buffer_refuse(report.where, report.invalid);
    }
cleanup:
    buffer_release(columns, COLUMNS);
    if (bad) {
        return NULL;
    }
    Py_RETURN_NONE;
}

enum { R_KIND, R_A, R_B, R_INVOKE, R_COMPLETE, R_STAYS, R_STOP, R_COLUMNS };

static const struct buffer_kind reduced[R_COLUMNS] = {
    {"kind", "B", 1, 0},      {"a", "il", 4, 0},    {"b", "il", 4, 0},    {"invoke", "lq", 8, 0},
    {"complete", "lq", 8, 0}, {"stays", "B", 1, 1}, {"stop", "il", 4, 0},
};

PyObject *lin_reduce_py(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *from[R_COLUMNS];
    struct buffer columns[R_COLUMNS] = {{.taken = 0}};
    struct lin_report report = {NULL, 0};
    struct lin_effort effort;
    int n_values, initial, minimal = 0, bad = -1;
    long long time_ns, memory_bytes, steps_max, checks_max;
    if (!PyArg_ParseTuple(args, "OOOOOOOiiLLLL:reduce_registers", &from[R_KIND], &from[R_A],
                          &from[R_B], &from[R_INVOKE], &from[R_COMPLETE], &from[R_STAYS],
                          &from[R_STOP], &n_values, &initial, &time_ns, &memory_bytes, &steps_max,
                          &checks_max)) {
        return NULL;
    }
    if (buffer_take_all(columns, from, reduced, R_COLUMNS) != 0) {
        goto cleanup;
    }
    int64_t n_ops = buffer_length(&columns[R_KIND]);
    for (int i = R_KIND; i < R_COLUMNS; i++) {
        if (buffer_expect(&columns[i], &reduced[i], i == R_STOP ? 1 : n_ops) != 0) {
            goto cleanup;
        }
    }
    struct lin_input in = {
        .kind = columns[R_KIND].view.buf,
        .a = columns[R_A].view.buf,
        .b = columns[R_B].view.buf,
        .invoke = columns[R_INVOKE].view.buf,
        .complete = columns[R_COMPLETE].view.buf,
        .n_ops = n_ops,
        .n_keys = 1,
        .n_values = n_values,
        .initial = initial,
    };
    struct lin_limits limits = {time_ns, memory_bytes, 0, columns[R_STOP].view.buf, 0};
    effort = (struct lin_effort){checks_max, steps_max};
    Py_BEGIN_ALLOW_THREADS
    bad = lin_reduce(&in, &limits, &effort, columns[R_STAYS].view.buf, &minimal, &report);
    Py_END_ALLOW_THREADS
    if (bad) {
        buffer_refuse(report.where, report.invalid);
    }
cleanup:
    buffer_release(columns, R_COLUMNS);
    return bad ? NULL : PyBool_FromLong(minimal);
}
