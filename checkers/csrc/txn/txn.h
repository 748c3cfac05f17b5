/* Transaction isolation by cycle detection, for list-append and rw-register. No Python in here.
 *
 * The columns are those of checkers/txn/columns.py: n transactions in order of invocation, m
 * micro-ops, e elements of lists. What is inferred from them (Adya 1999; Kingsbury and Alvaro,
 * "Elle", VLDB 2020):
 *
 *     ww  a's write of a key was replaced by b's       wr  b read what a wrote
 *     rw  b replaced what a read
 *     process   a completed before b within a session  realtime  ... within the whole history
 *
 * A cycle of such edges is an anomaly; its kind depends on the edges it needs. Process and realtime
 * edges are never stored: realtime goes through one barrier node per completion, from which all
 * transactions are reached that were invoked between that completion and the next.
 */
#ifndef DSTEST_TXN_H
#define DSTEST_TXN_H

#include <stddef.h>
#include <stdint.h>

enum txn_outcome { TXN_OK = 0, TXN_FAIL = 1, TXN_INFO = 2 };
enum txn_mop { TXN_READ = 0, TXN_WRITE = 1 };

#define TXN_NIL (-1)

enum txn_status {
    TXN_DONE = 0,
    TXN_TIME = 1,    /* the deadline passed */
    TXN_MEMORY = 2,  /* the memory budget was spent, or the allocator said no */
    TXN_STOPPED = 3, /* the caller raised the stop flag */
    TXN_INVALID = 4, /* the input is malformed; txn_report says how */
};

/* Borrowed, read only. Whatever is used as an index is checked. */
struct txn_input {
    const uint8_t *outcome;
    const int64_t *process, *invoke_pos, *complete_pos;
    const int64_t *mop_start;
    const uint8_t *mop_kind;
    const int32_t *mop_key, *mop_value;
    const uint8_t *mop_known; /* reads: 0 = unknown, 1 = known, 2 = known to be null */
    const int64_t *elem_start;
    const int32_t *elem;
    const int64_t *order; /* rw-register: given position of each transaction, -1 = none; or NULL */
    int64_t n, m, e;
    int64_t n_keys, n_values, n_processes;
    int64_t n_positions;        /* event positions are below it */
    const uint32_t *value_hash; /* list-append: of each value, to choose among contradicting longest
                                   reads (txn_tie.c); NULL = the first in the history */
};

/* The columns of txn_input one by one, as a caller has them: an address and how many elements are
 * there. `order` and `value_hash` may have none. */
struct txn_column {
    const void *at;
    int64_t length;
};

enum txn_column_name {
    TXN_OUTCOME,
    TXN_PROCESSES,
    TXN_INVOKE,
    TXN_COMPLETE,
    TXN_MOP_START,
    TXN_KIND,
    TXN_KEY,
    TXN_VALUE,
    TXN_KNOWN,
    TXN_ELEM_START,
    TXN_ELEM,
    TXN_ORDER,
    TXN_VALUE_HASH,
    TXN_COLUMNS
};

/* Fills in columns, n, m and e; the counts are there already. 0, or -1 where a column is not as
 * long as the rest demands: then `which` and `wanted` say which one, and how long it should be. */
int txn_input_of(const struct txn_column columns[TXN_COLUMNS], struct txn_input *in, int *which,
                 int64_t *wanted);

enum txn_workload { TXN_LIST_APPEND = 0, TXN_RW_REGISTER = 1 };

/* Which order beyond the data's own is demanded. */
enum txn_between { TXN_NO_ORDER = 0, TXN_PROCESS = 1, TXN_REALTIME = 2 };

/* Where rw-register takes version orders from, besides the initial nil; and whether more is said than
 * Elle infers. */
