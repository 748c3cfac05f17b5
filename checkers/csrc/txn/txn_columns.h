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

PyObject *txn_rows_py(const struct txn_rows *rows);

#endif
