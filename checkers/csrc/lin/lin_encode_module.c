/* Recorded operations as columns of registers; see checkers/_columns.py, which reads what is left. */
#include "common/buffers.h"

#include "lin.h"
#include "lin_module.h"

#define FAILED 250
#define UNKNOWN_READ 251
#define LEFT 255

enum { KEY, KIND, A, B, INVOKE, COMPLETE, COLUMNS };
enum { OP_TYPE, OP_KEY, INPUT, OUTPUT, INVOKED, COMPLETED, ERROR, TIMEOUT, FIELDS };

static const struct buffer_kind kinds[COLUMNS] = {
    {"key", "il", 4, 1}, {"kind", "B", 1, 1},    {"a", "il", 4, 1},
    {"b", "il", 4, 1},   {"invoke", "lq", 8, 1}, {"complete", "lq", 8, 1},
};

static const char *const fields[FIELDS] = {"op_type",   "key",         "input", "output",
                                           "invoke_ts", "complete_ts", "error", "timeout_marker"};

/* Small integers for values: `ids` has those that were seen, `make` makes and adds others. */
struct numbers {
    PyObject *ids, *make;
};

struct row {
    int32_t key, a, b;
    uint8_t kind;
    int64_t invoke, complete;
};

/* The number of a value, or -1 with an exception. */
static int32_t number_of(const struct numbers *numbers, PyObject *value)
{
    if (value == Py_None || PyLong_CheckExact(value) || PyUnicode_CheckExact(value)) {
        PyObject *found = PyDict_GetItemWithError(numbers->ids, value);
        if (found != NULL) {
            return (int32_t)PyLong_AsLong(found);
        }
        if (PyErr_Occurred() != NULL) {
            return -1;
        }
    }
    PyObject *made = PyObject_CallFunctionObjArgs(numbers->make, value, NULL);
    int32_t number = made == NULL ? -1 : (int32_t)PyLong_AsLong(made);
    Py_XDECREF(made);
    return number;
}

/* Both values of a cas; kind LEFT where it has none. -1 with an exception. */
static int read_cas(PyObject *const *op, const struct numbers *values, int unknown, struct row *row)
{
    int list = PyList_Check(op[INPUT]), told = PyBool_Check(op[OUTPUT]);
    row->kind = LEFT;
    if ((!list && !PyTuple_Check(op[INPUT])) || (!unknown && !told) ||
        (list ? PyList_Size(op[INPUT]) : PyTuple_Size(op[INPUT])) != 2) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < 2; i++) {
        PyObject *value = list ? PyList_GetItem(op[INPUT], i) : PyTuple_GetItem(op[INPUT], i);
        Py_INCREF(value);
        int32_t number = number_of(values, value);
        Py_DECREF(value);
        if (number < 0) {
            return -1;
        }
        *(i == 0 ? &row->a : &row->b) = number;
    }
    row->kind = unknown ? LIN_CAS_UNKNOWN : op[OUTPUT] == Py_False ? LIN_CAS_FALSE : LIN_CAS_TRUE;
    return 0;
}

/* Kind and values of an operation of a known type; -1 with an exception. */
static int read_kind(PyObject *const *op, const struct numbers *values, int cas, struct row *row)
{
    int unknown = op[TIMEOUT] == Py_True || op[COMPLETED] == Py_None;
    int reads = PyUnicode_CompareWithASCIIString(op[OP_TYPE], "read") == 0;
    int writes = !reads && PyUnicode_CompareWithASCIIString(op[OP_TYPE], "write") == 0;
    int swaps = !reads && !writes && PyUnicode_CompareWithASCIIString(op[OP_TYPE], "cas") == 0;
    row->kind = LEFT;
    if (!reads && !writes && !swaps) {
        return 0;
    }
    if (!unknown && op[ERROR] != Py_None) {
        row->kind = FAILED;
        return 0;
    }
    if (unknown && reads) {
        row->kind = UNKNOWN_READ;
        return 0;
    }
    if (swaps) {
        return cas ? read_cas(op, values, unknown, row) : 0;
    }
    row->kind = reads ? LIN_READ : unknown ? LIN_WRITE_UNKNOWN : LIN_WRITE;
    row->a = number_of(values, op[reads ? OUTPUT : INPUT]);
    return row->a < 0 ? -1 : 0;
}

