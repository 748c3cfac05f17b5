/* Codes of scalars, and the lists of keys. */
#include "stream_state.h"

#include <string.h>

#define ROOM_MIN 8

uint64_t stream_code(struct stream *s, const struct ing_scalar *scalar)
{
    if (scalar->tag == ING_INT && scalar->bits >= 0 && (uint64_t)scalar->bits < STREAM_DIRECT) {
        return (uint64_t)scalar->bits;
    }
    int32_t id = ing_id(&s->budget.memory, &s->others, scalar);
    return id < 0 ? STREAM_NO_CODE : STREAM_DIRECT + (uint64_t)id;
}

void stream_scalar_of(const struct stream *s, uint64_t code, struct stream_scalar *scalar)
{
    struct ing_scalar found = {.bits = (int64_t)code, .tag = ING_INT};
    if (code >= STREAM_DIRECT) {
        ing_scalar_of(&s->others, (int64_t)(code - STREAM_DIRECT), &found);
    }
    *scalar = (struct stream_scalar){found.bits, found.text, found.size, found.tag};
}

int64_t stream_key_of(struct stream *s, uint64_t code)
{
    uint64_t *number = stream_map_at(&s->budget.memory, &s->key_of, code);
    if (number == NULL) {
        return -1;
    }
    if (*number == 0) {
        if (s->key.n >= UINT32_MAX || ing_room(&s->budget.memory, s->key, 1) != 0) {
            return -1;
        }
        s->key.p[s->key.n++] = (struct stream_key){.code = code};
        *number = (uint64_t)s->key.n;
    }
    return (int64_t)*number - 1;
}

struct stream_hot *stream_use(struct stream *s, uint32_t key)
{
    struct stream_key *k = &s->key.p[key];
    if (k->hot == NULL) {
        k->hot = core_block(&s->budget.memory, sizeof *k->hot);
        if (k->hot == NULL) {
            stream_spent(s, STREAM_MEMORY);
            return NULL;
        }
        k->hot->base = k->hot->pinned = k->length;
    }
    k->hot->uses++;
    return k->hot;
}

void stream_hash(uint64_t hash[2], uint64_t value)
{
    hash[0] = stream_mix(hash[0] ^ (value + UINT64_C(0x9e3779b97f4a7c15)));
    hash[1] = stream_mix(hash[1] + value * UINT64_C(0xbf58476d1ce4e5b9) +
                         UINT64_C(0x94d049bb133111eb));
}

static void forget_list(struct stream *s, struct stream_hot *hot)
{
    struct core_memory *memory = &s->budget.memory;
    if (hot->cap > 0) {
        core_block_free(memory, hot->value, hot->cap * sizeof *hot->value);
        core_block_free(memory, hot->readers, ((size_t)hot->cap + 1) * sizeof *hot->readers);
    }
}

void stream_leave(struct stream *s, uint32_t key)
{
    struct stream_key *k = &s->key.p[key];
    struct stream_hot *hot = k->hot;
    if (--hot->uses > 0) {
        return;
    }
    for (uint32_t i = hot->base; i < k->length; i++) {
        stream_hash(k->hash, hot->value[i - hot->base]);
    }
    forget_list(s, hot);
    core_block_free(&s->budget.memory, hot, sizeof *hot);
    k->hot = NULL;
}

int stream_room(struct stream *s, struct stream_hot *hot, uint64_t length)
{
    struct core_memory *memory = &s->budget.memory;
    uint64_t need = length - hot->base;
    if (length <= hot->base || need <= hot->cap) {
        return 0;
    }
    uint64_t cap = hot->cap + hot->cap / 2;
    cap = cap < ROOM_MIN ? ROOM_MIN : cap;
    cap = cap < need ? need : cap;
    if (hot->base + cap >= UINT32_MAX) {
        stream_spent(s, STREAM_MEMORY);
        return -1;
    }
    struct stream_hot wide = *hot;
    wide.cap = (uint32_t)cap;
    wide.value = core_block(memory, cap * sizeof *wide.value);
    wide.readers = core_block(memory, (cap + 1) * sizeof *wide.readers);
    if (wide.value == NULL || wide.readers == NULL) {
        if (wide.value != NULL) {
            core_block_free(memory, wide.value, cap * sizeof *wide.value);
        }
        if (wide.readers != NULL) {
            core_block_free(memory, wide.readers, (cap + 1) * sizeof *wide.readers);
        }
        stream_spent(s, STREAM_MEMORY);
        return -1;
    }
    if (hot->cap > 0) {
        memcpy(wide.value, hot->value, hot->cap * sizeof *hot->value);
        memcpy(wide.readers, hot->readers, ((size_t)hot->cap + 1) * sizeof *hot->readers);
    }
    forget_list(s, hot);
    *hot = wide;
    return 0;
}
