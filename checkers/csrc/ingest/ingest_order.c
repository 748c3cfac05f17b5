/* Time stamps into event positions. */
#include "ingest_part.h"

#include <stdlib.h>
#include <string.h>

#define BITS 11
#define DIGITS (1 << BITS)

/* What a sort by digits costs, in steps of one by insertion. */
#define STEPS 16

struct stamp {
    uint64_t at;
    int64_t of;
};

static void pass(const struct stamp *from, struct stamp *to, int64_t n, int shift)
{
    int64_t count[DIGITS] = {0}, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        count[from[i].at >> shift & (DIGITS - 1)]++;
    }
    for (int d = 0; d < DIGITS; d++) {
        int64_t here = count[d];
        count[d] = sum;
        sum += here;
    }
    for (int64_t i = 0; i < n; i++) {
        to[count[from[i].at >> shift & (DIGITS - 1)]++] = from[i];
    }
}

/* Moves each back to its place, as recorders leave few and not far from it. 0 where that takes
 * more than some steps for each. */
static int insert(struct stamp *stamps, int64_t n)
{
    int64_t steps = STEPS * n;
    for (int64_t i = 1; i < n; i++) {
        struct stamp stamp = stamps[i];
        int64_t to = i;
        for (; to > 0 && stamps[to - 1].at > stamp.at; to--) {
            stamps[to] = stamps[to - 1];
        }
        stamps[to] = stamp;
        steps -= i - to;
        if (steps < 0) {
            return 0;
        }
    }
    return 1;
}

/* Stable, by `at`; `other` is scratch. Gives back the one of both that holds the result. */
static struct stamp *sort(struct stamp *stamps, struct stamp *other, int64_t n)
{
    if (insert(stamps, n)) {
        return stamps;
    }
    uint64_t low = UINT64_MAX, high = 0;
    for (int64_t i = 0; i < n; i++) {
        low = stamps[i].at < low ? stamps[i].at : low;
        high = stamps[i].at > high ? stamps[i].at : high;
    }
    for (int64_t i = 0; i < n; i++) {
        stamps[i].at -= low;
    }
    for (int shift = 0; shift < 64 && (high - low) >> shift != 0; shift += BITS) {
        pass(stamps, other, n, shift);
        struct stamp *swap = stamps;
        stamps = other;
        other = swap;
    }
    for (int64_t i = 0; i < n; i++) {
        stamps[i].at += low;
    }
    return stamps;
}

/* A signed time as an unsigned one of the same order. */
static uint64_t biased(int64_t time)
{
    return (uint64_t)time + ((uint64_t)1 << 63);
}

/* Equal times: invocations come first, for nothing proves that one preceded the other. */
int ing_order(struct core_memory *memory, const struct ing_times *times, int64_t n, int64_t *order,
              int64_t *begin, int64_t *end)
{
    int64_t ends = 0, position = 0, next = 0;
    if (n == 0) {
        return 0;
    }
    struct stamp *stamps = ing_array(memory, 4 * n, sizeof *stamps);
    if (stamps == NULL) {
        return -1;
    }
    for (int64_t i = 0; i < n; i++) {
        stamps[i] = (struct stamp){biased(times[i].begin), i};
        end[i] = -1;
        if (times[i].end != INT64_MAX) {
            stamps[2 * n + ends++] = (struct stamp){biased(times[i].end), i};
        }
    }
    const struct stamp *first = sort(stamps, stamps + n, n);
    const struct stamp *last = sort(stamps + 2 * n, stamps + 3 * n, ends);
    for (int64_t i = 0; i < n; i++) {
        while (next < ends && last[next].at < first[i].at) {
            end[last[next++].of] = position++;
        }
        order[i] = first[i].of;
        begin[first[i].of] = position++;
    }
    while (next < ends) {
        end[last[next++].of] = position++;
    }
    ing_array_free(memory, stamps, 4 * n, sizeof *stamps);
    return 0;
}