static int read_times(PyObject *const *op, struct row *row)
{
    row->invoke = PyLong_AsLongLong(op[INVOKED]);
    row->complete = row->kind >= LIN_WRITE_UNKNOWN ? LIN_NEVER : PyLong_AsLongLong(op[COMPLETED]);
    if (PyErr_Occurred() != NULL) {
        PyErr_Clear();
        row->kind = LEFT;
    } else if (row->invoke == INT64_MIN || row->complete < row->invoke ||
               (row->complete == LIN_NEVER && row->kind < LIN_WRITE_UNKNOWN)) {
        row->kind = LEFT;
    }
    return 0;
}

/* Reads one operation; -1 with an exception. */
static int read_op(PyObject *object, PyObject *const *names, const struct numbers *keys,
                   const struct numbers *values, int cas, struct row *row)
{
    PyObject *op[FIELDS] = {NULL};
    int bad = 0;
    for (int i = 0; i < FIELDS && !bad; i++) {
        op[i] = PyObject_GetAttr(object, names[i]);
        bad = op[i] == NULL;
    }
    if (!bad && !PyUnicode_Check(op[OP_TYPE])) {
        PyErr_SetString(PyExc_TypeError, "op_type: need a string");
        bad = 1;
    }
    if (!bad) {
        row->key = number_of(keys, op[OP_KEY]);
        bad = row->key < 0 || read_kind(op, values, cas, row) != 0;
    }
    if (!bad && row->kind < LIN_KINDS) {
        bad = read_times(op, row);
    }
    for (int i = 0; i < FIELDS; i++) {
        Py_XDECREF(op[i]);
    }
    return bad ? -1 : 0;
}

static int read_all(PyObject *ops, const struct numbers *keys, const struct numbers *values,
                    int cas, const struct buffer *columns)
{
    PyObject *names[FIELDS] = {NULL};
    int64_t n = buffer_length(&columns[KIND]);
    int bad = 0;
    for (int i = 0; i < FIELDS && !bad; i++) {
        names[i] = PyUnicode_InternFromString(fields[i]);
        bad = names[i] == NULL;
    }
    for (int64_t i = 0; i < n && !bad; i++) {
        struct row row = {0, 0, 0, LEFT, 0, 0};
        PyObject *op = PyList_GetItem(ops, (Py_ssize_t)i);
        Py_XINCREF(op);
        bad = op == NULL || read_op(op, names, keys, values, cas, &row) != 0;
        Py_XDECREF(op);
        ((int32_t *)columns[KEY].view.buf)[i] = row.key;
        ((uint8_t *)columns[KIND].view.buf)[i] = row.kind;
        ((int32_t *)columns[A].view.buf)[i] = row.a;
        ((int32_t *)columns[B].view.buf)[i] = row.b;
        ((int64_t *)columns[INVOKE].view.buf)[i] = row.invoke;
        ((int64_t *)columns[COMPLETE].view.buf)[i] = row.complete;
    }
    for (int i = 0; i < FIELDS; i++) {
        Py_XDECREF(names[i]);
    }
    return bad ? -1 : 0;
}

PyObject *lin_encode_py(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *from[COLUMNS], *ops;
    struct buffer columns[COLUMNS] = {{.taken = 0}};
    struct numbers keys, values;
    int cas, bad = -1;
    if (!PyArg_ParseTuple(args, "OOOOOOOOOOOp:encode_registers", &ops, &keys.ids, &keys.make,
                          &values.ids, &values.make, &from[KEY], &from[KIND], &from[A], &from[B],
                          &from[INVOKE], &from[COMPLETE], &cas)) {
        return NULL;
    }
    if (!PyList_Check(ops) || !PyDict_Check(keys.ids) || !PyDict_Check(values.ids)) {
        PyErr_SetString(PyExc_TypeError, "need a list of operations and two dictionaries");
        return NULL;
    }
    if (buffer_take_all(columns, from, kinds, COLUMNS) == 0) {
        bad = 0;
        for (int i = 0; i < COLUMNS && !bad; i++) {
            bad = buffer_expect(&columns[i], &kinds[i], PyList_Size(ops));
        }
        bad = bad ? bad : read_all(ops, &keys, &values, cas, columns);
    }
    buffer_release(columns, COLUMNS);
    if (bad) {
        return NULL;
    }
    Py_RETURN_NONE;
}
