/* A store that executes the transactions in the order that was found, and looks at what they read:
 * the proof of a valid history. It takes from the search nothing but the places. */
#include "ord_state.h"

#include <string.h>

/* Sessions and real time, pair by pair of neighbours in time. */
static int holds_time(const struct ord *o, enum ord_between between, uint32_t *latest)
{
    const struct ord_history *h = o->of;
    for (uint32_t t = 0; between != ORD_PLAIN && t < h->n; t++) {
        uint32_t before = h->previous[t];
        if (before != ORD_NONE && o->place[ord_commit(o, before)] >= o->place[ord_begin(o, t)]) {
            return 0;
        }
    }
    if (between != ORD_REALTIME) {
        return 1;
    }
    /* latest[p]: the last place of a commit that was completed before event p */
    size_t positions = (size_t)o->ctx->in->n_positions;
    for (uint32_t t = 0; t < h->n; t++) {
        if (h->completed[t] != ORD_NONE) {
            latest[h->completed[t] + 1] = o->place[ord_commit(o, t)] + 1;
        }
    }
    for (size_t p = 0; p < positions; p++) {
        latest[p + 1] = latest[p + 1] > latest[p] ? latest[p + 1] : latest[p];
    }
    for (uint32_t t = 0; t < h->n; t++) {
        if (h->invoked[t] != ORD_NONE && latest[h->invoked[t]] > o->place[ord_begin(o, t)]) {
            return 0;
        }
    }
    return 1;
}

static int reads_last(const struct ord *o, uint32_t txn, const uint32_t *last)
{
    const struct ord_history *h = o->of;
    for (uint32_t r = h->first_read[txn]; r < h->first_read[txn + 1]; r++) {
        uint32_t version = h->version[r], now = last[ord_key(h, version)];
        if (now != (version < h->n_writes ? version : ORD_NONE)) {
            return 0;
        }
    }
    for (uint32_t r = h->n_open ? h->first_open[txn] : 0; h->n_open && r < h->first_open[txn + 1];
         r++) {
        uint32_t from = h->first_candidate[r], until = h->first_candidate[r + 1];
        uint32_t now = last[ord_key(h, h->candidate[from])];
        while (from < until && h->candidate[from] != now) {
            from++;
        }
        if (from == until) {
            return 0;
        }
    }
    return 1;
}

/* Under snapshot isolation whoever wrote the key before must have committed before it began. */
static int writes(const struct ord *o, uint32_t txn, uint32_t *last)
{
    const struct ord_history *h = o->of;
    for (uint32_t w = h->first_write[txn]; w < h->first_write[txn + 1]; w++) {
        uint32_t *now = &last[h->write_key[w]];
        if (o->snapshot && *now != ORD_NONE &&
            o->place[ord_commit(o, h->writer[*now])] > o->place[ord_begin(o, txn)]) {
            return 0;
        }
        *now = w;
    }
    return 1;
}

static int execute(const struct ord *o, const uint32_t *at, uint32_t *last)
{
    for (uint32_t i = 0; i < o->nodes; i++) {
        uint32_t node = at[i], txn = node == ORD_NONE ? 0 : ord_txn(o, node);
        if (node == ORD_NONE) {
            return 0; /* two nodes have one place */
        }
        if (node >= o->own_nodes) {
            continue;
        }
        if (node == ord_begin(o, txn) && !reads_last(o, txn, last)) {
            return 0;
        }
        if (node == ord_commit(o, txn) && !writes(o, txn, last)) {
            return 0;
        }
    }
    return 1;
}

int ord_replay(const struct ord *o, enum ord_between between)
{
    struct txn_ctx *c = o->ctx;
    uint32_t *at = txn_alloc(c, o->nodes, sizeof *at);
    uint32_t *last = txn_alloc(c, o->of->n_keys, sizeof *last);
    uint32_t *latest = txn_alloc(c, (size_t)c->in->n_positions + 1, sizeof *latest);
    int fine = 0;
    if (c->status == TXN_DONE) {
        memset(at, 0xff, o->nodes * sizeof *at);
        memset(last, 0xff, o->of->n_keys * sizeof *last);
        fine = 1;
        for (uint32_t v = 0; v < o->nodes; v++) {
            fine &= o->place[v] < o->nodes;
            at[fine ? o->place[v] : 0] = v;
        }
        fine = fine && execute(o, at, last) && holds_time(o, between, latest);
        for (uint32_t t = 0; o->snapshot && t < o->of->n; t++) {
            fine &= o->place[ord_begin(o, t)] < o->place[ord_commit(o, t)];
        }
    }
    txn_free(c, at);
    txn_free(c, last);
    txn_free(c, latest);
    return fine;
}
