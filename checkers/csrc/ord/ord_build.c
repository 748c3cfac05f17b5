/* Nodes, the edges that are always there, and the first order. */
#include "ord_state.h"

#include <string.h>

static uint32_t *take(struct ord *o, size_t count)
{
    return txn_alloc(o->ctx, count, sizeof(uint32_t));
}

static uint32_t *take_none(struct ord *o, size_t count)
{
    uint32_t *p = take(o, count);
    if (p != NULL) {
        memset(p, 0xff, count * sizeof *p);
    }
    return p;
}

/* Counts an edge, or fills it in. */
struct filler {
    struct ord *o;
    int fill;
};

static void edge(const struct filler *f, uint32_t from, uint32_t to)
{
    struct ord *o = f->o;
    if (!f->fill) {
        o->out_first[from + 1]++;
        o->in_first[to + 1]++;
        return;
    }
    /* they point behind the row while it is filled */
    o->out[--o->out_first[from + 1]] = to;
    o->in[--o->in_first[to + 1]] = from;
}

static void edges_of(const struct filler *f, enum ord_between between)
{
    struct ord *o = f->o;
    const struct ord_history *h = o->of;
    for (uint32_t t = 0; t < h->n; t++) {
        if (o->snapshot) {
            edge(f, ord_begin(o, t), ord_commit(o, t));
        }
        uint32_t before = between == ORD_PLAIN ? ORD_NONE : h->previous[t];
        if (before != ORD_NONE) {
            edge(f, ord_commit(o, before), ord_begin(o, t));
        }
        for (uint32_t r = h->first_read[t]; r < h->first_read[t + 1]; r++) {
            if (h->version[r] < h->n_writes) {
                edge(f, ord_commit(o, h->writer[h->version[r]]), ord_begin(o, t));
            }
        }
    }
}

/* Per event position: how many transactions had completed up to and with it. */
static uint32_t *completions(struct ord *o, uint32_t *count)
{
    const struct ord_history *h = o->of;
    size_t positions = (size_t)o->ctx->in->n_positions;
    uint32_t *upto = take(o, positions + 1);
    for (uint32_t t = 0; upto != NULL && t < h->n; t++) {
        if (h->completed[t] != ORD_NONE) {
            upto[h->completed[t] + 1] = 1;
        }
    }
    for (size_t p = 0; upto != NULL && p < positions; p++) {
        upto[p + 1] += upto[p];
    }
    *count = upto == NULL ? 0 : upto[positions];
    return upto;
}

/* Real time goes through one node per completion: what completed, then the next completion, then
 * what was invoked after it, by `slack` events at least. */
static void edges_of_time(const struct filler *f, const uint32_t *upto, uint32_t count,
                          uint32_t slack)
{
    struct ord *o = f->o;
    const struct ord_history *h = o->of;
    if (count == 0) {
        return;
    }
    for (uint32_t i = 0; i + 1 < count; i++) {
        edge(f, o->own_nodes + i, o->own_nodes + i + 1);
    }
    for (uint32_t t = 0; t < h->n; t++) {
        if (h->completed[t] != ORD_NONE) {
            edge(f, ord_commit(o, t), o->own_nodes + upto[h->completed[t]]);
        }
        if (h->invoked[t] != ORD_NONE && h->invoked[t] >= slack &&
            upto[h->invoked[t] - slack] > 0) {
            edge(f, o->own_nodes + upto[h->invoked[t] - slack] - 1, ord_begin(o, t));
        }
    }
}

static void add_up(uint32_t *first, uint32_t nodes)
{
    for (uint32_t v = 0; v < nodes; v++) {
        first[v + 1] += first[v];
    }
}

static void fill_edges(struct ord *o, enum ord_between between, uint32_t slack)
{
    uint32_t count = 0, *upto = NULL;
    if (between == ORD_REALTIME || slack > 0) {
        upto = completions(o, &count);
    }
    o->nodes = o->own_nodes + count;
    o->out_first = take(o, (size_t)o->nodes + 2);
    o->in_first = take(o, (size_t)o->nodes + 2);
    if (ord_failed(o)) {
        return;
    }
    struct filler f = {o, 0};
    edges_of(&f, between);
    edges_of_time(&f, upto, count, slack);
    add_up(o->out_first, o->nodes);
    add_up(o->in_first, o->nodes);
    o->out = take(o, (size_t)o->out_first[o->nodes] + 1);
    o->in = take(o, (size_t)o->in_first[o->nodes] + 1);
    if (ord_failed(o)) {
        return;
    }
    uint32_t edges = o->out_first[o->nodes];
    f.fill = 1;
    edges_of(&f, between);
    edges_of_time(&f, upto, count, slack);
    /* every row's end has become its start */
    memmove(o->out_first, o->out_first + 1, o->nodes * sizeof *o->out_first);
    memmove(o->in_first, o->in_first + 1, o->nodes * sizeof *o->in_first);
    o->out_first[o->nodes] = o->in_first[o->nodes] = edges;
    txn_free(o->ctx, upto);
}

static void make_rest(struct ord *o)
{
    size_t nodes = o->nodes, n = o->of->n;
    uint32_t **zeros[] = {&o->place, &o->node_at, &o->mark,   &o->parent,
                          &o->via,   &o->queue,   &o->queue2, &o->merged};
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++) {
        *zeros[i] = take(o, nodes + 1);
    }
    o->head_out = take_none(o, nodes);
    o->head_in = take_none(o, nodes);
    o->older = take_none(o, o->of->n_writes);
    o->newer = take_none(o, o->of->n_writes);
    o->oldest = take_none(o, o->of->n_keys);
    o->sorted = txn_alloc(o->ctx, nodes + 1, sizeof *o->sorted);
    if (o->of->n_open > 0) {
        o->pair_of = take_none(o, o->of->n_candidates);
        o->chosen_before = take_none(o, o->of->n_candidates);
        o->next_chosen = take_none(o, o->of->n_candidates);
        o->first_chosen = take_none(o, o->of->n_writes);
        o->chosen = take_none(o, o->of->n_open);
    }
    o->dirty = take(o, n);
    o->is_dirty = txn_alloc(o->ctx, n, 1);
    o->is_lifted = txn_alloc(o->ctx, (size_t)o->of->n_writes + 1, 1);
}

