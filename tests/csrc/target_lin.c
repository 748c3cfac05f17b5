/* The linearizability search as a target for libFuzzer: any columns, any offsets, any budget.
 *
 * A refusal gives a reason (a key that no memory was left for is not looked at), a verdict is one
 * of the known, and no budget turns one verdict into the other. One register of few operations and
 * known values must be judged as by brute force, and the monitor of unique values never answers
 * the opposite. What is illegal stays so when it is reduced.
 */
#include "brute.h"
#include "mon/mon_chain.h"
#include "reduced.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPS = 64, KEYS = 8 };

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
    static const int64_t limits[] = {INT64_MIN, INT64_MAX,  INT64_MAX - 1, INT32_MIN,
                                     INT32_MAX, UINT32_MAX, 255,           (int64_t)1 << 40};
    int what = next(b);
    uint64_t value = 0;
    if (what < 240) {
        return what - 16;
    }
    if (what < 248) {
        return limits[what - 240];
    }
    for (int i = 0; i < 8; i++) {
        value = value << 8 | (uint64_t)next(b);
    }
    return (int64_t)value;
}

struct answer {
    uint8_t verdict[KEYS];
    int64_t bad[KEYS], prefix[KEYS], steps[KEYS];
    int32_t states[KEYS * 3];
    int code;
};

/* Columns and answers are blocks of exactly their size. */
static void check(const struct history *h, const int64_t *offsets, int n_keys, int values,
                  int initial, struct lin_limits limits, struct answer *out)
{
    size_t n = (size_t)h->n, keys = (size_t)n_keys;
    const void *from[] = {h->kind, h->a, h->b, h->invoke, h->complete, offsets};
    size_t size[] = {n, 4 * n, 4 * n, 8 * n, 8 * n, 8 * (keys + 1)};
    void *column[6], *answer[] = {malloc(keys), malloc(8 * keys), malloc(8 * keys),
                                  malloc(8 * keys), malloc(12 * keys)};
    struct lin_report report = {NULL, 0};
    for (int i = 0; i < 6; i++) {
        column[i] = malloc(size[i]);
        memcpy(column[i], from[i], size[i]);
    }
    struct lin_input in = {column[0], column[1], column[2], column[3], column[4],
                           h->n,      column[5], n_keys,    values,    initial};
    struct lin_output output = {answer[0], answer[1], answer[2], answer[3], answer[4], 3};
    uint8_t *chains = malloc(keys);
    int chained = mon_chains(&in, &limits, chains, &report);
    require(chained == 0 || (chained == -1 && report.invalid != NULL), "a reason of the monitor");
    out->code = lin_check(&in, &limits, &output, &report);
    require(out->code == 0 || (out->code == -1 && report.invalid != NULL), "a reason");
    for (int k = 0; k < n_keys && out->code == 0; k++) {
        out->verdict[k] = ((uint8_t *)answer[0])[k];
        out->bad[k] = ((int64_t *)answer[1])[k];
        require(out->verdict[k] < LIN_INVALID, "a known verdict");
        require(out->verdict[k] == LIN_ILLEGAL
                    ? out->bad[k] >= offsets[k] && out->bad[k] < offsets[k + 1]
                    : out->bad[k] == -1,
                "an operation that cannot be placed, of this key");
        require(chained != 0 || chains[k] > LIN_ILLEGAL || out->verdict[k] > LIN_ILLEGAL ||
                    chains[k] == out->verdict[k],
                "the monitor's verdict");
    }
    int known = n_keys == 1 && out->code == 0 && out->verdict[0] <= LIN_ILLEGAL;
    int judged = known ? out->verdict[0] : LIN_INVALID;
    const char *wrong = wrongly_reduced(&in, &limits, judged);
    require(wrong == NULL, wrong == NULL ? "" : wrong);
    free(chains);
    for (int i = 0; i < 6; i++) {
        free(column[i]);
    }
    for (int i = 0; i < 5; i++) {
        free(answer[i]);
    }
}

static void make_history(struct history *h, struct bytes *b)
{
    int64_t now = 0;
    for (h->n = 0; b->p < b->end && h->n < OPS; h->n++) {
        int what = next(b), times = next(b), kind = (what & 7) % LIN_KINDS, i = h->n;
        now += times & 7;
        h->kind[i] = (uint8_t)kind;
        h->a[i] = (what >> 3 & 3) % VALUES;
        h->b[i] = (what >> 5) % VALUES;
        h->invoke[i] = now;
        h->complete[i] = kind >= LIN_WRITE_UNKNOWN ? LIN_NEVER : now + (times >> 3);
    }
}

static void spoil(struct history *h, int64_t *offsets, int n_keys, struct bytes *b)
{
    int what = next(b), i = h->n == 0 ? 0 : next(b) % h->n;
    int64_t value = anything(b);
    switch (what % 6) {
    case 0:
        h->kind[i] = (uint8_t)value;
        break;
    case 1:
        h->a[i] = (int32_t)value;
        break;
    case 2:
        h->b[i] = (int32_t)value;
        break;
    case 3:
        h->invoke[i] = value;
        break;
    case 4:
        h->complete[i] = value;
        break;
    default:
        offsets[what / 6 % (n_keys + 1)] = value;
        break;
    }
}

/* Does brute force know what to do with it? */
static int is_small(const struct history *h)
{
    int known = h->n <= SMALL;
    for (int i = 0; i < h->n && known; i++) {
        known = h->kind[i] < LIN_READ_UNKNOWN;
    }
    return known;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct history h;
    static const struct lin_limits plenty = {INT64_MAX / 4, 1 << 26, 200000, NULL, 0};
    struct bytes b = {data, data + size};
    struct answer full, other;
    int64_t offsets[KEYS + 1] = {0};
    int flags = next(&b), n_keys = 1 + flags % 4, spoils = flags >> 2 & 3;
    int values = flags & 16 ? (int)anything(&b) : VALUES;
    int initial = flags & 32 ? (int)anything(&b) : 0;
    struct lin_limits little = {INT64_MAX / 4, next(&b) << 6, next(&b), NULL, flags >> 6 & 1};
    struct bytes spoiling = b;
    b.p += b.end - b.p < 3 * spoils ? b.end - b.p : 3 * spoils;
    make_history(&h, &b);
    for (int k = 1; k <= n_keys; k++) {
        offsets[k] = k == n_keys ? h.n : h.n * k / n_keys;
    }
    for (int i = 0; i < spoils; i++) {
        spoil(&h, offsets, n_keys, &spoiling);
    }
    check(&h, offsets, n_keys, values, initial, plenty, &full);
    check(&h, offsets, n_keys, values, initial, little, &other);
    require(full.code != 0 || other.code == 0, "accepted with any budget");
    for (int k = 0; k < n_keys && full.code == 0 && other.code == 0; k++) {
        require(full.verdict[k] > LIN_ILLEGAL || other.verdict[k] > LIN_ILLEGAL ||
                    full.verdict[k] == other.verdict[k],
                "one verdict");
    }
    if (full.code == 0 && n_keys == 1 && spoils == 0 && values == VALUES && is_small(&h)) {
        memset(seen, 0, sizeof seen);
        require(full.verdict[0] == (search(&h, 0, initial) ? LIN_OK : LIN_ILLEGAL), "brute force");
    }
    return 0;
}
