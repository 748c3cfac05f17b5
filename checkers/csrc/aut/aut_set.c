#include "aut_set.h"

#include <string.h>

#define SLOTS(set) ((struct aut_slot *)(set)->table.p)

void aut_set_init(struct aut_set *set)
{
    *set = (struct aut_set){
        .words = {.size = sizeof(uint64_t)},
        .table = {.size = sizeof(struct aut_slot)},
    };
}

void aut_set_free(struct aut_set *set, struct core_memory *memory)
{
    core_release(memory, &set->words);
    core_release(memory, &set->table);
}

/* Slots in use: the largest power of two that fits. */
static uint32_t slots_of(const struct aut_set *set)
{
    size_t cap = set->table.cap, slots = 1;
    while (slots * 2 <= cap && slots < (UINT32_C(1) << 30)) {
        slots *= 2;
    }
    return (uint32_t)slots;
}

void aut_set_clear(struct aut_set *set)
{
    set->n = set->groups = 0;
    if (++set->epoch == 0) {
        memset(set->table.p, 0, set->table.cap * sizeof(struct aut_slot));
        set->epoch = 1;
    }
}

int aut_set_shape(struct aut_set *set, struct core_memory *memory, const struct aut_shape *shape)
{
    if (set->table.cap == 0) {
        if (core_reserve(memory, &set->table, 64) != 0) {
            return -1;
        }
        memset(set->table.p, 0, set->table.cap * sizeof(struct aut_slot));
    }
    set->shape = *shape;
    set->pruned = 0;
    aut_set_clear(set);
    return 0;
}

static uint64_t mix(uint64_t h)
{
    h ^= h >> 31;
    h *= UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

static uint64_t hash_of(const struct aut_set *set, const uint64_t *config)
{
    uint64_t h = mix(config[0] + UINT64_C(0x632be59bd9b4e019));
    for (uint32_t w = 0; w < set->shape.n_done; w++) {
        h = mix(h ^ config[2 + w]);
    }
    return h;
}

static int same_group(const struct aut_set *set, const uint64_t *x, const uint64_t *y)
{
    return x[0] == y[0] && memcmp(x + 2, y + 2, set->shape.n_done * sizeof(uint64_t)) == 0;
}

/* Has x, of the same group as y, seen no less and used no more? */
static int beats(const struct aut_set *set, const uint64_t *x, const uint64_t *y)
{
    uint32_t w = 2 + set->shape.n_done;
    for (uint32_t end = w + set->shape.n_seen; w < end; w++) {
        if (y[w] & ~x[w]) {
            return 0;
        }
    }
    for (; w < set->shape.stride; w++) {
        if (x[w] & ~y[w]) {
            return 0;
        }
    }
    return 1;
}

/* The slot of the configuration's group: one in use by it, or a free one. */
static struct aut_slot *slot_of(const struct aut_set *set, const uint64_t *config)
{
    uint32_t mask = slots_of(set) - 1;
    uint32_t i = (uint32_t)hash_of(set, config) & mask;
    while (SLOTS(set)[i].epoch == set->epoch &&
           !same_group(set, aut_at(set, SLOTS(set)[i].head), config)) {
        i = (i + 1) & mask;
    }
    return &SLOTS(set)[i];
}

/* Twice the slots; the groups are put in anew. */
static int widen(struct aut_set *set, struct core_memory *memory)
{
    uint32_t old = slots_of(set);
    struct core_array fresh = {.size = sizeof(struct aut_slot)};
    if (old >= UINT32_C(1) << 30 || core_reserve(memory, &fresh, (size_t)old * 2) != 0) {
        return -1;
    }
    memset(fresh.p, 0, fresh.cap * sizeof(struct aut_slot));
    struct core_array before = set->table;
    uint32_t epoch = set->epoch;
    set->table = fresh;
    set->epoch = 1;
    for (uint32_t i = 0; i < old; i++) {
        const struct aut_slot *slot = (struct aut_slot *)before.p + i;
        if (slot->epoch == epoch) {
            *slot_of(set, aut_at(set, slot->head)) = (struct aut_slot){1, slot->head};
        }
    }
    core_release(memory, &before);
    return 0;
}

static uint32_t link_of(const uint64_t *config)
{
    return (uint32_t)config[1];
}

int aut_set_add(struct aut_set *set, struct core_memory *memory, const uint64_t *config,
                int64_t *work)
{
    struct aut_slot *slot = slot_of(set, config);
    uint32_t head = slot->epoch == set->epoch ? slot->head : AUT_END, before = AUT_END;
    for (uint32_t i = head; i != AUT_END;) {
        uint64_t *e = aut_at(set, i);
        uint32_t next = link_of(e);
        ++*work;
        if (beats(set, e, config)) {
            return 0;
        }
        if (!beats(set, config, e)) {
            before = i;
        } else if (before == AUT_END) {
            e[1] = AUT_DEAD;
            head = next;
        } else {
            e[1] = AUT_DEAD;
            aut_at(set, before)[1] = next;
        }
        i = next;
    }
    if (set->width != 0 && set->n >= set->width && head != AUT_END) {
        set->pruned = 1;
        slot->head = head;
        return 0;
    }
    if (set->width != 0 && set->n >= set->width && slot->epoch != set->epoch) {
        set->pruned = 1;
        return 0;
    }
    if (set->n >= UINT32_MAX - 1 ||
        core_reserve(memory, &set->words, ((size_t)set->n + 1) * set->shape.stride) != 0) {
        return -1;
    }
    uint64_t *e = aut_at(set, set->n);
    memcpy(e, config, set->shape.stride * sizeof *e);
    e[1] = head;
    set->groups += slot->epoch != set->epoch;
    *slot = (struct aut_slot){set->epoch, set->n++};
    return set->groups * 2 > slots_of(set) ? widen(set, memory) : 0;
}
