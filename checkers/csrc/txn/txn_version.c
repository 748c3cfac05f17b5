/* rw-register: orders of versions from the sources that the options name. */
#include "txn_local.h"
#include "txn_register.h"

#include <stdlib.h>
#include <string.h>

/* A transaction that replaced what it had read put its own version after that. One that read what
 * it wrote only later puts a version after itself: all its readers then come before its writer. */
static void from_wfr(struct txn_versions *v)
{
    const struct txn_input *in = v->ctx->in;
    for (int64_t t = 0; t < in->n && txn_tick(v->ctx) == TXN_DONE; t++) {
        for (uint32_t u = v->use_start[t]; u < v->use_start[t + 1]; u++) {
            txn_pair(v, v->use[u].read, v->use[u].wrote);
        }
    }
}

/* Ok transactions (plus one) by the position of their completion. */
static uint32_t *completions(struct txn_ctx *c)
{
    const struct txn_input *in = c->in;
    uint32_t *at = txn_alloc(c, (size_t)in->n_positions, sizeof *at);
    for (int64_t t = 0; at != NULL && t < in->n; t++) {
        if (in->outcome[t] != TXN_OK) {
            continue;
        }
        if (at[in->complete_pos[t]] != 0) {
            txn_refuse(c, "two transactions complete at one position", t);
            return at;
        }
        at[in->complete_pos[t]] = (uint32_t)t + 1;
    }
    return at;
}

/* Each session sees a key's versions in order. */
static void from_sessions(struct txn_versions *v)
{
    struct txn_ctx *c = v->ctx;
    const struct txn_input *in = c->in;
    size_t slots = 64;
    while (slots < 2 * (size_t)v->use_start[in->n]) {
        slots *= 2;
    }
    uint64_t *name = txn_alloc(c, slots, sizeof *name);
    uint32_t *last = txn_alloc(c, slots, sizeof *last);
    uint32_t *completed = completions(c);
    txn_carry_past(v);
    for (int64_t p = 0; c->status == TXN_DONE && p < in->n_positions; p++) {
        int64_t t = (int64_t)completed[p] - 1;
        if (t < 0 || in->process[t] < 0 || txn_tick(c) != TXN_DONE) {
            continue;
        }
        for (uint32_t u = v->use_start[t]; u < v->use_start[t + 1]; u++) {
            uint64_t want = ((uint64_t)in->process[t] << 32 | v->use[u].key) + 1;
            size_t i = txn_mix(in->process[t], (int32_t)v->use[u].key) & (slots - 1);
            while (name[i] != 0 && name[i] != want) {
                i = (i + 1) & (slots - 1);
            }
            if (name[i] != 0) {
                uint32_t now = txn_found_by(v, &v->use[u]);
                txn_pair(v, now == last[i] ? TXN_NONE : last[i], now);
            }
            name[i] = want;
            last[i] = txn_left_by(&v->use[u]);
        }
    }
    txn_free(c, name);
    txn_free(c, last);
    txn_free(c, completed);
}

struct ranked {
    int64_t rank;
    uint32_t t;
};

static int by_rank(const void *a, const void *b)
{
    int64_t x = ((const struct ranked *)a)->rank, y = ((const struct ranked *)b)->rank;
    return (x > y) - (x < y);
}

/* Writes take effect in the order that was given for their transactions. */
static void from_given_order(struct txn_versions *v)
{
    struct txn_ctx *c = v->ctx;
    const struct txn_input *in = c->in;
    struct ranked *order = txn_alloc(c, (size_t)in->n, sizeof *order);
    uint32_t *last = txn_alloc(c, (size_t)in->n_keys, sizeof *last);
    size_t used = 0;
    for (int64_t t = 0; c->status == TXN_DONE && t < in->n; t++) {
        if (in->order[t] >= 0) {
            order[used++] = (struct ranked){in->order[t], (uint32_t)t};
        }
    }
    if (used > 0) {
        qsort(order, used, sizeof *order, by_rank);
    }
    for (size_t i = 0; i < used; i++) {
        for (uint32_t u = v->use_start[order[i].t]; u < v->use_start[order[i].t + 1]; u++) {
            const struct txn_use *use = &v->use[u];
            if (use->wrote != TXN_NONE) {
                txn_pair(v, last[use->key] - 1, use->wrote); /* 0 - 1 = TXN_NONE */
                last[use->key] = use->wrote + 1;
            }
        }
    }
    txn_free(c, order);
    txn_free(c, last);
}

