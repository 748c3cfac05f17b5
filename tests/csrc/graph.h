/* Small graphs for the CSR entry point, and whether the cycles that come back are in them. */
#ifndef DSTEST_TEST_GRAPH_H
#define DSTEST_TEST_GRAPH_H

#include "txn/txn.h"

#include <stdio.h>

enum { NODES = 24, EDGES = 80 };

struct graph {
    uint32_t off[NODES + 2], to[EDGES];
    uint8_t label[EDGES];
    struct txn_csr csr;
};

static int fail(const char *why)
{
    fprintf(stderr, "%s\n", why);
    return 1;
}

/* May one go from a to b by an edge of that label, through virtual nodes only? */
static int joined(const struct graph *g, uint32_t a, uint32_t b, int label)
{
    uint8_t seen[NODES] = {0};
    uint32_t todo[NODES * 2], used = 0;
    for (uint32_t p = g->off[a]; p < g->off[a + 1]; p++) {
        if (g->label[p] != label) {
            continue;
        }
        if (g->to[p] == b) {
            return 1;
        }
        if (g->to[p] >= g->csr.n_txns && !seen[g->to[p]]) {
            seen[g->to[p]] = 1;
            todo[used++] = g->to[p];
        }
    }
    /* inside virtual nodes any label goes that the classes allow: only reachability is checked */
    while (used > 0) {
        uint32_t v = todo[--used];
        for (uint32_t p = g->off[v]; p < g->off[v + 1]; p++) {
            if (g->to[p] == b) {
                return 1;
            }
            if (g->to[p] >= g->csr.n_txns && !seen[g->to[p]]) {
                seen[g->to[p]] = 1;
                todo[used++] = g->to[p];
            }
        }
    }
    return 0;
}

static int check_cycles(const struct graph *g, const struct txn_report *report)
{
    const int64_t *row = report->cycles.at;
    for (size_t i = 0; i < report->cycles.used;) {
        int64_t type = row[i + 1], length = row[i + 4], rw = 0;
        const int64_t *body = row + i + 5;
        if (type < 0 || type >= TXN_CYCLES || length < 1 || length > (int64_t)g->csr.n_txns) {
            return fail("a cycle of no known type or length");
        }
        for (int64_t j = 0; j < length; j++) {
            int64_t next = body[2 * ((j + 1) % length)];
            rw += body[2 * j + 1] == TXN_RW;
            if (body[2 * j] < 0 || body[2 * j] >= (int64_t)g->csr.n_txns ||
                !joined(g, (uint32_t)body[2 * j], (uint32_t)next, (int)body[2 * j + 1])) {
                return fail("a cycle with an edge that is not there");
            }
        }
        if ((type < TXN_G_SINGLE && rw != 0) || (type == TXN_G_SINGLE && rw == 0)) {
            return fail("a cycle of the wrong class");
        }
        i += 5 + 2 * (size_t)length;
    }
    return 0;
}

#endif
