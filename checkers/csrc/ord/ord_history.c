/* From resolved reads to versions and their readers. */
#include "ord_state.h"

#include <string.h>

static void *take(struct ord_history *h, size_t count, size_t size)
{
    return txn_alloc(h->ctx, count, size);
}

/* Numbers the transactions that took effect: `to` has the new number of a position. */
static uint32_t number(const struct iso *from, uint32_t *to)
{
    const struct txn_input *in = from->ctx->in;
    uint32_t used = 0;
    for (uint32_t at = 0; at < from->n; at++) {
        uint8_t outcome = in->outcome[from->name[at]];
        int effect = outcome == TXN_OK || (outcome == TXN_INFO && from->live[at]);
        to[at] = effect ? used++ : ORD_NONE;
    }
    return used;
}

static void copy_txns(struct ord_history *h, const struct iso *from, const uint32_t *to)
{
    const struct txn_input *in = from->ctx->in;
    for (uint32_t at = 0; at < from->n; at++) {
        uint32_t t = to[at], name = from->name[at], before = from->previous[at];
        if (t == ORD_NONE) {
            continue;
        }
        h->name[t] = name;
        h->previous[t] = before == ISO_NONE ? ORD_NONE : to[before];
        h->invoked[t] = in->invoke_pos[name] < 0 ? ORD_NONE : (uint32_t)in->invoke_pos[name];
        h->completed[t] = in->outcome[name] == TXN_OK ? (uint32_t)in->complete_pos[name] : ORD_NONE;
    }
}

/* Final writes of those transactions; `version` has the number of each write of `from`. */
static void copy_writes(struct ord_history *h, const struct iso *from, const uint32_t *to,
                        uint32_t *version)
{
    for (uint32_t at = 0; at < from->n; at++) {
        if (to[at] == ORD_NONE) {
            continue;
        }
        h->first_write[to[at]] = h->n_writes;
        for (uint32_t w = from->first_write[at]; w < from->first_write[at + 1]; w++) {
            if (from->write[w].txn & ISO_FLAG) {
                continue;
            }
            version[w] = h->n_writes;
            h->write_key[h->n_writes] = from->write[w].key;
            h->writer[h->n_writes++] = to[at];
        }
    }
    h->first_write[h->n] = h->n_writes;
}

/* Of reads that a transaction repeats the first. How many disagree with it. `latest` is per key. */
static uint32_t copy_reads(struct ord_history *h, const struct iso *from, const uint32_t *to,
                           const uint32_t *version, uint32_t *latest)
{
    uint32_t used = 0, disagree = 0;
    for (uint32_t at = 0; at < from->n; at++) {
        if (to[at] == ORD_NONE) {
            continue;
        }
        uint32_t first = h->first_read[to[at]] = used;
        for (uint32_t r = from->first_read[at]; r < from->first_read[at + 1]; r++) {
            uint32_t key = from->read_key[r], w = from->source[r];
            uint32_t read = w & ISO_FLAG ? h->n_writes + key : version[w];
            /* latest[key] is the read plus one; those of earlier transactions lie before `first` */
            if (latest[key] > first) {
                disagree += h->version[latest[key] - 1] != read;
                continue;
            }
            h->version[used++] = read;
            h->first_reader[read + 1]++;
            latest[key] = used;
        }
    }
    h->first_read[h->n] = used;
    uint32_t versions = h->n_writes + h->n_keys;
    for (uint32_t v = 0; v < versions; v++) {
        h->first_reader[v + 1] += h->first_reader[v];
    }
    return disagree;
}

static void index_readers(struct ord_history *h, uint32_t *fill)
{
    memcpy(fill, h->first_reader, (h->n_writes + h->n_keys) * sizeof *fill);
    for (uint32_t t = 0; t < h->n; t++) {
        for (uint32_t r = h->first_read[t]; r < h->first_read[t + 1]; r++) {
            h->reader[fill[h->version[r]]++] = t;
        }
    }
}

/* 1 where a version was read and replaced by two transactions. `own` is per key, `next` per
 * version. */
static int any_lost(struct ord_history *h, uint32_t *own, uint32_t *next)
{
    for (uint32_t t = 0; t < h->n; t++) {
        for (uint32_t w = h->first_write[t]; w < h->first_write[t + 1]; w++) {
            own[h->write_key[w]] = t + 1;
        }
        for (uint32_t r = h->first_read[t]; r < h->first_read[t + 1]; r++) {
            uint32_t v = h->version[r];
            if (own[ord_key(h, v)] != t + 1) {
                continue;
            }
            if (next[v] != 0) {
                h->involved[h->n_involved++] = t;
                h->involved[h->n_involved++] = next[v] - 1;
                return 1;
            }
            next[v] = t + 1;
        }
    }
    return 0;
}

int ord_history_make(struct ord_history *h, const struct iso *from, const struct ord_reads *open)
{
    uint32_t *to = take(h, from->n, sizeof *to);
    uint32_t *version = take(h, (size_t)from->n_writes + 1, sizeof *version);
    if (h->ctx->status != TXN_DONE) {
        return 1;
    }
    h->n = number(from, to);
    h->n_keys = from->n_keys;
    size_t n = h->n, reads = from->n_reads, versions = (size_t)from->n_writes + from->n_keys + 1;
    h->name = take(h, n, sizeof *h->name);
    h->previous = take(h, n, sizeof *h->previous);
    h->invoked = take(h, n, sizeof *h->invoked);
    h->completed = take(h, n, sizeof *h->completed);
    h->first_write = take(h, n + 1, sizeof *h->first_write);
    h->first_read = take(h, n + 1, sizeof *h->first_read);
    h->write_key = take(h, (size_t)from->n_writes + 1, sizeof *h->write_key);
    h->writer = take(h, (size_t)from->n_writes + 1, sizeof *h->writer);
    h->version = take(h, reads + 1, sizeof *h->version);
    h->reader = take(h, reads + 1, sizeof *h->reader);
    h->first_reader = take(h, versions + 1, sizeof *h->first_reader);
    h->involved = take(h, 2 * n + 2, sizeof *h->involved);
    uint32_t *scratch = take(h, versions, sizeof *scratch);
    uint32_t *per_key = take(h, h->n_keys, sizeof *per_key);
    uint32_t *per_key_again = take(h, h->n_keys, sizeof *per_key_again);
    if (h->ctx->status != TXN_DONE) {
        return 1;
    }
    copy_txns(h, from, to);
    copy_writes(h, from, to, version);
    ord_copy_reads(h, open, to, version);
    h->disagreeing = copy_reads(h, from, to, version, per_key);
    index_readers(h, scratch);
    memset(scratch, 0, versions * sizeof *scratch);
    int lost = any_lost(h, per_key_again, scratch);
    uint32_t *done[] = {to, version, scratch, per_key, per_key_again};
    for (size_t i = 0; i < sizeof done / sizeof *done; i++) {
        txn_free(h->ctx, done[i]);
    }
    txn_poll_budget(h->ctx);
    return !lost;
}
