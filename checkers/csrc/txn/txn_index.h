/* Who wrote which value of which key, and the edges that follow. */
#ifndef DSTEST_TXN_INDEX_H
#define DSTEST_TXN_INDEX_H

#include "txn_mem.h"

/* `writer` of a slot: a transaction with two flags, or TXN_NONE. */
#define TXN_INTERMEDIATE (UINT32_C(1) << 31)
#define TXN_FAILED (UINT32_C(1) << 30)
#define TXN_ID(entry) ((entry) & (TXN_FAILED - 1))

/* A slot per (key, value): by distance from the key's smallest value where values are dense, else
 * by open addressing. */
struct txn_index {
    uint32_t *writer;
    uint32_t *place; /* for the workload's use; starts as TXN_NONE */
    int64_t *base;
    int32_t *low;
    uint32_t *range;
    uint32_t
        *count; /* of each key: micro-ops that wrote it or (rw-register) are known to have read */
    uint64_t *hash; /* NULL = dense */
    uint64_t mask;
    size_t slots;
};

/* Refuses columns that break the rules of txn.h. */
int txn_validate(struct txn_ctx *c);

/* Indexes all writes. Refuses a value that two transactions wrote to one key. */
int txn_index_make(struct txn_ctx *c, struct txn_index *x);
void txn_index_free(struct txn_ctx *c, struct txn_index *x);

static inline uint64_t txn_mix(int64_t key, int32_t value)
{
    uint64_t h = ((uint64_t)key << 32) ^ (uint32_t)value;
    h *= UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 29;
}

/* The slot of any value that a micro-op wrote or (rw-register) is known to have read. */
int64_t txn_claim(struct txn_index *x, int32_t key, int32_t value);

/* The slot of a written value, or -1 where nobody wrote it. */
static inline int64_t txn_slot(const struct txn_index *x, int64_t key, int32_t value)
{
    if (x->hash == NULL) {
        uint64_t at = (uint64_t)((int64_t)value - x->low[key]);
        if (at >= x->range[key]) {
            return -1;
        }
        int64_t slot = x->base[key] + (int64_t)at;
        return x->writer[slot] == TXN_NONE ? -1 : slot;
    }
    uint64_t want = ((uint64_t)key << 32) + (uint32_t)value + 1;
    for (uint64_t i = txn_mix(key, value) & x->mask;; i = (i + 1) & x->mask) {
        if (x->hash[i] == want) {
            return (int64_t)i;
        }
        if (x->hash[i] == 0) {
            return -1;
        }
    }
}

#endif