enum txn_source {
    TXN_WFR_KEYS = 1,
    TXN_SEQUENTIAL_KEYS = 2,
    TXN_LINEARIZABLE_KEYS = 4,
    TXN_GIVEN_ORDER = 8,
    /* Appends of a transaction to a key stand in their order; an element that a read shows came
       after nothing that is known; reads of own later writes. */
    TXN_BEYOND_ELLE = 16,
};

struct txn_options {
    int workload;
    int between;
    int sources;
    int64_t time_ns;
    int64_t memory_bytes;
    const int32_t *stop; /* not zero = give up; may be NULL */
};

/* Anomalies that are no cycles of transactions. */
enum txn_finding {
    TXN_INTERNAL,           /* txn, mop: disagrees with what txn did before (mop2, or -1) */
    TXN_FUTURE_READ,        /* txn, mop: saw what mop2 appends later */
    TXN_GARBAGE_READ,       /* txn, mop: nobody wrote value */
    TXN_G1A,                /* txn, mop: value was written by txn2, which failed */
    TXN_G1B,                /* txn, mop: value was not txn2's last write of key */
    TXN_DUPLICATE_ELEMENTS, /* txn, mop: value occurs twice */
    TXN_INCOMPATIBLE_ORDER, /* txn, mop and txn2, mop2: neither list is a prefix of the other; or mop
                               appends after value, and mop2 read a list where that is not so */
    TXN_DIRTY_UPDATE,       /* txn (failed) wrote value, txn2 wrote the next value */
    TXN_LOST_UPDATE,        /* txn and txn2 read the same version in mop, mop2 and both wrote */
    TXN_CYCLIC_VERSIONS,    /* key: values value and value2 precede one another; mop = sources */
    TXN_FINDINGS
};

/* One row of the findings. Unused fields are -1. */
struct txn_found {
    int64_t type, key, value, txn, mop, txn2, mop2, value2;
};

/* Edges of transaction graphs. PASS continues the edge that entered a virtual node. */
enum txn_label { TXN_PASS, TXN_WW, TXN_WR, TXN_RW, TXN_PROC, TXN_RT, TXN_LABELS };

enum txn_cycle { TXN_G0, TXN_G1C, TXN_G_SINGLE, TXN_G_NONADJACENT, TXN_G2, TXN_CYCLES };

/* Growing array of int64, owned; free with txn_rows_free. */
struct txn_rows {
    int64_t *at;
    size_t used, cap;
};

/* What came out.
 *
 * findings: struct txn_found after struct txn_found, at most `rows_max` of each type (counts has
 *           all of them).
 * cycles:   component, type (enum txn_cycle), between (enum txn_between), minimal (0 or 1),
 *           length, then length times (transaction, label of the edge to the next one).
 */
struct txn_report {
    struct txn_rows findings, cycles;
    int64_t counts[TXN_FINDINGS];
    int64_t edges;      /* explicit edges, rw-register also those to oneself; without a graph reads
                           that saw what another one appended */
    int64_t components; /* strongly connected, of two transactions or more */
    int64_t largest;    /* transactions in the largest of them */
    int64_t undecided;  /* components for which time ran out */
    int proved;         /* list-append: executed in some order, all reads are as they say */
    const char *invalid;
    int64_t where;
};

/* Returns an enum txn_status. The report holds what was found also where the status is not DONE;
 * txn_report_free must follow in every case. */
int txn_check(const struct txn_input *in, const struct txn_options *options,
              struct txn_report *report);

/* Classifies one strongly connected graph of `n` nodes given as CSR, for tests and other
 * analyses: the edges of node v are off[v] .. off[v + 1], `label` is an enum txn_label, nodes from
 * `n_txns` on are virtual, `to` and `label` have `n_edges` elements. Cycles go to report->cycles as
 * component 0. */
struct txn_csr {
    const uint32_t *off, *to;
    const uint8_t *label;
    uint32_t n, n_txns, n_edges;
};
int txn_classify(const struct txn_csr *csr, const struct txn_options *options,
                 struct txn_report *report);

void txn_report_free(struct txn_report *report);

#endif
