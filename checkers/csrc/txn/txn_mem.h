/* What every part of the transaction checker shares: memory under a budget, deadline, findings. */
#ifndef DSTEST_TXN_MEM_H
#define DSTEST_TXN_MEM_H

#include "common/core_memory.h"
#include "txn.h"

#define TXN_NONE UINT32_MAX

/* Blocks that live at once. */
enum { TXN_BLOCKS_MAX = 192 };

struct txn_block {
    void *p;
    size_t bytes;
};

struct txn_ctx {
    const struct txn_input *in;
    const struct txn_options *options;
    struct txn_report *report;
    struct txn_block blocks[TXN_BLOCKS_MAX];
    struct core_budget budget; /* one unit of work is one call of txn_tick */
    int64_t spent;             /* arcs looked at for shorter witnesses */
    int status;
};

void txn_begin(struct txn_ctx *c, const struct txn_input *in, const struct txn_options *options,
               struct txn_report *report);
void txn_end(struct txn_ctx *c);

/* Zeroed memory for `count` elements of `size` bytes, or NULL with status MEMORY. */
void *txn_alloc(struct txn_ctx *c, size_t count, size_t size);
/* As txn_alloc, for at most `need` elements; contents of `p` (from txn_alloc) move along. */
void *txn_grow(struct txn_ctx *c, void *p, size_t count, size_t need, size_t size);
void txn_free(struct txn_ctx *c, void *p);

/* Reads clock and stop flag; not zero = give up, the reason is in c->status. */
int txn_poll_budget(struct txn_ctx *c);

/* For inner loops: polls every few thousand calls. */
static inline int txn_tick(struct txn_ctx *c)
{
    return ++c->budget.work >= c->budget.poll_at ? txn_poll_budget(c) : c->status;
}

int txn_refuse(struct txn_ctx *c, const char *why, int64_t where);
/* Adds values to rows of the report, which are charged like all else. */
void txn_push(struct txn_ctx *c, struct txn_rows *rows, const int64_t *values, size_t count);
/* Keeps the first rows of each type and counts the rest. */
void txn_find(struct txn_ctx *c, struct txn_found found);

#endif
