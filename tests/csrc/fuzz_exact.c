/* Random register histories through the exact checkers of isolation: fuzz_exact SEED ROUNDS.
 *
 * One line per history with all answers, so that builds with other limits can be compared. A model
 * holds where one holds that implies it; a smaller budget, a stop flag or no time may leave answers
 * open and must not turn them round; columns with anything in them are refused or answered.
 */
#include "iso/iso.h"
#include "ord/ord.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TXNS = 200, MOPS = 1200, KEYS = 12, VERSIONS = 64 };

static uint64_t state;

static uint32_t below(uint32_t n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state * UINT64_C(2685821657736338717)) >> 33) % n;
}

static void require(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "violated: %s\n", what);
        abort();
    }
}

struct columns {
    uint8_t outcome[TXNS], kind[MOPS], known[MOPS];
    int64_t process[TXNS], invoke[TXNS], complete[TXNS], mop_start[TXNS + 1];
    int64_t elem_start[MOPS + 1];
    int32_t key[MOPS], value[MOPS];
    int64_t n, m;
    int32_t n_values;
};

/* What a store holds of each key, oldest first. */
struct store {
    int32_t version[KEYS][VERSIONS];
    uint32_t used[KEYS];
};

static void write_one(struct columns *c, struct store *s, uint32_t key, int32_t unique)
{
    int32_t value = unique ? c->n_values : (int32_t)s->used[key];
    c->n_values = value >= c->n_values ? value + 1 : c->n_values;
    c->value[c->m] = value;
    if (s->used[key] < VERSIONS) {
        s->version[key][s->used[key]++] = value;
    }
}

static void read_one(struct columns *c, const struct store *s, uint32_t key, uint32_t lag,
                     uint32_t wrong)
{
    uint32_t used = s->used[key], back = lag == 0 ? 0 : below(lag + 1);
    c->value[c->m] = used > back ? s->version[key][used - 1 - back] : TXN_NIL;
    if (wrong > 0 && below(100) < wrong) {
        c->value[c->m] = used > 0 && below(4) > 0 ? s->version[key][below(used)] : TXN_NIL;
    }
}

static void make(struct columns *c)
{
    struct store s;
    uint32_t n = below(4) == 0 ? 1 + below(TXNS) : 1 + below(12), keys = 1 + below(KEYS);
    uint32_t processes = 1 + below(6), lag = below(4), wrong = below(3) * below(12);
    int32_t unique = below(3) > 0;
    int64_t last[6] = {-1, -1, -1, -1, -1, -1}, position = 0;
    memset(c, 0, sizeof *c);
    memset(&s, 0, sizeof s);
    for (uint32_t t = 0; t < n && c->m + 8 < MOPS; t++) {
        uint32_t process = below(processes), ok = below(12) > 0;
        c->outcome[t] = ok ? TXN_OK : below(2) ? TXN_INFO : TXN_FAIL;
        c->process[t] = below(30) == 0 ? -1 : (int64_t)process;
        c->mop_start[t] = c->m;
        for (uint32_t i = below(6); i > 0; i--, c->m++) {
            uint32_t key = below(keys);
            c->kind[c->m] = below(2) ? TXN_WRITE : TXN_READ;
            c->key[c->m] = (int32_t)key;
            if (c->kind[c->m] == TXN_WRITE && s.used[key] < VERSIONS) {
                write_one(c, &s, key, unique);
            } else {
                c->kind[c->m] = TXN_READ;
                read_one(c, &s, key, lag, wrong);
            }
            c->known[c->m] = ok || c->kind[c->m] == TXN_WRITE;
        }
        c->invoke[t] = position++;
        c->complete[t] = -1;
        last[process] = t;
        /* some of those that are under way complete */
        for (uint32_t u = 0; u <= t; u++) {
            int due = c->complete[u] < 0 &&
                      (below(3) == 0 || (int64_t)u != last[c->process[u] < 0 ? 0 : c->process[u]]);
            if (due) {
                c->complete[u] = position++;
            }
        }
        c->n++;
    }
    for (int64_t t = 0; t < c->n; t++) {
        if (c->complete[t] < 0) {
            c->complete[t] = position++;
        }
    }
    c->mop_start[c->n] = c->m;
}

static struct txn_input input_of(const struct columns *c)
{
    return (struct txn_input){
        .outcome = c->outcome,
        .process = c->process,
        .invoke_pos = c->invoke,
        .complete_pos = c->complete,
        .mop_start = c->mop_start,
        .mop_kind = c->kind,
        .mop_key = c->key,
        .mop_value = c->value,
        .mop_known = c->known,
        .elem_start = c->elem_start,
        .elem = c->value,
        .n = c->n,
        .m = c->m,
        .n_keys = KEYS,
        .n_values = c->n_values,
        .n_processes = 6,
        .n_positions = 2 * c->n,
    };
}

struct answers {
    int status, iso[ISO_MODELS], ord[ORD_MODELS];
};

