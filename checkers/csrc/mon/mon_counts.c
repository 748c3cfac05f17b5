#include "mon_counts.h"

#include <string.h>

int mon_counts_begin(struct mon_counts *counts, struct core_memory *memory,
                     struct core_array *array, size_t places)
{
    size_t leaves = 1;
    while (leaves < places) {
        leaves *= 2;
    }
    if (core_reserve(memory, array, 2 * leaves) != 0) {
        return -1;
    }
    memset(array->p, 0, 2 * leaves * sizeof(struct mon_node));
    *counts = (struct mon_counts){array->p, (int32_t)leaves};
    return 0;
}

/* Below node `at`, which stands for [low, high]. */
static void add(struct mon_node *nodes, int32_t at, int32_t low, int32_t high, int32_t from,
                int32_t to, int32_t by)
{
    if (from > high || to < low) {
        return;
    }
    if (from <= low && high <= to) {
        nodes[at].least += by;
        nodes[at].added += by;
        return;
    }
    int32_t middle = low + (high - low) / 2;
    add(nodes, 2 * at, low, middle, from, to, by);
    add(nodes, 2 * at + 1, middle + 1, high, from, to, by);
    int32_t x = nodes[2 * at].least, y = nodes[2 * at + 1].least;
    nodes[at].least = (x < y ? x : y) + nodes[at].added;
}

void mon_counts_add(const struct mon_counts *counts, int32_t from, int32_t to, int32_t by)
{
    add(counts->nodes, 1, 0, counts->leaves - 1, from, to, by);
}

/* As above; `above` was added on the way. */
static int32_t find(const struct mon_node *nodes, int32_t at, int32_t low, int32_t high,
                    int32_t from, int32_t to, int32_t above, int last)
{
    if (from > high || to < low || nodes[at].least + above > 0) {
        return -1;
    }
    if (low == high) {
        return low;
    }
    int32_t middle = low + (high - low) / 2, found;
    above += nodes[at].added;
    if (last) {
        found = find(nodes, 2 * at + 1, middle + 1, high, from, to, above, last);
        return found >= 0 ? found : find(nodes, 2 * at, low, middle, from, to, above, last);
    }
    found = find(nodes, 2 * at, low, middle, from, to, above, last);
    return found >= 0 ? found : find(nodes, 2 * at + 1, middle + 1, high, from, to, above, last);
}

int32_t mon_counts_first(const struct mon_counts *counts, int32_t from, int32_t to)
{
    return find(counts->nodes, 1, 0, counts->leaves - 1, from, to, 0, 0);
}

int32_t mon_counts_last(const struct mon_counts *counts, int32_t from, int32_t to)
{
    return find(counts->nodes, 1, 0, counts->leaves - 1, from, to, 0, 1);
}
