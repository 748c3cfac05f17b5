#define _GNU_SOURCE

/* Memory limits hold: `limits FILE...`, histories in our own notation.
 *
 * Every engine judges a history that makes all of its arrays grow, under limits from nothing to
 * more than it needs. The allocator is replaced (--wrap) by one that counts: whatever the limit,
 * what is held never exceeds it, and who lacks memory says so. Prints the engines. Exit 0 = all as
 * expected.
 */
#include "aut/aut.h"
#include "ingest/ingest.h"
#include "lin/lin.h"
#include "mon/mon.h"
#include "mon/mon_chain.h"
#include "txn/txn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>

void *__real_malloc(size_t size);
void *__real_realloc(void *p, size_t size);
void __real_free(void *p);
void *__real_mmap(void *p, size_t size, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *p, size_t size);
void *__real_mremap(void *p, size_t before, size_t size, int flags);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t size);
void __wrap_free(void *p);
void *__wrap_mmap(void *p, size_t size, int protection, int flags, int fd, off_t offset);
int __wrap_munmap(void *p, size_t size);
void *__wrap_mremap(void *p, size_t before, size_t size, int flags);

static int64_t held, peak;

static void count(int64_t bytes)
{
    int64_t now = __atomic_add_fetch(&held, bytes, __ATOMIC_SEQ_CST), before = peak;
    while (now > before && !__atomic_compare_exchange_n(&peak, &before, now, 0, __ATOMIC_SEQ_CST,
                                                        __ATOMIC_SEQ_CST)) {
    }
}

enum { HEAD = 16 };

void *__wrap_realloc(void *p, size_t size)
{
    char *block = p == NULL ? NULL : (char *)p - HEAD;
    int64_t before = p == NULL ? 0 : *(int64_t *)block;
    block = __real_realloc(block, size + HEAD);
    if (block == NULL) {
        return NULL;
    }
    *(int64_t *)block = (int64_t)size;
    count((int64_t)size - before);
    return block + HEAD;
}

void *__wrap_malloc(size_t size)
{
    return __wrap_realloc(NULL, size);
}

void *__wrap_calloc(size_t number, size_t size)
{
    void *p = __wrap_realloc(NULL, number * size);
    return p == NULL ? NULL : memset(p, 0, number * size);
}

void __wrap_free(void *p)
{
    if (p != NULL) {
        count(-*(int64_t *)((char *)p - HEAD));
        __real_free((char *)p - HEAD);
    }
}

void *__wrap_mmap(void *p, size_t size, int protection, int flags, int fd, off_t offset)
{
    void *at = __real_mmap(p, size, protection, flags, fd, offset);
    count(at == MAP_FAILED ? 0 : (int64_t)size);
    return at;
}

int __wrap_munmap(void *p, size_t size)
{
    count(-(int64_t)size);
    return __real_munmap(p, size);
}

/* Whatever its size was: what is mapped can be grown, else it is copied for nothing. */
void *__wrap_mremap(void *p, size_t before, size_t size, int flags)
{
    void *at = __real_mremap(p, before, size, flags);
    if (at == MAP_FAILED) {
        fprintf(stderr, "mremap refuses to make %zu bytes of %zu\n", size, before);
        exit(1);
    }
    count((int64_t)size - (int64_t)before);
    return at;
}

static void require(int holds, const char *engine, const char *what, int64_t limit)
{
    if (!holds) {
        fprintf(stderr, "%s, limit %lld: %s (held %lld at most)\n", engine, (long long)limit, what,
                (long long)peak);
        abort();
    }
}

static uint64_t state = 88172645463325252u;

static int below(int n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int)((state >> 20) % (uint64_t)n);
}

/* Does it with this limit. 1 = done, 0 = short of memory, -1 = anything else. */
typedef int (*engine)(int64_t limit);

static void try_limits(const char *name, engine run)
{
    int64_t needed = 0;
    for (int64_t limit = 0; needed == 0 && limit < (int64_t)1 << 30; limit += limit / 12 + 64) {
        held = peak = 0;
        int done = run(limit);
        require(done >= 0, name, "a status that the limit does not explain", limit);
        require(done == 1 || limit > 0 || peak == 0, name, "memory without a budget", limit);
        require(peak <= limit, name, "held more than the limit", limit);
        require(held == 0, name, "not all was given back", limit);
        needed = done ? limit + 1 : 0;
    }
    require(needed > 4096, name, "this history makes nothing grow", needed);
    printf("%s\n", name);
}

/* ---- registers, containers, automata ---- */

enum { OPS = 6000, PENDING = 14 };

static uint8_t kind[OPS], pure[3];
static int32_t a[OPS], b[OPS], class[OPS];
static int64_t invoke[OPS], complete[OPS], offsets[2] = {0, OPS};

