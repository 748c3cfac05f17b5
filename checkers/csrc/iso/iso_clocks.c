/* Demands of causal consistency with sessions. A vector clock says of each session up to which transaction it
 * leads to this one. Clocks are kept for stretches of positions only: no way between two
 * transactions of a stretch leaves it. */
#include "iso_demand.h"

#include <string.h>

struct clocks {
    uint32_t first, last; /* the stretch */
    uint32_t *at;         /* row after row of `width`: position plus one, 0 = none */
    uint32_t width, sessions;
    uint32_t *column, *stamp, run; /* of a session, where its stamp is `run` */
};

static uint32_t *row_of(const struct clocks *c, uint32_t txn)
{
    return c->at + (size_t)(txn - c->first) * c->width;
}

/* How far into `session` the row knows; 0 for one without a transaction in the stretch. */
static uint32_t known(const struct clocks *c, const uint32_t *row, uint32_t session)
{
    return c->stamp[session] == c->run ? row[c->column[session]] : 0;
}

static int begin(struct iso *h, struct clocks *c, uint32_t first, uint32_t last)
{
    c->first = first;
    c->last = last;
    c->sessions = 0;
    c->run++;
    for (uint32_t t = first; t <= last; t++) {
        uint32_t s = h->session[t];
        if (c->stamp[s] != c->run) {
            c->stamp[s] = c->run;
            c->column[s] = c->sessions++;
        }
    }
    c->width = (c->sessions + 7) & ~UINT32_C(7);
    c->at = txn_alloc(h->ctx, (size_t)(last - first + 1) * c->width, sizeof *c->at);
    return h->ctx->status;
}

static void join(const struct clocks *c, uint32_t *row, uint32_t from, uint32_t session)
{
    if (row[c->column[session]] > from) {
        return;
    }
    const uint32_t *other = row_of(c, from);
    for (uint32_t i = 0; i < c->width; i++) {
        row[i] = other[i] > row[i] ? other[i] : row[i];
    }
    row[c->column[session]] = from + 1;
}

static uint32_t *fill(const struct iso *h, const struct clocks *c, uint32_t txn)
{
    uint32_t *row = row_of(c, txn), before = h->previous[txn];
    if (before != ISO_NONE && before >= c->first) {
        memcpy(row, row_of(c, before), c->width * sizeof *row);
        row[c->column[h->session[before]]] = before + 1;
    }
    for (uint32_t r = h->first_read[txn]; r < h->first_read[txn + 1]; r++) {
        uint32_t w = h->source[r], writer = w & ISO_FLAG ? ISO_NONE : h->write[w].txn;
        if (writer != ISO_NONE && writer >= c->first) {
            join(c, row, writer, h->session[writer]);
        }
    }
    return row;
}

/* Writes by_key[from] .. by_key[to] of one key, which a read of `txn` did not return. */
struct candidates {
    uint32_t txn, key, writer, from, to;
    const uint32_t *row, *writer_row; /* writer_row: WITHIN only */
    uint32_t least;                   /* WITHIN: first position of the writer's window */
};

static void consider(struct iso *h, const struct clocks *c, const struct candidates *k,
                     uint32_t before)
{
    uint32_t session = h->session[before];
    if (known(c, k->row, session) <= before || before == k->writer) {
        return;
    }
    if (k->writer_row != NULL && known(c, k->writer_row, session) > before) {
        return; /* it stands before what was read already */
    }
    iso_push(h, (struct iso_edge){before, k->writer, k->txn, k->key});
}

/* One by one, from the newest on. */
static void few(struct iso *h, const struct clocks *c, const struct candidates *k)
{
    for (uint32_t i = k->to; i-- > k->from;) {
        uint32_t before = h->write[h->by_key[i]].txn;
        if (before < k->least) {
            return;
        }
        consider(h, c, k, before);
    }
}

/* The last one of each session that the transaction knows of: those before it precede it. */
static void many(struct iso *h, const struct clocks *c, const struct candidates *k)
{
    if (iso_index_sessions(h) != TXN_DONE) {
        return;
    }
    uint32_t i = h->key_first[k->key], end = h->key_first[k->key + 1];
    while (i < end && txn_tick(h->ctx) == TXN_DONE) {
        uint64_t session = h->by_session[i] >> 32;
        uint32_t upto = known(c, k->row, (uint32_t)session);
        uint32_t place = iso_seek(h, k->key, i, session << 32 | h->first_write[upto]);
        if (place > i) {
            uint32_t w = (uint32_t)h->by_session[place - 1], before = h->write[w].txn;
            int on_side = k->writer == ISO_NONE ||
                          (k->writer_row == NULL ? before > k->writer : before < k->writer);
            if (before >= k->least && on_side) {
                consider(h, c, k, before);
            }
        }
        i = iso_seek(h, k->key, place, (session + 1) << 32);
    }
}

