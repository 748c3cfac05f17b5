/* One search for an order. */
#ifndef DSTEST_ORD_STATE_H
#define DSTEST_ORD_STATE_H

#include "iso/iso_state.h"
#include "ord.h"

#define ORD_NONE UINT32_MAX

/* How demanding: which pairs of transactions are ordered beforehand. */
enum ord_between { ORD_PLAIN, ORD_SESSIONS, ORD_REALTIME };

/* What all searches in a history have in common. Versions are writes (final ones of transactions
 * that took effect), then one initial version per key. */
struct ord_history {
    struct txn_ctx *ctx;
    uint32_t n, n_keys, n_writes;
    uint32_t *name;     /* number in the columns */
    uint32_t *previous; /* in its session, or ORD_NONE */
    uint32_t *first_write, *write_key, *writer;
    uint32_t *first_read, *version;  /* of each read; one per transaction and key */
    uint32_t *first_reader, *reader; /* transactions that read version v */
    uint32_t n_open, n_candidates;   /* open reads: several versions may be what was read */
    uint32_t *first_open;            /* of transaction t */
    uint32_t *open_reader, *first_candidate;
    uint32_t *candidate, *candidate_of; /* a version; the open read that may have read it */
    uint32_t *candidate_at;             /* its place in the columns */
    uint32_t *invoked, *completed;      /* event positions; ORD_NONE: never, or not known */
    uint32_t disagreeing;           /* reads that differ from an earlier one of their transaction */
    uint32_t *involved, n_involved; /* in the circle that was met last */
};

struct ord_edge {
    uint32_t from, to, literal;
    uint32_t next_out, next_in;
};

/* The read of `reader` returned `older` and stands behind `newer`; or, without a reader, their
 * transactions overlap. Of an `open` read `older` is the candidate that was chosen, or ORD_NONE
 * where none is, and none stands last before the reader. */
struct ord_clash {
    uint32_t reader, older, newer, open;
};

struct ord_clashes {
    struct ord_clash *at;
    size_t used, cap;
};

/* Pair number p: literal 2 * p says that version a[p] comes before b[p], 2 * p + 1 the opposite.
 */
struct ord_pairs {
    uint32_t *a, *b;
    int8_t *value;            /* 1, -1 or 0 = open */
    uint32_t *level, *reason; /* reason: a clause, or ORD_NONE */
    uint8_t *seen;
    uint32_t *trail, *edge_mark;   /* mark: edges before the pair's own were made */
    uint32_t *level_start, *watch; /* watch: 2 per pair; clause * 2 + slot, or ORD_NONE */
    uint32_t used, cap, n_trail, to_clauses, to_edges, level_now;
    uint64_t *hash_key;
    uint32_t *hash_pair;
    size_t hash_slots;
};

/* Clauses lie one after the other: size, next in both watch lists, literals. */
struct ord_clauses {
    uint32_t *at;
    size_t used, cap;
};

struct ord {
    struct ord_history *of;
    struct txn_ctx *ctx;
    int snapshot;              /* two nodes per transaction */
    uint32_t nodes, own_nodes; /* own: those of transactions; then one per completion */

    uint32_t *out_first, *out, *in_first, *in; /* edges that are always there */
    struct ord_edge *edge;
    uint32_t n_edges;
    size_t edges_cap;
    uint32_t *head_out, *head_in;

    uint32_t *place, *node_at; /* the order, and its inverse where it was made last */
    uint32_t *older, *newer;   /* of write w: its neighbours among the writes of its key */
    uint32_t *oldest;          /* of each key */

    uint32_t *pair_of, *chosen_before;    /* of each candidate; before: the one chosen before it */
    uint32_t *chosen;                     /* of each open read, a candidate or ORD_NONE */
    uint32_t *first_chosen, *next_chosen; /* of version v the candidates that are chosen */

    uint32_t *mark, *parent, *via, stamp; /* of a search; via: literal of the edge, or ORD_NONE */
    uint32_t *queue, *queue2, *merged;
    uint64_t *sorted;

    uint32_t *lifted, *dirty, n_lifted, n_dirty; /* moved writes; transactions to look at again */
    size_t lifted_cap;
    uint8_t *is_lifted, *is_dirty;
    struct ord_clashes first, later; /* of the whole order; what moves have made since */
    size_t first_done;

    struct ord_pairs pairs;
    struct ord_clauses clauses;
    uint32_t *literals, n_literals; /* of a conflict, or why a literal holds */
    uint32_t *learnt;
    size_t literals_cap;
    int64_t choices, conflicts;
    int broken, leant; /* leant: on nodes of completions */
};

static inline int ord_failed(const struct ord *o)
{
    return o->ctx->status != TXN_DONE;
}

static inline uint32_t ord_begin(const struct ord *o, uint32_t txn)
{
    return o->snapshot ? 2 * txn : txn;
}

