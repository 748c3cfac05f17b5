/* Demands of monotonic atomic view and read atomic. */
#include "iso_demand.h"

#include <string.h>

/* From so many reads on a transaction's writers are marked, so that a read can be compared with
 * the newer writes of its key where these are fewer. */
#ifndef ISO_MANY
#define ISO_MANY 64
#endif

void iso_push(struct iso *h, struct iso_edge edge)
{
    if (h->n_edges == h->edges_cap) {
        size_t cap = 2 * h->edges_cap + 1024;
        h->edge = txn_grow(h->ctx, h->edge, h->n_edges, cap, sizeof *h->edge);
        h->edges_cap = h->edge == NULL ? 0 : cap;
        h->n_edges = h->edge == NULL ? 0 : h->n_edges;
    }
    if (!iso_failed(h)) {
        h->edge[h->n_edges++] = edge;
    }
}

/* Who the transaction in hand has read from: `read` of it is the first such read, where `txn` is
 * the transaction in hand. */
struct seen {
    uint32_t *txn, *read;
    uint32_t marked; /* plus one */
};

/* The read in hand, and which writes are newer than what it returned. */
struct stale {
    enum iso_model model;
    enum iso_which which;
    uint32_t txn, read, key, writer, from, to;
};

static int atomic(enum iso_model model)
{
    return model == ISO_ATOMIC || model == ISO_SESSION_ATOMIC;
}

/* Is `before` to be told to stand before what was read? */
static int wanted(const struct iso *h, const struct stale *s, uint32_t before)
{
    if (before == s->writer) {
        return 0;
    }
    if (s->writer == ISO_NONE) {
        return 1;
    }
    if (s->which == ISO_AGAINST) {
        return before > s->writer;
    }
    return before < s->writer && h->window[before] == h->window[s->writer];
}

static void demand(struct iso *h, const struct stale *s, uint32_t before)
{
    iso_push(h, (struct iso_edge){before, s->writer, s->txn, s->key});
}

static void mark_writers(struct iso *h, struct seen *seen, uint32_t txn)
{
    if (seen->marked == txn + 1 || seen->txn == NULL) {
        return;
    }
    seen->marked = txn + 1;
    for (uint32_t r = h->first_read[txn]; r < h->first_read[txn + 1]; r++) {
        uint32_t writer = h->source[r] & ISO_FLAG ? ISO_NONE : h->write[h->source[r]].txn;
        if (writer != ISO_NONE && seen->txn[writer] != txn + 1) {
            seen->txn[writer] = txn + 1;
            seen->read[writer] = r;
        }
    }
}

/* Each newer write, by a transaction that was seen? */
static void by_writes(struct iso *h, const struct stale *s, const struct seen *seen)
{
    for (uint32_t i = s->from; i < s->to && txn_tick(h->ctx) == TXN_DONE; i++) {
        uint32_t before = h->write[h->by_key[i]].txn;
        if (seen->txn[before] == s->txn + 1 && (atomic(s->model) || seen->read[before] < s->read) &&
            wanted(h, s, before)) {
            demand(h, s, before);
        }
    }
}

/* Each transaction that was seen: did it write something newer? */
static void by_reads(struct iso *h, const struct stale *s)
{
    uint32_t end = atomic(s->model) ? h->first_read[s->txn + 1] : s->read;
    for (uint32_t r = h->first_read[s->txn]; r < end && txn_tick(h->ctx) == TXN_DONE; r++) {
        if (h->source[r] & ISO_FLAG || r == s->read) {
            continue;
        }
        uint32_t before = h->write[h->source[r]].txn;
        if (wanted(h, s, before) && iso_writes_within(h, before, s->from, s->to)) {
            demand(h, s, before);
        }
    }
}

static void of_session(struct iso *h, const struct stale *s)
{
    uint32_t w = iso_own_before(h, s->key, s->txn);
    if (w != ISO_NONE && w != h->source[s->read] && wanted(h, s, h->write[w].txn)) {
        demand(h, s, h->write[w].txn);
    }
}

static void of_read(struct iso *h, const struct stale *s, struct seen *seen)
{
    uint32_t reads = h->first_read[s->txn + 1] - h->first_read[s->txn];
    if (reads > ISO_MANY && seen->txn == NULL) {
        seen->txn = iso_zeros(h, h->n);
        seen->read = iso_zeros(h, h->n);
    }
    if (iso_failed(h)) {
        return;
    }
    if (reads > ISO_MANY && s->to - s->from < reads) {
        mark_writers(h, seen, s->txn);
        by_writes(h, s, seen);
    } else {
        by_reads(h, s);
    }
    if (s->model == ISO_SESSION_ATOMIC) {
        of_session(h, s);
    }
}

static struct stale stale_of(const struct iso *h, enum iso_model model, enum iso_which which,
                             uint32_t txn, uint32_t read)
{
    uint32_t w = h->source[read];
    return (struct stale){
        .model = model,
        .which = which,
        .txn = txn,
        .read = read,
        .key = h->read_key[read],
        .writer = w & ISO_FLAG ? ISO_NONE : h->write[w].txn,
    };
}

static void against(struct iso *h, enum iso_model model, struct seen *seen)
{
    for (uint32_t i = 0; i < h->n_stale && txn_tick(h->ctx) == TXN_DONE; i++) {
        struct stale s = stale_of(h, model, ISO_AGAINST, h->stale_txn[i], h->stale_read[i]);
        s.to = iso_newer(h, s.txn, s.read, &s.from);
        if (s.from < s.to) {
            of_read(h, &s, seen);
        }
    }
}

/* Older writes than the one that was read, whose transactions are seen all the same. */
static void within(struct iso *h, enum iso_model model, uint32_t first, struct seen *seen)
{
    for (uint32_t txn = first; txn < h->n && txn_tick(h->ctx) == TXN_DONE; txn++) {
        for (uint32_t r = h->first_read[txn]; r < h->first_read[txn + 1]; r++) {
            struct stale s = stale_of(h, model, ISO_WITHIN, txn, r);
            if (s.writer == ISO_NONE || h->window[s.writer] == ISO_NONE) {
                continue;
            }
            s.from = h->key_first[s.key];
            s.to = h->rank[h->source[r]];
            of_read(h, &s, seen);
        }
    }
}

void iso_demands(struct iso *h, enum iso_model model, enum iso_which which, uint32_t first)
{
    struct seen seen = {NULL, NULL, 0};
    if (which == ISO_AGAINST) {
        against(h, model, &seen);
    } else {
        within(h, model, first, &seen);
    }
    txn_free(h->ctx, seen.txn);
    txn_free(h->ctx, seen.read);
}
