/* Transactional histories out of text, straight into columns. No Python in here.
 *
 * Three notations: our JSONL (a header, then one record of twelve keys per line), Jepsen EDN and
 * Jepsen JSON (event maps, one after another or in one array). A big text is read in two parts by
 * two threads; the names of the second part are then translated into those of the first.
 *
 * Nothing is read outside text[0 .. size). Memory is bounded by the budget.
 */
#ifndef DSTEST_INGEST_H
#define DSTEST_INGEST_H

#include <stdint.h>

enum ing_format { ING_OURS, ING_EDN, ING_JSON };

enum ing_event_type { ING_OK = 0, ING_FAIL = 1, ING_INFO = 2, ING_INVOKE = 3 };

/* ING_PLAIN: a list, as its text. ING_EXACT: a number that no double holds, as it is written. A whole
 * double is an integer. */
enum ing_tag {
    ING_INT,
    ING_FLOAT,
    ING_BOOL,
    ING_STRING,
    ING_KEYWORD,
    ING_BIGINT,
    ING_PLAIN,
    ING_CHAR,
    ING_EXACT
};

/* What was counted: events left out; operations without an end that are not marked unknown;
 * transactions that are ok, ask for reads and tell no result; records without a field that tells
 * something; ids that are strings. */
enum ing_skip {
    ING_NOT_A_CLIENT,
    ING_TAGGED,
    ING_UNMARKED,
    ING_UNANSWERED,
    ING_LACKING,
    ING_NAMED,
    ING_SKIPS
};

/* How micro-operations write, as bits. */
enum { ING_APPENDS = 1, ING_SETS = 2 };

#define ING_NO_PROCESS (-1)

/* Where and why a text is refused. Line and column count from 1, in bytes. */
struct ing_error {
    const char *message;
    int64_t line, column;
};

/* One scalar. `bits` is the integer, the bits of the double, 0 or 1, or the offset in `text`. */
struct ing_name {
    int64_t bits;
    int32_t size; /* bytes in `text` */
    uint8_t tag;
};

/* Growing array; see ing_room. */
#define ING_ARRAY(type)                                                                            \
    struct {                                                                                       \
        type *p;                                                                                   \
        int64_t n, cap;                                                                            \
    }

/* Scalars and their dense ids. Small integers are looked up in `small`, the rest in `slots`. */
struct ing_names {
    ING_ARRAY(struct ing_name) name;
    ING_ARRAY(char) text;
    int32_t *small;
    int32_t *slots;
    int64_t n_slots, n_slotted, n_small;
};

/* The columns of checkers/txn/columns.py. */
struct ing_columns {
    int64_t n, m, e;
    uint8_t *outcome;
    int64_t *process, *invoke_pos, *complete_pos, *op_index, *mop_start;
    uint8_t *mop_kind;
    int32_t *mop_key, *mop_value;
    uint8_t *mop_known;
    int64_t *elem_start;
    int32_t *elem;
    struct ing_names keys, values;
    int64_t skipped[ING_SKIPS];
    int64_t writes;          /* of ING_APPENDS and ING_SETS those that occur */
    struct ing_names fields; /* of events, that nobody knows */
    int64_t *n_fields;       /* how many events have each of them */
};

/* 0, or -1 with `error` filled in (line 0 where the cause is not in the text). On success the
 * caller owns `out` and gives it back with ing_free. */
int ing_read(const uint8_t *text, int64_t size, int format, int threads, int64_t memory_bytes,
             struct ing_columns *out, struct ing_error *error);

void ing_free(struct ing_columns *columns);

#endif
