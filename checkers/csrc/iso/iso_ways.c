/* Demands of causal consistency without sessions, or with many. What leads to a transaction is found
 * by going back from it, no further than the first newer write of any of its stale reads, and from
 * many transactions at once: vector clocks would have a column for every session, and without any for
 * every transaction. */
#include "iso_demand.h"

#include <string.h>

/* Transactions of which it is marked in one number to which of them a position leads. */
enum { TOGETHER = 64 };

/* Those that look about as far back are looked at together: by the bits of their distance. */
enum { LENGTHS = 32 };

struct ways {
    int sessions;
    const uint32_t
        *writer;     /* of each read: the transaction that wrote what it returned, or ISO_NONE */
    uint64_t *leads; /* by position: bit i where it leads to txn[i] */
    uint32_t count;  /* transactions that are looked at together */
    uint32_t txn[TOGETHER]; /* in the order of the positions */
    uint32_t low[TOGETHER]; /* no further back than there */
    uint32_t lowest;
    uint32_t from[TOGETHER], to[TOGETHER]; /* stale reads of each */
};

static void mark(struct ways *w, uint32_t before, uint64_t leads)
{
    if (before - w->lowest <= w->txn[w->count - 1] - w->lowest) { /* not ISO_NONE */
        w->leads[before] |= leads;
    }
}

/* Marks the predecessors of `at` with what `at` leads to. */
static void step_back(struct iso *h, struct ways *w, uint32_t at, uint64_t leads)
{
    h->ctx->budget.work += h->first_read[at + 1] - h->first_read[at];
    for (uint32_t r = h->first_read[at]; r < h->first_read[at + 1]; r++) {
        mark(w, w->writer[r], leads);
    }
    mark(w, w->sessions ? h->previous[at] : ISO_NONE, leads);
}

/* Those that are followed back beyond `at`; `*until` is the next position where that changes. */
static uint64_t followed(const struct ways *w, uint32_t at, uint32_t *until)
{
    uint64_t on = 0;
    *until = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        if (w->low[i] < at) {
            on |= UINT64_C(1) << i;
            *until = w->low[i] > *until ? w->low[i] : *until;
        }
    }
    return on;
}

/* Marks all that leads to the transactions, from the last position on. */
static void go_back(struct iso *h, struct ways *w)
{
    uint32_t at = w->txn[w->count - 1], until;
    memset(&w->leads[w->lowest], 0, (size_t)(at - w->lowest + 1) * sizeof *w->leads);
    for (uint32_t i = 0; i < w->count; i++) {
        w->leads[w->txn[i]] = UINT64_C(1) << i;
    }
    uint64_t on = followed(w, at, &until);
    for (; on != 0 && txn_tick(h->ctx) == TXN_DONE; at--) {
        uint64_t leads = w->leads[at] & on;
        if (leads != 0) {
            step_back(h, w, at, leads);
        }
        if (at - 1 <= until) {
            on = followed(w, at - 1, &until);
        }
    }
}

static void demands_of(struct iso *h, const struct ways *w, uint32_t i)
{
    for (uint32_t stale = w->from[i]; stale < w->to[i]; stale++) {
        uint32_t read = h->stale_read[stale], source = h->source[read], first;
        uint32_t writer = source & ISO_FLAG ? ISO_NONE : h->write[source].txn;
        uint32_t end = iso_newer(h, w->txn[i], read, &first);
        for (; first < end && txn_tick(h->ctx) == TXN_DONE; first++) {
            uint32_t before = h->write[h->by_key[first]].txn;
            if (w->leads[before] >> i & 1) {
                iso_push(h, (struct iso_edge){before, writer, w->txn[i], h->read_key[read]});
            }
        }
    }
}

static void look(struct iso *h, struct ways *w)
{
    if (w->count == 0) {
        return;
    }
    w->lowest = w->low[0];
    for (uint32_t i = 1; i < w->count; i++) {
        w->lowest = w->low[i] < w->lowest ? w->low[i] : w->lowest;
    }
    go_back(h, w);
    for (uint32_t i = 0; i < w->count; i++) {
        demands_of(h, w, i);
    }
    w->count = 0;
}

/* How far back stale reads `from` up to `to` of one transaction look: the first position, or the
 * transaction's own where none of them has a newer write. */
static uint32_t low_of(const struct iso *h, uint32_t from, uint32_t to)
{
    uint32_t low = h->stale_txn[from], first;
    for (uint32_t i = from; i < to; i++) {
        if (iso_newer(h, h->stale_txn[i], h->stale_read[i], &first) > first) {
            uint32_t newer = h->write[h->by_key[first]].txn;
            low = newer < low ? newer : low;
        }
    }
    return low;
}

static void look_back(struct iso *h, struct ways *all)
{
    for (uint32_t i = 0, next; i < h->n_stale && txn_tick(h->ctx) == TXN_DONE; i = next) {
        uint32_t txn = h->stale_txn[i];
        for (next = i + 1; next < h->n_stale && h->stale_txn[next] == txn;) {
            next++;
        }
        uint32_t low = low_of(h, i, next);
        if (low == txn) {
            continue;
        }
        struct ways *w = &all[31 - __builtin_clz(txn - low)];
        w->txn[w->count] = txn;
        w->low[w->count] = low;
        w->from[w->count] = i;
        w->to[w->count++] = next;
        if (w->count == TOGETHER) {
            look(h, w);
        }
    }
    for (int length = 0; !iso_failed(h) && length < LENGTHS; length++) {
        look(h, &all[length]);
    }
}

void iso_way_demands(struct iso *h, int sessions)
{
    uint64_t *leads = txn_alloc(h->ctx, h->n, sizeof *leads);
    uint32_t *writer = iso_nones(h, (size_t)h->n_reads + 1);
    struct ways *all = txn_alloc(h->ctx, LENGTHS, sizeof *all);
    for (uint32_t r = 0; !iso_failed(h) && r < h->n_reads; r++) {
        writer[r] = h->source[r] & ISO_FLAG ? ISO_NONE : h->write[h->source[r]].txn;
    }
    for (int length = 0; !iso_failed(h) && length < LENGTHS; length++) {
        all[length] = (struct ways){.sessions = sessions, .writer = writer, .leads = leads};
    }
    if (!iso_failed(h)) {
        look_back(h, all);
    }
    txn_free(h->ctx, all);
    txn_free(h->ctx, writer);
    txn_free(h->ctx, leads);
}
