/* list-append: the version order of each key, and what it says of its writers. */
#include "txn_list.h"

#include <stdlib.h>

static void find_longest(struct txn_list *l)
{
    const struct txn_input *in = l->ctx->in;
    for (int64_t t = 0; t < in->n && txn_tick(l->ctx) == TXN_DONE; t++) {
        for (int64_t i = in->mop_start[t]; i < in->mop_start[t + 1]; i++) {
            if (!txn_is_read(in, t, i)) {
                continue;
            }
            struct txn_list_key *key = &l->keys[in->mop_key[i]];
            int64_t length = in->elem_start[i + 1] - in->elem_start[i];
            if (length > (int64_t)key->versions ||
                (length > 0 && length == (int64_t)key->versions &&
                 txn_tie_won(in, i, (int64_t)key->longest - 1))) {
                key->versions = (uint32_t)length;
                key->longest = (uint32_t)i + 1;
            }
        }
    }
}

/* A failed write under an ok one, with none but unknown ones in between. */
static void dirty_update(struct txn_list *l, int64_t k, const uint32_t *order)
{
    const struct txn_input *in = l->ctx->in;
    uint32_t failed = TXN_NONE;
    for (uint32_t j = 0; j < l->keys[k].versions; j++) {
        uint32_t entry = order[j];
        if (entry == TXN_NONE) {
            continue;
        }
        if (entry & TXN_FAILED) {
            failed = entry;
        } else if (failed != TXN_NONE && in->outcome[TXN_ID(entry)] == TXN_OK) {
            txn_find(l->ctx, (struct txn_found){TXN_DIRTY_UPDATE, k, -1, TXN_ID(failed), -1,
                                                TXN_ID(entry), -1, -1});
            failed = TXN_NONE;
        }
    }
}

static void order_key(struct txn_list *l, int64_t k)
{
    struct txn_list_key *key = &l->keys[k];
    uint32_t length, placed = 0, *order = l->order + key->base;
    int any_failed = 0;
    key->bad = UINT32_MAX;
    if (key->longest == 0) {
        return;
    }
    const int32_t *elems = txn_elems(l->ctx->in, key->longest - 1, &length);
    for (uint32_t j = 0; j < length; j++) {
        int64_t slot = txn_slot(&l->index, k, elems[j]);
        uint32_t entry = slot < 0 ? TXN_NONE : l->index.writer[slot];
        int repeated = slot >= 0 && l->index.place[slot] != TXN_NONE;
        if (slot < 0 || repeated || (entry & TXN_FAILED)) {
            key->bad = key->bad == UINT32_MAX ? j + 1 : key->bad;
            any_failed |= slot >= 0;
        }
        if (repeated) {
            key->twice = 1;
            continue;
        }
        if (slot >= 0) {
            l->index.place[slot] = placed;
        }
        order[placed++] = entry;
    }
    key->versions = placed;
    if (any_failed) {
        dirty_update(l, k, order);
    }
    for (uint32_t j = 1; j < placed; j++) {
        if (!((order[j - 1] | order[j]) & TXN_FAILED)) { /* TXN_NONE has the flag, too */
            txn_edge(l->ctx, &l->graph, TXN_ID(order[j - 1]), TXN_ID(order[j]), TXN_WW);
        }
    }
}

/* Where lists contradict one another, what is in no longest read may still be in a read: then it came
 * after nothing that is known. Who hands over hashes of values knows that some do. */
static void mark_shown(struct txn_list *l)
{
    const struct txn_input *in = l->ctx->in;
    int wanted = in->value_hash != NULL && l->ctx->options->sources & TXN_SHARP;
    for (int64_t t = 0; wanted && t < in->n && txn_tick(l->ctx) == TXN_DONE; t++) {
        for (int64_t i = in->mop_start[t]; i < in->mop_start[t + 1]; i++) {
            uint32_t count;
            const int32_t *elems = txn_elems(in, i, &count);
            for (uint32_t j = 0; txn_is_read(in, t, i) && j < count; j++) {
                int64_t slot = txn_slot(&l->index, in->mop_key[i], elems[j]);
                if (slot >= 0 && l->index.place[slot] == TXN_NONE) {
                    l->index.place[slot] = TXN_SHOWN;
                }
            }
        }
    }
}

/* A written slot that no read saw goes to its key's tail. Two passes: count, then fill. */
static void tail_slot(struct txn_list *l, int64_t k, size_t slot, int fill)
{
    uint32_t entry = l->index.writer[slot];
    if ((entry & TXN_FAILED) || l->index.place[slot] != TXN_NONE) { /* TXN_NONE has the flag, too */
        return;
    }
    if (fill) {
        l->tails[l->keys[k].base++] = TXN_ID(entry);
    } else {
        l->keys[k].tail.count++;
    }
}

