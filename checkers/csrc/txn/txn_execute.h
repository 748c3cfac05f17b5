/* list-append: the proof that needs no graph. */
#ifndef DSTEST_TXN_EXECUTE_H
#define DSTEST_TXN_EXECUTE_H

#include "txn_index.h"

/* `index` holds all appends. 1 where the transactions, each executed at some moment between its invocation and its completion,
 * read what they say they read, and some read what another one appended: then nothing is wrong under
 * any model, the report says `proved`, and its edges are those reads. 0 says nothing. No value may be
 * appended to a key twice. */
int txn_execute(struct txn_ctx *c, const struct txn_index *index);

#endif
