/* What the readers of one part of a text share. */
#ifndef DSTEST_INGEST_PART_H
#define DSTEST_INGEST_PART_H

#include "common/core_memory.h"
#include "ingest.h"

#include <stddef.h>

enum { ING_READ = 0, ING_WRITE = 1 };
enum { ING_UNKNOWN = 0, ING_KNOWN = 1, ING_NULL = 2 };

#define ING_NIL (-1)

/* Integers below it may have a direct table of 4 bytes each. It grows with them, from so many, and
 * as long as there are not more than so many times as few names. */
#ifndef ING_SMALL
#define ING_SMALL (1 << 22)
#endif
#define ING_SMALL_MIN 64
#define ING_SPARSE 8
#define ING_DEPTH_MAX 500
#define ING_SKIPPED_PROCESS INT64_MIN
#define ING_NO_TIME INT64_MIN

/* A micro-op of a part. Its elements end at `elem_end` and start where those before it end. */
struct ing_mop {
    int64_t elem_end;
    int32_t key, value;
    uint8_t kind, known;
};

/* An invocation or completion; of our records a whole operation. Its micro-ops end at `mop_end`. */
struct ing_event {
    int64_t process; /* dense id in `processes`, or ING_NO_PROCESS */
    int64_t index;
    int64_t time; /* ns, or ING_NO_TIME */
    int64_t mop_end;
    int64_t offset; /* in the text, for errors */
    uint8_t type;
    uint8_t has_value;
    uint8_t no_index; /* it tells none: its position stands in */
    uint8_t foreign;  /* neither a transaction by name nor by what it holds */
};

/* What a record of ours says of itself. Micro-operations of its input lie in [first, input), those
 * of its output in [input, end). */
struct ing_record {
    int64_t first, input, end;
    int timed_out, ended, failed, has_input, has_output;
};

struct ing_times {
    int64_t begin, end; /* ns; end is INT64_MAX where unknown */
};

struct ing_part {
    const uint8_t *text, *p, *end; /* text is the beginning of the whole text */
    const uint8_t *stop;           /* events that begin here or later are the next part's */
    int json;
    int format;
    int discards;
    struct core_memory memory;
    ING_ARRAY(struct ing_event) event;
    ING_ARRAY(struct ing_times) times;
    ING_ARRAY(struct ing_mop) mop;
    ING_ARRAY(int32_t) elem;
    ING_ARRAY(char) scratch;
    struct ing_names keys, values, processes, fields;
    ING_ARRAY(int64_t) n_fields; /* events that have each of the fields */
    int64_t skipped[ING_SKIPS];
    int64_t writes;
    const char *message;         /* set with `p` at the place when something is refused */
    const struct ing_part *rest; /* has the micro-ops after this part's, and their elements */
};

/* Micro-op i of a part and its rest, which count as one. */
static inline const struct ing_mop *ing_mop_at(const struct ing_part *part, int64_t i)
{
    return i < part->mop.n ? &part->mop.p[i] : &part->rest->mop.p[i - part->mop.n];
}

/* Element i, and behind it the others of its list. */
static inline const int32_t *ing_elem_at(const struct ing_part *part, int64_t i)
{
    return i < part->elem.n ? &part->elem.p[i] : &part->rest->elem.p[i - part->elem.n];
}

/* A scalar as read. Text is in the part's text or in its scratch, until the next one is read. */
struct ing_scalar {
    int64_t bits;
    const char *text;
    int64_t size;
    int tag; /* enum ing_tag, or ING_NULL_SCALAR */
};

enum { ING_NULL_SCALAR = -1 };

/* ingest_part.c
 *
 * Makes room for `more` elements. 0, or -1 where the budget or the allocator says no. */
int ing_grow(struct core_memory *memory, void **p, int64_t *cap, int64_t need, size_t size);

/* Gives back what ing_room has made. */
#define ing_drop(array) core_drop((array).p, (size_t)(array).cap * sizeof *(array).p)

/* n elements, all zero, and one more; NULL means only that memory is out. What outlives the reading is
 * given back by free(). */
void *ing_array(struct core_memory *memory, int64_t n, size_t size);
void ing_array_free(struct core_memory *memory, void *p, int64_t n, size_t size);