static void look(struct iso *h, const struct clocks *c, const struct candidates *k)
{
    if (k->from == k->to) {
        return;
    }
    uint64_t walk = 2 * (uint64_t)c->sessions;
    int near = k->to - k->from <= walk;
    if (!near && k->least > 0) {
        near = h->write[h->by_key[k->to - (uint32_t)walk]].txn < k->least;
    }
    if (near) {
        few(h, c, k);
    } else {
        many(h, c, k);
    }
}

/* The stale reads from number `*i` on that lie in the stretch. */
static void stale_of(struct iso *h, const struct clocks *c, uint32_t txn, uint32_t *i,
                     const uint32_t *row)
{
    for (; *i < h->n_stale && h->stale_txn[*i] == txn; ++*i) {
        uint32_t r = h->stale_read[*i], w = h->source[r];
        struct candidates k = {
            .txn = txn,
            .key = h->read_key[r],
            .writer = w & ISO_FLAG ? ISO_NONE : h->write[w].txn,
            .row = row,
        };
        k.to = iso_newer(h, txn, r, &k.from);
        look(h, c, &k);
    }
}

static void older_of(struct iso *h, const struct clocks *c, uint32_t txn, const uint32_t *row)
{
    for (uint32_t r = h->first_read[txn]; r < h->first_read[txn + 1]; r++) {
        uint32_t w = h->source[r], writer = w & ISO_FLAG ? ISO_NONE : h->write[w].txn;
        if (writer == ISO_NONE || h->window[writer] == ISO_NONE) {
            continue;
        }
        struct candidates k = {
            .txn = txn,
            .key = h->read_key[r],
            .writer = writer,
            .from = h->key_first[h->read_key[r]],
            .to = h->rank[w],
            .row = row,
            .writer_row = row_of(c, writer),
            .least = h->window[writer],
        };
        look(h, c, &k);
    }
}

static void stretch(struct iso *h, struct clocks *c, enum iso_which which, uint32_t *stale)
{
    for (uint32_t t = c->first; t <= c->last && txn_tick(h->ctx) == TXN_DONE; t++) {
        const uint32_t *row = fill(h, c, t);
        h->ctx->budget.work += c->width / 64;
        if (which == ISO_AGAINST) {
            stale_of(h, c, t, stale, row);
        } else {
            older_of(h, c, t, row);
        }
    }
}

/* Stretches from the first newer write to the stale read, merged where they touch. */
static uint32_t stretches(struct iso *h, uint32_t *first, uint32_t *last)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < h->n_stale; i++) {
        uint32_t from, to = iso_newer(h, h->stale_txn[i], h->stale_read[i], &from);
        if (from == to) {
            continue;
        }
        uint32_t a = h->write[h->by_key[from]].txn, b = h->stale_txn[i];
        while (count > 0 && last[count - 1] >= a) {
            count--;
            a = first[count] < a ? first[count] : a;
        }
        first[count] = a;
        last[count++] = b;
    }
    return count;
}

static void against(struct iso *h, struct clocks *c)
{
    uint32_t *first = iso_zeros(h, h->n_stale), *last = iso_zeros(h, h->n_stale);
    uint32_t count = iso_failed(h) ? 0 : stretches(h, first, last), stale = 0;
    for (uint32_t i = 0; i < count && !iso_failed(h); i++) {
        while (stale < h->n_stale && h->stale_txn[stale] < first[i]) {
            stale++;
        }
        if (begin(h, c, first[i], last[i]) == TXN_DONE) {
            stretch(h, c, ISO_AGAINST, &stale);
        }
        txn_free(h->ctx, c->at);
    }
    txn_free(h->ctx, first);
    txn_free(h->ctx, last);
}

void iso_clock_demands(struct iso *h, enum iso_which which, uint32_t first)
{
    struct clocks c = {
        .column = iso_zeros(h, h->n_sessions),
        .stamp = iso_zeros(h, h->n_sessions),
    };
    if (iso_failed(h)) {
        return;
    }
    if (which == ISO_AGAINST) {
        against(h, &c);
    } else if (begin(h, &c, first, h->n - 1) == TXN_DONE) {
        uint32_t stale = 0;
        stretch(h, &c, ISO_WITHIN, &stale);
        txn_free(h->ctx, c.at);
    }
    txn_free(h->ctx, c.column);
    txn_free(h->ctx, c.stamp);
}
