/* Columns of a transactional history as Python buffers. */
#ifndef DSTEST_TXN_COLUMNS_H
#define DSTEST_TXN_COLUMNS_H

#include "common/buffers.h"

#include "txn.h"

/* The columns of `enum txn_column_name`, and the stop flag. */
enum { TXN_STOP = TXN_COLUMNS, TXN_BUFFERS };

/* Borrows them and fills in `in`, whose counts are there already. 0, or -1 with an exception set;
 * buffer_release is due in either case. */
int txn_take_columns(PyObject *const *objects, struct buffer *columns, struct txn_input *in);

/* What the functions take that decide models of registers: the columns, four counts, models, time
 * and memory. */
struct txn_call {
    struct buffer columns[TXN_BUFFERS];
    struct txn_input in;
    struct txn_options options;
    unsigned models;
};

/* 0, or -1 with an exception set; txn_call_release is due in either case. */
int txn_call_take(PyObject *args, const char *format, struct txn_call *call);
void txn_call_release(struct txn_call *call);

PyObject *txn_rows_py(const struct txn_rows *rows);

#endif
