/* Sanitizer driver of the linearizability search: `fuzz_lin SEED ROUNDS`.
 *
 * Compares random small histories with a brute-force search and the monitor of unique values,
 * reduces what is illegal, throws malformed columns at the validators, and runs long crash-heavy
 * histories under small budgets. Exit 0 = all as expected.
 */
#include "brute.h"
#include "mon/mon_chain.h"
#include "reduced.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 64 };

static uint64_t state;

static uint64_t random_u64(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * UINT64_C(2685821657736338717);
}

static int below(int n)
{
    return (int)((random_u64() >> 33) % (uint64_t)n);
}

/* Operations of a real register, some results falsified; `truth` 0 leaves them true. */
static void simulate(struct history *h, int n, int values, int crash_percent, int lie_percent)
{
    int now = 0;
    struct {
        int64_t invoke, complete;
        int a, b, kind;
    } op[BIG];
    int spread = 1 + below(30);
    for (int i = 0; i < n; i++) {
        int a = below(values), b = below(values), what = below(10);
        int crashed = below(100) < crash_percent;
        op[i].invoke = 2 * i - below(spread);
        op[i].complete = crashed ? LIN_NEVER : 2 * i + below(spread);
        if (what < 4 && !crashed) {
            op[i].kind = LIN_READ;
            a = now;
        } else if (what < 7) {
            op[i].kind = crashed ? LIN_WRITE_UNKNOWN : LIN_WRITE;
            now = crashed && below(2) ? now : a;
        } else {
            a = below(2) ? now : a;
            op[i].kind = crashed ? LIN_CAS_UNKNOWN : a == now ? LIN_CAS_TRUE : LIN_CAS_FALSE;
            now = a == now && !(crashed && below(2)) ? b : now;
        }
        op[i].a = below(100) < lie_percent ? below(values) : a;
        op[i].b = b;
    }
    h->n = n;
    for (int i = 0; i < n; i++) { /* insertion sort by invocation */
        int at = i;
        for (; at > 0 && h->invoke[at - 1] > op[i].invoke; at--) {
            h->kind[at] = h->kind[at - 1];
            h->a[at] = h->a[at - 1];
            h->b[at] = h->b[at - 1];
            h->invoke[at] = h->invoke[at - 1];
            h->complete[at] = h->complete[at - 1];
        }
        h->kind[at] = (uint8_t)op[i].kind;
        h->a[at] = op[i].a;
        h->b[at] = op[i].b;
        h->invoke[at] = op[i].invoke;
        h->complete[at] = op[i].complete;
    }
}

struct answer {
    uint8_t verdict[KEYS];
    int64_t bad[KEYS], prefix[KEYS], steps[KEYS];
    int32_t states[KEYS * 4];
    struct lin_report report;
    int code;
};

/* Checks a copy of exactly the right size, so that a read beyond the end is caught. */
static void check(const struct history *h, const int64_t *offsets, int n_keys, int values,
                  struct lin_limits limits, struct answer *out)
{
    size_t n = (size_t)h->n;
    uint8_t *kind = malloc(n + 1);
    int32_t *ab = malloc(2 * n * sizeof *ab + 1);
    int64_t *times = malloc(2 * n * sizeof *times + 1);
    memcpy(kind, h->kind, n);
    memcpy(ab, h->a, n * sizeof *ab);
    memcpy(ab + n, h->b, n * sizeof *ab);
    memcpy(times, h->invoke, n * sizeof *times);
    memcpy(times + n, h->complete, n * sizeof *times);
    struct lin_input in = {kind, ab, ab + n, times, times + n, h->n, offsets, n_keys, values, 0};
    struct lin_output output = {out->verdict, out->bad, out->prefix, out->steps, out->states, 4};
    uint8_t *chains = calloc((size_t)n_keys + 1, 1);
    struct lin_report report;
    int code = mon_chains(&in, &limits, chains, &report);
    out->code = lin_check(&in, &limits, &output, &out->report);
    for (int k = 0; k < n_keys && code == 0 && out->code == 0; k++) {
        if (chains[k] <= LIN_ILLEGAL && out->verdict[k] <= LIN_ILLEGAL &&
            chains[k] != out->verdict[k]) {
            fprintf(stderr, "chains %d, search %d\n", chains[k], out->verdict[k]);
            out->code = 1;
        }
    }
    int known = n_keys == 1 && out->code == 0 && out->verdict[0] <= LIN_ILLEGAL;
    int verdict = known ? out->verdict[0] : LIN_INVALID;
    const char *wrong = out->code > 0 ? NULL : wrongly_reduced(&in, &limits, verdict);
    if (wrong != NULL) {
        fprintf(stderr, "reduced: %s\n", wrong);
        out->code = 1;
    }
    free(chains);
    free(kind);
    free(ab);
    free(times);
}

