/* A history of registers, resolved: who read which write. */
#ifndef DSTEST_ISO_STATE_H
#define DSTEST_ISO_STATE_H

#include "iso.h"
#include "txn/txn_mem.h"

#define ISO_NONE UINT32_MAX

/* In `iso_write.txn`: not the transaction's last write of the key, or not committed. In
 * `iso.source`: the initial value of the key in the other bits; ISO_NONE has the bit as well. */
#define ISO_FLAG (UINT32_C(1) << 31)

struct iso_write {
    uint32_t key, txn;
};

/* `reader` read `key` from `after` and sees `before`, which wrote it. */
struct iso_edge {
    uint32_t before, after, reader, key;
};

/* Transactions are known by their position: first the order of completions, later one that holds
 * the edges. Writes and reads of one transaction are neighbours, those of later positions later. */
struct iso {
    struct txn_ctx *ctx;
    struct iso_report *report;
    uint32_t n, n_keys, n_sessions, n_writes, n_reads;

    uint32_t *name; /* number in the columns */
    uint32_t *session;
    uint32_t *previous; /* the transaction before it in its session, or ISO_NONE */
    uint32_t *first_read, *first_write;
    struct iso_write *write;
    uint32_t *value; /* of each write */
    uint32_t *source, *read_key;
    uint32_t *first_known, *known; /* of transaction t: those before it, known beforehand */
    uint8_t *live;                 /* of indeterminate transactions: somebody read from them */

    uint32_t *last;                   /* per key, while going through the positions: newest write */
    uint32_t *stale_txn, *stale_read; /* reads that returned another one */
    uint32_t n_stale, n_back;         /* back: reads from a later position */

    /* writes of key k in order: by_key[key_first[k]] ..., and where each write stands there */
    uint32_t *key_first, *by_key, *rank;
    /* the same, session by session (session << 32 | write); made when first needed */
    uint64_t *by_session;

    struct iso_edge *edge;
    size_t n_edges, edges_cap;
    uint32_t *window; /* first position of the window that a transaction is in, or ISO_NONE */
};

static inline int iso_failed(const struct iso *h)
{
    return h->ctx->status != TXN_DONE;
}

/* Memory for 32-bit numbers: zeroed, or all ISO_NONE. NULL with a status where there is none. */
uint32_t *iso_zeros(struct iso *h, size_t count);
uint32_t *iso_nones(struct iso *h, size_t count);

/* The transactions in order of completion, their writes and reads. */
int iso_split(struct iso *h);
/* `known` by position; after iso_split. */
int iso_take_known(struct iso *h, struct iso_known known);
/* Finds the write of each read, and what violates alone. */
int iso_resolve(struct iso *h);
/* `previous` from `session`, along the positions. */
int iso_link_sessions(struct iso *h);
/* Sessions in place of the history's own: paths of write-read edges. */
int iso_cover(struct iso *h);

/* Positions such that writers (and, with `sessions`, earlier transactions of a session) come
 * first, near the present ones: position -> present position. 0 where there is no such order. */
int iso_topological(struct iso *h, int sessions, uint32_t *order);
/* From such an order one by when the transactions probably happened. */
int iso_by_time(struct iso *h, int sessions, uint32_t *order);
/* Moves everything to new positions: order[new] = present. */
int iso_reorder(struct iso *h, const uint32_t *order);

int iso_index_keys(struct iso *h);

#endif
