/* From columns to transactions in order of completion, their writes and their reads. */
#include "iso_state.h"

#include <string.h>

/* Prefetching looks so far ahead. */
static const size_t PAD = 64;
/* From so many micro-ops on a transaction's own writes are found by key. */
#ifndef ISO_LARGE
#define ISO_LARGE 64
#endif

uint32_t *iso_zeros(struct iso *h, size_t count)
{
    return txn_alloc(h->ctx, count, sizeof(uint32_t));
}

uint32_t *iso_nones(struct iso *h, size_t count)
{
    uint32_t *p = iso_zeros(h, count);
    if (p != NULL) {
        memset(p, 0xff, count * sizeof *p);
    }
    return p;
}

/* An indeterminate transaction may take effect at any time; soon after its invocation it mostly
 * does. */
static int64_t place_of(const struct txn_input *in, int64_t t)
{
    int early = in->complete_pos[t] < 0 || (in->outcome[t] == TXN_INFO && in->invoke_pos[t] >= 0);
    return early ? in->invoke_pos[t] : in->complete_pos[t];
}

static int name_by_completion(struct iso *h)
{
    const struct txn_input *in = h->ctx->in;
    uint32_t *at = iso_zeros(h, (size_t)in->n_positions);
    h->name = iso_zeros(h, h->n);
    if (iso_failed(h)) {
        return h->ctx->status;
    }
    for (int64_t t = 0; t < in->n; t++) {
        uint32_t *place = &at[place_of(in, t)];
        if (*place != 0) {
            return txn_refuse(h->ctx, "two transactions have one event position", t);
        }
        *place = (uint32_t)t + 1;
    }
    uint32_t used = 0;
    for (int64_t p = 0; p < in->n_positions; p++) {
        if (at[p] != 0) {
            h->name[used++] = at[p] - 1;
        }
    }
    txn_free(h->ctx, at);
    return txn_poll_budget(h->ctx);
}

/* Committed transactions of a process are a session. One of which nobody knows whether it took
 * effect before the process went on follows those before it and precedes none: a session of its
 * own, like that of a transaction without a process, or of which nobody saw the invocation. */
static int number_sessions(struct iso *h)
{
    const struct txn_input *in = h->ctx->in;
    uint32_t *of = iso_nones(h, (size_t)in->n_processes);
    uint32_t *latest = iso_nones(h, (size_t)in->n_processes);
    h->session = iso_zeros(h, h->n);
    h->previous = iso_nones(h, h->n);
    if (iso_failed(h)) {
        return h->ctx->status;
    }
    for (uint32_t at = 0; at < h->n; at++) {
        uint32_t t = h->name[at];
        int64_t process = in->process[t];
        int whole = process >= 0 && in->outcome[t] == TXN_OK && in->invoke_pos[t] >= 0;
        if (!whole) {
            h->session[at] = h->n_sessions++;
        } else {
            if (of[process] == ISO_NONE) {
                of[process] = h->n_sessions++;
            }
            h->session[at] = of[process];
        }
        if (process < 0 || in->outcome[t] == TXN_FAIL || in->invoke_pos[t] < 0) {
            continue;
        }
        uint32_t before = latest[process];
        h->previous[at] = before;
        if (in->outcome[t] == TXN_OK) {
            int64_t ended = before == ISO_NONE ? -1 : in->complete_pos[h->name[before]];
            h->report->overlapping += in->invoke_pos[t] < ended;
            latest[process] = at;
        }
    }
    txn_free(h->ctx, of);
    txn_free(h->ctx, latest);
    return h->ctx->status;
}

/* The transaction's latest write of `key` among those from `begin` on, or ISO_NONE. `latest` is
 * per key the write plus one, of whichever transaction; NULL for small ones. */
static uint32_t own_write(const struct iso *h, uint32_t key, uint32_t begin, const uint32_t *latest)
{
    if (latest != NULL) {
        return latest[key] > begin ? latest[key] - 1 : ISO_NONE;
    }
    for (uint32_t w = h->n_writes; w-- > begin;) {
        if (h->write[w].key == key) {
            return w;
        }
    }
    return ISO_NONE;
}

/* 1 where a read that follows an own write of its key tells nothing of others. */
static int read_of_own(struct iso *h, uint32_t own, uint32_t value, uint32_t begin)
{
    if (h->value[own] == value) {
        return 1;
    }
    h->report->counts[TXN_INTERNAL]++;
    for (uint32_t w = begin; w < h->n_writes; w++) {
        if (h->write[w].key == h->write[own].key && h->value[w] == value) {
            return 1;
        }
    }
    return 0;
}