/* A true register with operations that overlap; some writes are of unknown outcome. */
static void make_register(void)
{
    int now = 0;
    for (int i = 0; i < OPS; i++) {
        int writes = below(2), lost = writes && i % 400 < 8;
        kind[i] = lost ? LIN_WRITE_UNKNOWN : writes ? LIN_WRITE : LIN_READ;
        now = writes && !(lost && i % 3) ? i + 1 : now;
        a[i] = writes ? i + 1 : now;
        b[i] = 0;
        invoke[i] = 10 * i;
        complete[i] = lost ? LIN_NEVER : 10 * i + 5 + below(10) * PENDING;
    }
}

static struct lin_limits limits_of(int64_t memory_bytes)
{
    return (struct lin_limits){INT64_MAX / 4, memory_bytes, 300000, NULL, 0};
}

static int ended(int code, int verdict)
{
    if (code != 0 || (verdict > LIN_ILLEGAL && verdict != LIN_MEMORY && verdict != LIN_STEPS)) {
        return -1;
    }
    return verdict != LIN_MEMORY;
}

static int registers(int64_t limit)
{
    struct lin_input in = {kind, a, b, invoke, complete, OPS, offsets, 1, OPS + 1, 0};
    struct lin_limits limits = limits_of(limit);
    uint8_t verdict;
    int64_t bad, prefix, steps;
    int32_t states[4];
    struct lin_output out = {&verdict, &bad, &prefix, &steps, states, 4};
    struct lin_report report;
    int code = lin_check(&in, &limits, &out, &report);
    return ended(code, verdict);
}

static int chains(int64_t limit)
{
    struct lin_input in = {kind, a, b, invoke, complete, OPS, offsets, 1, OPS + 1, 0};
    struct lin_limits limits = limits_of(limit);
    struct lin_report report;
    uint8_t verdict;
    int code = mon_chains(&in, &limits, &verdict, &report);
    return code == 0 && verdict == MON_UNFIT ? 1 : ended(code, verdict);
}

/* A queue that is filled and emptied; for a stack or by priority its order is wrong. Of the takes
 * one in `maybe` is of unknown outcome, where there are any; then a stack's order is right. */
static int monitor(int64_t limit, int model, int maybe)
{
    struct mon_input in = {kind, a, invoke, complete, OPS, offsets, 1, OPS, model};
    struct lin_limits limits = limits_of(limit);
    struct lin_report report;
    uint8_t verdict;
    for (int i = 0; i < OPS; i++) {
        kind[i] = i % 7 == 6 ? MON_NOTHING : i < OPS / 2 ? MON_PUT : MON_TAKE;
        a[i] = i < OPS / 2 || model != MON_STACK || maybe == OPS ? i % (OPS / 2) : OPS - 1 - i;
        invoke[i] = 10 * i;
        complete[i] = i % 7 == 6 ? 20 * OPS : 10 * i + 5 + i % 40;
    }
    for (int i = OPS / 2; i < OPS; i++) {
        kind[i] = kind[i] == MON_TAKE && a[i] % 7 == 6 ? MON_NOTHING : kind[i];
        kind[i] = kind[i] == MON_TAKE && i % maybe == 0 ? MON_MAYBE : kind[i];
    }
    int code = mon_check(&in, &limits, &verdict, &report);
    return code == 0 && verdict == MON_UNFIT ? 1 : ended(code, verdict);
}

static int queue(int64_t limit)
{
    return monitor(limit, MON_QUEUE, OPS);
}

static int stack(int64_t limit)
{
    return monitor(limit, MON_STACK, OPS);
}

static int queue_of_crashed(int64_t limit)
{
    return monitor(limit, MON_QUEUE, 5);
}

static int stack_of_crashed(int64_t limit)
{
    return monitor(limit, MON_STACK, 5);
}

static int priority(int64_t limit)
{
    return monitor(limit, MON_PRIORITY, OPS);
}

static int zones(int64_t limit)
{
    return monitor(limit, MON_REGISTER, OPS);
}

/* Many states, two after some steps. */
static int ask(void *context, int64_t from, int32_t of, int64_t *to, int max)
{
    (void)context;
    to[0] = of == 0 ? from : (from * 31 + of) % 50021;
    to[1] = (from + 1) % 50021;
    return of == 0 || max < 2 ? 1 : 2;
}

