/* Dense ids of scalars, in order of appearance. */
#include "ingest_part.h"

#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return x ^ (x >> 32);
}

static uint64_t hash_of(const struct ing_scalar *s)
{
    uint64_t h = 0x9e3779b97f4a7c15u * (uint64_t)(s->tag + 1);
    if (s->text == NULL) {
        return mix(h ^ (uint64_t)s->bits);
    }
    int64_t i = 0;
    for (; i + 8 <= s->size; i += 8) {
        uint64_t word;
        memcpy(&word, s->text + i, 8);
        h = mix(h ^ word);
    }
    uint64_t tail = (uint64_t)(s->size - i) << 56;
    for (int64_t j = 0; i + j < s->size; j++) {
        tail |= (uint64_t)(uint8_t)s->text[i + j] << (8 * j);
    }
    return mix(h ^ tail);
}

void ing_scalar_of(const struct ing_names *names, int64_t id, struct ing_scalar *scalar)
{
    const struct ing_name *name = &names->name.p[id];
    int texts = name->tag >= ING_STRING;
    scalar->bits = name->bits;
    scalar->size = name->size;
    scalar->tag = name->tag;
    scalar->text = texts ? names->text.p + name->bits : NULL;
}

static int same(const struct ing_names *names, int32_t id, const struct ing_scalar *s)
{
    const struct ing_name *name = &names->name.p[id];
    if (name->tag != s->tag) {
        return 0;
    }
    if (s->text == NULL) {
        return name->bits == s->bits;
    }
    return name->size == s->size &&
           (s->size == 0 || memcmp(names->text.p + name->bits, s->text, (size_t)s->size) == 0);
}

static int is_small(const struct ing_names *names, const struct ing_scalar *s)
{
    return s->tag == ING_INT && s->bits >= 0 && s->bits < names->n_small;
}

/* Makes the table reach `value`, unless most of it would stay empty. 0, or -1 where memory is out. */
static int reach(struct core_memory *memory, struct ing_names *names, int64_t value)
{
    if (value < names->n_small || value >= ING_SMALL ||
        value >= ING_SPARSE * (names->name.n + ING_SMALL_MIN)) {
        return 0;
    }
    int64_t before = names->n_small, n = before == 0 ? ING_SMALL_MIN : before * 2, cap = before;
    while (n <= value) {
        n *= 2;
    }
    if (ing_grow(memory, (void **)&names->small, &cap, n, sizeof *names->small) != 0) {
        return -1;
    }
    memset(names->small + before, 0, (size_t)(cap - before) * sizeof *names->small);
    names->n_small = cap;
    for (int64_t id = 0; id < names->name.n; id++) {
        const struct ing_name *name = &names->name.p[id];
        if (name->tag == ING_INT && name->bits >= before && name->bits < cap) {
            names->small[name->bits] = (int32_t)id + 1;
        }
    }
    return 0;
}

static int rehash(struct core_memory *memory, struct ing_names *names)
{
    int64_t n_slots = names->n_slots == 0 ? 64 : names->n_slots * 4;
    int32_t *slots = ing_array(memory, n_slots, sizeof *slots);
    if (slots == NULL) {
        return -1;
    }
    for (int64_t id = 0; id < names->name.n; id++) {
        struct ing_scalar s;
        ing_scalar_of(names, id, &s);
        if (is_small(names, &s)) {
            continue;
        }
        uint64_t at = hash_of(&s) & (uint64_t)(n_slots - 1);
        while (slots[at] != 0) {
            at = (at + 1) & (uint64_t)(n_slots - 1);
        }
        slots[at] = (int32_t)id + 1;
    }
    ing_array_free(memory, names->slots, names->n_slots, sizeof *slots);
    names->slots = slots;
    names->n_slots = n_slots;
    return 0;
}

static int32_t add(struct core_memory *memory, struct ing_names *names, const struct ing_scalar *s)
{
    if (names->name.n >= INT32_MAX - 1 || ing_room(memory, names->name, 1) != 0) {
        return -2;
    }
    struct ing_name name = {s->bits, 0, (uint8_t)s->tag};
    if (s->text != NULL) {
        if (!ing_utf8(s->text, s->size)) {
            return -3;
        }
        if (s->size > INT32_MAX || ing_room(memory, names->text, s->size + 1) != 0) {
            return -2;
        }
        memcpy(names->text.p + names->text.n, s->text, (size_t)s->size);
        name.bits = names->text.n;
        name.size = (int32_t)s->size;
        names->text.n += s->size;
    }
    names->name.p[names->name.n] = name;
    return (int32_t)names->name.n++;
}

int32_t ing_id(struct core_memory *memory, struct ing_names *names, const struct ing_scalar *s)
{
    if (s->tag == ING_NULL_SCALAR) {
        return ING_NIL;
    }
    if (s->tag == ING_INT && s->bits >= 0 && reach(memory, names, s->bits) != 0) {
        return -2;
    }
    if (is_small(names, s)) {
        int32_t *at = &names->small[s->bits];
        if (*at == 0) {
            int32_t id = add(memory, names, s);
            if (id < 0) {
                return id;
            }
            *at = id + 1;
        }
        return *at - 1;
    }
    if (names->n_slotted * 2 >= names->n_slots && rehash(memory, names) != 0) {
        return -2;
    }
    uint64_t mask = (uint64_t)(names->n_slots - 1);
    uint64_t at = hash_of(s) & mask;
    while (names->slots[at] != 0) {
        if (same(names, names->slots[at] - 1, s)) {
            return names->slots[at] - 1;
        }
        at = (at + 1) & mask;
    }
    int32_t id = add(memory, names, s);
    if (id >= 0) {
        names->slots[at] = id + 1;
        names->n_slotted++;
    }
    return id;
}

int32_t *ing_translate(struct core_memory *memory, struct ing_names *into,
                       const struct ing_names *from)
{
    int32_t *ids = ing_array(memory, from->name.n, sizeof *ids);
    if (ids == NULL) {
        return NULL;
    }
    for (int64_t i = 0; i < from->name.n; i++) {
        struct ing_scalar scalar;
        ing_scalar_of(from, i, &scalar);
        ids[i] = ing_id(memory, into, &scalar);
        if (ids[i] < 0) {
            free(ids);
            return NULL;
        }
    }
    return ids;
}

void ing_names_free(struct ing_names *names)
{
    ing_drop(names->name);
    ing_drop(names->text);
    core_drop(names->small, (size_t)names->n_small * sizeof *names->small);
    free(names->slots);
    memset(names, 0, sizeof *names);
}
