/* Short cuts for what nearly every micro-operation looks like. Whatever they do not recognise is left
 * untouched for the general readers, which also find out what is wrong with it. */
#include "ingest_part.h"

#include <string.h>

/* The id of the small integer under the cursor that ends before `after`, or -1. */
static int32_t known_id(const struct ing_names *names, const uint8_t **at, const uint8_t *end,
                        uint8_t after)
{
    const uint8_t *p = *at, *digits = p;
    uint32_t value = 0;
    while (p < end && p - digits < 7 && (uint8_t)(*p - '0') < 10) {
        value = value * 10 + (uint32_t)(*p++ - '0');
    }
    if (p == digits || p == end || *p != after || (*digits == '0' && p - digits > 1) ||
        value >= names->n_small) {
        return -1;
    }
    *at = p + 1;
    return names->small[value] - 1;
}

/* Length of the opening of a micro-operation up to its key, or 0. */
static int opening(const struct ing_part *part, const uint8_t *p, uint8_t *kind)
{
    if (part->json) {
        *kind = memcmp(p, "[\"r\",", 5) == 0 ? ING_READ : ING_WRITE;
        return *kind == ING_READ ? 5 : memcmp(p, "[\"append\",", 10) == 0 ? 10 : 0;
    }
    *kind = memcmp(p, "[:r ", 4) == 0 ? ING_READ : ING_WRITE;
    return *kind == ING_READ ? 4 : memcmp(p, "[:append ", 9) == 0 ? 9 : 0;
}

/* 1 where `[f, key, null]` or `[f, key, [..]]` was read; known small integers throughout. */
int ing_common_mop(struct ing_part *part, int known)
{
    const uint8_t *open = part->p, *p = open;
    struct ing_mop mop = {.value = ING_NIL};
    int64_t elems = part->elem.n;
    if (part->end - p < 24) {
        return 0;
    }
    int length = opening(part, p, &mop.kind);
    p += length;
    mop.key = length == 0 ? -1 : known_id(&part->keys, &p, part->end, part->json ? ',' : ' ');
    if (mop.key < 0 || part->end - p < 8 || ing_room(&part->memory, part->mop, 1) != 0) {
        return 0;
    }
    mop.known = mop.kind == ING_WRITE ? ING_KNOWN : ING_UNKNOWN;
    int null = part->json ? 4 : 3;
    if (mop.kind == ING_WRITE) {
        mop.value = known_id(&part->values, &p, part->end, ']');
        if (mop.value < 0) {
            return 0;
        }
        part->writes |= ING_APPENDS;
    } else if (memcmp(p, part->json ? "null]" : "nil]", (size_t)null + 1) == 0) {
        mop.known = known ? ING_NULL : ING_UNKNOWN;
        p += null + 1;
    } else if (*p == '[' && known) {
        part->p = p + 1;
        mop.known = ING_KNOWN;
        if (ing_elements(part, ']') != 0 || part->p == part->end || *part->p != ']') {
            part->message = NULL;
            part->p = open;
            part->elem.n = elems;
            return 0;
        }
        p = part->p + 1;
    } else {
        return 0;
    }
    part->p = p;
    mop.elem_end = part->elem.n;
    part->mop.p[part->mop.n++] = mop;
    return 1;
}
