/* The order and the edges that it holds. */
#include "ord_state.h"

#include <stdlib.h>
#include <string.h>

/* A way that is longer than this is not looked for: what is not known is chosen. */
#ifndef ORD_NEARBY
#define ORD_NEARBY 400
#endif

static int grow_edges(struct ord *o)
{
    if (o->n_edges == o->edges_cap) {
        size_t cap = 2 * o->edges_cap + 1024;
        o->edge = txn_grow(o->ctx, o->edge, o->n_edges, cap, sizeof *o->edge);
        o->edges_cap = cap;
    }
    return o->ctx->status;
}

/* The literals on the way from `from` to `to` that a search has left in `parent` and `via`. */
static void gather(struct ord *o, uint32_t from, uint32_t to)
{
    o->of->n_involved = 0;
    for (uint32_t v = from;; v = o->parent[v]) {
        if (v < o->own_nodes) {
            o->of->involved[o->of->n_involved++] = ord_txn(o, v);
        } else {
            o->leant = 1;
        }
        if (v == to) {
            return;
        }
        uint32_t literal = o->via[v], known = literal == ORD_NONE;
        for (uint32_t i = 0; i < o->n_literals && !known; i++) {
            known = o->literals[i] == literal;
        }
        if (!known) {
            o->literals[o->n_literals++] = literal;
        }
    }
}

/* In a search: `next` is reached from `at`. 1 where that is the goal. */
static int reach(struct ord *o, uint32_t at, uint32_t next, uint32_t literal, uint32_t goal,
                 uint32_t *tail)
{
    if (o->mark[next] == o->stamp) {
        return 0;
    }
    o->mark[next] = o->stamp;
    o->parent[next] = at;
    o->via[next] = literal;
    o->queue[(*tail)++] = next;
    return next == goal;
}

/* All that comes after `from`, no further than the place of `goal`. 1 where the goal is met; then
 * `parent` leads from it to `from`. */
static int forwards(struct ord *o, uint32_t from, uint32_t goal, uint32_t *count)
{
    uint32_t head = 0, tail = 0, limit = o->place[goal];
    int met = 0;
    o->stamp++;
    met = reach(o, from, from, ORD_NONE, goal, &tail);
    while (head < tail && !met) {
        uint32_t at = o->queue[head++];
        for (uint32_t e = o->out_first[at]; e < o->out_first[at + 1] && !met; e++) {
            if (o->place[o->out[e]] <= limit) {
                met = reach(o, at, o->out[e], ORD_NONE, goal, &tail);
            }
        }
        for (uint32_t e = o->head_out[at]; e != ORD_NONE && !met; e = o->edge[e].next_out) {
            if (o->place[o->edge[e].to] <= limit) {
                met = reach(o, at, o->edge[e].to, o->edge[e].literal, goal, &tail);
            }
        }
    }
    o->ctx->budget.work += tail;
    *count = tail;
    return met;
}

/* All that comes before `from`, no further than `limit`, goes to `queue2`. */
static uint32_t backwards(struct ord *o, uint32_t from, uint32_t limit)
{
    uint32_t head = 0, tail = 0;
    o->stamp++;
    o->mark[from] = o->stamp;
    o->queue2[tail++] = from;
    while (head < tail) {
        uint32_t at = o->queue2[head++];
        for (uint32_t e = o->in_first[at]; e < o->in_first[at + 1]; e++) {
            uint32_t before = o->in[e];
            if (o->place[before] >= limit && o->mark[before] != o->stamp) {
                o->mark[before] = o->stamp;
                o->queue2[tail++] = before;
            }
        }
        for (uint32_t e = o->head_in[at]; e != ORD_NONE; e = o->edge[e].next_in) {
            uint32_t before = o->edge[e].from;
            if (o->place[before] >= limit && o->mark[before] != o->stamp) {
                o->mark[before] = o->stamp;
                o->queue2[tail++] = before;
            }
        }
    }
    o->ctx->budget.work += tail;
    return tail;
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void sort_by_place(struct ord *o, uint32_t *node, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        o->sorted[i] = (uint64_t)o->place[node[i]] << 32 | node[i];
    }
    qsort(o->sorted, count, sizeof *o->sorted, ascending);
    for (uint32_t i = 0; i < count; i++) {
        node[i] = (uint32_t)o->sorted[i];
    }
}

/* What comes before gets the first of the places that both have, what comes after the others. */
static void move(struct ord *o, uint32_t after, uint32_t before)
{
    uint32_t i = 0, j = 0, used = 0;
    sort_by_place(o, o->queue, after);
    sort_by_place(o, o->queue2, before);
    while (i < after || j < before) {
        int first = j == before || (i < after && o->place[o->queue[i]] < o->place[o->queue2[j]]);
        o->merged[used++] = o->place[first ? o->queue[i++] : o->queue2[j++]];
    }
    for (i = 0; i < before; i++) {
        ord_lift(o, o->queue2[i]);
        o->place[o->queue2[i]] = o->merged[i];
    }
    for (i = 0; i < after; i++) {
        ord_lift(o, o->queue[i]);
        o->place[o->queue[i]] = o->merged[before + i];
    }
    ord_settle(o);
}

int ord_add_edge(struct ord *o, uint32_t from, uint32_t to, uint32_t literal)
{
    o->n_literals = 0;
    if (grow_edges(o) != TXN_DONE) {
        return 1;
    }
    if (o->place[from] >= o->place[to]) {
        uint32_t after;
        if (forwards(o, to, from, &after)) {
            gather(o, from, to);
            if (literal != ORD_NONE) {
                o->literals[o->n_literals++] = literal;
            }
            return 0;
        }
        move(o, after, backwards(o, from, o->place[to]));
    }
    o->edge[o->n_edges] = (struct ord_edge){from, to, literal, o->head_out[from], o->head_in[to]};
    o->head_out[from] = o->head_in[to] = o->n_edges++;
    return 1;
}

void ord_drop_edges(struct ord *o, uint32_t kept)
{
    while (o->n_edges > kept) {
        const struct ord_edge *edge = &o->edge[--o->n_edges];
        o->head_out[edge->from] = edge->next_out;
        o->head_in[edge->to] = edge->next_in;
    }
}

int ord_leads(struct ord *o, uint32_t from, uint32_t to)
{
    uint32_t head = 0, tail = 0, limit = o->place[from];
    int met = 0;
    o->n_literals = 0;
    if (limit > o->place[to]) {
        return 0;
    }
    o->stamp++;
    met = reach(o, to, to, ORD_NONE, from, &tail);
    while (head < tail && tail < ORD_NEARBY && !met) {
        uint32_t at = o->queue[head++];
        for (uint32_t e = o->head_in[at]; e != ORD_NONE && !met; e = o->edge[e].next_in) {
            if (o->place[o->edge[e].from] >= limit) {
                met = reach(o, at, o->edge[e].from, o->edge[e].literal, from, &tail);
            }
        }
        for (uint32_t e = o->in_first[at]; e < o->in_first[at + 1] && !met; e++) {
            if (o->place[o->in[e]] >= limit) {
                met = reach(o, at, o->in[e], ORD_NONE, from, &tail);
            }
        }
    }
    o->ctx->budget.work += tail;
    if (met) {
        gather(o, from, to);
    }
    return met;
}