static void split_one(struct iso *h, uint32_t at, uint32_t *latest)
{
    const struct txn_input *in = h->ctx->in;
    uint32_t t = h->name[at], begin = h->n_writes, ok = in->outcome[t] == TXN_OK;
    uint32_t writer = in->outcome[t] == TXN_FAIL ? at | ISO_FLAG : at;
    int64_t from = in->mop_start[t], to = in->mop_start[t + 1];
    uint32_t *by_key = to - from > ISO_LARGE ? latest : NULL;
    uint64_t written = 0; /* a filter of the keys written so far */
    h->first_write[at] = h->n_writes;
    h->first_read[at] = h->n_reads;
    for (int64_t i = from; i < to; i++) {
        uint32_t key = (uint32_t)in->mop_key[i], value = (uint32_t)in->mop_value[i];
        uint32_t writes = in->mop_kind[i] == TXN_WRITE, bit = key * UINT32_C(0x9E3779B1) >> 26;
        uint32_t reads = (writes ^ 1) & ok & (in->mop_known[i] != 0);
        if (written >> bit & 1) {
            uint32_t own = own_write(h, key, begin, by_key);
            if (own != ISO_NONE && writes) {
                h->write[own].txn |= ISO_FLAG;
            } else if (own != ISO_NONE && reads && read_of_own(h, own, value, begin)) {
                continue;
            }
        }
        h->report->nil_writes += writes && in->mop_value[i] == TXN_NIL;
        h->write[h->n_writes] = (struct iso_write){key, writer};
        h->value[h->n_writes] = value;
        h->read_key[h->n_reads] = key;
        h->source[h->n_reads] = value;
        h->n_writes += writes;
        h->n_reads += reads;
        written |= (uint64_t)writes << bit;
        if (by_key != NULL && writes) {
            by_key[key] = h->n_writes;
        }
    }
}

int iso_take_known(struct iso *h, struct iso_known known)
{
    h->first_known = iso_zeros(h, (size_t)h->n + 2);
    h->known = iso_zeros(h, (size_t)known.count + 1);
    uint32_t *at = iso_zeros(h, h->n);
    if (iso_failed(h)) {
        return h->ctx->status;
    }
    for (uint32_t i = 0; i < h->n; i++) {
        at[h->name[i]] = i;
    }
    for (int64_t i = 0; i < known.count; i++) {
        if (known.first[i] < 0 || known.first[i] >= (int64_t)h->n || known.then[i] < 0 ||
            known.then[i] >= (int64_t)h->n || known.first[i] == known.then[i]) {
            return txn_refuse(h->ctx, "a known pair is none of two transactions", i);
        }
        h->first_known[at[known.then[i]] + 2]++;
    }
    for (uint32_t t = 0; t < h->n; t++) {
        h->first_known[t + 2] += h->first_known[t + 1];
    }
    for (int64_t i = 0; i < known.count; i++) {
        uint32_t first = at[known.first[i]], then = at[known.then[i]];
        h->known[h->first_known[then + 1]++] = first;
        h->n_back += first > then;
    }
    txn_free(h->ctx, at);
    return txn_poll_budget(h->ctx);
}

int iso_split(struct iso *h)
{
    const struct txn_input *in = h->ctx->in;
    size_t m = (size_t)in->m;
    uint32_t *latest = iso_zeros(h, h->n_keys);
    h->write = txn_alloc(h->ctx, m + 1, sizeof *h->write);
    h->value = iso_zeros(h, m + 1);
    h->source = iso_zeros(h, m + PAD);
    h->read_key = iso_zeros(h, m + PAD);
    h->first_read = iso_zeros(h, (size_t)h->n + 1);
    h->first_write = iso_zeros(h, (size_t)h->n + 1);
    if (iso_failed(h) || name_by_completion(h) != TXN_DONE || number_sessions(h) != TXN_DONE) {
        return h->ctx->status;
    }
    for (uint32_t at = 0; at < h->n && txn_tick(h->ctx) == TXN_DONE; at++) {
        split_one(h, at, latest);
    }
    h->first_write[h->n] = h->n_writes;
    h->first_read[h->n] = h->n_reads;
    for (size_t i = 0; i < PAD && h->n_reads + i < m + PAD; i++) {
        h->source[h->n_reads + i] = ISO_NONE;
        h->read_key[h->n_reads + i] = 0;
    }
    txn_free(h->ctx, latest);
    return h->ctx->status;
}
