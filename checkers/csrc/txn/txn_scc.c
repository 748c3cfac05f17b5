/* Strongly connected components of the whole graph, by Pearce's one-array form of Tarjan's
 * algorithm (Information Processing Letters 116, 2016), without recursion.
 *
 * Roots are taken from the end: most edges lead forward in time, so that what a node reaches is
 * mostly finished already and the stack stays short. */
#include "txn_graph.h"
#include "txn_local.h"

#include <string.h>

#define FINISHED (UINT32_C(1) << 31)

struct search {
    struct txn_ctx *ctx;
    const struct txn_graph *graph;
    uint32_t rows, nodes;
    uint32_t *index; /* 0 = not seen; then order of visit; then FINISHED with the component */
    uint32_t *at;    /* next arc of a node on the path */
    uint32_t *stack; /* path from below, waiting members from above */
    uint8_t *root;
    uint32_t path, waiting, visits, component;
    struct txn_parts *parts;
};

/* Arcs of v are numbered `at` .. `end`; the last one is implied and may be absent. */
static uint32_t first_arc(const struct search *s, uint32_t v)
{
    return v < s->rows ? s->graph->off[v] : s->graph->first[v - s->rows];
}

static void enter(struct search *s, uint32_t v)
{
    s->stack[s->path++] = v;
    s->index[v] = ++s->visits;
    s->root[v] = 1;
    s->at[v] = first_arc(s, v);
}

static void keep_part(struct search *s, uint32_t v)
{
    struct txn_parts *parts = s->parts;
    uint32_t size = 1, from = s->waiting;
    while (from < s->nodes && s->index[s->stack[from]] >= s->index[v]) {
        from++;
        size++;
    }
    if (parts->used + size > parts->cap) {
        size_t cap = parts->cap * 2 + size + 256;
        parts->member = txn_grow(s->ctx, parts->member, parts->used, cap, sizeof *parts->member);
        parts->cap = cap;
    }
    if (parts->count + 1 >= parts->start_cap) {
        size_t cap = parts->start_cap * 2 + 64;
        parts->start = txn_grow(s->ctx, parts->start, parts->start_cap, cap, sizeof *parts->start);
        parts->start_cap = cap;
    }
    if (s->ctx->status != TXN_DONE) {
        return;
    }
    memcpy(parts->member + parts->used, s->stack + s->waiting, (size - 1) * sizeof *s->stack);
    parts->member[parts->used + size - 1] = v;
    parts->used += size;
    parts->start[++parts->count] = parts->used;
}

static void leave(struct search *s, uint32_t v)
{
    s->path--;
    if (!s->root[v]) {
        s->stack[--s->waiting] = v;
        return;
    }
    if (s->waiting < s->nodes && s->index[s->stack[s->waiting]] >= s->index[v]) {
        keep_part(s, v);
    }
    uint32_t mine = s->index[v];
    s->visits--;
    while (s->waiting < s->nodes && s->index[s->stack[s->waiting]] >= mine) {
        s->index[s->stack[s->waiting++]] = s->component | FINISHED;
        s->visits--;
    }
    s->index[v] = s->component-- | FINISHED;
}

/* Follows arcs of v until one leads to a new node, which is entered, or all are done. */
static void advance(struct search *s, uint32_t v)
{
    const struct txn_graph *g = s->graph;
    const uint32_t *adj = v < s->rows ? g->adj : NULL;
    uint32_t end = v < s->rows ? g->off[v + 1] : g->first[v - s->rows + 1];
    uint32_t p = s->at[v], low = s->index[v], extra = TXN_NONE;
    if (v >= s->rows) {
        extra = v + 1 < s->nodes ? v + 1 : TXN_NONE;
    } else if (v < g->n && g->next != NULL) {
        extra = g->next[v];
    } else if (v < g->n && g->barrier != NULL && g->barrier[v] != TXN_NONE) {
        extra = s->rows + g->barrier[v];
    }
    for (; p <= end; p++) {
        uint32_t w = p == end ? extra : adj != NULL ? TXN_TO(adj[p]) : p;
        if (w == TXN_NONE || (adj == NULL && p < end && s->ctx->in->invoke_pos[w] < 0)) {
            continue;
        }
        uint32_t seen = s->index[w];
        if (seen == 0) {
            s->at[v] = p;
            s->index[v] = low;
            enter(s, w);
            return;
        }
        if (seen < low) {
            low = seen;
            s->root[v] = 0;
        }
    }
    s->index[v] = low;
    leave(s, v);
}

int txn_components(struct txn_ctx *c, const struct txn_graph *g)
{
    struct txn_parts parts = {0};
    struct search s = {.ctx = c, .graph = g, .rows = g->n + g->virtuals, .parts = &parts};
    s.nodes = s.rows + g->barriers;
    s.index = txn_alloc(c, s.nodes, sizeof *s.index);
    s.at = txn_alloc(c, s.nodes, sizeof *s.at);
    s.stack = txn_alloc(c, s.nodes, sizeof *s.stack);
    s.root = txn_alloc(c, s.nodes, sizeof *s.root);
    parts.start = txn_alloc(c, 64, sizeof *parts.start);
    parts.start_cap = 64;
    s.waiting = s.nodes;
    s.component = s.nodes;
    for (uint32_t r = s.rows; r-- > 0 && c->status == TXN_DONE;) {
        if (s.index[r] != 0) {
            continue;
        }
        enter(&s, r);
        while (s.path > 0 && txn_tick(c) == TXN_DONE) {
            advance(&s, s.stack[s.path - 1]);
        }
    }
    txn_free(c, s.stack);
    txn_free(c, s.root);
    if (c->status == TXN_DONE && parts.count == 0 && c->options->workload == TXN_LIST_APPEND) {
        for (uint32_t v = 0; v < s.nodes; v++) {
            s.index[v] = (s.index[v] & ~FINISHED) - 1;
        }
        c->report->proved = txn_replay(c, s.index, s.at, s.nodes);
    } else if (c->status == TXN_DONE) {
        parts.component = s.index;
        parts.local = s.at;
        txn_classify_parts(c, g, &parts);
    }
    return c->status;
}