int ord_build(struct ord *o, struct ord_history *h, int snapshot, enum ord_between between,
              uint32_t slack)
{
    memset(o, 0, sizeof *o);
    o->of = h;
    o->ctx = h->ctx;
    o->snapshot = snapshot;
    o->own_nodes = snapshot ? 2 * h->n : h->n;
    fill_edges(o, between, slack);
    if (!ord_failed(o)) {
        make_rest(o);
    }
    return ord_failed(o) || ord_arrange(o);
}

/* A heap of nodes by time. */
struct heap {
    uint32_t *node, *time, used;
};

static void push(struct heap *heap, uint32_t node, uint32_t time)
{
    uint32_t i = heap->used++;
    while (i > 0 && heap->time[(i - 1) / 2] > time) {
        heap->node[i] = heap->node[(i - 1) / 2];
        heap->time[i] = heap->time[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap->node[i] = node;
    heap->time[i] = time;
}

static uint32_t pop(struct heap *heap)
{
    uint32_t top = heap->node[0], node = heap->node[--heap->used], time = heap->time[heap->used];
    uint32_t i = 0, child;
    while ((child = 2 * i + 1) < heap->used) {
        if (child + 1 < heap->used && heap->time[child + 1] < heap->time[child]) {
            child++;
        }
        if (heap->time[child] >= time) {
            break;
        }
        heap->node[i] = heap->node[child];
        heap->time[i] = heap->time[child];
        i = child;
    }
    heap->node[i] = node;
    heap->time[i] = time;
    return top;
}

/* Snapshots are as old as the invocation; what commits does so by its completion. */
static uint32_t time_of(const struct ord *o, uint32_t node)
{
    if (node >= o->own_nodes) {
        return 0;
    }
    uint32_t t = ord_txn(o, node), begun = o->of->invoked[t], ended = o->of->completed[t];
    int begins = o->snapshot && node == ord_begin(o, t);
    if (begins) {
        return begun == ORD_NONE ? ended : begun;
    }
    return ended == ORD_NONE ? begun : ended;
}

/* One that `node` waits for, and that was not placed either. */
static uint32_t waited_for(const struct ord *o, const uint32_t *left, uint32_t node)
{
    uint32_t e = o->in_first[node];
    while (left[o->in[e]] == 0) {
        e++;
    }
    return o->in[e];
}

/* What was not placed waits for one another in a circle. */
static void involve_circle(struct ord *o, const uint32_t *left)
{
    uint32_t at = 0;
    while (left[at] == 0) {
        at++;
    }
    for (uint32_t i = 0; i < o->nodes; i++) {
        at = waited_for(o, left, at); /* on one after so many steps */
    }
    uint32_t start = at;
    o->of->n_involved = 0;
    do {
        if (at < o->own_nodes) {
            o->of->involved[o->of->n_involved++] = ord_txn(o, at);
        }
        at = waited_for(o, left, at);
    } while (at != start);
}

int ord_arrange(struct ord *o)
{
    struct heap heap = {take(o, (size_t)o->nodes + 1), take(o, (size_t)o->nodes + 1), 0};
    uint32_t *left = o->mark, placed = 0; /* what a node waits for */
    for (uint32_t v = 0; !ord_failed(o) && v < o->nodes; v++) {
        left[v] = o->in_first[v + 1] - o->in_first[v];
        if (left[v] == 0) {
            push(&heap, v, time_of(o, v));
        }
    }
    while (!ord_failed(o) && heap.used > 0) {
        uint32_t v = pop(&heap);
        o->place[v] = placed++;
        for (uint32_t e = o->out_first[v]; e < o->out_first[v + 1]; e++) {
            if (--left[o->out[e]] == 0) {
                push(&heap, o->out[e], time_of(o, o->out[e]));
            }
        }
    }
    txn_free(o->ctx, heap.node);
    txn_free(o->ctx, heap.time);
    if (!ord_failed(o) && placed < o->nodes) {
        involve_circle(o, left);
    }
    if (!ord_failed(o)) {
        memset(o->mark, 0, o->nodes * sizeof *o->mark);
    }
    return ord_failed(o) || placed == o->nodes;
}

void ord_drop(struct ord *o)
{
    struct ord_pairs *p = &o->pairs;
    void *owned[] = {
        o->out_first, o->out,       o->in_first,      o->in,           o->edge,
        o->head_out,  o->head_in,   o->place,         o->node_at,      o->older,
        o->newer,     o->oldest,    o->mark,          o->parent,       o->via,
        o->queue,     o->queue2,    o->merged,        o->lifted,       o->dirty,
        o->is_lifted, o->is_dirty,  o->first.at,      o->later.at,     p->a,
        p->b,         p->value,     p->level,         p->reason,       p->seen,
        p->trail,     p->edge_mark, p->level_start,   p->watch,        p->hash_key,
        p->hash_pair, o->literals,  o->clauses.at,    o->learnt,       o->sorted,
        o->pair_of,   o->chosen,    o->chosen_before, o->first_chosen, o->next_chosen,
    };
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        txn_free(o->ctx, owned[i]);
    }
}
