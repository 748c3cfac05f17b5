/* JSON values as ids: equal ids for equal values. */
#include "ops_part.h"

#include <string.h>

#define DEPTH_MAX 50

/* 2^53: whole doubles below it are integers that nothing was lost of. */
#define WHOLE_MAX 9007199254740992.0

/* Lists are equal when their text is, as long as it is written in the one plain way. */
static int is_plain(const uint8_t *p, const uint8_t *end)
{
    int in_string = 0, depth = 0;
    for (; p < end; p++) {
        uint8_t c = *p;
        if (c == '\\') {
            return 0;
        }
        if (c == '"') {
            in_string = !in_string;
        } else if (!in_string) {
            depth += c == '[' ? 1 : c == ']' ? -1 : 0;
            int is_number = (c >= '0' && c <= '9') || (c == '-' && p + 1 < end && p[1] != '0');
            int is_word = c >= 'a' && c <= 'z' && c != 'e';
            is_word = is_word || (c == 'e' && p[-1] >= 'a' && p[-1] <= 'z');
            if (depth > DEPTH_MAX || !(is_number || is_word || c == '[' || c == ']' || c == ',')) {
                return 0;
            }
        }
    }
    return 1;
}

static int list(struct ing_part *part, struct ing_scalar *scalar)
{
    const uint8_t *from = part->p;
    if (ing_skip_value(part, 1) != 0) {
        return -1;
    }
    if (!is_plain(from, part->p)) {
        part->p = from;
        return ing_refuse(part, "a value that is not written plainly");
    }
    *scalar = (struct ing_scalar){0, (const char *)from, part->p - from, ING_PLAIN};
    return 0;
}

/* 1.0 is 1. */
static int whole(struct ing_part *part, struct ing_scalar *scalar)
{
    double value;
    memcpy(&value, &scalar->bits, sizeof value);
    if (value >= WHOLE_MAX || value <= -WHOLE_MAX) {
        return ing_refuse(part, "a large floating-point number");
    }
    if (value == (double)(int64_t)value) {
        scalar->bits = (int64_t)value;
        scalar->tag = ING_INT;
    }
    return 0;
}

int ops_value(struct ing_part *part, int only_scalar, int32_t *id)
{
    struct ing_scalar scalar;
    const uint8_t *at = part->p;
    if (at < part->end && (*at == '[' || *at == '{')) {
        if (only_scalar || *at == '{') {
            return ing_refuse(part, "a value that is an object, or a key that is a list");
        }
        if (list(part, &scalar) != 0) {
            return -1;
        }
    } else if (ing_scalar(part, &scalar) != 0) {
        return -1;
    }
    if (scalar.tag == ING_BIGINT) {
        return ing_refuse(part, "an integer beyond 64 bits");
    }
    if (scalar.tag == ING_FLOAT && whole(part, &scalar) != 0) {
        return -1;
    }
    int32_t found = ing_id(&part->memory, &part->values, &scalar);
    if (found < ING_NIL) {
        part->p = at;
        return ing_refuse(part, found == -3 ? "text that is not UTF-8" : ing_spent);
    }
    *id = found + 1;
    return 0;
}
