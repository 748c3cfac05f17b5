/* Other tools' session files: transactions in the order of each session, without times. No Python in
 * here.
 *
 * A reader makes rows of a text, in its order. sess_place merges the sessions evenly and makes the
 * columns of checkers/txn/columns.py. Nothing is read outside text[0 .. size); memory is bounded by
 * the budget.
 */
#ifndef DSTEST_SESS_H
#define DSTEST_SESS_H

#include <stdint.h>

enum sess_format { SESS_PLUME, SESS_AWDIT, SESS_FORMATS };

enum sess_outcome { SESS_OK, SESS_FAIL, SESS_INFO, SESS_OUTCOMES };
enum sess_kind { SESS_READ, SESS_WRITE };
enum sess_known { SESS_UNKNOWN, SESS_KNOWN, SESS_NULL };

#define SESS_NO_SESSION (-1)
#define SESS_NIL (-1)

/* A key or value below it is entry -2 - code of `wide`: a number of 2^63 or more. */
#define SESS_WIDE (-1)

/* Digits of a number, without zeros before it. */
#ifndef SESS_DIGITS_MAX
#define SESS_DIGITS_MAX 4300
#endif

/* Why a text is refused; `line` counts from 1, 0 where the cause is not in one. */
enum sess_flaw {
    SESS_SPENT, /* the memory budget */
    SESS_EMPTY,
    SESS_LINE,   /* no operation */
    SESS_BITS,   /* a session or transaction of more than 63 bits */
    SESS_BELOW,  /* transaction `a` is below what stands for aborted ones */
    SESS_HOMES,  /* transaction `a` is in session `b`, and in session `c` */
    SESS_DIGITS, /* a number of more than SESS_DIGITS_MAX digits */
    SESS_BROKEN, /* of sess_place: rows break the rules of struct sess_rows */
    SESS_FLAWS
};

struct sess_error {
    enum sess_flaw flaw;
    int64_t line, a, b, c;
};

/* Digits of a number in the text. */
struct sess_digits {
    int64_t at;
    int64_t size;
};

/* Operations in the order of the text, `txn` in [0, n); of each transaction what it is called, and a
 * session in [0, n) or SESS_NO_SESSION. Transactions of a session stand in its order. */
struct sess_rows {
    int64_t m, n, n_wide;
    uint8_t *kind;
    int64_t *key, *value;
    int32_t *txn;
    uint8_t *outcome;
    int64_t *session, *name;
    struct sess_digits *wide;
    int64_t lost; /* reads of aborted transactions, which are no rows */
};

/* 0, or -1 with `error` filled in. On success the caller owns `out`. */
int sess_read(const uint8_t *text, int64_t size, int format, int64_t memory_bytes,
              struct sess_rows *out, struct sess_error *error);
void sess_rows_free(struct sess_rows *rows);

/* What is placed; as in struct sess_rows. `null`, which may be NULL, says which operations name no
 * value. Keys start with `start` where `has_start`. */
struct sess_placing {
    int64_t m, n;
    const uint8_t *kind, *null, *outcome;
    const int64_t *key, *value, *session, *name;
    const int32_t *txn;
    int64_t start;
    int has_start;
};

/* Columns as in checkers/txn/columns.py; there are no elements. Ids are in order of the codes. */
struct sess_columns {
    int64_t n, m, n_keys, n_values;
    uint8_t *outcome;
    int64_t *process, *invoke_pos, *complete_pos, *op_index, *mop_start;
    uint8_t *mop_kind;
    int32_t *mop_key, *mop_value;
    uint8_t *mop_known;
    int64_t *elem_start;
    int64_t *keys, *values; /* codes by id */
    int wrote_start;        /* a write writes `start`: its reads do not tell which they saw */
};

/* As sess_read. */
int sess_place(const struct sess_placing *in, int64_t memory_bytes, struct sess_columns *out,
               struct sess_error *error);
void sess_columns_free(struct sess_columns *columns);

#endif