static inline uint32_t ord_commit(const struct ord *o, uint32_t txn)
{
    return o->snapshot ? 2 * txn + 1 : txn;
}

/* Of a node of a transaction. */
static inline uint32_t ord_txn(const struct ord *o, uint32_t node)
{
    return o->snapshot ? node / 2 : node;
}

/* Where a write takes effect. */
static inline uint32_t ord_written(const struct ord *o, uint32_t write)
{
    return o->place[ord_commit(o, o->of->writer[write])];
}

static inline uint32_t ord_key(const struct ord_history *h, uint32_t version)
{
    return version < h->n_writes ? h->write_key[version] : version - h->n_writes;
}

static inline int ord_value(const struct ord *o, uint32_t literal)
{
    int value = o->pairs.value[literal / 2];
    return literal & 1 ? -value : value;
}

/* Literals of items beyond the versions: an item with itself is a candidate that is read from, a
 * version with an item behind the candidates is one that comes before a transaction. */
static inline uint32_t ord_candidate_item(const struct ord_history *h, uint32_t candidate)
{
    return h->n_writes + h->n_keys + candidate;
}

static inline uint32_t ord_txn_item(const struct ord_history *h, uint32_t txn)
{
    return h->n_writes + h->n_keys + h->n_candidates + txn;
}

static inline int ord_is_ruled_out(const struct ord *o, uint32_t candidate)
{
    return o->pair_of[candidate] != ORD_NONE && ord_value(o, 2 * o->pair_of[candidate]) < 0;
}

/* From a resolved history. 0 where there is nothing to search: a version was read and overwritten
 * by two transactions, which is a lost update; they are involved. */
int ord_history_make(struct ord_history *h, const struct iso *from, const struct ord_reads *reads);
/* Refuses open reads that break the rules of ord.h; whoever may have been read from took effect, at
 * the end of all if nobody needs it. After iso_split and before iso_resolve. */
int ord_take_reads(struct iso *h, struct ord_reads *reads);
/* Open reads by `to`, the number of each position, and `version`, that of each write. */
void ord_copy_reads(struct ord_history *h, const struct ord_reads *reads, const uint32_t *to,
                    const uint32_t *version);

/* Nodes and the edges that are always there. 1, or 0 where these are a circle. With `slack` what
 * was invoked so many events after a completion counts as later, which only real time demands. */
int ord_build(struct ord *o, struct ord_history *h, int snapshot, enum ord_between between,
              uint32_t slack);
/* The order by time, as far as the edges let it. 0 where they are a circle. */
int ord_arrange(struct ord *o);

/* Adds an edge that holds while `literal` does (ORD_NONE: always), and moves what is in its way.
 * 0 where that makes a circle: `literals` has those of its edges. */
int ord_add_edge(struct ord *o, uint32_t from, uint32_t to, uint32_t literal);
void ord_drop_edges(struct ord *o, uint32_t kept);
/* Is a way from one node to another known? It is looked for nearby; 1 = yes, and `literals` has
 * those of its edges. */
int ord_leads(struct ord *o, uint32_t from, uint32_t to);

/* The neighbours of all writes, and all clashes, in the order of places. */
void ord_sweep(struct ord *o);
/* A transaction whose clashes may be other ones now. */
void ord_look_again(struct ord *o, uint32_t txn);
/* Takes the writes of a node that moves out of their lists, */
void ord_lift(struct ord *o, uint32_t node);
/* and puts all back when the moves are over. */
void ord_settle(struct ord *o);
/* The next clash that still is one, or 0. */
int ord_next_clash(struct ord *o, struct ord_clash *clash);

/* The literal that says that `first` comes before `then`. */
uint32_t ord_literal(struct ord *o, uint32_t first, uint32_t then);
void ord_choose(struct ord *o, uint32_t literal);
/* `literal` follows from those in `literals`. 0 = that refutes everything. */
int ord_follow(struct ord *o, uint32_t literal);
/* One of those in `literals`, two at least, of which nothing is known yet, holds. */
void ord_require_one(struct ord *o);
/* All that follows. 0 = it refutes everything. */
int ord_propagate(struct ord *o);

/* May an open read have read this version, by what is known? */
int ord_is_candidate(const struct ord *o, uint32_t open, uint32_t version);
/* Is no candidate chosen for it, and none the last one before it? */
int ord_lacks_source(const struct ord *o, uint32_t open);
/* Of any literal: it holds; the one that held last does no longer. */
void ord_source_holds(struct ord *o, uint32_t literal);
void ord_source_dropped(struct ord *o, uint32_t literal);
/* The clash of an open read. 0 = that refutes everything. */
int ord_deal_with_source(struct ord *o, const struct ord_clash *clash);

enum ord_answer ord_search(struct ord *o);
/* Is the order one that proves the model? Knows nothing of how it was found. */
int ord_replay(const struct ord *o, enum ord_between between);
void ord_drop(struct ord *o);

#endif
