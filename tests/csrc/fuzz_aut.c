/* Sanitizer driver of the automaton search and the monitors: `fuzz_aut SEED ROUNDS`.
 *
 * Compares random small histories of random automata with a brute-force search, throws malformed
 * columns at the validators, and runs longer histories under small budgets. Exit 0 = as expected.
 */
#include "aut/aut.h"
#include "mon/mon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = 7, STATES = 4, CLASSES = 5, LONG = 400 };

static uint64_t seed;

static uint64_t random_u64(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed * UINT64_C(2685821657736338717);
}

static int below(int n)
{
    return (int)((random_u64() >> 33) % (uint64_t)n);
}

struct machine {
    int count[STATES][CLASSES];
    int64_t to[STATES][CLASSES][2];
    uint8_t pure[CLASSES];
    int64_t lo[CLASSES], hi[CLASSES], delta[CLASSES];
    int affine;
};

struct history {
    int32_t class[LONG];
    int64_t invoke[LONG], complete[LONG];
    int n;
};

static int ask(void *context, int64_t state, int32_t class, int64_t *to, int max)
{
    const struct machine *m = context;
    if (max < 2 || state < 0 || state >= STATES) {
        return -1;
    }
    memcpy(to, m->to[state][class], sizeof m->to[state][class]);
    return m->count[state][class];
}

static void make_machine(struct machine *m)
{
    memset(m, 0, sizeof *m);
    m->affine = below(3) == 0;
    for (int k = 0; k < CLASSES; k++) {
        m->pure[k] = (uint8_t)(below(3) == 0);
        int free = below(2);
        m->lo[k] = free ? INT64_MIN : below(4);
        m->hi[k] = free ? INT64_MAX : m->lo[k] + below(3);
        m->delta[k] = m->pure[k] ? 0 : below(5) - 2;
        for (int s = 0; s < STATES; s++) {
            m->count[s][k] = m->pure[k] ? below(2) : below(3);
            m->to[s][k][0] = m->pure[k] ? s : below(STATES);
            m->to[s][k][1] = (m->to[s][k][0] + 1) % STATES;
        }
    }
}

static void make_history(struct history *h, int n, int crash)
{
    int64_t at = -20;
    h->n = n;
    for (int i = 0; i < n; i++) {
        at += below(5);
        h->class[i] = below(CLASSES);
        h->invoke[i] = at;
        h->complete[i] = below(100) < crash ? LIN_NEVER : at + below(12);
    }
}

static int explains(const struct machine *m, const struct history *h, int done, int64_t state)
{
    int must = 1;
    for (int i = 0; i < h->n; i++) {
        must &= (done >> i & 1) || h->complete[i] == LIN_NEVER;
    }
    if (must) {
        return 1;
    }
    for (int i = 0; i < h->n; i++) {
        int free = !(done >> i & 1);
        for (int j = 0; j < h->n && free; j++) {
            free = (done >> j & 1) || h->complete[j] >= h->invoke[i];
        }
        int k = h->class[i];
        if (!free) {
            continue;
        }
        if (m->affine) {
            if (state >= m->lo[k] && state <= m->hi[k] &&
                explains(m, h, done | 1 << i, state + m->delta[k])) {
                return 1;
            }
            continue;
        }
        for (int t = 0; t < m->count[state][k]; t++) {
            if (explains(m, h, done | 1 << i, m->to[state][k][t])) {
                return 1;
            }
        }
    }
    return 0;
}

static int search(const struct machine *m, const struct history *h, int64_t memory, int64_t steps,
                  struct lin_report *report)
{
    int64_t offsets[2] = {0, h->n}, bad, prefix, used, states[8], found, begin = 0;
    uint8_t verdict = 99;
    struct aut_input in = {
        h->class,
        h->invoke,
        h->complete,
        h->n,
        offsets,
        1,
        m->pure,
        CLASSES,
        m->lo,
        m->hi,
        m->delta,
        &begin,
        1,
        m->affine ? NULL : ask,
        (void *)(uintptr_t)m,
    };
    struct aut_output out = {&verdict, &bad, &prefix, &used, states, &found, 8};
    struct lin_limits limits = {INT64_C(5000000000), memory, steps, NULL, 0};
    return aut_check(&in, &limits, &out, report) != 0 ? -1 : verdict;
}

