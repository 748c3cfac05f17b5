/* The index of writes. */
#include "txn_index.h"

#include <string.h>

/* Empty slots that are not worth hashing for. */
#ifndef EMPTY_SLOTS
#define EMPTY_SLOTS 1024
#endif

/* Decides between slots by distance and slots by hash, and makes room. */
static int lay_out(struct txn_ctx *c, struct txn_index *x)
{
    const struct txn_input *in = c->in;
    x->base = txn_alloc(c, (size_t)in->n_keys, sizeof *x->base);
    x->low = txn_alloc(c, (size_t)in->n_keys, sizeof *x->low);
    x->range = txn_alloc(c, (size_t)in->n_keys, sizeof *x->range);
    x->count = txn_alloc(c, (size_t)in->n_keys, sizeof *x->count);
    if (c->status != TXN_DONE) {
        return c->status;
    }
    uint64_t writes = 0, total = 0;
    int reads = c->options->workload == TXN_RW_REGISTER;
    for (int64_t i = 0; i < in->m; i++) {
        if (in->mop_kind[i] != TXN_WRITE && !(reads && in->mop_known[i])) {
            continue;
        }
        int32_t key = in->mop_key[i], value = in->mop_value[i];
        writes++;
        x->count[key]++;
        if (x->range[key] == 0) {
            x->low[key] = value;
            x->range[key] = 1;
        } else if (value < x->low[key]) {
            x->range[key] += (uint32_t)(x->low[key] - value);
            x->low[key] = value;
        } else if ((uint32_t)(value - x->low[key]) >= x->range[key]) {
            x->range[key] = (uint32_t)(value - x->low[key]) + 1;
        }
    }
    for (int64_t k = 0; k < in->n_keys; k++) {
        x->base[k] = (int64_t)total;
        total += x->range[k];
    }
    x->slots = (size_t)total;
    if (total > 3 * writes + EMPTY_SLOTS) {
        x->slots = 64;
        while (x->slots < 2 * writes) {
            x->slots *= 2;
        }
        x->mask = x->slots - 1;
        x->hash = txn_alloc(c, x->slots, sizeof *x->hash);
    }
    x->writer = txn_alloc(c, x->slots, sizeof *x->writer);
    x->place = txn_alloc(c, x->slots, sizeof *x->place);
    if (c->status == TXN_DONE) {
        memset(x->writer, 0xff, x->slots * sizeof *x->writer);
        memset(x->place, 0xff, x->slots * sizeof *x->place);
    }
    return c->status;
}

int64_t txn_claim(struct txn_index *x, int32_t key, int32_t value)
{
    if (x->hash == NULL) {
        return x->base[key] + ((int64_t)value - x->low[key]);
    }
    uint64_t want = ((uint64_t)key << 32) + (uint32_t)value + 1;
    uint64_t i = txn_mix(key, value) & x->mask;
    while (x->hash[i] != 0 && x->hash[i] != want) {
        i = (i + 1) & x->mask;
    }
    x->hash[i] = want;
    return (int64_t)i;
}

int txn_index_make(struct txn_ctx *c, struct txn_index *x)
{
    const struct txn_input *in = c->in;
    memset(x, 0, sizeof *x);
    if (lay_out(c, x) != TXN_DONE) {
        return c->status;
    }
    /* the last transaction that was seen to write a key, so that earlier writes in it show */
    uint32_t *later = txn_alloc(c, (size_t)in->n_keys, sizeof *later);
    for (int64_t t = 0; t < in->n && txn_tick(c) == TXN_DONE; t++) {
        uint32_t failed = in->outcome[t] == TXN_FAIL ? TXN_FAILED : 0;
        for (int64_t i = in->mop_start[t + 1] - 1; i >= in->mop_start[t]; i--) {
            if (in->mop_kind[i] != TXN_WRITE) {
                continue;
            }
            int32_t key = in->mop_key[i];
            int64_t slot = txn_claim(x, key, in->mop_value[i]);
            int again = later[key] == (uint32_t)t + 1;
            later[key] = (uint32_t)t + 1;
            if (x->writer[slot] == TXN_NONE) {
                x->writer[slot] = (uint32_t)t | failed | (again ? TXN_INTERMEDIATE : 0);
            } else if (TXN_ID(x->writer[slot]) != (uint32_t)t ||
                       c->options->workload == TXN_LIST_APPEND) {
                return txn_refuse(c, "a value was written to its key before", i);
            }
        }
    }
    txn_free(c, later);
    return c->status;
}

void txn_index_free(struct txn_ctx *c, struct txn_index *x)
{
    void *owned[] = {x->writer, x->place, x->base, x->low, x->range, x->count, x->hash};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        txn_free(c, owned[i]);
    }
}
