/* rw-register: findings, version graphs and edges. */
#ifndef DSTEST_TXN_REGISTER_H
#define DSTEST_TXN_REGISTER_H

#include "txn_graph.h"
#include "txn_index.h"

/* What one transaction did to one key, seen from outside: the version that it read before it
 * wrote, and the version that it left; TXN_NONE where there is none. */
struct txn_use {
    uint32_t key, read, wrote;
};

/* Versions are numbered key by key: those of k are first[k] .. first[k + 1]. */
struct txn_versions {
    struct txn_ctx *ctx;
    struct txn_index index; /* `place` of a slot is its version */
    uint32_t count, *first;
    int32_t *value;
    uint32_t *key;
    uint32_t *writer; /* transaction whose last write of the key it is, or TXN_NONE */
    uint32_t *nil;    /* per key: the version nil, or TXN_NONE; also where nil is written */
    uint8_t *nil_written;
    struct txn_use *use; /* of transaction t: use_start[t] .. use_start[t + 1] */
    uint32_t *use_start;
    /* pairs of versions in order, as far as they are inferred */
    uint32_t *before, *after;
    size_t pairs, cap;
};

/* What a use found first, and what it left behind. A read of nil tells less than the write after
 * it. */
static inline uint32_t txn_found_by(const struct txn_versions *v, const struct txn_use *use)
{
    int plain = use->read == TXN_NONE || (v->nil[use->key] == use->read && use->wrote != TXN_NONE);
    return plain ? use->wrote : use->read;
}

static inline uint32_t txn_left_by(const struct txn_use *use)
{
    return use->wrote != TXN_NONE ? use->wrote : use->read;
}

int txn_versions_make(struct txn_versions *v);
void txn_versions_free(struct txn_versions *v);
/* Findings that need no order of versions. */
int txn_register_findings(struct txn_versions *v);

static inline void txn_pair(struct txn_versions *v, uint32_t a, uint32_t b)
{
    if (a == TXN_NONE || b == TXN_NONE || v->ctx->status != TXN_DONE) {
        return;
    }
    if (v->pairs == v->cap) {
        size_t cap = v->cap * 2 + 1024;
        v->before = txn_grow(v->ctx, v->before, v->cap, cap, sizeof *v->before);
        v->after = txn_grow(v->ctx, v->after, v->cap, cap, sizeof *v->after);
        v->cap = cap;
        if (v->ctx->status != TXN_DONE) {
            v->cap = v->pairs = 0;
            return;
        }
    }
    v->before[v->pairs] = a;
    v->after[v->pairs++] = b;
}

/* Adds each asked source's pairs; a source that makes versions cyclic is reported and dropped. */
int txn_infer_orders(struct txn_versions *v);

/* What a transaction read of a key comes before what it then wrote: where others are ordered by what
 * they found and left, the order goes on past such a one. */
void txn_carry_past(struct txn_versions *v);

/* Pairs from real time: what one transaction left of a key comes before what the next ones found
 * there. Next are those between whose invocation and the completion before it no third one fits. */
void txn_pairs_of_time(struct txn_versions *v);

/* Findings go to the report, edges to `g`. */
int txn_register_graph(struct txn_ctx *c, struct txn_graph *g);

#endif
