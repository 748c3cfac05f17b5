/* Exact weak isolation of registers whose written values are unique per key. No Python in here.
 *
 * A history satisfies such a model if and only if its transactions have a total order that holds
 * all write-read edges (and those of sessions) and in which no transaction sees, in the sense of
 * the model, a newer write of a key than the one it read (Biswas and Enea, "On the Complexity of
 * Checking Transactional Consistency", OOPSLA 2019):
 *
 *     monotonic atomic view   t sees what it has read from before this read
 *     read atomic             t sees what it reads from at all
 *     causal                  t sees whatever leads to it by write-read edges
 *
 * With sessions these come in their order; under read atomic and causal t sees the earlier ones of
 * its session, too.
 *
 * With `positions` in an order that holds the edges, every demand "u before w" against that order
 * comes from a stale read: t reads a key from w, and u, which t sees, wrote it between w and t. So
 * fresh reads cost nothing, and only the stretches that such demands span are looked at for cycles.
 */
#ifndef DSTEST_ISO_H
#define DSTEST_ISO_H

#include "txn/txn.h"

enum iso_model {
    ISO_SESSION_CAUSAL,
    ISO_SESSION_ATOMIC,
    ISO_SESSION_VIEW,
    ISO_CAUSAL,
    ISO_ATOMIC,
    ISO_VIEW,
    ISO_SESSION_COMMITTED, /* no cycle of write-read and session edges */
    ISO_COMMITTED,         /* no cycle of write-read edges */
    ISO_MODELS
};

/* OPEN: the budget was spent first, or what the model is about cannot be told from the columns. */
enum iso_answer { ISO_NOT_ASKED, ISO_VALID, ISO_VIOLATED, ISO_OPEN };

/* Why one transaction of a cycle comes before the next. */
enum iso_reason {
    ISO_SESSION, /* it is the earlier one of a session */
    ISO_READ,    /* the next one read from it */
    ISO_SEEN,    /* `reader` read `key` from the next one and saw this one, which wrote it */
    ISO_INITIAL, /* the same with the initial value; there is no next one */
    ISO_KNOWN    /* the caller knows that its version of a key is the earlier one */
};

/* What came out. Transactions are numbered as in the columns.
 *
 * steps: model, count, then `count` times (from, to, reason, reader, key, length, transactions by
 *        which `reader` saw `from`: `length` of them, from `from` to `reader`). -1 where a field
 *        means nothing.
 */
struct iso_report {
    int answers[ISO_MODELS];
    int64_t counts[TXN_FINDINGS]; /* what violates alone: internal, future and garbage reads, G1a,
                                     G1b */
    int64_t reads;                /* of what another transaction wrote, or of the initial value */
    int64_t stale;                /* of these, such that a newer write was there */
    int64_t demands;              /* orders that stale reads demanded against the positions */
    int64_t overlapping; /* transactions that began before their session's last one ended */
    int64_t nil_writes;
    struct txn_report rest; /* `cycles` holds the steps */
};

/* Pairs of transactions (numbered as in the columns) of which the caller knows that the first one's
 * version of some key is the earlier one; both took effect. */
struct iso_known {
    const int32_t *first, *then;
    int64_t count;
};

/* Bit `1 << m` of `models` asks for model m. Returns an enum txn_status; iso_report_free must
 * follow in every case. */
int iso_check(const struct txn_input *in, const struct txn_options *options, unsigned models,
              struct iso_known known, struct iso_report *report);
void iso_report_free(struct iso_report *report);

#endif