static struct answers ask(const struct columns *c, const struct txn_options *options,
                          uint32_t slack)
{
    struct txn_input in = input_of(c);
    struct iso_known known = {NULL, NULL, 0};
    struct ord_reads none = {.count = 0};
    struct iso_report iso;
    struct ord_report ord;
    struct answers a;
    a.status = iso_check(&in, options, (1u << ISO_MODELS) - 1, known, &iso);
    memcpy(a.iso, iso.answers, sizeof a.iso);
    int again = ord_check(&in, options, (1u << ORD_MODELS) - 1, slack, none, &ord);
    memcpy(a.ord, ord.answers, sizeof a.ord);
    a.status = a.status == TXN_DONE ? again : a.status;
    iso_report_free(&iso);
    ord_report_free(&ord);
    return a;
}

/* Some reads with the candidates that each can have read from: last writes of the key by others that
 * did not fail, as if they had written the same value. */
struct open_reads {
    int64_t read[MOPS], first[MOPS + 1], write[MOPS * 8];
    uint8_t known[MOPS];
};

static int64_t txn_of(const struct columns *c, int64_t mop)
{
    int64_t t = 0;
    while (t + 1 < c->n && c->mop_start[t + 1] <= mop) {
        t++;
    }
    return t;
}

static int is_candidate(const struct columns *c, int64_t read, int64_t write)
{
    int64_t reader = txn_of(c, read), writer = txn_of(c, write);
    if (c->kind[write] != TXN_WRITE || c->key[write] != c->key[read] || reader == writer ||
        c->outcome[writer] == TXN_FAIL) {
        return 0;
    }
    for (int64_t i = write + 1; i < c->mop_start[writer + 1]; i++) {
        if (c->kind[i] == TXN_WRITE && c->key[i] == c->key[write]) {
            return 0;
        }
    }
    return 1;
}

/* Is it the only read of its key by an acknowledged transaction that has not written it before? */
static int may_open(const struct columns *c, int64_t read)
{
    int64_t t = txn_of(c, read);
    if (c->kind[read] != TXN_READ || c->outcome[t] != TXN_OK || c->value[read] == TXN_NIL) {
        return 0;
    }
    for (int64_t i = c->mop_start[t]; i < c->mop_start[t + 1]; i++) {
        if (i != read && c->key[i] == c->key[read] && (i < read || c->kind[i] == TXN_READ)) {
            return 0;
        }
    }
    return 1;
}

static void open_some(struct columns *c, struct open_reads *o, struct ord_reads *reads)
{
    int64_t used = 0, count = 0;
    o->first[0] = 0;
    memcpy(o->known, c->known, sizeof o->known);
    for (int64_t r = 0; r < c->m && used + MOPS < MOPS * 8; r++) {
        int64_t before = used, true_one = 0;
        if (!may_open(c, r) || below(3) == 0) {
            continue;
        }
        for (int64_t w = 0; w < c->m; w++) {
            if (is_candidate(c, r, w) && (c->value[w] == c->value[r] || below(3) == 0)) {
                o->write[used++] = w;
                true_one |= c->value[w] == c->value[r];
            }
        }
        if (!true_one || used - before < 2) {
            used = before;
            continue;
        }
        o->read[count] = r;
        c->known[r] = 0;
        o->first[++count] = used;
    }
    *reads = (struct ord_reads){o->read, o->first, o->write, count, used, NULL};
}

/* What holds of a history holds where a few of its reads might have been others as well; under less
 * nothing turns round; open reads that may be anything are refused or answered. */
static void check_open(struct columns *c, const struct answers *full, struct txn_options options)
{
    static struct open_reads o;
    struct txn_input in = input_of(c);
    struct ord_reads reads;
    struct ord_report found, less;
    open_some(c, &o, &reads);
    int status = ord_check(&in, &options, (1u << ORD_MODELS) - 1, 0, reads, &found);
    require(status == TXN_DONE || full->status != TXN_DONE, "open reads are taken");
    for (int m = 0; status == TXN_DONE && m < ORD_MODELS; m++) {
        require(full->ord[m] != ORD_VALID || found.answers[m] == ORD_VALID, "open and valid");
    }
    options.memory_bytes = below(1 << (6 + below(14)));
    ord_check(&in, &options, (1u << ORD_MODELS) - 1, below(9), reads, &less);
    for (int m = 0; m < ORD_MODELS; m++) {
        require(less.answers[m] == ORD_OPEN || found.answers[m] == ORD_OPEN ||
                    less.answers[m] == found.answers[m],
                "the same answer of open reads under less");
    }
    ord_report_free(&less);
    ord_report_free(&found);
    options.memory_bytes = 1 << 26;
    int64_t odd[] = {-1, 0, 1, c->m, INT64_MAX, INT64_MIN, below(MOPS)};
    int64_t *spoilt[] = {o.read, o.first, o.write},
            size[] = {reads.count, reads.count + 1, reads.candidates};
    uint32_t which = below(3);
    if (size[which] > 0) {
        spoilt[which][below((uint32_t)size[which])] = odd[below(7)];
    }
    ord_check(&in, &options, (1u << ORD_MODELS) - 1, 0, reads, &less);
    ord_report_free(&less);
    memcpy(c->known, o.known, sizeof o.known);
}

