/* list-append: version orders, findings and edges. */
#ifndef DSTEST_TXN_LIST_H
#define DSTEST_TXN_LIST_H

#include "txn_graph.h"
#include "txn_index.h"

/* The place of a version that a read shows, and the key's version order does not. */
#define TXN_SHOWN (TXN_NONE - 1)

/* What is known of one key. Its version order is its longest read, each element once. */
struct txn_list_key {
    uint32_t longest; /* micro-op that read it, plus one; 0 = no read but of the empty list */
    uint32_t versions;
    uint32_t base; /* of its versions in `order` */
    uint32_t bad;  /* prefixes from this length on hold a garbage, failed or repeated element */
    uint8_t twice, incompatible;
    struct txn_fan tail; /* transactions whose append nobody saw, after all that was seen */
};

/* What the transaction being read did to a key so far; micro-ops are plus one, 0 = none. */
struct txn_touch {
    uint32_t stamp; /* the transaction, plus one */
    uint32_t first_read, last_read, last_write;
    uint32_t since; /* writes after last_read */
    uint8_t updated;
};

/* A read of a version outside the key's order that its transaction replaces. */
struct txn_odd {
    int64_t key;
    uint64_t hash;
    uint32_t mop;
};

struct txn_list {
    struct txn_ctx *ctx;
    struct txn_index index;
    struct txn_graph graph;
    struct txn_list_key *keys;
    uint32_t *order; /* writer of each version, as in txn_index; TXN_NONE = nobody */
    uint32_t *tails;
    struct txn_touch *touch; /* per key */
    uint32_t *updater; /* per key and version: first external read that was replaced, plus one */
    struct txn_odd *odd;
    size_t odds, odd_cap;
};

/* Fills `list`, whose index is made; findings go to the report and edges to list->graph. */
int txn_list_orders(struct txn_list *list);
int txn_list_reads(struct txn_list *list);
/* Edges from a transaction that saw or wrote the last version of key k to the key's tail. */
void txn_list_to_tail(struct txn_list *list, int64_t k, uint32_t from, int label);
void txn_list_free(struct txn_list *list);

/* Whether the read `rival` gives its key's version order rather than `holder`, equally long. */
int txn_tie_won(const struct txn_input *in, int64_t rival, int64_t holder);

/* Elements of the list that micro-op i read. */
static inline const int32_t *txn_elems(const struct txn_input *in, int64_t i, uint32_t *count)
{
    *count = (uint32_t)(in->elem_start[i + 1] - in->elem_start[i]);
    return in->elem + in->elem_start[i];
}

static inline int txn_is_read(const struct txn_input *in, int64_t t, int64_t i)
{
    return in->mop_kind[i] == TXN_READ && in->outcome[t] == TXN_OK && in->mop_known[i];
}

#endif
