/* Which anomalies one component holds, each with a witness.
 *
 * Components of sub-graphs decide; the search for a short cycle comes after and may stop early,
 * which costs the witness its minimality and never the answer. The classes are taken from the
 * strongest to the weakest, and a class that a found one implies is skipped. That is also why each
 * search may take any cycle of its sub-graph: in a component without G0 every cycle of ww and wr
 * has a wr, in one without G-single every walk with rw edges apart has two of them. */
#include "txn_local.h"

#include <string.h>

#define BIT(label) (1u << (label))

/* Arcs that one search may look at for a shorter witness, once it has one. */
#ifndef WORK_PER_SEARCH
#define WORK_PER_SEARCH INT64_C(2000000)
#endif

/* The same for all components together: about a second. */
#ifndef WORK_IN_ALL
#define WORK_IN_ALL INT64_C(200000000)
#endif

enum { HEAD = 5 };

struct scan {
    struct txn_ctx *ctx;
    const struct txn_csr *csr;
    const uint32_t *names;
    int64_t component;
    uint32_t own;
    struct txn_walk walk;
    int64_t *row;  /* of the report: HEAD fields, then `best` */
    int64_t *best; /* pairs of node and label */
    uint32_t best_length;
    int minimal;
    int found[TXN_CYCLES];
};

/* Takes over the path of the walk; a `first` node before it, or TXN_NONE. False where a
 * transaction occurs twice: such a walk is no cycle. */
static int take(struct scan *s, uint32_t first)
{
    struct txn_walk *walk = &s->walk;
    uint32_t length = 0, stamp = ++walk->stamp;
    if (first != TXN_NONE) {
        walk->mark[first] = stamp;
    }
    for (uint32_t i = 0; i < walk->length; i++) {
        uint32_t v = walk->path[i];
        if (v < s->csr->n_txns && walk->mark[v] == stamp) {
            return 0;
        }
        walk->mark[v] = stamp;
    }
    if (first != TXN_NONE) {
        s->best[length++] = first;
        s->best[length++] = TXN_RW;
    }
    for (uint32_t i = 0; i < walk->length; i++) {
        if (walk->path[i] < s->csr->n_txns) {
            s->best[length++] = walk->path[i];
            s->best[length++] = walk->labels[i];
        }
    }
    s->best_length = length / 2;
    return 1;
}

static void allow(struct scan *s)
{
    int64_t left = WORK_IN_ALL - s->ctx->spent;
    s->walk.work = left < WORK_PER_SEARCH ? (left < 0 ? 0 : left) : WORK_PER_SEARCH;
}

static void settle(struct scan *s, int64_t allowed)
{
    s->ctx->spent += allowed - s->walk.work;
}

static void report(struct scan *s, int type, int between)
{
    int64_t head[HEAD] = {s->component, type, between, s->minimal, s->best_length};
    if (s->ctx->status != TXN_DONE || s->best_length == 0) {
        return;
    }
    s->found[type] = 1;
    memcpy(s->row, head, sizeof head);
    for (uint32_t i = 0; s->names != NULL && i < s->best_length; i++) {
        s->best[2 * i] = s->names[s->best[2 * i]];
    }
    txn_push(s->ctx, &s->ctx->report->cycles, s->row, HEAD + 2 * (size_t)s->best_length);
}

/* A shortest cycle of any edges that the rule allows. */
static void any_cycle(struct scan *s, struct txn_rule rule)
{
    struct txn_split split;
    s->best_length = 0;
    s->minimal = 1;
    if (txn_split_make(s->ctx, s->csr, rule, &split) == TXN_DONE) {
        allow(s);
        int64_t allowed = s->walk.work;
        for (uint32_t u = 0; u < s->csr->n_txns && s->best_length != 2; u++) {
            if (split.sizes[split.of[u]] < 2) {
                continue;
            }
            if (s->best_length == 0) {
                s->walk.work = INT64_MAX;
            } else if (s->walk.work <= 0) {
                s->minimal = 0;
                break;
            }
            uint32_t limit = s->best_length == 0 ? UINT32_MAX : s->best_length - 1;
            int first = s->best_length == 0;
            if (txn_walk_find(s->ctx, s->csr, &s->walk, rule, &split, u, u, limit)) {
                take(s, TXN_NONE);
            }
            s->walk.work = first ? allowed : s->walk.work;
        }
        settle(s, allowed);
    }
    txn_split_free(s->ctx, &split);
}

/* A shortest cycle through one rw edge, the rest by `rule`; where `within` is given both ends must
 * be in one of its components (states of `gate`). Returns 1 if the work ran out before any. */
