/* Which write did each read return? */
#include "iso_state.h"

#include <string.h>

/* Empty slots that are not worth hashing for. */
#ifndef ISO_EMPTY
#define ISO_EMPTY 1024
#endif

enum by { BY_VALUE, BY_KEY_AND_VALUE, BY_HASH };

/* (key, value) -> write: values may be other ones in each key, or the same small ones in all. */
struct index {
    enum by by;
    uint32_t *slot;   /* BY_VALUE, BY_KEY_AND_VALUE: write, or ISO_NONE */
    uint32_t *first;  /* BY_KEY_AND_VALUE: slots of key k are first[k] .. first[k + 1] */
    uint64_t *hashed; /* BY_HASH: hash << 32 | write, or all ones */
    uint64_t mask;
    uint32_t values;
};

static uint64_t hash_of(uint32_t key, uint32_t value)
{
    uint64_t h = ((uint64_t)key << 32 | value) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 29;
}

/* Registers write a value to a key once; one transaction may write it again. */
static void put(struct iso *h, uint32_t *slot, uint32_t w)
{
    if (*slot != ISO_NONE && ((h->write[*slot].txn ^ h->write[w].txn) & ~ISO_FLAG) != 0) {
        txn_refuse(h->ctx, "a value was written to its key before", w);
    }
    *slot = w;
}

/* 1 where values are few and no two keys share one. */
static int index_by_value(struct iso *h, struct index *x)
{
    x->values = (uint32_t)h->ctx->in->n_values;
    if (x->values > 4 * (uint64_t)h->n_writes + ISO_EMPTY) {
        return 0;
    }
    x->slot = iso_nones(h, x->values);
    for (uint32_t w = 0; !iso_failed(h) && w < h->n_writes; w++) {
        uint32_t *slot = &x->slot[h->value[w]];
        if (*slot != ISO_NONE && h->write[*slot].key != h->write[w].key) {
            txn_free(h->ctx, x->slot);
            return 0;
        }
        put(h, slot, w);
    }
    return 1;
}

static int index_by_key_and_value(struct iso *h, struct index *x)
{
    x->by = BY_KEY_AND_VALUE;
    x->first = iso_zeros(h, (size_t)h->n_keys + 1);
    if (iso_failed(h)) {
        return 1;
    }
    for (uint32_t w = 0; w < h->n_writes; w++) {
        uint32_t *most = &x->first[h->write[w].key + 1];
        *most = h->value[w] >= *most ? h->value[w] + 1 : *most;
    }
    uint64_t slots = 0;
    for (uint32_t k = 0; k < h->n_keys; k++) {
        slots += x->first[k + 1];
        if (slots > 4 * (uint64_t)h->n_writes + ISO_EMPTY) {
            txn_free(h->ctx, x->first);
            return 0;
        }
        x->first[k + 1] = (uint32_t)slots;
    }
    x->slot = iso_nones(h, (size_t)slots);
    for (uint32_t w = 0; !iso_failed(h) && w < h->n_writes; w++) {
        put(h, &x->slot[x->first[h->write[w].key] + h->value[w]], w);
    }
    return 1;
}

static void index_by_hash(struct iso *h, struct index *x)
{
    uint64_t slots = 16;
    while (slots < 2 * (uint64_t)h->n_writes) {
        slots *= 2;
    }
    x->by = BY_HASH;
    x->mask = slots - 1;
    x->hashed = txn_alloc(h->ctx, slots, sizeof *x->hashed);
    if (iso_failed(h)) {
        return;
    }
    memset(x->hashed, 0xff, slots * sizeof *x->hashed);
    for (uint32_t w = 0; w < h->n_writes; w++) {
        uint64_t hash = hash_of(h->write[w].key, h->value[w]), i = hash & x->mask;
        for (; ~x->hashed[i] != 0; i = (i + 1) & x->mask) {
            uint32_t other = (uint32_t)x->hashed[i];
            if (h->write[other].key == h->write[w].key && h->value[other] == h->value[w]) {
                break;
            }
        }
        uint32_t slot = (uint32_t)x->hashed[i];
        put(h, &slot, w);
        x->hashed[i] = hash >> 32 << 32 | slot;
    }
}

static inline uint32_t *slot_of(const struct index *x, uint32_t key, uint32_t value)
{
    if (x->by == BY_VALUE) {
        return value < x->values ? &x->slot[value] : NULL;
    }
    return value < x->first[key + 1] - x->first[key] ? &x->slot[x->first[key] + value] : NULL;
}