static const struct lin_limits plenty = {60000000000, 1 << 28, 0, NULL, 0};

static int compare_small(struct history *h)
{
    struct answer out;
    simulate(h, 1 + below(SMALL), 2 + below(VALUES - 1), 10 * below(6), 3 * below(5));
    for (int i = 0; i < h->n; i++) {
        if (below(20) == 0 && h->complete[i] == LIN_NEVER) {
            h->kind[i] = LIN_READ_UNKNOWN; /* ignored; brute force sees an unknown write of */
            h->a[i] = h->b[i] = 0;         /* nothing: take it out below */
        }
    }
    int n = 0;
    struct history without = *h;
    for (int i = 0; i < h->n; i++) {
        if (h->kind[i] != LIN_READ_UNKNOWN) {
            without.kind[n] = h->kind[i];
            without.a[n] = h->a[i];
            without.b[n] = h->b[i];
            without.invoke[n] = h->invoke[i];
            without.complete[n++] = h->complete[i];
        }
    }
    without.n = n;
    memset(seen, 0, sizeof seen);
    int expected = search(&without, 0, 0) ? LIN_OK : LIN_ILLEGAL;
    int64_t offsets[2] = {0, h->n};
    struct lin_limits limits = plenty;
    limits.exact_states = below(2);
    check(h, offsets, 1, VALUES, limits, &out);
    if (out.code != 0 || out.verdict[0] != expected) {
        fprintf(stderr, "expected %d, got %d (code %d)\n", expected, out.verdict[0], out.code);
        for (int i = 0; i < h->n; i++) {
            fprintf(stderr, "  kind %d a %d b %d [%lld, %lld]\n", h->kind[i], h->a[i], h->b[i],
                    (long long)h->invoke[i], (long long)h->complete[i]);
        }
        return 1;
    }
    return 0;
}

/* Any garbage must be refused or judged, and never touch memory that is not ours. */
static int throw_garbage(struct history *h)
{
    struct answer out;
    int64_t offsets[KEYS + 1];
    simulate(h, below(40), VALUES, 30, 10);
    int n_keys = below(8);
    for (int k = 0; k <= n_keys; k++) {
        offsets[k] = k == 0 ? 0 : k == n_keys ? h->n : offsets[k - 1] + below(9);
    }
    for (int hits = below(4); hits > 0 && h->n > 0; hits--) {
        int i = below(h->n);
        switch (below(6)) {
        case 0:
            h->kind[i] = (uint8_t)random_u64();
            break;
        case 1:
            h->a[i] = (int32_t)random_u64();
            break;
        case 2:
            h->b[i] = (int32_t)random_u64();
            break;
        case 3:
            h->invoke[i] = (int64_t)random_u64();
            break;
        case 4:
            h->complete[i] = (int64_t)random_u64();
            break;
        default:
            offsets[below(n_keys + 1)] = (int64_t)random_u64();
        }
    }
    int values = below(20) == 0 ? (int)random_u64() % 3 : VALUES;
    check(h, offsets, n_keys, values, plenty, &out);
    return out.code != 0 && (out.code != -1 || out.report.invalid == NULL);
}

/* Budgets end the search; memory of 0 and time of 0 too. */
static int starve(struct history *h)
{
    struct answer out;
    simulate(h, BIG - below(BIG), 1 + below(20), below(60), below(2));
    int64_t offsets[2] = {0, h->n};
    int32_t stop = below(10) == 0;
    struct lin_limits limits = {below(30) * 1000000, below(1 << 22), below(3) * 100000, &stop, 0};
    check(h, offsets, 1, 20, limits, &out);
    return out.code != 0 || out.verdict[0] > LIN_STEPS;
}

int main(int argc, char **argv)
{
    static struct history h;
    if (argc != 3) {
        fprintf(stderr, "fuzz_lin SEED ROUNDS\n");
        return 2;
    }
    state = strtoull(argv[1], NULL, 10) * 2 + 1;
    int rounds = atoi(argv[2]);
    for (int i = 0; i < rounds; i++) {
        if (compare_small(&h) || throw_garbage(&h) || (i % 200 == 0 && starve(&h))) {
            fprintf(stderr, "round %d failed\n", i);
            return 1;
        }
    }
    printf("%d rounds\n", rounds);
    return 0;
}