static void check_lattice(const struct answers *a)
{
    static const int iso[][2] = {
        {ISO_SESSION_CAUSAL, ISO_SESSION_ATOMIC},
        {ISO_SESSION_ATOMIC, ISO_SESSION_VIEW},
        {ISO_SESSION_VIEW, ISO_SESSION_COMMITTED},
        {ISO_SESSION_CAUSAL, ISO_CAUSAL},
        {ISO_CAUSAL, ISO_ATOMIC},
        {ISO_ATOMIC, ISO_VIEW},
        {ISO_VIEW, ISO_COMMITTED},
        {ISO_SESSION_COMMITTED, ISO_COMMITTED},
    };
    static const int ord[][2] = {
        {ORD_SESSION_SER, ORD_SER}, {ORD_SESSION_SER, ORD_SESSION_SI}, {ORD_SER, ORD_SI},
        {ORD_SESSION_SI, ORD_SI},   {ORD_STRICT_SER, ORD_STRICT_SI},
    };
    for (size_t i = 0; i < sizeof iso / sizeof *iso; i++) {
        require(a->iso[iso[i][0]] != ISO_VALID || a->iso[iso[i][1]] != ISO_VIOLATED, "iso");
    }
    for (size_t i = 0; i < sizeof ord / sizeof *ord; i++) {
        require(a->ord[ord[i][0]] != ORD_VALID || a->ord[ord[i][1]] != ORD_VIOLATED, "ord");
    }
    require(a->ord[ORD_SI] != ORD_VALID || a->iso[ISO_CAUSAL] != ISO_VIOLATED, "causal below SI");
    require(a->ord[ORD_SESSION_SI] != ORD_VALID || a->iso[ISO_SESSION_CAUSAL] != ISO_VIOLATED,
            "causal below SI, with sessions");
}

/* Under less, answers may be open; they are not the opposite ones. */
static void check_less(const struct answers *full, const struct answers *less)
{
    for (int m = 0; m < ISO_MODELS; m++) {
        require(less->iso[m] == ISO_OPEN || full->iso[m] == ISO_OPEN ||
                    less->iso[m] == full->iso[m],
                "the same answer of iso under less");
    }
    for (int m = 0; m < ORD_MODELS; m++) {
        require(less->ord[m] == ORD_OPEN || full->ord[m] == ORD_OPEN ||
                    less->ord[m] == full->ord[m],
                "the same answer of ord under less");
    }
}

static void spoil(struct columns *c)
{
    int64_t at = c->n > 0 ? below((uint32_t)c->n) : 0, mop = c->m > 0 ? below((uint32_t)c->m) : 0;
    int64_t odd[] = {-1, -2, 7, INT32_MAX, INT64_MAX, INT64_MIN, 3};
    int64_t value = odd[below(7)];
    switch (below(8)) {
    case 0:
        c->outcome[at] = (uint8_t)value;
        break;
    case 1:
        c->process[at] = value;
        break;
    case 2:
        c->invoke[at] = value;
        break;
    case 3:
        c->complete[at] = value;
        break;
    case 4:
        c->mop_start[at] = value;
        break;
    case 5:
        c->key[mop] = (int32_t)value;
        break;
    case 6:
        c->value[mop] = (int32_t)value;
        break;
    default:
        c->known[mop] = (uint8_t)value;
    }
}

static void print(const struct answers *a)
{
    for (int m = 0; m < ISO_MODELS; m++) {
        putchar('0' + a->iso[m]);
    }
    putchar(' ');
    for (int m = 0; m < ORD_MODELS; m++) {
        putchar('0' + a->ord[m]);
    }
    putchar('\n');
}

int main(int argc, char **argv)
{
    static struct columns c;
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    long rounds = argc > 2 ? strtol(argv[2], NULL, 10) : 1000;
    int32_t stop = 1;
    for (long i = 0; i < rounds; i++) {
        state = (seed * UINT64_C(0x9E3779B97F4A7C15)) ^
                ((uint64_t)i + 1) * UINT64_C(88172645463325253);
        struct txn_options options = {
            .workload = TXN_RW_REGISTER, .time_ns = INT64_MAX, .memory_bytes = 1 << 26};
        make(&c);
        struct answers full = ask(&c, &options, 0), less;
        check_lattice(&full);
        print(&full);
        less = ask(&c, &options, 1 + below(12));
        check_less(&full, &less);
        options.memory_bytes = below(1 << (6 + below(14)));
        less = ask(&c, &options, 0);
        check_less(&full, &less);
        options.memory_bytes = 1 << 26;
        options.stop = &stop;
        less = ask(&c, &options, 0);
        check_less(&full, &less);
        options.stop = NULL;
        options.time_ns = 0;
        less = ask(&c, &options, 0);
        check_less(&full, &less);
        options.time_ns = INT64_MAX;
        check_open(&c, &full, options);
        spoil(&c);
        ask(&c, &options, below(3));
    }
    return 0;
}
