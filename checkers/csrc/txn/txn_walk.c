/* Components and shortest walks of one component's graph, under a rule. */
#include "txn_local.h"

#include <string.h>

#define FINISHED (UINT32_C(1) << 31)

static uint32_t states_of(const struct txn_csr *csr, struct txn_rule rule)
{
    return rule.apart ? 2 * csr->n : csr->n;
}

struct tarjan {
    uint32_t *index, *at, *stack;
    uint8_t *root;
    uint32_t states, path, waiting, visits;
};

static void enter(struct tarjan *s, const struct txn_csr *csr, struct txn_rule rule, uint32_t v)
{
    s->stack[s->path++] = v;
    s->index[v] = ++s->visits;
    s->root[v] = 1;
    s->at[v] = csr->off[rule.apart ? v / 2 : v];
}

/* One node further, or the top of the path is left. */
static void advance(struct tarjan *s, const struct txn_csr *csr, struct txn_rule rule,
                    struct txn_split *split)
{
    uint32_t v = s->stack[s->path - 1], end = csr->off[(rule.apart ? v / 2 : v) + 1];
    while (s->at[v] < end) {
        uint32_t p = s->at[v];
        int64_t w = txn_step(rule, v, csr->to[p], csr->label[p]);
        if (w >= 0 && s->index[w] == 0) {
            enter(s, csr, rule, (uint32_t)w);
            return;
        }
        if (w >= 0 && s->index[w] < s->index[v]) {
            s->index[v] = s->index[w];
            s->root[v] = 0;
        }
        s->at[v]++;
    }
    s->path--;
    if (!s->root[v]) {
        s->stack[--s->waiting] = v;
        return;
    }
    uint32_t mine = s->index[v], number = s->states - 1 - split->count;
    split->sizes[number] = 1;
    s->visits--;
    while (s->waiting < s->states && s->index[s->stack[s->waiting]] >= mine) {
        uint32_t w = s->stack[s->waiting++];
        s->index[w] = number | FINISHED;
        split->sizes[number]++;
        s->visits--;
    }
    s->index[v] = number | FINISHED;
    split->count++;
}

int txn_split_make(struct txn_ctx *c, const struct txn_csr *csr, struct txn_rule rule,
                   struct txn_split *split)
{
    struct tarjan s = {.states = states_of(csr, rule)};
    split->count = 0;
    split->of = s.index = txn_alloc(c, s.states, sizeof *s.index);
    split->sizes = txn_alloc(c, s.states, sizeof *split->sizes);
    s.at = txn_alloc(c, s.states, sizeof *s.at);
    s.stack = txn_alloc(c, s.states, sizeof *s.stack);
    s.root = txn_alloc(c, s.states, sizeof *s.root);
    s.waiting = s.states;
    for (uint32_t r = 0; r < s.states && c->status == TXN_DONE; r++) {
        if (s.index[r] == 0) {
            enter(&s, csr, rule, r);
        }
        while (s.path > 0 && txn_tick(c) == TXN_DONE) {
            advance(&s, csr, rule, split);
        }
    }
    for (uint32_t v = 0; v < s.states && c->status == TXN_DONE; v++) {
        split->of[v] &= ~FINISHED;
    }
    txn_free(c, s.at);
    txn_free(c, s.stack);
    txn_free(c, s.root);
    return c->status;
}

void txn_split_free(struct txn_ctx *c, struct txn_split *split)
{
    txn_free(c, split->of);
    txn_free(c, split->sizes);
    split->of = split->sizes = NULL;
}

int txn_walk_make(struct txn_ctx *c, const struct txn_csr *csr, struct txn_walk *walk)
{
    size_t states = 2 * (size_t)csr->n;
    memset(walk, 0, sizeof *walk);
    walk->mark = txn_alloc(c, states, sizeof *walk->mark);
    walk->parent = txn_alloc(c, states, sizeof *walk->parent);
    walk->depth = txn_alloc(c, states, sizeof *walk->depth);
    walk->queue = txn_alloc(c, 2 * states, sizeof *walk->queue);
    walk->path = txn_alloc(c, states + 1, sizeof *walk->path);
    walk->via = txn_alloc(c, states, sizeof *walk->via);
    walk->labels = txn_alloc(c, states + 1, sizeof *walk->labels);
    return c->status;
}

void txn_walk_free(struct txn_ctx *c, struct txn_walk *walk)
{
    void *owned[] = {walk->mark, walk->parent, walk->depth, walk->queue,
                     walk->path, walk->via,    walk->labels};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        txn_free(c, owned[i]);
    }
}

/* Writes the path that ends in `last`, whose next arc leads to the goal. */
static void trace(struct txn_walk *walk, struct txn_rule rule, uint32_t from, uint32_t last,
                  int label)
{
    uint32_t length = 0;
    for (uint32_t v = last;; v = walk->parent[v]) {
        walk->path[length] = rule.apart ? v / 2 : v;
        walk->labels[length++] = (uint8_t)label;
        label = walk->via[v];
        if (v == from) {
            break;
        }
    }
    for (uint32_t i = 0; i < length / 2; i++) {
        uint32_t v = walk->path[i];
        uint8_t b = walk->labels[i];
        walk->path[i] = walk->path[length - 1 - i];
        walk->labels[i] = walk->labels[length - 1 - i];
        walk->path[length - 1 - i] = v;
        walk->labels[length - 1 - i] = b;
    }
    walk->length = length;
}

int txn_walk_find(struct txn_ctx *c, const struct txn_csr *csr, struct txn_walk *walk,
                  struct txn_rule rule, const struct txn_split *split, uint32_t from, uint32_t goal,
                  uint32_t limit)
{
    /* virtual nodes cost nothing: they go to the front of the queue, which starts in its middle */
    uint32_t head = states_of(csr, rule), tail = head;
    uint32_t stamp = ++walk->stamp;
    walk->queue[tail++] = from;
    walk->mark[from] = stamp;
    walk->depth[from] = 0;
    while (head < tail && walk->work > 0 && txn_tick(c) == TXN_DONE) {
        uint32_t v = walk->queue[head++], node = rule.apart ? v / 2 : v;
        for (uint32_t p = csr->off[node]; p < csr->off[node + 1]; p++) {
            int64_t step = txn_step(rule, v, csr->to[p], csr->label[p]);
            walk->work--;
            if (step == (int64_t)goal) {
                trace(walk, rule, from, v, csr->label[p]);
                return 1;
            }
            uint32_t w = (uint32_t)step, cost = csr->to[p] < csr->n_txns;
            if (step < 0 || walk->mark[w] == stamp || walk->depth[v] + cost >= limit ||
                (split != NULL && split->of[w] != split->of[goal])) {
                continue;
            }
            walk->mark[w] = stamp;
            walk->depth[w] = walk->depth[v] + cost;
            walk->parent[w] = v;
            walk->via[w] = csr->label[p];
            if (cost == 0 && head > 0) {
                walk->queue[--head] = w;
            } else {
                walk->queue[tail++] = w;
            }
        }
    }
    return 0;
}
