/* Positions in which writers and earlier transactions of a session come first. */
#include "iso_state.h"

#include <string.h>

struct walk {
    uint32_t *stack, *next; /* next: which predecessor of stack[i] to look at */
    uint8_t *state;         /* 0 unseen, 1 on the stack, 2 placed */
};

/* A predecessor of `at` that is not placed yet, or ISO_NONE; `*i` counts those looked at. Those
 * below `root` are all placed. */
static uint32_t unplaced(const struct iso *h, const struct walk *walk, int sessions, uint32_t at,
                         uint32_t root, uint32_t *i)
{
    uint32_t first = h->first_read[at], count = h->first_read[at + 1] - first;
    uint32_t known = h->first_known[at], all = count + h->first_known[at + 1] - known;
    while (*i <= all) {
        uint32_t before = ISO_NONE;
        if (*i == 0) {
            before = sessions ? h->previous[at] : ISO_NONE;
        } else if (*i > count) {
            before = h->known[known + *i - count - 1];
        } else if (!(h->source[first + *i - 1] & ISO_FLAG)) {
            before = h->write[h->source[first + *i - 1]].txn;
        }
        ++*i;
        if (before != ISO_NONE && before >= root && walk->state[before] != 2) {
            return before;
        }
    }
    return ISO_NONE;
}

/* Depth first, so that a transaction comes right after the last that it needs. */
static int place_all(struct iso *h, struct walk *walk, int sessions, uint32_t *order)
{
    uint32_t placed = 0;
    for (uint32_t root = 0; root < h->n && txn_tick(h->ctx) == TXN_DONE; root++) {
        uint32_t depth = 0;
        if (walk->state[root] == 0) {
            walk->stack[depth] = root;
            walk->next[depth++] = 0;
            walk->state[root] = 1;
        }
        while (depth > 0) {
            uint32_t at = walk->stack[depth - 1];
            uint32_t before = unplaced(h, walk, sessions, at, root, &walk->next[depth - 1]);
            if (before == ISO_NONE) {
                walk->state[at] = 2;
                order[placed++] = at;
                depth--;
            } else if (walk->state[before] == 1) {
                return 0;
            } else {
                walk->state[before] = 1;
                walk->stack[depth] = before;
                walk->next[depth++] = 0;
            }
        }
    }
    return 1;
}

int iso_topological(struct iso *h, int sessions, uint32_t *order)
{
    struct walk walk = {
        .stack = iso_zeros(h, (size_t)h->n + 1),
        .next = iso_zeros(h, (size_t)h->n + 1),
        .state = txn_alloc(h->ctx, h->n, 1),
    };
    int found = !iso_failed(h) && place_all(h, &walk, sessions, order);
    txn_free(h->ctx, walk.stack);
    txn_free(h->ctx, walk.next);
    txn_free(h->ctx, walk.state);
    return found;
}

/* What iso_reorder makes anew. */
struct moved {
    uint32_t *to; /* present -> new position */
    uint32_t *name, *session, *previous, *first_read, *first_write, *source, *read_key;
    uint32_t *first_known, *known;
    struct iso_write *write;
};

static void move_writes(const struct iso *h, struct moved *m, const uint32_t *order)
{
    uint32_t used = 0;
    for (uint32_t at = 0; at < h->n; at++) {
        uint32_t from = order[at];
        m->to[from] = at;
        m->name[at] = h->name[from];
        m->session[at] = h->session[from];
        m->first_write[at] = used;
        for (uint32_t w = h->first_write[from]; w < h->first_write[from + 1]; w++) {
            m->write[used++] = (struct iso_write){h->write[w].key,
                                                  at | (h->write[w].txn & ISO_FLAG)};
        }
    }
    m->first_write[h->n] = used;
}

