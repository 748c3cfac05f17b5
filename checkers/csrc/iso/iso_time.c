/* When did transactions happen? Where positions are made up, the longest paths that lead to a
 * transaction and away from it tell. An order by them holds all edges, and few reads are stale in it. */
#include "iso_state.h"

/* What precedes a transaction: its reads' writers, the one before it in its session, known ones. */
struct before {
    uint32_t first, reads, session, known, all;
};

static struct before all_before(const struct iso *h, int sessions, uint32_t at)
{
    struct before b = {.first = h->first_read[at],
                       .session = sessions && h->previous[at] != ISO_NONE};
    b.reads = h->first_read[at + 1] - b.first;
    b.known = h->first_known[at];
    b.all = b.reads + b.session + (h->first_known[at + 1] - b.known);
    return b;
}

/* Number `i` of them, or ISO_NONE for a read of an initial value or of nothing. */
static uint32_t one_before(const struct iso *h, const struct before *b, uint32_t at, uint32_t i)
{
    if (i < b->reads) {
        uint32_t source = h->source[b->first + i];
        return source & ISO_FLAG ? ISO_NONE : h->write[source].txn;
    }
    i -= b->reads;
    return i < b->session ? h->previous[at] : h->known[b->known + i - b->session];
}

/* time[t]: `n`, more by the longest path to t, less by the longest path from it. */
static void guess(const struct iso *h, int sessions, const uint32_t *order, uint32_t *from,
                  uint32_t *time)
{
    for (uint32_t i = h->n; i-- > 0;) {
        struct before b = all_before(h, sessions, order[i]);
        for (uint32_t k = 0; k < b.all; k++) {
            uint32_t before = one_before(h, &b, order[i], k);
            if (before != ISO_NONE && from[before] <= from[order[i]]) {
                from[before] = from[order[i]] + 1;
            }
        }
    }
    for (uint32_t i = 0; i < h->n; i++) {
        struct before b = all_before(h, sessions, order[i]);
        uint32_t to = 0;
        for (uint32_t k = 0; k < b.all; k++) {
            uint32_t before = one_before(h, &b, order[i], k);
            to = before != ISO_NONE && time[before] >= to ? time[before] + 1 : to;
        }
        time[order[i]] = to;
    }
    for (uint32_t t = 0; t < h->n; t++) {
        time[t] += h->n - from[t];
    }
}

int iso_by_time(struct iso *h, int sessions, uint32_t *order)
{
    uint32_t *from = iso_zeros(h, h->n), *time = iso_zeros(h, h->n), next = 0;
    uint32_t *first = iso_zeros(h, 2 * (size_t)h->n);
    if (iso_failed(h)) {
        return h->ctx->status;
    }
    guess(h, sessions, order, from, time);
    for (uint32_t t = 0; t < h->n; t++) {
        first[time[t]]++;
    }
    for (size_t at = 0; at < 2 * (size_t)h->n; at++) {
        uint32_t count = first[at];
        first[at] = next;
        next += count;
    }
    for (uint32_t t = 0; t < h->n; t++) { /* at the same time by position */
        order[first[time[t]]++] = t;
    }
    txn_free(h->ctx, from);
    txn_free(h->ctx, time);
    txn_free(h->ctx, first);
    return txn_poll_budget(h->ctx);
}