/* Columns that may break any rule. */
static void monitors(int n)
{
    uint8_t kind[LONG], verdict[3];
    int32_t value[LONG];
    int64_t invoke[LONG], complete[LONG], at = 0;
    int wild = below(4) == 0;
    for (int i = 0; i < n; i++) {
        at += below(4);
        kind[i] = (uint8_t)below(wild && below(50) == 0 ? 9 : 4);
        value[i] = below(wild ? n + 2 : n) - (wild && below(50) == 0);
        invoke[i] = wild && below(60) == 0 ? at - 5 : at;
        complete[i] = below(10) == 0 && kind[i] == MON_PUT ? LIN_NEVER : at + below(20);
    }
    int64_t middle = below(n + 1), offsets[4] = {0, middle, middle, n};
    if (wild && below(20) == 0) {
        offsets[1 + below(3)] = below(2 * n);
    }
    for (int model = 0; model < MON_MODELS; model++) {
        struct mon_input in = {kind, value, invoke, complete, n, offsets, 3, n, model};
        struct lin_limits limits = {0, below(3) ? 1 << 24 : below(1 << 14), 0, NULL, 0};
        struct lin_report report;
        (void)mon_check(&in, &limits, verdict, &report);
    }
}

/* Values that are put once and taken at most once, some by takes of unknown outcome: what is legal
 * of few stays so with one more of those. */
static int crashed(int n)
{
    uint8_t kind[LONG + 1], verdict = 99, more = 99;
    int32_t value[LONG + 1];
    int64_t invoke[LONG + 1], complete[LONG + 1], offsets[2] = {0, n}, at = 0;
    int held[LONG], n_held = 0, width = 1 + below(20), share = 1 + below(9);
    for (int i = 0; i < n; i++) {
        at += below(6);
        kind[i] = MON_PUT;
        value[i] = i;
        if (n_held > 0 && below(2)) {
            int which = below(8) == 0 ? below(n_held) : n_held - 1;
            kind[i] = below(10) < share ? MON_MAYBE : MON_TAKE;
            value[i] = held[which];
            memmove(held + which, held + which + 1, (size_t)(--n_held - which) * sizeof *held);
        } else if (below(6) == 0) {
            kind[i] = MON_NOTHING;
        } else {
            held[n_held++] = i;
        }
        invoke[i] = at;
        complete[i] = kind[i] == MON_PUT && below(20) == 0 ? LIN_NEVER : at + below(width);
    }
    for (int model = 0; model < MON_REGISTER; model++) {
        struct mon_input in = {kind, value, invoke, complete, n, offsets, 1, n, model};
        struct lin_limits limits = {0, 1 << 24, 0, NULL, 0};
        struct lin_report report;
        kind[n] = MON_MAYBE;
        value[n] = 0;
        invoke[n] = complete[n] = at;
        if (mon_check(&in, &limits, &verdict, &report) != 0) {
            return 0;
        }
        in.n_ops = offsets[1] = n + 1;
        if (mon_check(&in, &limits, &more, &report) != 0 || (verdict == LIN_OK && more != LIN_OK)) {
            return 0;
        }
        offsets[1] = n;
    }
    return 1;
}

int main(int argc, char **argv)
{
    seed = argc > 1 ? strtoull(argv[1], NULL, 10) * 2654435761u + 1 : 1;
    int rounds = argc > 2 ? atoi(argv[2]) : 1000, good = 0;
    for (int round = 0; round < rounds; round++) {
        struct machine m;
        struct history h;
        struct lin_report report;
        make_machine(&m);
        make_history(&h, 1 + below(SMALL), below(2) ? 30 : 0);
        int got = search(&m, &h, 1 << 26, 0, &report), want = !explains(&m, &h, 0, 0);
        good += !want;
        if (got != want) {
            fprintf(stderr, "round %d: %d instead of %d\n", round, got, want);
            return 1;
        }
        make_history(&h, LONG, 20);
        got = search(&m, &h, below(1 << 18), 20000, &report);
        if (got < 0 || got > LIN_STEPS) {
            fprintf(stderr, "round %d: long one gives %d\n", round, got);
            return 1;
        }
        int at = below(LONG);
        h.class[at] = below(2) ? -1 : CLASSES;
        if (search(&m, &h, 1 << 26, 1000, &report) != -1) {
            fprintf(stderr, "round %d: a wrong class was taken\n", round);
            return 1;
        }
        monitors(1 + below(LONG));
        if (!crashed(1 + below(LONG))) {
            fprintf(stderr, "round %d: one more take of unknown outcome made it worse\n", round);
            return 1;
        }
    }
    if (good < rounds / 20 || good > rounds - rounds / 20) {
        fprintf(stderr, "%d of %d are linearizable: too one-sided\n", good, rounds);
        return 1;
    }
    printf("%d rounds\n", rounds);
    return 0;
}
