/* The transaction checker as a target for libFuzzer: columns as a Python caller may hand them over,
 * list-append and rw-register, and graphs for the CSR entry point.
 *
 * Bytes become a history that is well formed, then some of its columns, lengths, counts or options
 * get values that may be anything. Columns are heap blocks of exactly their size. Whatever comes of
 * it: a refusal gives a reason; a report names only what exists; a smaller budget, a stop flag, no
 * time, or another demanded order do not change what a finished check says.
 */
#include "graph.h"
#ifdef EXACT
#include "iso/iso.h"
#include "ord/ord.h"
#endif

#include <stdlib.h>
#include <string.h>

enum {
    TXNS = 24,
    MOPS = 160,
    ELEMS = 1024,
    KEYS = 4,
    VALUES = 48,
    PROCESSES = 3,
    MOPS_PER_TXN = 7
};

static void require(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "violated: %s\n", what);
        abort();
    }
}

struct bytes {
    const uint8_t *p, *end;
};

static int next(struct bytes *b)
{
    return b->p < b->end ? *b->p++ : 0;
}

/* Mostly small, else at a limit or anything at all. */
static int64_t anything(struct bytes *b)
{
    static const int64_t limits[] = {
        INT64_MIN,
        INT64_MIN + 1,
        INT64_MAX - 1,
        INT64_MAX,
        INT32_MIN,
        INT32_MAX,
        (int64_t)1 << 31,
        UINT32_MAX,
        (int64_t)1 << 32,
        (int64_t)1 << 27,
        ((int64_t)1 << 27) + 1,
        (int64_t)1 << 30,
        ((int64_t)1 << 30) + 1,
        (int64_t)1 << 40,
        1 << 20,
        255,
    };
    int what = next(b);
    if (what < 224) {
        return what - 16;
    }
    if (what < 240) {
        return limits[what - 224];
    }
    uint64_t value = 0;
    for (int i = 0; i < 8; i++) {
        value = value << 8 | (uint64_t)next(b);
    }
    return (int64_t)value;
}

static const size_t itemsize[TXN_COLUMNS] = {1, 8, 8, 8, 8, 1, 4, 4, 1, 8, 4, 8, 4};

/* Columns before they get their types. */
struct draft {
    int64_t at[TXN_COLUMNS][ELEMS], length[TXN_COLUMNS];
    int64_t n_keys, n_values, n_processes, n_positions;
    struct txn_options options;
    int64_t written[KEYS];
    int64_t open[TXNS], opened;
    int64_t n, m, e;
};

static void read_list(struct draft *d, struct bytes *b, int64_t key, int what)
{
    int64_t length = what >> 4 & 15;
    length = length > d->written[key] + 2 ? d->written[key] : length;
    for (int64_t i = 0; i < length && d->e < ELEMS - 1; i++) {
        d->at[TXN_ELEM][d->e++] = what & 8 ? next(b) % VALUES : i;
    }
}

static void micro_op(struct draft *d, struct bytes *b, int ok)
{
    int what = next(b);
    int64_t m = d->m++, key = what >> 1 & 3, before = d->e, write = what & 1;
    int64_t mine = d->written[key] % VALUES, value = TXN_NIL;
    d->at[TXN_ELEM_START][m] = before;
    if (write) {
        value = what & 8 ? next(b) % VALUES : mine;
        d->written[key]++;
    } else if (ok && d->options.workload == TXN_LIST_APPEND) {
        read_list(d, b, key, what);
    } else if (ok) {
        value = (what >> 4) - 1 - (what >> 3 & 1) * (int64_t)(next(b) % 2);
        value = value < TXN_NIL ? TXN_NIL : value;
    }
    int null = d->e == before && value == TXN_NIL && what & 128;
    d->at[TXN_KIND][m] = write;
    d->at[TXN_KEY][m] = key;
    d->at[TXN_VALUE][m] = value;
    d->at[TXN_KNOWN][m] = write ? 1 : ok ? 1 + (null != 0) : 0;
}