/* Pairs, and nil before the rest, as rows: counted first, then filled in. */
struct rows {
    uint32_t *off, *to;
    int fill;
};

static void row(struct rows *r, uint32_t from, uint32_t to)
{
    if (r->fill) {
        r->to[r->off[from + 1]++] = to;
    } else {
        r->off[from + 2]++;
    }
}

static void all_rows(const struct txn_versions *v, struct rows *r)
{
    for (size_t p = 0; p < v->pairs; p++) {
        row(r, v->before[p], v->after[p]);
    }
    for (int64_t k = 0; k < v->ctx->in->n_keys; k++) {
        uint32_t nil = v->nil_written[k] ? TXN_NONE : v->nil[k];
        for (uint32_t i = v->first[k]; nil != TXN_NONE && i < v->first[k + 1]; i++) {
            if (i != nil) {
                row(r, nil, i);
            }
        }
    }
}

/* Reports each component of two versions or more; returns how many. */
static int report_cycles(struct txn_versions *v, const struct txn_split *split, uint32_t nodes,
                         int source)
{
    /* per component its first version, plus one; a second one makes it a cycle */
    uint32_t *first = txn_alloc(v->ctx, nodes, sizeof *first);
    uint8_t *reported = txn_alloc(v->ctx, nodes, sizeof *reported);
    int cycles = 0;
    for (uint32_t i = 0; v->ctx->status == TXN_DONE && i < v->count; i++) {
        uint32_t in = split->of[i];
        if (split->sizes[in] < 2 || reported[in]) {
            continue;
        }
        if (first[in] == 0) {
            first[in] = i + 1;
            continue;
        }
        reported[in] = 1;
        cycles++;
        txn_find(v->ctx, (struct txn_found){TXN_CYCLIC_VERSIONS, v->key[i], v->value[first[in] - 1],
                                            -1, source, -1, -1, v->value[i]});
    }
    txn_free(v->ctx, first);
    txn_free(v->ctx, reported);
    return cycles;
}

/* Cycles of versions with all that is inferred so far. */
static int cycles_with(struct txn_versions *v, int source)
{
    struct txn_ctx *c = v->ctx;
    uint32_t n = v->count;
    size_t edges = v->pairs + n;
    struct rows r = {.fill = 0};
    struct txn_split split = {NULL, NULL, 0};
    int cycles = 0;
    r.off = txn_alloc(c, (size_t)n + 2, sizeof *r.off);
    r.to = txn_alloc(c, edges, sizeof *r.to);
    uint8_t *label = txn_alloc(c, edges, sizeof *label);
    if (c->status == TXN_DONE && edges >= UINT32_MAX) {
        c->status = TXN_MEMORY;
    }
    if (c->status == TXN_DONE) {
        all_rows(v, &r);
        for (uint32_t i = 0; i < n; i++) {
            r.off[i + 2] += r.off[i + 1];
        }
        r.fill = 1;
        all_rows(v, &r);
        struct txn_csr csr = {r.off, r.to, label, n, n, r.off[n]};
        if (txn_split_make(c, &csr, (struct txn_rule){0, 0}, &split) == TXN_DONE) {
            cycles = report_cycles(v, &split, n, source);
        }
    }
    txn_free(c, r.off);
    txn_free(c, r.to);
    txn_free(c, label);
    txn_split_free(c, &split);
    return cycles;
}

int txn_infer_orders(struct txn_versions *v)
{
    static void (*const sources[])(struct txn_versions *) = {from_wfr, from_sessions,
                                                             txn_pairs_of_time, from_given_order};
    for (int i = 0; i < 4 && v->ctx->status == TXN_DONE; i++) {
        int source = 1 << i;
        if (!(v->ctx->options->sources & source) ||
            (source == TXN_GIVEN_ORDER && v->ctx->in->order == NULL)) {
            continue;
        }
        size_t kept = v->pairs;
        sources[i](v);
        if (cycles_with(v, source) > 0) {
            v->pairs = kept;
        }
    }
    return v->ctx->status;
}
