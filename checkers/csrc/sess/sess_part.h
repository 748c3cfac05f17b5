/* What the readers and the placing of sessions share. */
#ifndef DSTEST_SESS_PART_H
#define DSTEST_SESS_PART_H

#include "ingest/ingest_part.h"
#include "sess.h"

/* Sets the flaw. -1. */
int sess_refuse(struct sess_error *error, enum sess_flaw flaw, int64_t line);

/* A number as read: `code` as in rows, or SESS_WIDE where it does not fit. */
struct sess_number {
    int64_t code;
    struct sess_digits digits; /* without zeros before them */
};

/* The digits from `p` on. Where they end, or NULL where there are none. */
const uint8_t *sess_number(const uint8_t *text, const uint8_t *p, const uint8_t *end,
                           struct sess_number *number);

/* Newlines, and one. */
int64_t sess_lines(const uint8_t *text, const uint8_t *end);

/* Rows while they are read. Transactions are found by name. */
struct sess_reading {
    struct core_memory memory;
    const uint8_t *text, *end;
    int64_t line;
    struct sess_rows rows;
    int64_t rows_max, txns_max, wide_max;
    int32_t *slot; /* by hash: transaction plus one */
    int64_t slots;
    struct sess_error *error;
};

/* Room for so many rows. 0, or -1 after sess_refuse, as all below. */
int sess_begin(struct sess_reading *r, int64_t rows_max);
/* The code of a key or value, kept as its digits where it is wide. */
int sess_code(struct sess_reading *r, const struct sess_number *number, int64_t *code);
/* A new transaction. */
int sess_txn(struct sess_reading *r, int64_t name, int64_t session, enum sess_outcome outcome);
/* The transaction of that name; one more, in that session, where there was none. -1 as above. */
int64_t sess_named(struct sess_reading *r, int64_t name, int64_t session);
/* Sessions in [0, n) in order of their numbers, of all transactions; those that failed have none. */
int sess_number_homes(struct sess_reading *r);

int sess_plume(struct sess_reading *r);
int sess_awdit(struct sess_reading *r);

/* sess_sort.c */
struct sess_pair {
    uint64_t by;
    int64_t what;
};

/* In order of `by`, stable; `spare` has as many. */
void sess_sort(struct sess_pair *pairs, struct sess_pair *spare, int64_t n);

/* Dense ids of codes in their order: of `codes[i]` it is sess_id(ids, i, codes[i]). */
struct sess_ids {
    int64_t low, span; /* `by_code` has an id for each of low .. low + span */
    int32_t *by_code, *by_place;
    int64_t n, held;
    int64_t *codes; /* by id */
};

/* 0, or -1 where memory is out. sess_ids_free is due in either case. */
int sess_ids_of(struct core_memory *memory, const int64_t *codes, int64_t m, struct sess_ids *ids);
void sess_ids_free(struct core_memory *memory, struct sess_ids *ids);

static inline int32_t sess_id(const struct sess_ids *ids, int64_t at, int64_t code)
{
    return ids->by_place != NULL ? ids->by_place[at] : ids->by_code[code - ids->low];
}

#endif
