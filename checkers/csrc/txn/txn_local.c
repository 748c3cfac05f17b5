/* Cuts each component out of the graph, with implied edges written out. */
#include "txn_local.h"

/* Steps through the arcs of one node of the whole graph. */
struct cursor {
    const struct txn_ctx *ctx;
    const struct txn_graph *graph;
    uint32_t node, at, end;
    int last;
};

static struct cursor arcs_of(const struct txn_ctx *c, const struct txn_graph *g, uint32_t v)
{
    uint32_t rows = g->n + g->virtuals;
    if (v < rows) {
        return (struct cursor){c, g, v, g->off[v], g->off[v + 1], 0};
    }
    return (struct cursor){c, g, v, g->first[v - rows], g->first[v - rows + 1], 0};
}

static int next_arc(struct cursor *k, uint32_t *to, int *label)
{
    const struct txn_graph *g = k->graph;
    uint32_t rows = g->n + g->virtuals;
    while (k->at < k->end) {
        uint32_t p = k->at++;
        *to = k->node < rows ? TXN_TO(g->adj[p]) : p;
        *label = k->node < rows ? (int)TXN_LABEL(g->adj[p]) : TXN_PASS;
        if (k->node < rows || k->ctx->in->invoke_pos[p] >= 0) {
            return 1;
        }
    }
    if (k->last) {
        return 0;
    }
    k->last = 1;
    if (k->node >= rows) {
        *to = k->node + 1;
        *label = TXN_PASS;
        return k->node + 1 < rows + g->barriers;
    }
    if (k->node < g->n && g->next != NULL) {
        *to = g->next[k->node];
        *label = TXN_PROC;
        return *to != TXN_NONE;
    }
    if (k->node < g->n && g->barrier != NULL && g->barrier[k->node] != TXN_NONE) {
        *to = rows + g->barrier[k->node];
        *label = TXN_RT;
        return 1;
    }
    return 0;
}

/* Transactions first, the rest after them; returns how many transactions. */
static uint32_t partition(uint32_t *member, uint32_t n, uint32_t n_txns)
{
    uint32_t txns = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (member[i] < n_txns) {
            uint32_t t = member[i];
            member[i] = member[txns];
            member[txns++] = t;
        }
    }
    return txns;
}

static int classify_one(struct txn_ctx *c, const struct txn_graph *g, struct txn_parts *parts,
                        size_t which)
{
    uint32_t *member = parts->member + parts->start[which];
    uint32_t n = parts->start[which + 1] - parts->start[which];
    uint32_t txns = partition(member, n, g->n), to;
    int label;
    size_t edges = 0;
    for (uint32_t i = 0; i < n; i++) {
        parts->local[member[i]] = i;
        for (struct cursor k = arcs_of(c, g, member[i]); next_arc(&k, &to, &label);) {
            edges += parts->component[to] == parts->component[member[0]];
        }
    }
    c->report->components += txns > 1;
    c->report->largest = txns > c->report->largest ? txns : c->report->largest;
    uint32_t *off = txn_alloc(c, (size_t)n + 1, sizeof *off);
    uint32_t *target = txn_alloc(c, edges, sizeof *target);
    uint8_t *labels = txn_alloc(c, edges, sizeof *labels);
    uint32_t *at = txn_alloc(c, n, sizeof *at); /* of the last edge to a node, plus one */
    if (c->status != TXN_DONE) {
        return c->status;
    }
    uint32_t used = 0;
    for (uint32_t i = 0; i < n; i++) {
        off[i] = used;
        for (struct cursor k = arcs_of(c, g, member[i]); next_arc(&k, &to, &label);) {
            if (parts->component[to] != parts->component[member[0]]) {
                continue;
            }
            uint32_t w = parts->local[to];
            /* as in Elle, a pair counts with its strongest dependency alone; an order beside it
             * counts, too, since the dependency may be of no use to a stronger class */
            if (at[w] > off[i] && label <= TXN_RW) {
                uint8_t *old = &labels[at[w] - 1];
                *old = (uint8_t)label < *old ? (uint8_t)label : *old;
                continue;
            }
            target[used] = w;
            labels[used++] = (uint8_t)label;
            at[w] = used;
        }
    }
    off[n] = used;
    txn_free(c, at);
    struct txn_csr csr = {off, target, labels, n, txns, used};
    uint32_t own = TXN_NONE;
    for (uint32_t i = 0; g->own != NULL && i < txns && own == TXN_NONE; i++) {
        own = g->own[member[i]] ? i : TXN_NONE;
    }
    txn_classify_part(c, &csr, member, (int64_t)which, own);
    txn_free(c, labels);
    txn_free(c, target);
    txn_free(c, off);
    return c->status;
}

int txn_classify_parts(struct txn_ctx *c, const struct txn_graph *g, struct txn_parts *parts)
{
    for (size_t i = 0; i < parts->count && txn_tick(c) == TXN_DONE; i++) {
        classify_one(c, g, parts, i);
        c->report->undecided = (int64_t)(parts->count - i - (c->status == TXN_DONE));
    }
    return c->status;
}
