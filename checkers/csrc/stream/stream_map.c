/* Open addressing. */
#include "stream_map.h"

#define SLOTS_MIN 64

static struct stream_slot *slot_of(const struct stream_map *map, uint64_t key)
{
    uint64_t mask = map->n_slots - 1, at = stream_mix(key) & mask;
    while (map->slots[at].key != 0 && map->slots[at].key != key + 1) {
        at = (at + 1) & mask;
    }
    return &map->slots[at];
}

static int widen(struct core_memory *memory, struct stream_map *map)
{
    struct stream_map wide = {.n_slots = map->n_slots == 0 ? SLOTS_MIN : map->n_slots * 2,
                              .used = map->used};
    wide.slots = core_block(memory, wide.n_slots * sizeof *wide.slots);
    if (wide.slots == NULL) {
        return -1;
    }
    for (uint64_t i = 0; i < map->n_slots; i++) {
        if (map->slots[i].key != 0) {
            *slot_of(&wide, map->slots[i].key - 1) = map->slots[i];
        }
    }
    stream_map_free(memory, map);
    *map = wide;
    return 0;
}

uint64_t *stream_map_at(struct core_memory *memory, struct stream_map *map, uint64_t key)
{
    if (map->used >= map->n_slots / 4 * 3 && widen(memory, map) != 0) {
        return NULL;
    }
    struct stream_slot *slot = slot_of(map, key);
    if (slot->key == 0) {
        slot->key = key + 1;
        map->used++;
    }
    return &slot->value;
}

uint64_t *stream_map_find(const struct stream_map *map, uint64_t key)
{
    if (map->n_slots == 0) {
        return NULL;
    }
    struct stream_slot *slot = slot_of(map, key);
    return slot->key == 0 ? NULL : &slot->value;
}

int stream_map_add(struct core_memory *memory, struct stream_map *map, uint64_t key, unsigned low)
{
    uint64_t *word = stream_map_at(memory, map, key), bit = UINT64_C(1) << low;
    if (word == NULL) {
        return -1;
    }
    if (*word & bit) {
        return 1;
    }
    *word |= bit;
    return 0;
}

void stream_map_free(struct core_memory *memory, struct stream_map *map)
{
    if (map->slots != NULL) {
        core_block_free(memory, map->slots, map->n_slots * sizeof *map->slots);
    }
    *map = (struct stream_map){0};
}
