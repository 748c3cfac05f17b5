/* Order of 64-bit numbers, and dense ids of those that occur. */
#include "sess_part.h"

#include <stdlib.h>
#include <string.h>

/* A table by code may have so many times as many entries as there are codes. */
#ifndef SESS_SPARSE
#define SESS_SPARSE 8
#endif
#ifndef SESS_SPAN_MIN
#define SESS_SPAN_MIN 1024
#endif

void sess_sort(struct sess_pair *pairs, struct sess_pair *spare, int64_t n)
{
    struct sess_pair *from = pairs, *to = spare;
    for (int byte = 0; byte < 8; byte++) {
        int64_t at[256] = {0}, sum = 0;
        for (int64_t i = 0; i < n; i++) {
            at[from[i].by >> 8 * byte & 255]++;
        }
        if (n == 0 || at[from[0].by >> 8 * byte & 255] == n) {
            continue; /* all have the same one */
        }
        for (int i = 0; i < 256; i++) {
            int64_t count = at[i];
            at[i] = sum;
            sum += count;
        }
        for (int64_t i = 0; i < n; i++) {
            to[at[from[i].by >> 8 * byte & 255]++] = from[i];
        }
        struct sess_pair *turned = from;
        from = to;
        to = turned;
    }
    if (from != pairs) {
        memcpy(pairs, from, (size_t)n * sizeof *pairs);
    }
}

/* Signed numbers in the order of unsigned ones. */
static uint64_t biased(int64_t code)
{
    return (uint64_t)code ^ UINT64_C(1) << 63;
}

static int by_code(struct core_memory *memory, const int64_t *codes, int64_t m,
                   struct sess_ids *ids)
{
    ids->by_code = ing_array(memory, ids->span, sizeof *ids->by_code);
    if (ids->by_code == NULL) {
        return -1;
    }
    for (int64_t i = 0; i < m; i++) {
        ids->by_code[codes[i] - ids->low] = 1;
    }
    for (int64_t i = 0; i < ids->span; i++) {
        ids->n += ids->by_code[i];
    }
    ids->codes = ing_array(memory, ids->n, sizeof *ids->codes);
    if (ids->codes == NULL) {
        return -1;
    }
    ids->held = ids->n;
    int32_t next = 0;
    for (int64_t i = 0; i < ids->span; i++) {
        if (ids->by_code[i]) {
            ids->codes[next] = ids->low + i;
            ids->by_code[i] = next++;
        }
    }
    return 0;
}

static int by_place(struct core_memory *memory, const int64_t *codes, int64_t m,
                    struct sess_ids *ids)
{
    struct sess_pair *pairs = ing_array(memory, m, sizeof *pairs);
    struct sess_pair *spare = ing_array(memory, m, sizeof *spare);
    ids->by_place = ing_array(memory, m, sizeof *ids->by_place);
    ids->codes = ing_array(memory, m, sizeof *ids->codes);
    ids->held = ids->codes == NULL ? 0 : m;
    int spent = pairs == NULL || spare == NULL || ids->by_place == NULL || ids->codes == NULL;
    for (int64_t i = 0; i < m && !spent; i++) {
        pairs[i] = (struct sess_pair){biased(codes[i]), i};
    }
    if (!spent) {
        sess_sort(pairs, spare, m);
    }
    for (int64_t i = 0; i < m && !spent; i++) {
        int64_t code = codes[pairs[i].what];
        if (i == 0 || code != ids->codes[ids->n - 1]) {
            ids->codes[ids->n++] = code;
        }
        ids->by_place[pairs[i].what] = (int32_t)(ids->n - 1);
    }
    ing_array_free(memory, pairs, m, sizeof *pairs);
    ing_array_free(memory, spare, m, sizeof *spare);
    return spent ? -1 : 0;
}

int sess_ids_of(struct core_memory *memory, const int64_t *codes, int64_t m, struct sess_ids *ids)
{
    int64_t low = INT64_MAX, high = INT64_MIN;
    *ids = (struct sess_ids){.n = 0};
    for (int64_t i = 0; i < m; i++) {
        low = codes[i] < low ? codes[i] : low;
        high = codes[i] > high ? codes[i] : high;
    }
    uint64_t span = m == 0 ? 0 : (uint64_t)high - (uint64_t)low;
    if (span >= SESS_SPARSE * (uint64_t)m + SESS_SPAN_MIN) {
        return by_place(memory, codes, m, ids);
    }
    ids->low = m == 0 ? 0 : low;
    ids->span = (int64_t)span + 1;
    return by_code(memory, codes, m, ids);
}

void sess_ids_free(struct core_memory *memory, struct sess_ids *ids)
{
    ing_array_free(memory, ids->by_code, ids->span, sizeof *ids->by_code);
    ing_array_free(memory, ids->codes, ids->held, sizeof *ids->codes);
    free(ids->by_place);
    *ids = (struct sess_ids){.n = 0};
}