static int rw_cycle(struct scan *s, struct txn_rule gate, const struct txn_split *within,
                    struct txn_rule rule, int certain)
{
    const struct txn_csr *csr = s->csr;
    allow(s);
    int64_t allowed = s->walk.work;
    int ran_out = 0, tried = 0;
    for (uint32_t u = 0; u < csr->n_txns && s->best_length != 2 && !ran_out; u++) {
        for (uint32_t p = csr->off[u]; p < csr->off[u + 1]; p++) {
            uint32_t to = csr->to[p], after = gate.apart ? 2 * to + 1 : to;
            uint32_t goal = gate.apart ? 2 * u : u;
            if (csr->label[p] != TXN_RW || within->of[after] != within->of[goal]) {
                continue;
            }
            int first = certain && !tried;
            tried = 1;
            if (!first && s->walk.work <= 0) {
                s->minimal = 0;
                ran_out = 1;
                break;
            }
            s->walk.work = first ? INT64_MAX : s->walk.work;
            uint32_t limit = s->best_length == 0 ? UINT32_MAX : s->best_length - 1;
            if (txn_walk_find(s->ctx, csr, &s->walk, rule, rule.apart ? within : NULL,
                              rule.apart ? after : to, rule.apart ? goal : u, limit)) {
                take(s, u);
            }
            s->walk.work = first ? allowed : s->walk.work;
        }
    }
    settle(s, allowed);
    return ran_out && s->best_length == 0;
}

/* Up to 64 rw edges at once: which of them does a walk by `rule` lead back from head to tail? */
struct batch {
    uint32_t from[64], to[64], count;
    struct txn_split split; /* components under `rule`, in topological order */
    uint32_t *sorted;       /* nodes by component */
    uint32_t *end;          /* of each component in `sorted` */
    uint64_t *mask;         /* per component: edges whose head reaches it */
};

static int sweep(struct scan *s, struct txn_rule rule, struct batch *b)
{
    const struct txn_csr *csr = s->csr;
    const uint32_t *of = b->split.of;
    uint32_t low = UINT32_MAX, high = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        low = of[b->to[i]] < low ? of[b->to[i]] : low;
        high = of[b->from[i]] > high ? of[b->from[i]] : high;
    }
    memset(b->mask, 0, csr->n * sizeof *b->mask);
    for (uint32_t i = 0; i < b->count; i++) {
        b->mask[of[b->to[i]]] |= UINT64_C(1) << i;
    }
    for (uint32_t i = low == 0 ? 0 : b->end[low - 1]; i < b->end[high]; i++) {
        uint32_t v = b->sorted[i];
        if (b->mask[of[v]] == 0 || txn_tick(s->ctx) != TXN_DONE) {
            continue;
        }
        for (uint32_t p = csr->off[v]; p < csr->off[v + 1]; p++) {
            if (txn_step(rule, v, csr->to[p], csr->label[p]) >= 0) {
                b->mask[of[csr->to[p]]] |= b->mask[of[v]];
            }
        }
    }
    for (uint32_t i = 0; i < b->count; i++) {
        if (b->mask[of[b->from[i]]] >> i & 1) {
            return (int)i;
        }
    }
    return -1;
}

static int batch_make(struct scan *s, struct txn_rule rule, struct batch *b)
{
    uint32_t n = s->csr->n;
    memset(b, 0, sizeof *b);
    if (txn_split_make(s->ctx, s->csr, rule, &b->split) != TXN_DONE) {
        return s->ctx->status;
    }
    b->sorted = txn_alloc(s->ctx, n, sizeof *b->sorted);
    b->end = txn_alloc(s->ctx, (size_t)n + 1, sizeof *b->end);
    b->mask = txn_alloc(s->ctx, n, sizeof *b->mask);
    if (s->ctx->status != TXN_DONE) {
        return s->ctx->status;
    }
    for (uint32_t v = 0; v < n; v++) {
        b->end[b->split.of[v] + 1]++;
    }
    for (uint32_t v = 0; v < n; v++) {
        b->end[v + 1] += b->end[v];
    }
    for (uint32_t v = 0; v < n; v++) {
        b->sorted[b->end[b->split.of[v]]++] = v;
    }
    return s->ctx->status;
}

static void batch_free(struct scan *s, struct batch *b)
{
    txn_free(s->ctx, b->sorted);
    txn_free(s->ctx, b->end);
    txn_free(s->ctx, b->mask);
    txn_split_free(s->ctx, &b->split);
}

/* Whether one of the batch's edges closes a cycle; takes the cycle. Empties the batch. */
static int close_one(struct scan *s, struct txn_rule rule, struct batch *b)
{
    int hit = b->count > 0 ? sweep(s, rule, b) : -1;
    b->count = 0;
    s->walk.work = INT64_MAX;
    return hit >= 0 &&
           txn_walk_find(s->ctx, s->csr, &s->walk, rule, NULL, b->to[hit], b->from[hit],
                         UINT32_MAX) &&
           take(s, b->from[hit]);
}

