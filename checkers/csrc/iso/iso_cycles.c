/* Strong components of a window (Tarjan 1972), and the shortest cycle through some of their
 * members. */
#include "iso_cycles.h"

/* How many members of a component, and of all of them, shortest cycles are looked for through. */
enum { PER_COMPONENT = 16, IN_ALL = 256 };

/* Predecessors of the window's positions, counted from `first`. */
struct local {
    enum iso_model model;
    uint32_t first, count;
    uint32_t *start, *from; /* predecessors of i: from[start[i]] .. */
    uint32_t *why; /* ISO_NONE: session; with the flag: number of an edge; else a read, or from
                      the number of reads on: known */
    uint32_t *number, *low, *open, *calls, *next, *component;
    uint32_t *seen, *parent, *via;
    uint32_t n_open, n_calls, numbered, tried, placed;
};

static void add(struct local *g, int fill, uint32_t before, uint32_t at, uint32_t why)
{
    if (before == ISO_NONE || before < g->first || before - g->first >= g->count) {
        return;
    }
    if (!fill) {
        g->start[at - g->first]++;
        return;
    }
    uint32_t place = --g->start[at - g->first];
    g->from[place] = before - g->first;
    g->why[place] = why;
}

static size_t first_edge(const struct iso *h, uint32_t after)
{
    size_t low = 0, high = h->n_edges;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (h->edge[middle].after < after) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void gather(const struct iso *h, struct local *g, int fill)
{
    uint32_t last = g->first + (g->count - 1);
    for (uint32_t at = g->first; at <= last; at++) {
        if (iso_with_sessions(g->model)) {
            add(g, fill, h->previous[at], at, ISO_NONE);
        }
        for (uint32_t r = h->first_read[at]; r < h->first_read[at + 1]; r++) {
            uint32_t w = h->source[r];
            add(g, fill, w & ISO_FLAG ? ISO_NONE : h->write[w].txn, at, r);
        }
        for (uint32_t i = h->first_known[at]; i < h->first_known[at + 1]; i++) {
            add(g, fill, h->known[i], at, h->n_reads);
        }
    }
    for (size_t e = first_edge(h, g->first); e < h->n_edges && h->edge[e].after <= last; e++) {
        add(g, fill, h->edge[e].before, h->edge[e].after, (uint32_t)e | ISO_FLAG);
    }
}

static int make(struct iso *h, struct local *g)
{
    size_t n = g->count;
    uint32_t **zeroed[] = {&g->number, &g->low,  &g->open, &g->calls,
                           &g->next,   &g->seen, &g->via,  &g->parent};
    g->start = iso_zeros(h, n + 1);
    g->component = iso_nones(h, n);
    for (size_t i = 0; i < sizeof zeroed / sizeof *zeroed; i++) {
        *zeroed[i] = iso_zeros(h, n);
    }
    if (iso_failed(h)) {
        return h->ctx->status;
    }
    gather(h, g, 0);
    uint32_t edges = 0;
    for (size_t i = 0; i < n; i++) {
        edges += g->start[i];
        g->start[i] = edges;
    }
    g->start[n] = edges;
    g->from = iso_zeros(h, edges);
    g->why = iso_zeros(h, edges);
    if (!iso_failed(h)) {
        gather(h, g, 1);
    }
    return h->ctx->status;
}

static void drop(struct iso *h, struct local *g)
{
    uint32_t *owned[] = {g->start, g->from, g->why,       g->number, g->low,    g->open,
                         g->calls, g->next, g->component, g->seen,   g->parent, g->via};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        txn_free(h->ctx, owned[i]);
    }
}

/* Breadth first from `root` to itself within its component. Length of the cycle, or 0; then
 * `parent` and `via` lead from each member to the one after it, `*last` is the edge into root. */
static uint32_t shortest(struct local *g, uint32_t root, uint32_t *queue, uint32_t *last)
{
    uint32_t head = 0, tail = 0;
    queue[tail++] = root;
    g->seen[root] = root + 1;
    while (head < tail) {
        uint32_t at = queue[head++];
        for (uint32_t e = g->start[at]; e < g->start[at + 1]; e++) {
            uint32_t before = g->from[e];
            if (g->component[before] != g->component[root]) {
                continue;
            }
            if (before == root) {
                uint32_t length = 1;
                g->parent[root] = at;
                *last = e;
                for (; at != root; at = g->parent[at]) {
                    length++;
                }
                return length;
            }
            if (g->seen[before] != root + 1) {
                g->seen[before] = root + 1;
                g->parent[before] = at;
                g->via[before] = e;
                queue[tail++] = before;
            }
        }
    }
    return 0;
}

/* By which transactions `reader` sees `from`, where that takes more than one of them: backwards
 * over read and session edges. Their number; they lie in `way` from `from` to `reader`. */
static uint32_t way_to(struct iso *h, enum iso_model model, uint32_t from, uint32_t reader,
                       uint32_t **way)
{
    uint32_t span = reader - from + 1, head = 0, tail = 0, length = 0;
    uint32_t *after = iso_nones(h, span), *queue = iso_zeros(h, span);
    *way = NULL;
    if (iso_failed(h)) {
        return 0;
    }
    queue[tail++] = reader;
    after[span - 1] = reader;
    while (head < tail && after[0] == ISO_NONE) {
        uint32_t at = queue[head++], count = h->first_read[at + 1] - h->first_read[at];
        for (uint32_t i = 0; i <= count; i++) {
            uint32_t before = h->previous[at];
            if (i < count) {
                uint32_t w = h->source[h->first_read[at] + i];
                before = w & ISO_FLAG ? ISO_NONE : h->write[w].txn;
            } else if (!iso_with_sessions(model)) {
                break;
            }
            if (before != ISO_NONE && before >= from && after[before - from] == ISO_NONE) {
                after[before - from] = at;
                queue[tail++] = before;
            }
        }
    }
    for (uint32_t at = from; after[0] != ISO_NONE; at = after[at - from]) {
        queue[length++] = h->name[at];
        if (at == reader) {
            break;
        }
    }
    txn_free(h->ctx, after);
    *way = queue;
    return length;
}