#define ing_room(memory, array, more)                                                              \
    ((array).n + (more) <= (array).cap ? 0                                                         \
                                       : ing_grow(memory, (void **)&(array).p, &(array).cap,       \
                                                  (array).n + (more), sizeof *(array).p))

int ing_refuse(struct ing_part *part, const char *message);
void ing_locate(const struct ing_part *part, int64_t offset, const char *message,
                struct ing_error *error);

/* The message where memory is out: no other way to read the same text may be tried after it. */
extern const char ing_spent[];

/* ingest_names.c */
/* The id of a scalar, made on first sight; -1 for null, -2 where memory is out, -3 for text that is
 * not UTF-8. */
int32_t ing_id(struct core_memory *memory, struct ing_names *names,
               const struct ing_scalar *scalar);
void ing_scalar_of(const struct ing_names *names, int64_t id, struct ing_scalar *scalar);
void ing_names_free(struct ing_names *names);
/* Ids of `from` as ids of `into`, to be freed; NULL where memory is out. */
int32_t *ing_translate(struct core_memory *memory, struct ing_names *into,
                       const struct ing_names *from);

/* ingest_scan.c: all return 0, or -1 after ing_refuse, unless they say otherwise. */
int ing_space(struct ing_part *part);
int ing_more(struct ing_part *part, uint8_t close, int first); /* 1: an element, 0: closed */
int ing_colon(struct ing_part *part);
int ing_scalar(struct ing_part *part, struct ing_scalar *scalar);
int ing_skip_value(struct ing_part *part, int depth);
int ing_key(struct ing_part *part, struct ing_scalar *scalar); /* a scalar, or a list as its text */
int ing_open(struct ing_part *part); /* the byte that closes the list that begins here, or 0 */

/* ingest_text.c */
int ing_string(struct ing_part *part, struct ing_scalar *scalar);
int ing_number(struct ing_part *part, struct ing_scalar *scalar);
/* What else Clojure prints as a number, from its first byte to its last. 0, or -1 for what is none. */
int ing_other_number(const uint8_t *from, const uint8_t *end, struct ing_scalar *scalar);
int ing_utf8(const char *text, int64_t size);

/* ingest_elements.c */
int ing_elements(struct ing_part *part, uint8_t close);
int ing_known_id(struct ing_part *part, struct ing_names *names, const struct ing_scalar *scalar,
                 const uint8_t *at, int32_t *id);

/* ingest_common.c */
int ing_common_mop(struct ing_part *part, int known);

/* ingest_mops.c */
int ing_micro_ops(struct ing_part *part, int known);

/* ingest_lint.c: what contradicts itself, as a message, or NULL. */
int ing_same_request(const struct ing_part *part, int64_t asked, int64_t answered, int64_t n);
int ing_any_read(const struct ing_part *part, int64_t from, int64_t to);
const char *ing_record_flaw(struct ing_part *part, const struct ing_record *record);
const char *ing_order_flaw(const struct ing_part *part, int64_t *bad);
const char *ing_pair_flaw(struct ing_part *part, int64_t invoke, int64_t complete);
/* Records in order of invocation: `bad` is the first that its process cannot have begun then, or
 * -1. 0, or -1 where memory is out. */
int ing_one_at_a_time(struct ing_part *part, const int64_t *order, int64_t *bad, const char **flaw);

/* ingest_events.c */
int ing_jepsen_event(struct ing_part *part);

/* ingest_ours.c */
int ing_our_header(struct ing_part *part);
int ing_our_record(struct ing_part *part);

/* ingest_order.c: event positions of our records, and their order of invocation. */
int ing_order(struct core_memory *memory, const struct ing_times *times, int64_t n, int64_t *order,
              int64_t *begin, int64_t *end);

/* One transaction: events of the whole history, -1 where there is none. */
struct ing_pair {
    int64_t invoke, complete;
};

/* ingest_pair.c: transactions in order of invocation. -1 with `bad` the event that fits nowhere,
 * or with `bad` -1 where memory is out. */
int64_t ing_pair_events(struct core_memory *memory, const struct ing_part *part,
                        struct ing_pair *pairs, int64_t *bad);

/* ingest_columns.c: the columns of a part that holds the whole history. */
int ing_columns_of(struct ing_part *part, struct ing_columns *out, struct ing_error *error);
/* Makes the second part the rest of the first, which it must outlive. -1 where memory is out. */
int ing_join(struct ing_part *first, struct ing_part *second);

#endif