static int64_t transaction(struct draft *d, struct bytes *b, int what, int64_t invoke,
                           int64_t complete)
{
    static const int64_t outcomes[] = {TXN_OK, TXN_OK, TXN_OK,   TXN_OK,
                                       TXN_OK, TXN_OK, TXN_FAIL, TXN_INFO};
    int64_t t = d->n++, outcome = outcomes[what >> 5 & 7];
    d->at[TXN_OUTCOME][t] = outcome;
    d->at[TXN_PROCESSES][t] = (what >> 3 & 3) - 1;
    d->at[TXN_INVOKE][t] = invoke;
    d->at[TXN_COMPLETE][t] = complete;
    d->at[TXN_MOP_START][t] = d->m;
    d->at[TXN_ORDER][t] = (what * 7 + (int)t * 5) % 16 - 1;
    for (int n = next(b) % (MOPS_PER_TXN + 1); n > 0 && d->m < MOPS - 1; n--) {
        micro_op(d, b, outcome == TXN_OK);
    }
    return t;
}

/* Invocations, completions, and completions alone, each at a position of its own. */
static void make_history(struct draft *d, struct bytes *b)
{
    int64_t position = 0;
    while (b->p < b->end && d->n < TXNS - 1) {
        int what = next(b), step = what & 7;
        if (step < 4) {
            d->open[d->opened++] = transaction(d, b, what, position++, -1);
        } else if (step < 7 && d->opened > 0) {
            int64_t which = (what >> 3) % d->opened;
            d->at[TXN_COMPLETE][d->open[which]] = position++;
            d->open[which] = d->open[--d->opened];
        } else {
            transaction(d, b, what, -1, position++);
        }
    }
    while (d->opened > 0) {
        d->at[TXN_COMPLETE][d->open[--d->opened]] = position++;
    }
    d->at[TXN_MOP_START][d->n] = d->m;
    d->at[TXN_ELEM_START][d->m] = d->e;
    const int64_t length[TXN_COLUMNS] = {d->n, d->n, d->n,     d->n, d->n + 1, d->m,  d->m,
                                         d->m, d->m, d->m + 1, d->e, d->n,     VALUES};
    for (int i = 0; i < VALUES; i++) {
        d->at[TXN_VALUE_HASH][i] = i * INT64_C(2654435761);
    }
    memcpy(d->length, length, sizeof length);
    d->n_keys = KEYS;
    d->n_values = VALUES;
    d->n_processes = PROCESSES;
    d->n_positions = position;
}

/* Anything, anywhere. */
static void spoil(struct draft *d, int what, int where, int64_t value)
{
    int64_t *counts[] = {&d->n_keys, &d->n_values, &d->n_processes, &d->n_positions};
    int *options[] = {&d->options.workload, &d->options.between, &d->options.sources};
    what %= 2 * TXN_COLUMNS + 7;
    if (what < TXN_COLUMNS) {
        int64_t length = d->length[what];
        d->at[what][length > 0 ? where % length : 0] = value;
    } else if (what < 2 * TXN_COLUMNS) {
        d->length[what - TXN_COLUMNS] = (int64_t)((uint64_t)value % ELEMS);
    } else if (what < 2 * TXN_COLUMNS + 4) {
        *counts[what - 2 * TXN_COLUMNS] = value;
    } else {
        *options[what - 2 * TXN_COLUMNS - 4] = (int)value;
    }
}

/* The columns in blocks of their own. */
static void settle(const struct draft *d, struct txn_column *columns)
{
    for (int i = 0; i < TXN_COLUMNS; i++) {
        uint8_t *block = malloc((size_t)d->length[i] * itemsize[i]);
        for (int64_t j = 0; j < d->length[i]; j++) {
            int64_t value = d->at[i][j];
            int32_t narrow = (int32_t)value;
            const void *from = itemsize[i] == 4 ? (const void *)&narrow : &value;
            memcpy(block + (size_t)j * itemsize[i], from, itemsize[i]);
        }
        columns[i] = (struct txn_column){block, d->length[i]};
    }
}

static int within(int64_t id, int64_t count)
{
    return id >= -1 && id < count;
}

