/* Is there an order of transactions in which every read returns the last write before it? Exact
 * serializability and snapshot isolation of registers whose written values are unique per key,
 * plain, with sessions, and with real time. No Python in here.
 *
 * A transaction is one node, or under snapshot isolation two: it begins, and it commits. Edges that
 * every order must hold are those of reads (a commit, then whoever read from it), of sessions and
 * of real time. An order that holds them is kept and repaired: where a read of version u stands
 * behind a newer version v of its key (u, v, read), either v goes before u or the read goes before
 * v. What is known decides, else a choice is made, as edges that the order is moved to hold (Pearce
 * and Kelly, "A Dynamic Topological Sort Algorithm", JEA 2006). Choices that end in a cycle teach
 * a clause (Marques-Silva and Sakallah, GRASP, 1999). Only pairs of versions that stand wrong in
 * some order are ever looked at, and all that is done about one stays in its neighbourhood.
 *
 * Under snapshot isolation two writers of a key must not overlap, either: one commits before the
 * other begins (Cerone and Gotsman, "Analysing Snapshot Isolation", JACM 2018).
 *
 * A read may be open: several transactions wrote what it returned. It clashes where none of them is
 * the last one before it; then one is chosen, like a pair of versions (ord_open.c).
 *
 * An order without any clash is replayed separately before anything is called valid. Choices
 * that are refuted without an assumption refute the model.
 */
#ifndef DSTEST_ORD_H
#define DSTEST_ORD_H

#include "txn/txn.h"

enum ord_model {
    ORD_STRICT_SER,
    ORD_SESSION_SER,
    ORD_SER,
    ORD_STRICT_SI,
    ORD_SESSION_SI,
    ORD_SI,
    ORD_MODELS
};

enum ord_answer { ORD_NOT_ASKED, ORD_VALID, ORD_VIOLATED, ORD_OPEN };

/* What came out. Transactions are numbered as in the columns.
 *
 * order: of the strongest model that holds, its commits in an order that proves it; `order_model`
 *        says which model that is, -1 = none.
 * sources: per open read which of `ord_reads.write` it read from in that order.
 * involved: model, count, then the transactions that refuted it, of the models that are violated.
 */
struct ord_report {
    int answers[ORD_MODELS];
    int order_model;
    int64_t faults; /* reads that no order can explain: nobody wrote it, or it was aborted, ... */
    int64_t overlapping, nil_writes;
    int64_t pairs, choices, conflicts; /* versions compared, and how often it was chosen wrong */
    struct txn_rows order, sources;
    struct txn_report rest; /* `cycles` holds what is involved */
};

/* Reads whose results the columns do not tell, because several transactions wrote the same value:
 * micro-op read[i] returned what one of the micro-ops write[first[i]] .. write[first[i + 1] - 1]
 * wrote, each the last write of the key by another transaction, which did not fail. `place` is for
 * the core's own use. */
struct ord_reads {
    const int64_t *read, *first, *write;
    int64_t count, candidates;
    const uint32_t *place;
};

/* Bit `1 << m` of `models` asks for model m. Without real time an order may wander far; with
 * `slack` those models are tried only with orders in which nothing is put before what had completed
 * that many events before: they are valid then, or open with what is involved. Returns an enum
 * txn_status; ord_report_free must follow in every case. */
int ord_check(const struct txn_input *in, const struct txn_options *options, unsigned models,
              uint32_t slack, struct ord_reads reads, struct ord_report *report);
void ord_report_free(struct ord_report *report);

#endif
