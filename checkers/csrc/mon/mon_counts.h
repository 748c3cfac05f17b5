/* Counts by place: ranges are raised and lowered, and places whose count is not above 0 are found,
 * each in logarithmic time. A segment tree. */
#ifndef DSTEST_MON_COUNTS_H
#define DSTEST_MON_COUNTS_H

#include "common/core_memory.h"

struct mon_node {
    int32_t least; /* of the counts below, `added` included */
    int32_t added; /* to all below */
};

struct mon_counts {
    struct mon_node *nodes;
    int32_t leaves; /* a power of two */
};

/* For `places` places at least, all with count 0, in `array`, whose elements are mon_node. 0, or -1
 * where memory is short. */
int mon_counts_begin(struct mon_counts *counts, struct core_memory *memory,
                     struct core_array *array, size_t places);

/* Adds `by` to the counts of [from, to]. */
void mon_counts_add(const struct mon_counts *counts, int32_t from, int32_t to, int32_t by);

/* The first or last place in [from, to] whose count is not above 0, or -1. */
int32_t mon_counts_first(const struct mon_counts *counts, int32_t from, int32_t to);
int32_t mon_counts_last(const struct mon_counts *counts, int32_t from, int32_t to);

#endif
