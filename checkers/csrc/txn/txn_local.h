/* Components as small graphs of their own, and the search for anomalies in them. */
#ifndef DSTEST_TXN_LOCAL_H
#define DSTEST_TXN_LOCAL_H

#include "txn_graph.h"

/* Components of two nodes or more: `member` start[i] .. start[i + 1]. */
struct txn_parts {
    uint32_t *member, *start;
    size_t used, cap, count, start_cap;
    const uint32_t *component; /* of every node */
    uint32_t *local;           /* scratch, one per node */
};

/* 1 where list-append transactions, executed in order of `place` (unique, below `nodes`), read what
 * they say they read, and in the order that the options ask for. `at` is scratch, one per node. */
int txn_replay(struct txn_ctx *c, const uint32_t *place, uint32_t *at, uint32_t nodes);

int txn_classify_parts(struct txn_ctx *c, const struct txn_graph *g, struct txn_parts *parts);

/* How a walk may go on. With `apart`, a rw edge may not follow a rw edge; then a state is
 * 2 * node + (1 after a rw edge), else it is the node. */
struct txn_rule {
    unsigned mask; /* bit per label; TXN_PASS is always allowed */
    int apart;
};

/* Where an arc leads from a state, or -1 where the rule forbids it. */
static inline int64_t txn_step(struct txn_rule rule, uint32_t state, uint32_t to, int label)
{
    if (label != TXN_PASS && !(rule.mask >> label & 1)) {
        return -1;
    }
    if (!rule.apart) {
        return to;
    }
    uint32_t after = state & 1;
    if (label == TXN_RW && after) {
        return -1;
    }
    after = label == TXN_PASS ? after : label == TXN_RW;
    return (int64_t)to * 2 + after;
}

/* Component of every state under a rule; edges between components lead to higher numbers.
 * `sizes` counts the states of each. */
struct txn_split {
    uint32_t *of, *sizes;
    uint32_t count;
};
int txn_split_make(struct txn_ctx *c, const struct txn_csr *csr, struct txn_rule rule,
                   struct txn_split *split);
void txn_split_free(struct txn_ctx *c, struct txn_split *split);

/* Reusable memory of breadth-first searches over at most 2 * n states. */
struct txn_walk {
    uint32_t *mark, *parent, *depth, *queue;
    uint32_t *path;        /* of the last search: nodes, from the start to before the goal */
    uint8_t *via, *labels; /* labels[i]: of the edge that leaves path[i] */
    uint32_t length, stamp;
    int64_t work; /* arcs that may still be looked at */
};
int txn_walk_make(struct txn_ctx *c, const struct txn_csr *csr, struct txn_walk *walk);
void txn_walk_free(struct txn_ctx *c, struct txn_walk *walk);

/* Shortest way, counted in transactions, from state `from` to state `goal` by one arc or more and
 * shorter than `limit`, inside the component of `goal` where `split` is given. 1 = found; a
 * search that runs out of work finds nothing. `from` may be virtual. */
int txn_walk_find(struct txn_ctx *c, const struct txn_csr *csr, struct txn_walk *walk,
                  struct txn_rule rule, const struct txn_split *split, uint32_t from, uint32_t goal,
                  uint32_t limit);

/* Anomalies of one component; `names` are the transactions behind its nodes, or NULL. `own` is a
 * node that read what it writes only later, or TXN_NONE. */
int txn_classify_part(struct txn_ctx *c, const struct txn_csr *csr, const uint32_t *names,
                      int64_t component, uint32_t own);

#endif
