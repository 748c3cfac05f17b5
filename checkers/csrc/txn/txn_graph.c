/* Edges to rows, process order, and realtime barriers. */
#include "txn_graph.h"

#include <string.h>

/* A fan this small is written out; a larger one gets virtual nodes. */
enum { FAN_WRITTEN_OUT = 3 };

int txn_graph_begin(struct txn_ctx *c, struct txn_graph *g, size_t edges_expected)
{
    memset(g, 0, sizeof *g);
    g->n = (uint32_t)c->in->n;
    g->cap = edges_expected;
    g->from = txn_alloc(c, g->cap, sizeof *g->from);
    g->arc = txn_alloc(c, g->cap, sizeof *g->arc);
    return c->status;
}

uint32_t txn_virtual(struct txn_ctx *c, struct txn_graph *g, size_t count)
{
    uint32_t first = g->n + g->virtuals;
    if (count > (UINT32_C(1) << (TXN_LABEL_SHIFT - 1)) - first) {
        c->status = TXN_MEMORY;
        return first;
    }
    g->virtuals += (uint32_t)count;
    return first;
}

/* Chain heads: forward node i reaches to[i] and forward node i + 1; backward node i reaches to[i]
 * and backward node i - 1. */
static void make_chains(struct txn_ctx *c, struct txn_graph *g, struct txn_fan *fan)
{
    fan->forward = txn_virtual(c, g, fan->count);
    fan->backward = txn_virtual(c, g, fan->count);
    for (uint32_t i = 0; i < fan->count && c->status == TXN_DONE; i++) {
        txn_edge(c, g, fan->forward + i, fan->to[i], TXN_PASS);
        txn_edge(c, g, fan->backward + i, fan->to[i], TXN_PASS);
        if (i + 1 < fan->count) {
            txn_edge(c, g, fan->forward + i, fan->forward + i + 1, TXN_PASS);
            txn_edge(c, g, fan->backward + i + 1, fan->backward + i, TXN_PASS);
        }
    }
}

void txn_fan_from(struct txn_ctx *c, struct txn_graph *g, struct txn_fan *fan, uint32_t from,
                  uint32_t rank, int label)
{
    if (fan->count <= FAN_WRITTEN_OUT) {
        for (uint32_t i = 0; i < fan->count; i++) {
            txn_edge(c, g, from, fan->to[i], label);
        }
        return;
    }
    if (fan->forward == TXN_NONE) {
        make_chains(c, g, fan);
    }
    uint32_t next = rank == TXN_NONE ? 0 : rank + 1;
    if (next < fan->count) {
        txn_edge(c, g, from, fan->forward + next, label);
    }
    if (rank != TXN_NONE && rank > 0) {
        txn_edge(c, g, from, fan->backward + rank - 1, label);
    }
}

static int make_rows(struct txn_ctx *c, struct txn_graph *g)
{
    size_t nodes = (size_t)g->n + g->virtuals;
    if (g->edges >= UINT32_MAX - 1) {
        c->status = TXN_MEMORY;
        return c->status;
    }
    g->off = txn_alloc(c, nodes + 2, sizeof *g->off);
    g->adj = txn_alloc(c, g->edges, sizeof *g->adj);
    if (c->status != TXN_DONE) {
        return c->status;
    }
    for (size_t i = 0; i < g->edges; i++) {
        g->off[g->from[i] + 2]++;
    }
    for (size_t i = 2; i < nodes + 2; i++) {
        g->off[i] += g->off[i - 1];
    }
    for (size_t i = 0; i < g->edges; i++) {
        g->adj[g->off[g->from[i] + 1]++] = g->arc[i];
    }
    txn_free(c, g->from);
    txn_free(c, g->arc);
    g->from = g->arc = NULL;
    return c->status;
}

uint32_t *txn_by_completion(struct txn_ctx *c)
{
    const struct txn_input *in = c->in;
    uint32_t *at = txn_alloc(c, (size_t)in->n_positions, sizeof *at);
    for (int64_t t = 0; at != NULL && t < in->n; t++) {
        if (in->complete_pos[t] >= 0) {
            if (at[in->complete_pos[t]] != 0) {
                txn_refuse(c, "two transactions complete at one position", t);
                return at;
            }
            at[in->complete_pos[t]] = (uint32_t)t + 1;
        }
    }
    return at;
}

static int make_sessions(struct txn_ctx *c, struct txn_graph *g)
{
    const struct txn_input *in = c->in;
    uint32_t *completed = txn_by_completion(c);
    uint32_t *last = txn_alloc(c, (size_t)in->n_processes, sizeof *last);
    g->next = txn_alloc(c, g->n, sizeof *g->next);
    if (c->status != TXN_DONE) {
        return c->status;
    }
    memset(g->next, 0xff, g->n * sizeof *g->next);
    for (int64_t p = 0; p < in->n_positions; p++) {
        uint32_t t = completed[p] - 1;
        if (completed[p] == 0 || in->outcome[t] != TXN_OK || in->process[t] < 0) {
            continue;
        }
        uint32_t before = last[in->process[t]];
        if (before != 0) {
            g->next[before - 1] = t;
        }
        last[in->process[t]] = t + 1;
    }
    txn_free(c, completed);
    txn_free(c, last);
    return c->status;
}

static int make_barriers(struct txn_ctx *c, struct txn_graph *g)
{
    const struct txn_input *in = c->in;
    uint32_t *completed = txn_by_completion(c);
    g->barrier = txn_alloc(c, g->n, sizeof *g->barrier);
    g->first = txn_alloc(c, (size_t)g->n + 1, sizeof *g->first);
    if (c->status != TXN_DONE) {
        return c->status;
    }
    memset(g->barrier, 0xff, g->n * sizeof *g->barrier);
    uint32_t invoked = 0;
    for (int64_t p = 0; p < in->n_positions; p++) {
        /* completions without invocation stand in the same order, at the completion */
        while (invoked < g->n && (in->invoke_pos[invoked] >= 0 ? in->invoke_pos[invoked]
                                                               : in->complete_pos[invoked]) <= p) {
            invoked++;
        }
        uint32_t t = completed[p] - 1;
        if (completed[p] != 0 && in->outcome[t] == TXN_OK) {
            g->barrier[t] = g->barriers;
            g->first[g->barriers++] = invoked;
        }
    }
    g->first[g->barriers] = g->n;
    txn_free(c, completed);
    return c->status;
}

int txn_graph_finish(struct txn_ctx *c, struct txn_graph *g)
{
    c->report->edges = (int64_t)g->edges;
    if (c->options->workload == TXN_RW_REGISTER) {
        c->report->edges += (int64_t)g->loops;
    }
    if (c->status == TXN_DONE && make_rows(c, g) == TXN_DONE) {
        if (c->options->between == TXN_PROCESS) {
            make_sessions(c, g);
        } else if (c->options->between == TXN_REALTIME) {
            make_barriers(c, g);
        }
    }
    return c->status;
}