static void move_reads(struct iso *h, struct moved *m, const uint32_t *order)
{
    uint32_t used = 0;
    h->n_stale = 0;
    memset(h->last, 0xff, h->n_keys * sizeof *h->last);
    for (uint32_t at = 0; at < h->n; at++) {
        uint32_t from = order[at];
        m->previous[at] = h->previous[from] == ISO_NONE ? ISO_NONE : m->to[h->previous[from]];
        m->first_read[at] = used;
        for (uint32_t r = h->first_read[from]; r < h->first_read[from + 1]; r++, used++) {
            uint32_t w = h->source[r], key = h->read_key[r];
            if (!(w & ISO_FLAG)) {
                uint32_t writer = h->write[w].txn;
                w = m->first_write[m->to[writer]] + (w - h->first_write[writer]);
            }
            m->source[used] = w;
            m->read_key[used] = key;
            h->stale_txn[h->n_stale] = at;
            h->stale_read[h->n_stale] = used;
            h->n_stale += w != ISO_NONE && h->last[key] != (w & ISO_FLAG ? ISO_NONE : w);
        }
        for (uint32_t w = m->first_write[at]; w < m->first_write[at + 1]; w++) {
            if (!(m->write[w].txn & ISO_FLAG)) {
                h->last[m->write[w].key] = w;
            }
        }
    }
    m->first_read[h->n] = used;
}

static void move_known(const struct iso *h, struct moved *m, const uint32_t *order)
{
    uint32_t used = 0;
    for (uint32_t at = 0; at < h->n; at++) {
        m->first_known[at] = used;
        for (uint32_t i = h->first_known[order[at]]; i < h->first_known[order[at] + 1]; i++) {
            m->known[used++] = m->to[h->known[i]];
        }
    }
    m->first_known[h->n] = used;
}

static void replace(struct iso *h, uint32_t **old, uint32_t *with)
{
    txn_free(h->ctx, *old);
    *old = with;
}

int iso_reorder(struct iso *h, const uint32_t *order)
{
    struct moved m = {
        .to = iso_zeros(h, h->n),
        .name = iso_zeros(h, h->n),
        .session = iso_zeros(h, h->n),
        .previous = iso_zeros(h, h->n),
        .first_read = iso_zeros(h, (size_t)h->n + 1),
        .first_write = iso_zeros(h, (size_t)h->n + 1),
        .first_known = iso_zeros(h, (size_t)h->n + 2),
        .known = iso_zeros(h, (size_t)h->first_known[h->n] + 1),
        .source = iso_zeros(h, (size_t)h->n_reads + 1),
        .read_key = iso_zeros(h, (size_t)h->n_reads + 1),
        .write = txn_alloc(h->ctx, (size_t)h->n_writes + 1, sizeof *m.write),
    };
    if (iso_failed(h)) {
        return h->ctx->status;
    }
    move_writes(h, &m, order);
    move_reads(h, &m, order);
    move_known(h, &m, order);
    for (size_t i = 0; i < h->n_edges; i++) {
        struct iso_edge *edge = &h->edge[i];
        *edge = (struct iso_edge){m.to[edge->before], m.to[edge->after], m.to[edge->reader],
                                  edge->key};
    }
    replace(h, &h->name, m.name);
    replace(h, &h->session, m.session);
    replace(h, &h->previous, m.previous);
    replace(h, &h->first_read, m.first_read);
    replace(h, &h->first_write, m.first_write);
    replace(h, &h->first_known, m.first_known);
    replace(h, &h->known, m.known);
    replace(h, &h->source, m.source);
    replace(h, &h->read_key, m.read_key);
    txn_free(h->ctx, h->write);
    h->write = m.write;
    txn_free(h->ctx, m.to);
    return txn_poll_budget(h->ctx);
}

/* Each transaction continues the longest path that ends at one whose write it read. */
int iso_cover(struct iso *h)
{
    uint32_t *end = iso_nones(h, h->n), *length = iso_zeros(h, h->n);
    if (iso_failed(h)) {
        return h->ctx->status;
    }
    h->n_sessions = 0;
    for (uint32_t at = 0; at < h->n; at++) {
        uint32_t best = ISO_NONE;
        for (uint32_t r = h->first_read[at]; r < h->first_read[at + 1]; r++) {
            uint32_t writer = h->source[r] & ISO_FLAG ? ISO_NONE : h->write[h->source[r]].txn;
            if (writer != ISO_NONE && end[h->session[writer]] == writer &&
                (best == ISO_NONE || length[writer] > length[best])) {
                best = writer;
            }
        }
        h->previous[at] = best;
        h->session[at] = best == ISO_NONE ? h->n_sessions++ : h->session[best];
        length[at] = best == ISO_NONE ? 0 : length[best] + 1;
        end[h->session[at]] = at;
    }
    txn_free(h->ctx, end);
    txn_free(h->ctx, length);
    return txn_poll_budget(h->ctx);
}