static inline uint32_t find(const struct iso *h, const struct index *x, uint32_t key,
                            uint32_t value)
{
    if (x->by != BY_HASH) {
        const uint32_t *slot = slot_of(x, key, value);
        return slot != NULL && *slot != ISO_NONE && h->write[*slot].key == key ? *slot : ISO_NONE;
    }
    uint64_t hash = hash_of(key, value);
    for (uint64_t i = hash & x->mask; ~x->hashed[i] != 0; i = (i + 1) & x->mask) {
        uint32_t w = (uint32_t)x->hashed[i];
        if (x->hashed[i] >> 32 == hash >> 32 && h->write[w].key == key && h->value[w] == value) {
            return w;
        }
    }
    return ISO_NONE;
}

/* Reads come in order, what they look up does not: it is fetched in two stages. */
static inline void prefetch(const struct iso *h, const struct index *x, uint32_t r)
{
    if (x->by == BY_HASH) {
        __builtin_prefetch(&x->hashed[hash_of(h->read_key[r + 32], h->source[r + 32]) & x->mask]);
        return;
    }
    const uint32_t *far = slot_of(x, h->read_key[r + 48], h->source[r + 48]);
    __builtin_prefetch(far);
    const uint32_t *near = slot_of(x, h->read_key[r + 24], h->source[r + 24]);
    if (near != NULL && *near != ISO_NONE) {
        __builtin_prefetch(&h->write[*near]);
    }
}

/* The write that a read of `at` returned; ISO_NONE where that violates alone. */
static uint32_t judge(struct iso *h, uint32_t w, uint32_t at)
{
    const struct txn_input *in = h->ctx->in;
    if (w == ISO_NONE) {
        h->report->counts[TXN_GARBAGE_READ]++;
        return ISO_NONE;
    }
    uint32_t writer = h->write[w].txn & ~ISO_FLAG;
    uint32_t flagged = h->write[w].txn & ISO_FLAG;
    if (writer == at || flagged) {
        int failed = in->outcome[h->name[writer]] == TXN_FAIL;
        int kind = writer == at ? TXN_FUTURE_READ : failed ? TXN_G1A : TXN_G1B;
        h->report->counts[kind]++;
        return ISO_NONE;
    }
    h->n_back += writer > at;
    if (in->outcome[h->name[writer]] == TXN_INFO) {
        h->live[writer] = 1;
    }
    return w;
}

static inline void resolve_one(struct iso *h, const struct index *x, uint32_t at)
{
    for (uint32_t r = h->first_read[at]; r < h->first_read[at + 1]; r++) {
        uint32_t value = h->source[r], key = h->read_key[r], w, newest = h->last[key];
        prefetch(h, x, r);
        if (value == ISO_NONE) { /* TXN_NIL */
            h->source[r] = ISO_FLAG | key;
            w = ISO_NONE;
        } else {
            w = h->source[r] = find(h, x, key, value);
            if (w == ISO_NONE || h->write[w].txn >= at || h->live != NULL) {
                w = h->source[r] = judge(h, w, at);
                newest = w == ISO_NONE ? w : newest;
            }
        }
        h->stale_txn[h->n_stale] = at;
        h->stale_read[h->n_stale] = r;
        h->n_stale += newest != w;
    }
    for (uint32_t w = h->first_write[at]; w < h->first_write[at + 1]; w++) {
        if (!(h->write[w].txn & ISO_FLAG)) {
            h->last[h->write[w].key] = w;
        }
    }
}

static int any_indeterminate(const struct iso *h)
{
    return memchr(h->ctx->in->outcome, TXN_INFO, h->n) != NULL;
}

/* Of what is indeterminate only what was read is known to have been committed. */
static void drop_unread(struct iso *h)
{
    for (uint32_t at = 0; h->live != NULL && at < h->n; at++) {
        if (h->ctx->in->outcome[h->name[at]] != TXN_INFO || h->live[at]) {
            continue;
        }
        for (uint32_t w = h->first_write[at]; w < h->first_write[at + 1]; w++) {
            h->write[w].txn |= ISO_FLAG;
        }
    }
}

int iso_resolve(struct iso *h)
{
    struct index x = {.by = BY_VALUE};
    h->last = iso_nones(h, h->n_keys);
    h->stale_txn = iso_zeros(h, (size_t)h->n_reads + 1);
    h->stale_read = iso_zeros(h, (size_t)h->n_reads + 1);
    if (!iso_failed(h) && h->live == NULL && any_indeterminate(h)) {
        h->live = txn_alloc(h->ctx, h->n, 1);
    }
    if (!iso_failed(h) && !index_by_value(h, &x) && !index_by_key_and_value(h, &x)) {
        index_by_hash(h, &x);
    }
    for (uint32_t at = 0; at < h->n && txn_tick(h->ctx) == TXN_DONE; at++) {
        resolve_one(h, &x, at);
    }
    if (!iso_failed(h)) {
        drop_unread(h);
    }
    txn_free(h->ctx, x.slot);
    txn_free(h->ctx, x.first);
    txn_free(h->ctx, x.hashed);
    txn_free(h->ctx, h->value);
    h->value = NULL;
    return h->ctx->status;
}
