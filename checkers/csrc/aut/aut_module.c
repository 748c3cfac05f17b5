/* Python glue of the automaton search; see aut.h. */
#include "common/buffers.h"

#include "aut.h"
#include "aut_module.h"

enum {
    CLASS,
    INVOKE,
    COMPLETE,
    OFFSETS,
    PURE,
    LO,
    HI,
    DELTA,
    VERDICT,
    BAD,
    PREFIX,
    STEPS,
    STATES,
    N_FOUND,
    STOP,
    INITIAL,
    COLUMNS
};

static const struct buffer_kind kinds[COLUMNS] = {
    {"class", "il", 4, 0},   {"invoke", "lq", 8, 0},  {"complete", "lq", 8, 0},
    {"offsets", "lq", 8, 0}, {"pure", "B", 1, 0},     {"lo", "lq", 8, 0},
    {"hi", "lq", 8, 0},      {"delta", "lq", 8, 0},   {"verdict", "B", 1, 1},
    {"bad", "lq", 8, 1},     {"prefix", "lq", 8, 1},  {"steps", "lq", 8, 1},
    {"states", "lq", 8, 1},  {"n_found", "lq", 8, 1}, {"stop", "il", 4, 0},
    {"initial", "lq", 8, 0},
};

static int check_lengths(const struct buffer *columns, int computed)
{
    int64_t n_ops = buffer_length(&columns[CLASS]), n_keys = buffer_length(&columns[VERDICT]);
    int64_t n_classes = buffer_length(&columns[PURE]);
    if (n_classes > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "pure: more classes than the search can number");
        return -1;
    }
    int64_t by_class = computed ? n_classes : 0;
    int64_t want[COLUMNS] = {n_ops,    n_ops,    n_ops,  n_keys + 1, n_classes, by_class,
                             by_class, by_class, n_keys, n_keys,     n_keys,    n_keys,
                             0,        n_keys,   0,      0};
    for (int i = 0; i < COLUMNS; i++) {
        if (i != STATES && i != STOP && i != INITIAL &&
            buffer_expect(&columns[i], &kinds[i], want[i]) != 0) {
            return -1;
        }
    }
    int64_t n_states = buffer_length(&columns[STATES]);
    if (n_keys == 0 ? n_states != 0 : n_states % n_keys != 0) {
        PyErr_SetString(PyExc_ValueError, "states: need the same number for each key");
        return -1;
    }
    if (buffer_length(&columns[STOP]) < 1) {
        PyErr_SetString(PyExc_ValueError, "stop: need one element");
        return -1;
    }
    return 0;
}

struct asker {
    PyObject *ask;
    PyThreadState *thread;
};

/* The only place where the search needs Python: takes the GIL for the call. */
static int ask_python(void *context, int64_t state, int32_t class, int64_t *to, int max)
{
    struct asker *asker = context;
    PyEval_RestoreThread(asker->thread);
    int count = -1;
    PyObject *answer = PyObject_CallFunction(asker->ask, "Li", (long long)state, (int)class);
    if (answer != NULL && !PyTuple_Check(answer)) {
        PyErr_SetString(PyExc_TypeError, "ask: need a tuple of states");
    } else if (answer != NULL && PyTuple_Size(answer) > max) {
        PyErr_Format(PyExc_ValueError, "ask: a step leads to more than %d states", max);
    } else if (answer != NULL) {
        count = (int)PyTuple_Size(answer);
        for (int i = 0; i < count; i++) {
            to[i] = PyLong_AsLongLong(PyTuple_GetItem(answer, i));
        }
        count = PyErr_Occurred() != NULL ? -1 : count;
    }
    Py_XDECREF(answer);
    asker->thread = PyEval_SaveThread();
    return count;
}

PyObject *aut_check_py(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *from[COLUMNS];
    struct buffer columns[COLUMNS] = {{.taken = 0}};
    struct asker asker = {NULL, NULL};
    struct lin_report report = {NULL, 0};
    struct lin_limits limits = {0, 0, 0, NULL, 0};
    long long time_ns, memory_bytes, steps_max;
    int bad = -1;
    if (!PyArg_ParseTuple(args, "OOOOOOOOOOOOOOOOOLLL:check_automaton", &from[CLASS], &from[INVOKE],
                          &from[COMPLETE], &from[OFFSETS], &from[PURE], &from[LO], &from[HI],
                          &from[DELTA], &from[VERDICT], &from[BAD], &from[PREFIX], &from[STEPS],
                          &from[STATES], &from[N_FOUND], &from[STOP], &from[INITIAL], &asker.ask,
                          &time_ns, &memory_bytes, &steps_max)) {
        return NULL;
    }
    if (buffer_take_all(columns, from, kinds, COLUMNS) != 0 ||
        check_lengths(columns, asker.ask == Py_None) != 0) {
        goto cleanup;
    }
    struct aut_input in = {
        .class = columns[CLASS].view.buf,
        .invoke = columns[INVOKE].view.buf,
        .complete = columns[COMPLETE].view.buf,
        .n_ops = buffer_length(&columns[CLASS]),
        .offsets = columns[OFFSETS].view.buf,
        .n_keys = buffer_length(&columns[VERDICT]),
        .pure = columns[PURE].view.buf,
        .n_classes = (int32_t)buffer_length(&columns[PURE]),
        .lo = columns[LO].view.buf,
        .hi = columns[HI].view.buf,
        .delta = columns[DELTA].view.buf,
        .initial = columns[INITIAL].view.buf,
        .n_initial = buffer_length(&columns[INITIAL]),
        .ask = asker.ask == Py_None ? NULL : ask_python,
        .context = &asker,
    };
    struct aut_output out = {
        .verdict = columns[VERDICT].view.buf,
        .bad = columns[BAD].view.buf,
        .prefix = columns[PREFIX].view.buf,
        .steps = columns[STEPS].view.buf,
        .states = columns[STATES].view.buf,
        .n_found = columns[N_FOUND].view.buf,
        .n_states = in.n_keys == 0 ? 0 : buffer_length(&columns[STATES]) / in.n_keys,
    };
    limits = (struct lin_limits){time_ns, memory_bytes, steps_max, columns[STOP].view.buf, 0};
    asker.thread = PyEval_SaveThread();
    bad = aut_check(&in, &limits, &out, &report);
    PyEval_RestoreThread(asker.thread);
    if (bad && PyErr_Occurred() == NULL) {
        buffer_refuse(report.where, report.invalid);
    }
cleanup:
    buffer_release(columns, COLUMNS);
    if (bad) {
        return NULL;
    }
    Py_RETURN_NONE;
}
