/* The graph of transactions: explicit edges in rows, process and realtime order implied. */
#ifndef DSTEST_TXN_GRAPH_H
#define DSTEST_TXN_GRAPH_H

#include "txn_mem.h"

#define TXN_LABEL_SHIFT 29
#define TXN_TO(arc) ((arc) & ((UINT32_C(1) << TXN_LABEL_SHIFT) - 1))
#define TXN_LABEL(arc) ((arc) >> TXN_LABEL_SHIFT)
#define TXN_ARC(to, label) ((uint32_t)(to) | (uint32_t)(label) << TXN_LABEL_SHIFT)

/* Nodes: transactions, then virtual nodes, then (realtime) one barrier per completion of an ok
 * transaction, in order of completion. */
struct txn_graph {
    uint32_t *from, *arc; /* edges as they are found */
    size_t edges, cap;
    uint8_t *own; /* rw-register: transactions that read what they write only later; or NULL */
    size_t loops; /* edges that were left out because they lead to their own start */
    uint32_t n, virtuals, barriers;
    uint32_t *off, *adj; /* rows of transactions and virtual nodes */
    uint32_t *next;      /* process: the session's next ok transaction, or TXN_NONE */
    uint32_t *barrier;   /* realtime: a transaction's own barrier, or TXN_NONE */
    uint32_t *first;     /* realtime: barrier b reaches transactions first[b] .. first[b + 1] */
};

/* Edges go from transaction or virtual node to the same; self-edges are left out. */
static inline void txn_edge(struct txn_ctx *c, struct txn_graph *g, uint32_t from, uint32_t to,
                            int label)
{
    if (from == to || c->status != TXN_DONE) {
        g->loops += from == to;
        return;
    }
    if (g->edges == g->cap) {
        size_t cap = g->cap * 2 + 1024;
        g->from = txn_grow(c, g->from, g->cap, cap, sizeof *g->from);
        g->arc = txn_grow(c, g->arc, g->cap, cap, sizeof *g->arc);
        g->cap = cap;
        if (c->status != TXN_DONE) {
            g->cap = g->edges = 0;
            return;
        }
    }
    g->from[g->edges] = from;
    g->arc[g->edges++] = TXN_ARC(to, label);
}

int txn_graph_begin(struct txn_ctx *c, struct txn_graph *g, size_t edges_expected);
/* Numbers of `count` new virtual nodes, the first of them. */
uint32_t txn_virtual(struct txn_ctx *c, struct txn_graph *g, size_t count);

/* Whole sets of edges, each from one node to all of `to` but itself, in linear space: */
struct txn_fan {
    const uint32_t *to;
    uint32_t count;
    uint32_t forward, backward; /* chains of virtual nodes, or TXN_NONE while they are not made */
};
/* `from` -> all of `fan`. `rank` is the position of `from` in the fan, or TXN_NONE. */
void txn_fan_from(struct txn_ctx *c, struct txn_graph *g, struct txn_fan *fan, uint32_t from,
                  uint32_t rank, int label);

/* By position: the transaction that completes there plus one, or 0. Refuses two at one. */
uint32_t *txn_by_completion(struct txn_ctx *c);

/* Rows, and the implied order that the options ask for. */
int txn_graph_finish(struct txn_ctx *c, struct txn_graph *g);

/* Cycles of the finished graph: components, classes, witnesses. */
int txn_components(struct txn_ctx *c, const struct txn_graph *g);

#endif