static int automaton(int64_t limit)
{
    int64_t initial = 7, bad, prefix, steps, states[4], n_found;
    uint8_t verdict;
    struct aut_input in = {
        .class = class,
        .invoke = invoke,
        .complete = complete,
        .n_ops = OPS / 20,
        .offsets = (int64_t[]){0, OPS / 20},
        .n_keys = 1,
        .pure = pure,
        .n_classes = 3,
        .initial = &initial,
        .n_initial = 1,
        .ask = ask,
    };
    struct aut_output out = {&verdict, &bad, &prefix, &steps, states, &n_found, 4};
    struct lin_limits limits = limits_of(limit);
    struct lin_report report;
    pure[0] = 1;
    for (int i = 0; i < OPS / 20; i++) {
        class[i] = i % 3;
        invoke[i] = 10 * i;
        complete[i] = i % 29 == 1 ? LIN_NEVER : 10 * i + 5 + i % 4 * 10;
    }
    int code = aut_check(&in, &limits, &out, &report);
    return ended(code, verdict);
}

/* ---- transactions ---- */

enum { TXNS = 3000, READS = 7, MOPS = TXNS * (READS + 1), ELEMS = TXNS };

static uint8_t outcome[TXNS], mop_kind[MOPS], known[MOPS];
static int64_t process[TXNS], at[2][TXNS], mop_start[TXNS + 1], elem_start[MOPS + 1];
static int32_t key[MOPS], value[MOPS], elem[ELEMS];

/* Transactions 2i and 2i + 1 saw one another's write; each then denies its own many times. */
static void make_transactions(int lists)
{
    int m = 0, e = 0;
    for (int t = 0; t < TXNS; t++) {
        process[t] = t % 2;
        at[0][t] = 4 * (t / 2) + t % 2;
        at[1][t] = at[0][t] + 2;
        mop_start[t] = m;
        for (int i = 0; i <= READS; i++, m++) {
            elem_start[m] = e;
            mop_kind[m] = i == 0 ? TXN_WRITE : TXN_READ;
            key[m] = i == 1 ? t ^ 1 : t;
            value[m] = i == 0 ? t : i == 1 && !lists ? t ^ 1 : TXN_NIL;
            known[m] = i < 2 || lists ? 1 : 2;
            if (i == 1 && lists) {
                elem[e++] = t ^ 1;
            }
        }
    }
    mop_start[TXNS] = m;
    elem_start[m] = e;
}

static int transactions(int64_t limit, int workload)
{
    struct txn_input in = {
        .outcome = outcome,
        .process = process,
        .invoke_pos = at[0],
        .complete_pos = at[1],
        .mop_start = mop_start,
        .mop_kind = mop_kind,
        .mop_key = key,
        .mop_value = value,
        .mop_known = known,
        .elem_start = elem_start,
        .elem = elem,
        .n = TXNS,
        .m = MOPS,
        .e = elem_start[MOPS],
        .n_keys = TXNS,
        .n_values = TXNS,
        .n_processes = 2,
        .n_positions = 2 * TXNS,
    };
    struct txn_options options = {.workload = workload,
                                  .between = TXN_REALTIME,
                                  .sources = 7,
                                  .time_ns = INT64_MAX,
                                  .memory_bytes = limit};
    struct txn_report report;
    int status = txn_check(&in, &options, &report);
    int done = status == TXN_DONE ? 1 : status == TXN_MEMORY ? 0 : -1;
    if (done == 1 && (report.findings.used == 0 || report.cycles.used == 0)) {
        done = -1;
    }
    txn_report_free(&report);
    return done;
}

static int list_append(int64_t limit)
{
    return transactions(limit, TXN_LIST_APPEND);
}

static int rw_register(int64_t limit)
{
    return transactions(limit, TXN_RW_REGISTER);
}

/* ---- the reader ---- */

static uint8_t text[1 << 22];
static int64_t text_size;
static int threads;

static int reader(int64_t limit)
{
    struct ing_columns columns;
    struct ing_error error = {"", 0, 0};
    int status = ing_read(text, text_size, ING_OURS, threads, limit, &columns, &error);
    if (status == 0) {
        ing_free(&columns);
    }
    return status == 0 ? 1 : strcmp(error.message, "memory budget spent") == 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
    make_register();
    try_limits("registers", registers);
    try_limits("chains", chains);
    try_limits("queue", queue);
    try_limits("stack", stack);
    try_limits("queue-of-crashed", queue_of_crashed);
    try_limits("stack-of-crashed", stack_of_crashed);
    try_limits("priority", priority);
    try_limits("zones", zones);
    try_limits("automaton", automaton);
    make_transactions(1);
    try_limits("list-append", list_append);
    make_transactions(0);
    try_limits("rw-register", rw_register);
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        require(file != NULL, argv[i], "cannot be opened", 0);
        text_size = (int64_t)fread(text, 1, sizeof text, file);
        fclose(file);
        for (threads = 1; threads <= 2; threads++) {
            try_limits("reader", reader);
        }
    }
    return 0;
}