/* Decides G-single where the searches were too dear, and takes the first witness there is. */
static void decide_single(struct scan *s, const struct txn_split *within, struct txn_rule rule)
{
    const struct txn_csr *csr = s->csr;
    struct batch b;
    int done = batch_make(s, rule, &b) != TXN_DONE;
    for (uint32_t u = 0; u < csr->n_txns && !done; u++) {
        for (uint32_t p = csr->off[u]; p < csr->off[u + 1] && !done; p++) {
            uint32_t to = csr->to[p];
            if (csr->label[p] != TXN_RW || within->of[2 * to + 1] != within->of[2 * u] ||
                b.split.of[to] > b.split.of[u]) {
                continue;
            }
            b.from[b.count] = u;
            b.to[b.count++] = to;
            done = b.count == 64 && close_one(s, rule, &b);
        }
    }
    if (!done) {
        close_one(s, rule, &b);
    }
    batch_free(s, &b);
}

/* G-single and G-nonadjacent: closed walks whose rw edges are apart. */
static void apart(struct scan *s, unsigned dependencies, int between)
{
    struct txn_rule gate = {dependencies | BIT(TXN_RW), 1}, rule = {dependencies, 0};
    struct txn_split within;
    if (txn_split_make(s->ctx, s->csr, gate, &within) == TXN_DONE) {
        s->best_length = 0;
        s->minimal = 1;
        if (!s->found[TXN_G_SINGLE]) {
            if (rw_cycle(s, gate, &within, rule, 0)) {
                s->minimal = 0;
                decide_single(s, &within, rule);
            }
            report(s, TXN_G_SINGLE, between);
        }
        if (!s->found[TXN_G_SINGLE] && !s->found[TXN_G_NONADJACENT]) {
            s->best_length = 0;
            s->minimal = 1;
            rw_cycle(s, gate, &within, gate, 1);
            report(s, TXN_G_NONADJACENT, between);
        }
    }
    txn_split_free(s->ctx, &within);
}

static void classes(struct scan *s, unsigned extra, int between)
{
    struct txn_rule all = {BIT(TXN_WW) | BIT(TXN_WR) | BIT(TXN_RW) | extra, 0};
    struct txn_split split;
    int cyclic = 0;
    if (txn_split_make(s->ctx, s->csr, all, &split) == TXN_DONE) {
        for (uint32_t v = 0; v < s->csr->n_txns && !cyclic; v++) {
            cyclic = split.sizes[split.of[v]] > 1;
        }
    }
    if (cyclic && !s->found[TXN_G0]) {
        any_cycle(s, (struct txn_rule){BIT(TXN_WW) | extra, 0});
        report(s, TXN_G0, between);
    }
    if (cyclic && !s->found[TXN_G0] && !s->found[TXN_G1C]) {
        any_cycle(s, (struct txn_rule){BIT(TXN_WW) | BIT(TXN_WR) | extra, 0});
        report(s, TXN_G1C, between);
    }
    if (between == TXN_NO_ORDER && s->own != TXN_NONE && !s->found[TXN_G0] && !s->found[TXN_G1C]) {
        s->best[0] = s->own;
        s->best[1] = TXN_WR;
        s->best_length = s->minimal = 1;
        report(s, TXN_G1C, between);
    }
    if (cyclic && !s->found[TXN_G_SINGLE]) {
        apart(s, BIT(TXN_WW) | BIT(TXN_WR) | extra, between);
    }
    if (cyclic && !s->found[TXN_G_SINGLE] && !s->found[TXN_G_NONADJACENT] && !s->found[TXN_G2]) {
        s->best_length = 0;
        s->minimal = 1;
        rw_cycle(s, all, &split, all, 1);
        report(s, TXN_G2, between);
    }
    txn_split_free(s->ctx, &split);
}

int txn_classify_part(struct txn_ctx *c, const struct txn_csr *csr, const uint32_t *names,
                      int64_t component, uint32_t own)
{
    struct scan s = {.ctx = c, .csr = csr, .names = names, .component = component, .own = own};
    s.row = txn_alloc(c, HEAD + 2 * ((size_t)csr->n + 2), sizeof *s.row);
    s.best = s.row == NULL ? NULL : s.row + HEAD;
    if (s.row != NULL && csr->n_txns > 0 && txn_walk_make(c, csr, &s.walk) == TXN_DONE) {
        classes(&s, 0, TXN_NO_ORDER);
        if (c->options->between == TXN_PROCESS) {
            classes(&s, BIT(TXN_PROC), TXN_PROCESS);
        } else if (c->options->between == TXN_REALTIME) {
            classes(&s, BIT(TXN_RT), TXN_REALTIME);
        }
    }
    txn_walk_free(c, &s.walk);
    txn_free(c, s.row);
    return c->status;
}
