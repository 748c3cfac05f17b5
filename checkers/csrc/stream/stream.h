/* list-append histories that are larger than memory. No Python in here.
 *
 * Our JSONL comes in pieces of whole lines, in order of invocation, and is executed as csrc/txn/txn_execute.c
 * does: each transaction between its invocation and its completion, as soon as its reads tell what is
 * there and its appends replace versions that nobody is still to read. Where that succeeds to the end
 * the history is strict serializable. What is "still to be read" is known of a window: records are read
 * ahead of the execution by so many bytes of transactions. Whoever reads later than that what was
 * replaced, or another order than the one that was taken where nobody had read any, ends the execution
 * without an answer, and so does a violation. Neither is ever passed over.
 *
 * What is kept: the transactions of the window; unknown ones that append until somebody has read
 * that; lists of the keys that the window names; of other keys the length of the list and a hash of
 * 128 bits, to which the beginning of a later read is held; which values were appended, and which ids
 * there were, as bits; for each process the end of its last operation. All is charged to the budget.
 */
#ifndef DSTEST_STREAM_H
#define DSTEST_STREAM_H

#include "ingest/ingest.h"

#include <stddef.h>
#include <stdint.h>

/* The numbers of enum core_spent, and more. */
enum stream_status {
    STREAM_GOING = 0,
    STREAM_TIME = 2,
    STREAM_MEMORY = 3,
    STREAM_STOPPED = 4,
    STREAM_REFUSED = 5,  /* malformed, or it contradicts itself */
    STREAM_DISORDER = 6, /* a record that began before what is executed already */
    STREAM_NAMED = 7,    /* ids that are strings */
};

/* Why the execution ended before the history did. */
enum stream_end {
    STREAM_RUNS = 0,
    STREAM_STUCK = 1, /* a transaction completed that could not be executed */
    STREAM_OTHER = 2, /* a read of another list than the one that others read, or that was made */
    STREAM_STALE = 3, /* a read of a version that had been replaced */
};

struct stream;

struct stream_report {
    int64_t ok, failed, unknown;
    int64_t seen; /* reads that saw what another transaction appended */
    int64_t keys;
    int64_t last_ns;  /* the latest time that any of them tells */
    int64_t touching; /* operations that began when the one before in their process ended */
    int64_t skipped[ING_SKIPS];
    size_t memory_bytes;      /* charged at most */
    int end;                  /* enum stream_end */
    int64_t op_id;            /* of the operation at which it ended */
    const uint64_t *involved; /* codes of keys, the one at which it ended first */
    int64_t n_involved;
};

/* NULL where memory is out. `window_bytes` of transactions are looked ahead. */
struct stream *stream_open(int64_t memory_bytes, int64_t window_bytes);
void stream_free(struct stream *s);

/* The next whole lines, the header among the first. An enum stream_status; what is not GOING is said
 * again by every later call. `error` is filled in where it is REFUSED or DISORDER. `stop` may be NULL. */
int stream_feed(struct stream *s, const uint8_t *text, int64_t size, int64_t time_ns,
                const int32_t *stop, struct ing_error *error);

/* No more lines: executes what is left. */
int stream_finish(struct stream *s, int64_t time_ns, const int32_t *stop, struct ing_error *error);

void stream_report(const struct stream *s, struct stream_report *report);

/* The scalar that a code stands for; its text lives as long as the stream and no line is fed. */
struct stream_scalar {
    int64_t bits;
    const char *text;
    int64_t size;
    int tag; /* enum ing_tag */
};
void stream_scalar_of(const struct stream *s, uint64_t code, struct stream_scalar *scalar);

/* No record of ours is shorter. */
#define STREAM_LINE_MIN 64

/* The history is read once more from its beginning, by stream_select. */
void stream_rewind(struct stream *s);

/* Where lines of a text stand that name one of the first `n` involved keys, as pairs of begin and
 * end in `rows`, which holds `rows_max` numbers: two for each STREAM_LINE_MIN bytes are enough. How
 * many numbers; -1 where the text is malformed or memory is out. */
int64_t stream_select(struct stream *s, const uint8_t *text, int64_t size, int64_t n, int64_t *rows,
                      int64_t rows_max);

#endif
