/* What the files of the stream share. */
#ifndef DSTEST_STREAM_STATE_H
#define DSTEST_STREAM_STATE_H

#include "ingest/ingest_part.h"
#include "stream.h"
#include "stream_map.h"

/* Integers below it are their own codes; other scalars have those from here on. */
#define STREAM_DIRECT (UINT64_C(1) << 36)
#define STREAM_NO_CODE UINT64_MAX

/* Low bits of what a set keeps in one word. */
#define STREAM_WORD 6
#define STREAM_LOW(code) ((unsigned)(code) & ((1u << STREAM_WORD) - 1))

struct stream_mop {
    uint32_t key;
    uint8_t kind, known; /* as in struct ing_mop */
    uint64_t value;      /* what is appended; of a read the length of its list */
};

/* Of a transaction that failed no micro-ops are kept, of an unknown one its appends, of one that is
 * ok appends and known reads. */
struct stream_txn {
    int64_t begin, end; /* ns */
    int64_t op_id, line;
    uint64_t process;
    struct stream_txn *next; /* of those that wait for the same key, or are ready */
    uint32_t mop, own;       /* the micro-op that does not fit, as txn_execute.c has it */
    uint32_t n;
    uint8_t outcome;
    uint8_t started, executed;
    uint8_t demanded; /* unknown: somebody read what it appended */
    struct stream_mop mops[];
};

/* A key that transactions of the window name. Its list is base elements that are in the hash of
 * the key, and `value`: what is committed, and what reads say that is to follow. */
struct stream_hot {
    uint64_t *value;
    uint32_t *readers; /* of each version from base: transactions to come that see it as the last */
    uint32_t cap;      /* of `value`; one more of `readers` */
    uint32_t base, pinned; /* pinned: the length of the longest read */
    uint32_t uses;         /* micro-ops of transactions that are kept */
    struct stream_txn *waiting;
    /* what the transaction at work did to it */
    uint64_t stamp;
    uint32_t own;
    uint8_t read, known;
};

struct stream_key {
    uint64_t code;
    uint64_t hash[2]; /* of the first hot->base elements, or of all where there is no hot */
    struct stream_hot *hot;
    uint32_t length; /* committed */
    uint32_t wanted; /* lines that name it are selected */
};

struct stream {
    struct core_budget budget;
    int64_t window_bytes;
    int status;
    struct ing_error error;
    struct ing_part part;
    size_t part_bytes; /* of its memory that are charged to the budget */
    ING_ARRAY(uint64_t) value_code, process_code;
    ING_ARRAY(uint32_t) key_number; /* by id in the part */
    int64_t lines;                  /* before the text at work */
    int headed;

    struct ing_names others;
    struct stream_map key_of, ends, ids, appended, unknown;
    ING_ARRAY(struct stream_key) key;
    ING_ARRAY(uint64_t) involved;

    /* read and not yet begun, by time: a ring */
    struct stream_txn **queue;
    int64_t queue_cap, queue_head, queue_n, queue_bytes;
    /* begun and not over: a heap by their ends */
    ING_ARRAY(struct stream_txn *) open;
    struct stream_txn *ready;
    int64_t now;
    uint64_t stamp;
    struct stream_report report;
};

static inline size_t stream_txn_size(uint32_t n)
{
    return sizeof(struct stream_txn) + n * sizeof(struct stream_mop);
}

/* Says that there is no way on, and returns it. */
static inline int stream_spent(struct stream *s, int status)
{
    s->status = s->status == STREAM_GOING ? status : s->status;
    return s->status;
}

/* stream_keys.c: codes of scalars, and the lists of keys. */
uint64_t stream_code(struct stream *s, const struct ing_scalar *scalar);
/* The number of a key, or -1 where memory is out. */
int64_t stream_key_of(struct stream *s, uint64_t code);
/* One more use of a key: its list, or NULL where memory is out. */
struct stream_hot *stream_use(struct stream *s, uint32_t key);
/* One less. */
void stream_leave(struct stream *s, uint32_t key);
/* Room for elements below `length`. 0, or -1 where memory is out. */
int stream_room(struct stream *s, struct stream_hot *hot, uint64_t length);
/* One more element in the hash of a list. */
void stream_hash(uint64_t hash[2], uint64_t value);

static inline struct stream_hot *stream_touched(struct stream *s, uint32_t key)
{
    struct stream_hot *hot = s->key.p[key].hot;
    if (hot->stamp != s->stamp) {
        hot->stamp = s->stamp;
        hot->own = 0;
        hot->read = hot->known = 0;
    }
    return hot;
}

/* stream_unknown.c: transactions of unknown outcome, found by what they append. */
/* Keeps one. -1 where memory is out, and then it is not kept. */
int stream_keep_unknown(struct stream *s, struct stream_txn *t);
/* Somebody read element `value` of a key: whose it is, took effect. -1 where memory is out. */
int stream_demand(struct stream *s, uint32_t key, uint64_t value);
void stream_forget_unknown(const struct stream *s, const struct stream_txn *t);
struct stream_txn *stream_unknown_of(const struct stream *s, uint32_t key, uint64_t value);

/* stream_pin.c */
/* A read of n elements of the part. An enum stream_end; where memory is out the status says so. */
int stream_pin(struct stream *s, uint32_t key, const int32_t *elem, int64_t n);

/* stream_execute.c */
void stream_offer(struct stream *s, struct stream_txn *t);
void stream_offer_ready(struct stream *s);
/* Ends the execution at an operation and a key, and names the keys that it may be about. */
void stream_end_at(struct stream *s, int why, const struct stream_txn *t, uint32_t key);
void stream_drop(struct stream *s, struct stream_txn *t);

/* stream_time.c */
int stream_enqueue(struct stream *s, struct stream_txn *t);
/* Executes what is further behind than the window, or all that is left. */
int stream_advance(struct stream *s, int all);

/* stream_record.c */
/* Codes and numbers of what the part names. -1 where memory is out. */
int stream_resolve(struct stream *s);
/* The record that is event i of the part, on a line of the history. */
void stream_record(struct stream *s, int64_t i, int64_t line);

#endif
