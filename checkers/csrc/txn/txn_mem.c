/* Memory under a budget, deadlines, and the rows of a report. */
#include "txn_mem.h"

#include <string.h>

/* Rows that are kept of one type of finding; more are only counted. */
static const int64_t FOUND_MAX = 100000;

void txn_begin(struct txn_ctx *c, const struct txn_input *in, const struct txn_options *options,
               struct txn_report *report)
{
    memset(c, 0, sizeof *c);
    memset(report, 0, sizeof *report);
    report->where = -1;
    c->in = in;
    c->options = options;
    c->report = report;
    core_budget_begin(&c->budget, options->time_ns, options->memory_bytes, options->stop);
}

static void release(struct txn_ctx *c, struct txn_block *block)
{
    core_block_free(&c->budget.memory, block->p, block->bytes);
    block->p = NULL;
}

void txn_end(struct txn_ctx *c)
{
    for (int i = 0; i < TXN_BLOCKS_MAX; i++) {
        if (c->blocks[i].p != NULL) {
            release(c, &c->blocks[i]);
        }
    }
}

void *txn_alloc(struct txn_ctx *c, size_t count, size_t size)
{
    if (c->status != TXN_DONE) {
        return NULL;
    }
    if (count > SIZE_MAX / size) {
        c->status = TXN_MEMORY;
        return NULL;
    }
    for (int i = 0; i < TXN_BLOCKS_MAX; i++) {
        struct txn_block *block = &c->blocks[i];
        if (block->p == NULL) {
            block->bytes = count == 0 ? size : count * size;
            block->p = core_block(&c->budget.memory, block->bytes);
            c->status = block->p == NULL ? TXN_MEMORY : TXN_DONE;
            return block->p;
        }
    }
    c->status = TXN_MEMORY;
    return NULL;
}

void txn_free(struct txn_ctx *c, void *p)
{
    for (int i = 0; p != NULL && i < TXN_BLOCKS_MAX; i++) {
        if (c->blocks[i].p == p) {
            release(c, &c->blocks[i]);
            return;
        }
    }
}

void *txn_grow(struct txn_ctx *c, void *p, size_t count, size_t need, size_t size)
{
    void *q = txn_alloc(c, need, size);
    if (q != NULL && p != NULL) {
        memcpy(q, p, count * size);
    }
    txn_free(c, p);
    return q;
}

int txn_poll_budget(struct txn_ctx *c)
{
    enum core_spent spent = core_poll_budget(&c->budget);
    if (c->status == TXN_DONE && spent != CORE_WITHIN) {
        c->status = spent == CORE_STOPPED ? TXN_STOPPED : TXN_TIME;
    }
    return c->status;
}

int txn_refuse(struct txn_ctx *c, const char *why, int64_t where)
{
    if (c->report->invalid == NULL) {
        c->report->invalid = why;
        c->report->where = where;
    }
    c->status = TXN_INVALID;
    return TXN_INVALID;
}

void txn_push(struct txn_ctx *c, struct txn_rows *rows, const int64_t *values, size_t count)
{
    if (count > rows->cap - rows->used) {
        size_t cap = rows->cap * 2 + count + 64;
        size_t held = rows->cap * sizeof *rows->at, bytes = cap * sizeof *rows->at;
        int64_t *at = core_resize(&c->budget.memory, rows->at, held, bytes);
        if (at == NULL) {
            c->status = TXN_MEMORY;
            return;
        }
        rows->at = at;
        rows->cap = cap;
    }
    memcpy(rows->at + rows->used, values, count * sizeof *values);
    rows->used += count;
}

void txn_find(struct txn_ctx *c, struct txn_found found)
{
    if (c->report->counts[found.type]++ < FOUND_MAX) {
        int64_t row[] = {found.type, found.key,  found.value, found.txn,
                         found.mop,  found.txn2, found.mop2,  found.value2};
        txn_push(c, &c->report->findings, row, sizeof row / sizeof *row);
    }
}

void txn_report_free(struct txn_report *report)
{
    core_drop(report->findings.at, report->findings.cap * sizeof *report->findings.at);
    core_drop(report->cycles.at, report->cycles.cap * sizeof *report->cycles.at);
    report->findings = report->cycles = (struct txn_rows){NULL, 0, 0};
}
