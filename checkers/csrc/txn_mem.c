/* Memory under a budget, deadlines, and the rows of a report. */
#define _GNU_SOURCE

#include "txn_mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* From here on a block gets pages of its own, huge ones where the kernel has them: first touches
 * of small pages cost more than the algorithms do. */
static const size_t MAP_FROM = 4u << 20;

/* Rows that are kept of one type of finding; more are only counted. */
static const int64_t FOUND_MAX = 100000;

static int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void txn_begin(struct txn_ctx *c, const struct txn_input *in, const struct txn_options *options,
               struct txn_report *report)
{
    memset(c, 0, sizeof *c);
    memset(report, 0, sizeof *report);
    report->where = -1;
    c->in = in;
    c->options = options;
    c->report = report;
    c->max = options->memory_bytes < 0 ? 0 : (size_t)options->memory_bytes;
    int64_t now = clock_ns(), time_ns = options->time_ns < 0 ? 0 : options->time_ns;
    c->deadline_ns = time_ns > INT64_MAX - now ? INT64_MAX : now + time_ns;
}

static void release(struct txn_block *block)
{
    if (block->bytes >= MAP_FROM) {
        munmap(block->p, block->bytes);
    } else {
        free(block->p);
    }
    block->p = NULL;
}

void txn_end(struct txn_ctx *c)
{
    for (int i = 0; i < TXN_BLOCKS_MAX; i++) {
        if (c->blocks[i].p != NULL) {
            release(&c->blocks[i]);
        }
    }
}

static void *acquire(size_t bytes)
{
    if (bytes < MAP_FROM) {
        return calloc(1, bytes);
    }
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        return NULL;
    }
#ifdef MADV_HUGEPAGE
    madvise(p, bytes, MADV_HUGEPAGE);
#endif
    return p;
}

void *txn_alloc(struct txn_ctx *c, size_t count, size_t size)
{
    if (c->status != TXN_DONE) {
        return NULL;
    }
    size_t bytes = count == 0 ? size : count * size;
    if (count > SIZE_MAX / size || bytes > c->max - c->used) {
        c->status = TXN_MEMORY;
        return NULL;
    }
    for (int i = 0; i < TXN_BLOCKS_MAX; i++) {
        struct txn_block *block = &c->blocks[i];
        if (block->p == NULL) {
            block->p = acquire(bytes);
            block->bytes = bytes;
            c->used += block->p == NULL ? 0 : bytes;
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
            c->used -= c->blocks[i].bytes;
            release(&c->blocks[i]);
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

int txn_look(struct txn_ctx *c)
{
    const int32_t *stop = c->options->stop;
    if (c->status != TXN_DONE) {
        return c->status;
    }
    if (stop != NULL && __atomic_load_n(stop, __ATOMIC_RELAXED) != 0) {
        c->status = TXN_STOPPED;
    } else if (clock_ns() >= c->deadline_ns) {
        c->status = TXN_TIME;
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
        size_t bytes = cap * sizeof *rows->at;
        int64_t *at = bytes > c->max ? NULL : realloc(rows->at, bytes);
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
    free(report->findings.at);
    free(report->cycles.at);
    report->findings = report->cycles = (struct txn_rows){NULL, 0, 0};
}