static void tail_slots(struct txn_list *l, int fill)
{
    const struct txn_index *x = &l->index;
    if (x->hash == NULL) {
        for (int64_t k = 0; k < l->ctx->in->n_keys && txn_tick(l->ctx) == TXN_DONE; k++) {
            for (uint32_t at = 0; at < x->range[k]; at++) {
                tail_slot(l, k, (size_t)x->base[k] + at, fill);
            }
        }
        return;
    }
    for (size_t slot = 0; slot < x->slots && txn_tick(l->ctx) == TXN_DONE; slot++) {
        if (x->hash[slot] != 0) {
            tail_slot(l, (int64_t)((x->hash[slot] - 1) >> 32), slot, fill);
        }
    }
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Transactions in order, each once. Values mostly rise with time, so that there is seldom
 * anything to sort. */
static uint32_t set_in_order(uint32_t *tail, uint32_t count)
{
    uint32_t kept = 0, rises = 1;
    for (uint32_t j = 1; j < count; j++) {
        rises &= tail[j - 1] <= tail[j];
    }
    if (!rises) {
        qsort(tail, count, sizeof *tail, by_number);
    }
    for (uint32_t j = 0; j < count; j++) {
        if (j == 0 || tail[j] != tail[kept - 1]) {
            tail[kept++] = tail[j];
        }
    }
    return kept;
}

/* Collects each key's tail. */
static void make_tails(struct txn_list *l)
{
    int64_t n_keys = l->ctx->in->n_keys;
    size_t total = 0;
    tail_slots(l, 0);
    for (int64_t k = 0; k < n_keys; k++) {
        total += l->keys[k].tail.count;
    }
    l->tails = txn_alloc(l->ctx, total, sizeof *l->tails);
    if (l->ctx->status != TXN_DONE) {
        return;
    }
    for (int64_t k = 0, at = 0; k < n_keys; k++) { /* `base` is where the key's next one goes */
        l->keys[k].tail.forward = l->keys[k].base;
        l->keys[k].base = (uint32_t)at;
        at += l->keys[k].tail.count;
    }
    tail_slots(l, 1);
    for (int64_t k = 0; k < n_keys && l->ctx->status == TXN_DONE; k++) {
        struct txn_list_key *key = &l->keys[k];
        uint32_t *tail = l->tails + key->base - key->tail.count;
        key->tail.count = set_in_order(tail, key->tail.count);
        key->tail.to = tail;
        key->base = key->tail.forward;
        key->tail.forward = TXN_NONE;
        key->tail.backward = TXN_NONE;
    }
}

static uint32_t rank_in(const struct txn_fan *fan, uint32_t t)
{
    uint32_t low = 0, high = fan->count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (fan->to[mid] < t) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low < fan->count && fan->to[low] == t ? low : TXN_NONE;
}

void txn_list_to_tail(struct txn_list *l, int64_t k, uint32_t from, int label)
{
    struct txn_fan *fan = &l->keys[k].tail;
    if (fan->count > 0) {
        txn_fan_from(l->ctx, &l->graph, fan, from, rank_in(fan, from), label);
    }
}

int txn_list_orders(struct txn_list *l)
{
    struct txn_ctx *c = l->ctx;
    const struct txn_input *in = c->in;
    size_t n_keys = (size_t)in->n_keys;
    l->keys = txn_alloc(c, n_keys, sizeof *l->keys);
    l->touch = txn_alloc(c, n_keys, sizeof *l->touch);
    if (c->status != TXN_DONE) {
        return c->status;
    }
    find_longest(l);
    int64_t total = 0;
    for (int64_t k = 0; k < in->n_keys; k++) {
        l->keys[k].base = (uint32_t)total;
        total += l->keys[k].versions;
        if (total > INT32_MAX) {
            return txn_refuse(c, "more versions than fit", k);
        }
    }
    l->order = txn_alloc(c, (size_t)total, sizeof *l->order);
    l->updater = txn_alloc(c, (size_t)(total + in->n_keys), sizeof *l->updater);
    if (c->status != TXN_DONE || txn_graph_begin(c, &l->graph, (size_t)(total + 2 * in->m)) != 0) {
        return c->status;
    }
    for (int64_t k = 0; k < in->n_keys && txn_tick(c) == TXN_DONE; k++) {
        order_key(l, k);
    }
    mark_shown(l);
    make_tails(l);
    for (int64_t k = 0; k < in->n_keys && txn_tick(c) == TXN_DONE; k++) {
        const struct txn_list_key *key = &l->keys[k];
        uint32_t last = key->versions > 0 ? l->order[key->base + key->versions - 1] : TXN_NONE;
        if (!(last & TXN_FAILED)) {
            txn_list_to_tail(l, k, TXN_ID(last), TXN_WW);
        }
    }
    return c->status;
}

void txn_list_free(struct txn_list *l)
{
    void *owned[] = {l->keys, l->order, l->tails, l->touch, l->updater, l->odd};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        txn_free(l->ctx, owned[i]);
    }
    txn_index_free(l->ctx, &l->index);
}