#ifndef EXACT
static void check_findings(const struct txn_input *in, const struct txn_report *report)
{
    size_t fields = sizeof(struct txn_found) / sizeof(int64_t);
    int64_t counted = 0;
    for (int i = 0; i < TXN_FINDINGS; i++) {
        counted += report->counts[i];
    }
    require(report->findings.used == (size_t)counted * fields, "as many findings as were counted");
    for (size_t i = 0; i < report->findings.used; i += fields) {
        struct txn_found f;
        memcpy(&f, report->findings.at + i, sizeof f);
        require(f.type >= 0 && f.type < TXN_FINDINGS, "a finding of a known type");
        require(f.key >= 0 && f.key < in->n_keys, "the key of a finding");
        require(within(f.value, in->n_values) && within(f.value2, in->n_values), "its values");
        require(within(f.txn, in->n) && within(f.txn2, in->n), "its transactions");
        require(f.type == TXN_CYCLIC_VERSIONS || within(f.mop, in->m), "its micro-op");
        require(within(f.mop2, in->m), "its other micro-op");
    }
}

static void check_report_cycles(const struct txn_input *in, const struct txn_options *options,
                                const struct txn_report *report)
{
    for (size_t i = 0; i < report->cycles.used;) {
        const int64_t *head = report->cycles.at + i, *body = head + 5;
        int64_t type = head[1], between = head[2], length = head[4], rw = 0, wr = 0;
        require(type >= 0 && type < TXN_CYCLES, "a cycle of a known class");
        require(between == TXN_NO_ORDER || between == options->between, "its order was asked for");
        require(length >= 1 && length <= in->n, "its length");
        for (int64_t j = 0; j < length; j++) {
            int64_t t = body[2 * j], label = body[2 * j + 1];
            require(t >= 0 && t < in->n && in->outcome[t] != TXN_FAIL, "its transactions");
            require(label >= TXN_WW && label < TXN_LABELS, "its labels");
            require(label != TXN_PROC || between == TXN_PROCESS, "process order as asked");
            require(label != TXN_RT || between == TXN_REALTIME, "real time as asked");
            rw += label == TXN_RW;
            wr += label == TXN_WR;
        }
        require(type >= TXN_G_SINGLE ? rw > 0 : rw == 0, "rw edges as the class has them");
        require(type != TXN_G0 || wr == 0, "G0 of ww edges");
        i += 5 + 2 * (size_t)length;
    }
}

static int same_rows(const struct txn_rows *a, const struct txn_rows *b)
{
    return a->used == b->used &&
           (a->used == 0 || memcmp(a->at, b->at, a->used * sizeof *a->at) == 0);
}

static int check(const struct txn_input *in, const struct txn_options *options,
                 struct txn_report *report)
{
    int status = txn_check(in, options, report);
    require(status >= TXN_DONE && status <= TXN_INVALID, "a known status");
    require((status == TXN_INVALID) == (report->invalid != NULL), "a reason with a refusal");
    if (status != TXN_INVALID) {
        check_report_cycles(in, options, report);
    }
    if (status == TXN_DONE) {
        check_findings(in, report);
    }
    return status;
}

/* The same check under one more restriction: it may give up, and may not say something else. */
static void restricted(const struct txn_input *in, const struct txn_options *options, int status,
                       const struct txn_report *full)
{
    struct txn_report report;
    int now = check(in, options, &report);
    require(now != TXN_INVALID || status == TXN_INVALID, "nothing else is refused");
    if (now == TXN_DONE) {
        require(status == TXN_DONE, "nothing else is accepted");
        require(same_rows(&full->findings, &report.findings), "the same findings");
        require(same_rows(&full->cycles, &report.cycles), "the same cycles");
    }
    txn_report_free(&report);
}
#endif