static int64_t named(const struct iso *h, uint32_t at)
{
    return at == ISO_NONE ? -1 : (int64_t)h->name[at];
}

static void push_step(struct iso *h, enum iso_model model, enum iso_reason reason, uint32_t from,
                      uint32_t to, const struct iso_edge *edge)
{
    uint32_t *way = NULL, length = 0;
    if (edge != NULL && iso_is_causal(model)) {
        length = way_to(h, model, from, edge->reader, &way);
    }
    int64_t row[] = {named(h, from),
                     named(h, to),
                     reason,
                     edge == NULL ? -1 : named(h, edge->reader),
                     edge == NULL ? -1 : (int64_t)edge->key,
                     (int64_t)length};
    struct txn_rows *steps = &h->report->rest.cycles;
    txn_push(h->ctx, steps, row, sizeof row / sizeof *row);
    for (uint32_t i = 0; i < length; i++) {
        int64_t at = way[i];
        txn_push(h->ctx, steps, &at, 1);
    }
    txn_free(h->ctx, way);
}

static void push_head(struct iso *h, enum iso_model model, uint32_t length)
{
    int64_t head[] = {model, length};
    txn_push(h->ctx, &h->report->rest.cycles, head, 2);
}

static void push_cycle(struct iso *h, const struct local *g, uint32_t root, uint32_t last,
                       uint32_t length)
{
    uint32_t at = root, edge = last;
    push_head(h, g->model, length);
    do {
        uint32_t to = g->parent[at], why = g->why[edge];
        if (why == ISO_NONE) {
            push_step(h, g->model, ISO_SESSION, at + g->first, to + g->first, NULL);
        } else if (why & ISO_FLAG) {
            push_step(h, g->model, ISO_SEEN, at + g->first, to + g->first,
                      &h->edge[why & ~ISO_FLAG]);
        } else if (why == h->n_reads) {
            push_step(h, ISO_COMMITTED, ISO_KNOWN, at + g->first, to + g->first, NULL);
        } else {
            struct iso_edge read = {0, 0, ISO_NONE, h->read_key[why]};
            push_step(h, ISO_COMMITTED, ISO_READ, at + g->first, to + g->first, &read);
        }
        at = to;
        edge = g->via[at];
    } while (at != root);
}

void iso_before_initial(struct iso *h, enum iso_model model, const struct iso_edge *edge)
{
    push_head(h, model, 1);
    push_step(h, model, ISO_INITIAL, edge->before, ISO_NONE, edge);
}

/* The members of a component lie in open[from] .. open[g->n_open]. */
static void shorten(struct iso *h, struct local *g, uint32_t from, uint32_t end, uint32_t *best)
{
    uint32_t *queue = g->calls + g->n_calls; /* as much room as there are members */
    for (uint32_t i = from; i < end && i - from < PER_COMPONENT && g->tried<IN_ALL && * best> 2;
         i++, g->tried++) {
        uint32_t last = 0, length = shortest(g, g->open[i], queue, &last);
        h->ctx->budget.work += end - from;
        if (length > 0 && length < *best) {
            *best = length;
            push_cycle(h, g, g->open[i], last, length);
        }
    }
}

/* `v` is done; where it is the root of a component that is taken off. 1 where that is a cycle. */
static int finish(struct iso *h, struct local *g, uint32_t v, uint32_t *order, uint32_t *best)
{
    if (g->n_calls > 0) {
        uint32_t caller = g->calls[g->n_calls - 1];
        g->low[caller] = g->low[v] < g->low[caller] ? g->low[v] : g->low[caller];
    }
    if (g->low[v] != g->number[v]) {
        return 0;
    }
    uint32_t end = g->n_open, member;
    do {
        member = g->open[--g->n_open];
        g->component[member] = v;
        if (order != NULL) {
            order[g->first + g->placed++] = member + g->first;
        }
    } while (member != v);
    if (end - g->n_open < 2) {
        return 0;
    }
    shorten(h, g, g->n_open, end, best);
    return 1;
}

static void enter(struct local *g, uint32_t v)
{
    g->number[v] = g->low[v] = ++g->numbered;
    g->next[v] = g->start[v];
    g->open[g->n_open++] = v;
    g->calls[g->n_calls++] = v;
}

int iso_cycles(struct iso *h, enum iso_model model, uint32_t first, uint32_t last, uint32_t *order,
               uint32_t *best)
{
    struct local g = {.model = model, .first = first, .count = last - first + 1};
    int found = 0;
    if (make(h, &g) == TXN_DONE) {
        for (uint32_t root = 0; root < g.count && txn_tick(h->ctx) == TXN_DONE; root++) {
            if (g.number[root] != 0) {
                continue;
            }
            enter(&g, root);
            while (g.n_calls > 0) {
                uint32_t v = g.calls[g.n_calls - 1];
                if (g.next[v] == g.start[v + 1]) {
                    g.n_calls--;
                    found |= finish(h, &g, v, order, best);
                    continue;
                }
                uint32_t before = g.from[g.next[v]++];
                if (g.number[before] == 0) {
                    enter(&g, before);
                } else if (g.component[before] == ISO_NONE && g.number[before] < g.low[v]) {
                    g.low[v] = g.number[before];
                }
            }
        }
    }
    drop(h, &g);
    return found;
}
