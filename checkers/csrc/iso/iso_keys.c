/* The writes of each key. */
#include "iso_keys.h"

#include <string.h>

int iso_index_keys(struct iso *h)
{
    uint32_t *owned[] = {h->key_first, h->by_key, h->rank, (uint32_t *)(void *)h->by_session};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        txn_free(h->ctx, owned[i]);
    }
    h->by_session = NULL;
    h->key_first = iso_zeros(h, (size_t)h->n_keys + 2);
    h->by_key = iso_zeros(h, (size_t)h->n_writes + 1);
    h->rank = iso_zeros(h, (size_t)h->n_writes + 1);
    if (iso_failed(h)) {
        return h->ctx->status;
    }
    uint32_t *at = h->key_first + 1; /* shifted once more while they are filled */
    for (uint32_t w = 0; w < h->n_writes; w++) {
        at[h->write[w].key + 1] += !(h->write[w].txn & ISO_FLAG);
    }
    for (uint32_t k = 0; k < h->n_keys; k++) {
        at[k + 1] += at[k];
    }
    for (uint32_t w = 0; w < h->n_writes; w++) {
        if (!(h->write[w].txn & ISO_FLAG)) {
            h->rank[w] = at[h->write[w].key]++;
            h->by_key[h->rank[w]] = w;
        }
    }
    return txn_poll_budget(h->ctx);
}

uint32_t iso_newer(const struct iso *h, uint32_t at, uint32_t r, uint32_t *from)
{
    uint32_t key = h->read_key[r], w = h->source[r], end = h->key_first[key + 1];
    uint32_t low = w & ISO_FLAG ? h->key_first[key] : h->rank[w] + 1;
    uint32_t high = low, step = 1, limit = h->first_write[at];
    *from = low;
    while (high < end && h->by_key[high] < limit) {
        low = high;
        high += step;
        step *= 2;
    }
    high = high > end ? end : high;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (h->by_key[middle] < limit) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

int iso_writes_within(const struct iso *h, uint32_t txn, uint32_t from, uint32_t to)
{
    uint32_t first = h->first_write[txn], end = h->first_write[txn + 1], limit = to;
    if (first == end) {
        return 0;
    }
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        if (h->by_key[middle] < first) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from < limit && h->by_key[from] < end;
}

int iso_index_sessions(struct iso *h)
{
    if (h->by_session != NULL) {
        return h->ctx->status;
    }
    uint32_t count = h->key_first[h->n_keys];
    uint32_t *first = iso_zeros(h, (size_t)h->n_sessions + 1);
    uint32_t *sorted = iso_zeros(h, (size_t)count + 1), *fill = iso_zeros(h, h->n_keys);
    h->by_session = txn_alloc(h->ctx, (size_t)count + 1, sizeof *h->by_session);
    if (iso_failed(h)) {
        return h->ctx->status;
    }
    memcpy(fill, h->key_first, h->n_keys * sizeof *fill);
    for (uint32_t i = 0; i < count; i++) {
        first[h->session[h->write[h->by_key[i]].txn] + 1]++;
    }
    for (uint32_t s = 0; s < h->n_sessions; s++) {
        first[s + 1] += first[s];
    }
    for (uint32_t w = 0; w < h->n_writes; w++) {
        if (!(h->write[w].txn & ISO_FLAG)) {
            sorted[first[h->session[h->write[w].txn]]++] = w;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t w = sorted[i];
        h->by_session[fill[h->write[w].key]++] = (uint64_t)h->session[h->write[w].txn] << 32 | w;
    }
    txn_free(h->ctx, first);
    txn_free(h->ctx, sorted);
    txn_free(h->ctx, fill);
    return h->ctx->status;
}

uint32_t iso_seek(const struct iso *h, uint32_t key, uint32_t from, uint64_t what)
{
    uint32_t low = from, high = h->key_first[key + 1], step = 1;
    while (low + step < high && h->by_session[low + step] < what) {
        low += step;
        step *= 2;
    }
    high = low + step < high ? low + step : high;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (h->by_session[middle] < what) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

uint32_t iso_own_before(struct iso *h, uint32_t key, uint32_t at)
{
    if (iso_index_sessions(h) != TXN_DONE) {
        return ISO_NONE;
    }
    uint64_t session = h->session[at];
    uint32_t first = h->key_first[key];
    uint32_t place = iso_seek(h, key, first, session << 32 | h->first_write[at]);
    int own = place > first && h->by_session[place - 1] >> 32 == session;
    return own ? (uint32_t)h->by_session[place - 1] : ISO_NONE;
}