#ifdef EXACT
static void check_steps(const struct txn_input *in, const struct txn_rows *rows)
{
    for (size_t i = 0; i < rows->used;) {
        int64_t model = rows->at[i], count = rows->at[i + 1];
        require(model >= 0 && model < ISO_MODELS && count > 0, "a cycle of a model");
        i += 2;
        for (int64_t j = 0; j < count; j++) {
            const int64_t *step = rows->at + i;
            require(step[0] >= 0 && step[0] < in->n && within(step[1], in->n), "its transactions");
            require(within(step[3], in->n) && within(step[4], in->n_keys), "its reader and key");
            i += 6;
            for (int64_t k = 0; k < step[5]; k++) {
                require(rows->at[i] >= 0 && rows->at[i] < in->n, "by whom it was seen");
                i++;
            }
        }
    }
}

static void check_order(const struct txn_input *in, const struct ord_report *report)
{
    for (size_t i = 0; i < report->order.used; i++) {
        require(report->order.at[i] >= 0 && report->order.at[i] < in->n, "an order of commits");
    }
    for (size_t i = 0; i < report->rest.cycles.used;) {
        const int64_t *row = report->rest.cycles.at + i;
        require(row[0] >= 0 && row[0] < ORD_MODELS, "a refuted model");
        for (int64_t k = 0; k < row[1]; k++) {
            require(row[2 + k] >= 0 && row[2 + k] < in->n, "who is involved");
        }
        i += 2 + (size_t)row[1];
    }
}

/* The columns as registers through the exact checkers, with enough of everything and with less. */
static void check_columns(const struct txn_input *in, const struct txn_options *options,
                          int64_t little)
{
    struct iso_report iso;
    struct ord_report ord;
    struct txn_options now = *options;
    int32_t stop = 1;
    int32_t pair[2] = {(int32_t)(little % 7) - 1, (int32_t)(little % 5) - 1};
    struct iso_known known = {&pair[0], &pair[1], little & 1024 ? 1 : 0};
    int64_t first[2] = {0, 2}, mop[3] = {little % 11 - 1, little % 13 - 1, little % 17 - 1};
    struct ord_reads reads = {mop, first, mop + 1, little & 2048 ? 1 : 0, 2, NULL};
    now.workload = TXN_RW_REGISTER;
    int full = iso_check(in, &now, (1u << ISO_MODELS) - 1, known, &iso);
    check_steps(in, &iso.rest.cycles);
    int also = ord_check(in, &now, (1u << ORD_MODELS) - 1, (uint32_t)(little >> 8 & 15), reads,
                         &ord);
    check_order(in, &ord);
    require(full == TXN_INVALID || also != TXN_INVALID || reads.count > 0,
            "one refuses what the other does");
    require(known.count > 0 || ord.answers[ORD_SI] != ORD_VALID ||
                iso.answers[ISO_CAUSAL] != ISO_VIOLATED,
            "snapshots are causal");
    iso_report_free(&iso);
    ord_report_free(&ord);
    for (int i = 0; i < 2; i++) {
        now.memory_bytes = i == 0 ? little : options->memory_bytes;
        now.stop = i == 0 ? NULL : &stop;
        iso_check(in, &now, (1u << ISO_MODELS) - 1, known, &iso);
        ord_check(in, &now, (1u << ORD_MODELS) - 1, 0, reads, &ord);
        iso_report_free(&iso);
        ord_report_free(&ord);
    }
}
#else
static void check_columns(const struct txn_input *in, const struct txn_options *options,
                          int64_t little)
{
    struct txn_report full, other;
    struct txn_options now = *options;
    int32_t stop = 1;
    int status = check(in, &now, &full);
    now.memory_bytes = little;
    restricted(in, &now, status, &full);
    now = *options;
    now.stop = &stop;
    restricted(in, &now, status, &full);
    now = *options;
    now.time_ns = 0;
    restricted(in, &now, status, &full);
    now = *options;
    now.between = TXN_NO_ORDER;
    if (check(in, &now, &other) == TXN_DONE && status == TXN_DONE) {
        require(same_rows(&full.findings, &other.findings), "findings of any order");
        require(full.cycles.used > 0 || other.cycles.used == 0, "more order, no fewer cycles");
    }
    txn_report_free(&other);
    txn_report_free(&full);
}
#endif

