/* Numbers to numbers, and sets of numbers as bits. */
#ifndef DSTEST_STREAM_MAP_H
#define DSTEST_STREAM_MAP_H

#include "common/core_memory.h"

#include <stdint.h>

struct stream_slot {
    uint64_t key; /* plus one; 0 where it is empty */
    uint64_t value;
};

struct stream_map {
    struct stream_slot *slots;
    uint64_t n_slots, used;
};

/* The value of a key below 2^63, which is 0 where the key was not there; until the next call. NULL where
 * memory is out. */
uint64_t *stream_map_at(struct core_memory *memory, struct stream_map *map, uint64_t key);

/* The same, NULL where it is not there. */
uint64_t *stream_map_find(const struct stream_map *map, uint64_t key);

void stream_map_free(struct core_memory *memory, struct stream_map *map);

/* Adds `low` of 64 to the set that is kept at `key`: 0, 1 where it was there, -1 where memory is out. */
int stream_map_add(struct core_memory *memory, struct stream_map *map, uint64_t key, unsigned low);

/* Well mixed bits of a number. */
static inline uint64_t stream_mix(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return x ^ (x >> 32);
}

#endif
