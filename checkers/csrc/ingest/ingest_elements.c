/* The elements of lists. */
#include "ingest_part.h"

int ing_known_id(struct ing_part *part, struct ing_names *names, const struct ing_scalar *scalar,
                 const uint8_t *at, int32_t *id)
{
    *id = ing_id(&part->memory, names, scalar);
    if (*id >= ING_NIL) {
        return 0;
    }
    part->p = at;
    return ing_refuse(part, *id == -3 ? "text that is not UTF-8" : ing_spent);
}

/* Small integers that were seen before, one after the other: what nearly all lists hold. Stops in
 * front of anything else, separators included; 1 where nothing was read. */
static int known_integers(struct ing_part *part, uint8_t close, int first)
{
    const uint8_t *end = part->end;
    const int32_t *small = part->values.small;
    int64_t n_small = part->values.n_small;
    while (small != NULL) {
        const uint8_t *p = part->p;
        if (!first && p < end && *p == ',') {
            p++;
        } else if (!first && part->json) {
            break;
        }
        while (p < end && (*p == ' ' || (*p == ',' && !part->json))) {
            p++;
        }
        const uint8_t *digits = p;
        uint32_t value = 0;
        while (p < end && p - digits < 7 && (uint8_t)(*p - '0') < 10) {
            value = value * 10 + (uint32_t)(*p++ - '0');
        }
        if (p == digits || p == end || (*p != ',' && *p != close && *p != ' ') ||
            (*digits == '0' && p - digits > 1) || value >= n_small || small[value] == 0 ||
            ing_room(&part->memory, part->elem, 1) != 0) {
            break;
        }
        part->elem.p[part->elem.n++] = small[value] - 1;
        part->p = p;
        first = 0;
    }
    return first;
}

/* The elements of a list, its opening bracket already consumed. */
int ing_elements(struct ing_part *part, uint8_t close)
{
    struct ing_scalar scalar;
    int more, first = 1;
    int32_t id;
    while ((first = known_integers(part, close, first)),
           (more = ing_more(part, close, first)) == 1) {
        const uint8_t *at = part->p;
        first = 0;
        if (ing_scalar(part, &scalar) != 0) {
            return -1;
        }
        if (scalar.tag == ING_NULL_SCALAR) {
            part->p = at;
            return ing_refuse(part, "an element of a list is null");
        }
        if (ing_known_id(part, &part->values, &scalar, at, &id) != 0) {
            return -1;
        }
        if (ing_room(&part->memory, part->elem, 1) != 0) {
            return ing_refuse(part, ing_spent);
        }
        part->elem.p[part->elem.n++] = id;
    }
    return more;
}
