/* Python glue of the monitors; see mon.h. */
#include "common/buffers.h"

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

/* What both functions are given, and what they answer. */
struct call {
    struct buffer columns[ALL];
    int n; /* columns that this function has */
    struct lin_limits limits;
    struct lin_report report;
};

static int take(struct call *call, PyObject *const *from, int n, int64_t memory_bytes)
{
    struct buffer *columns = call->columns;
    call->n = n;
    if (buffer_take_all(columns, from, kinds, n) != 0 || check_lengths(columns) != 0 ||
        (n > B && buffer_expect(&columns[B], &kinds[B], buffer_length(&columns[KIND])) != 0)) {
        return -1;
    }
    call->limits = (struct lin_limits){0, memory_bytes, 0, columns[STOP].view.buf, 0};
    return 0;
}

/* `bad`: -1 with an exception set, 1 where the report has a reason. */
static PyObject *finish(struct call *call, int bad)
{
    if (bad > 0) {
        buffer_refuse(call->report.where, call->report.invalid);
    }
    buffer_release(call->columns, call->n);
    return bad ? NULL : Py_NewRef(Py_None);
}

PyObject *mon_check_py(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *from[COLUMNS];
    struct call call = {.columns = {{.taken = 0}}};
    const struct buffer *columns = call.columns;
    int n_values, model, bad;
    long long memory_bytes;
    if (!PyArg_ParseTuple(args, "OOOOOOOiiL:monitor", &from[KIND], &from[VALUE], &from[INVOKE],
                          &from[COMPLETE], &from[OFFSETS], &from[VERDICT], &from[STOP], &n_values,
                          &model, &memory_bytes)) {
        return NULL;
    }
    if (take(&call, from, COLUMNS, memory_bytes) != 0) {
        return finish(&call, -1);
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
    Py_BEGIN_ALLOW_THREADS
    bad = mon_check(&in, &call.limits, columns[VERDICT].view.buf, &call.report);
    Py_END_ALLOW_THREADS
    return finish(&call, bad != 0);
}

PyObject *mon_chains_py(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *from[ALL];
    struct call call = {.columns = {{.taken = 0}}};
    const struct buffer *columns = call.columns;
    int n_values, bad;
    long long memory_bytes;
    if (!PyArg_ParseTuple(args, "OOOOOOOOiL:chains", &from[KIND], &from[VALUE], &from[B],
                          &from[INVOKE], &from[COMPLETE], &from[OFFSETS], &from[VERDICT],
                          &from[STOP], &n_values, &memory_bytes)) {
        return NULL;
    }
    if (take(&call, from, ALL, memory_bytes) != 0) {
        return finish(&call, -1);
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
    Py_BEGIN_ALLOW_THREADS
    bad = mon_chains(&in, &call.limits, columns[VERDICT].view.buf, &call.report);
    Py_END_ALLOW_THREADS
    return finish(&call, bad != 0);
}
