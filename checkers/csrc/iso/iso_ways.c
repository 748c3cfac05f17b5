/* Demands of causal consistency without sessions, or with many. What leads to a transaction is found
 * by going back from it, no further than the first newer write of any of its stale reads: vector
 * clocks would have a column for every session, and without any for every transaction. */
#include "iso_demand.h"

struct ways {
    int sessions;
    uint32_t *seen; /* by position: the transaction in hand plus one, where it leads there */
    uint32_t *queue;
};

static void step_back(struct ways *w, uint32_t before, uint32_t low, uint32_t txn, uint32_t *tail)
{
    if (before != ISO_NONE && before >= low && w->seen[before] != txn + 1) {
        w->seen[before] = txn + 1;
        w->queue[(*tail)++] = before;
    }
}

/* Marks all that leads to `txn` from position `low` on. */
static void go_back(struct iso *h, struct ways *w, uint32_t txn, uint32_t low)
{
    uint32_t head = 0, tail = 0;
    w->queue[tail++] = txn;
    while (head < tail && txn_tick(h->ctx) == TXN_DONE) {
        uint32_t at = w->queue[head++];
        h->ctx->budget.work += h->first_read[at + 1] - h->first_read[at];
        for (uint32_t r = h->first_read[at]; r < h->first_read[at + 1]; r++) {
            uint32_t source = h->source[r];
            uint32_t before = source & ISO_FLAG ? ISO_NONE : h->write[source].txn;
            step_back(w, before, low, txn, &tail);
        }
        if (w->sessions) {
            step_back(w, h->previous[at], low, txn, &tail);
        }
    }
}

/* Stale reads `from` up to `to`, all of one transaction. */
static void of_transaction(struct iso *h, struct ways *w, uint32_t from, uint32_t to)
{
    uint32_t txn = h->stale_txn[from], low = txn, first;
    for (uint32_t i = from; i < to; i++) {
        if (iso_newer(h, txn, h->stale_read[i], &first) > first) {
            uint32_t newer = h->write[h->by_key[first]].txn;
            low = newer < low ? newer : low;
        }
    }
    if (low == txn) {
        return;
    }
    go_back(h, w, txn, low);
    for (uint32_t i = from; i < to; i++) {
        uint32_t read = h->stale_read[i], source = h->source[read];
        uint32_t writer = source & ISO_FLAG ? ISO_NONE : h->write[source].txn;
        uint32_t end = iso_newer(h, txn, read, &first);
        for (; first < end && txn_tick(h->ctx) == TXN_DONE; first++) {
            uint32_t before = h->write[h->by_key[first]].txn;
            if (w->seen[before] == txn + 1) {
                iso_push(h, (struct iso_edge){before, writer, txn, h->read_key[read]});
            }
        }
    }
}

void iso_way_demands(struct iso *h, int sessions)
{
    struct ways w = {sessions, iso_zeros(h, h->n), iso_zeros(h, (size_t)h->n + 1)};
    for (uint32_t i = 0, next; i < h->n_stale && txn_tick(h->ctx) == TXN_DONE; i = next) {
        for (next = i + 1; next < h->n_stale && h->stale_txn[next] == h->stale_txn[i];) {
            next++;
        }
        of_transaction(h, &w, i, next);
    }
    txn_free(h->ctx, w.seen);
    txn_free(h->ctx, w.queue);
}