static void columns_from(struct bytes *b, int flags)
{
    static struct draft d;
    struct txn_column columns[TXN_COLUMNS];
    struct txn_input in = {0};
    int which = 0, more = next(b), what[3], where[3];
    int64_t wanted, value[3], little = next(b) << 8;
    memset(&d, 0, sizeof d);
    d.options = (struct txn_options){.workload = flags & 1,
                                     .between = (flags >> 1 & 3) % 3,
                                     .sources = flags >> 3 & 31,
                                     .time_ns = INT64_MAX,
                                     .memory_bytes = 1 << 24};
    int spoils = more & 3;
    for (int i = 0; i < spoils; i++) {
        what[i] = next(b);
        where[i] = next(b);
        value[i] = anything(b);
    }
    make_history(&d, b);
    d.length[TXN_ORDER] = more & 4 ? d.length[TXN_ORDER] : 0;
    d.length[TXN_VALUE_HASH] = more & 8 ? d.length[TXN_VALUE_HASH] : 0;
    for (int i = 0; i < spoils; i++) {
        spoil(&d, what[i], where[i], value[i]);
    }
    settle(&d, columns);
    in.n_keys = d.n_keys;
    in.n_values = d.n_values;
    in.n_processes = d.n_processes;
    in.n_positions = d.n_positions;
    if (txn_input_of(columns, &in, &which, &wanted) == 0) {
        check_columns(&in, &d.options, little);
    } else {
        require(which >= 0 && which < TXN_COLUMNS && columns[which].length != wanted, "a length");
    }
    for (int i = 0; i < TXN_COLUMNS; i++) {
        free((void *)columns[i].at);
    }
}

static void graph_from(struct bytes *b, int flags)
{
    static struct graph g;
    struct txn_report report;
    struct txn_options options = {.between = flags >> 1 & 3,
                                  .time_ns = INT64_MAX,
                                  .memory_bytes = flags & 8 ? next(b) << 6 : 1 << 24};
    uint32_t n = 1 + (uint32_t)next(b) % NODES, from[EDGES], used = 0;
    uint32_t n_txns = (uint32_t)next(b) % (n + 1);
    int spoils = flags & 1 ? next(b) % 3 + 1 : 0, where[3];
    int64_t value[3];
    memset(&g, 0, sizeof g);
    for (int i = 0; i < spoils; i++) {
        where[i] = next(b);
        value[i] = anything(b);
    }
    for (; b->p < b->end && used < EDGES; used++) {
        from[used] = (uint32_t)next(b) % n;
        int to = next(b);
        g.to[used] = (uint32_t)to % 32 % n;
        g.label[used] = (uint8_t)(to >> 5) % TXN_LABELS;
        g.off[from[used] + 1]++;
    }
    for (uint32_t v = 0; v < n; v++) {
        g.off[v + 1] += g.off[v];
    }
    g.csr = (struct txn_csr){g.off, g.to, g.label, n, n_txns, used};
    for (int i = 0; i < spoils; i++) {
        switch (where[i] % 4) {
        case 0:
            g.off[(uint32_t)where[i] / 4 % (n + 1)] = (uint32_t)value[i];
            break;
        case 1:
            g.to[(uint32_t)where[i] / 4 % EDGES] = (uint32_t)value[i];
            break;
        case 2:
            g.label[(uint32_t)where[i] / 4 % EDGES] = (uint8_t)value[i];
            break;
        default:
            g.csr.n_txns = (uint32_t)value[i];
            break;
        }
    }
    int status = txn_classify(&g.csr, &options, &report);
    require(spoils > 0 || status == TXN_DONE || status == TXN_MEMORY, "a good graph is accepted");
    require((status == TXN_INVALID) == (report.invalid != NULL), "a reason with a refusal");
    require(status == TXN_INVALID || check_cycles(&g, &report) == 0, "cycles of the graph");
    txn_report_free(&report);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes b = {data, data + size};
    int flags = next(&b);
    if (flags & 128) {
        graph_from(&b, flags);
    } else {
        columns_from(&b, flags);
    }
    return 0;
}
