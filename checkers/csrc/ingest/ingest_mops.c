/* Micro-operations, as all notations have them. */
#include "ingest_part.h"

#include <string.h>

/* `r`, `w` or `append`, as keyword or string. */
static int function(struct ing_part *part, struct ing_mop *mop)
{
    struct ing_scalar f;
    const uint8_t *at = part->p;
    if (ing_scalar(part, &f) != 0) {
        return -1;
    }
    if (f.tag == ING_STRING || f.tag == ING_KEYWORD) {
        int64_t colon = f.tag == ING_STRING && f.size > 1 && f.text[0] == ':';
        const char *name = f.text + colon;
        int64_t size = f.size - colon;
        if (size == 1 && *name == 'r') {
            mop->kind = ING_READ;
            return 0;
        }
        int sets = size == 1 && *name == 'w';
        if (sets || (size == 6 && memcmp(name, "append", 6) == 0)) {
            part->writes |= sets ? ING_SETS : ING_APPENDS;
            mop->kind = ING_WRITE;
            return 0;
        }
    }
    part->p = at;
    return ing_refuse(part, "a micro-operation is r, w or append");
}

/* What a micro-operation wrote or read, up to its end. */
static int result(struct ing_part *part, struct ing_mop *mop, uint8_t close, int known)
{
    struct ing_scalar scalar;
    const uint8_t *at = part->p;
    int more = ing_more(part, close, 0);
    if (more < 0) {
        return -1;
    }
    mop->value = ING_NIL;
    mop->known = mop->kind == ING_WRITE ? ING_KNOWN : known ? ING_NULL : ING_UNKNOWN;
    if (more == 1) {
        at = part->p;
        uint8_t list = (uint8_t)ing_open(part);
        if (list != 0) {
            if (mop->kind == ING_WRITE) {
                part->p = at;
                return ing_refuse(part, "a list cannot be written");
            }
            int64_t before = part->elem.n;
            if (ing_elements(part, list) != 0) {
                return -1;
            }
            mop->known = known ? ING_KNOWN : ING_UNKNOWN;
            part->elem.n = known ? part->elem.n : before;
        } else {
            if (ing_scalar(part, &scalar) != 0) {
                return -1;
            }
            if (scalar.tag != ING_NULL_SCALAR && (known || mop->kind == ING_WRITE)) {
                mop->known = ING_KNOWN;
                if (ing_known_id(part, &part->values, &scalar, at, &mop->value) != 0) {
                    return -1;
                }
            }
        }
        const uint8_t *end = part->p;
        more = ing_more(part, close, 0);
        if (more != 0) {
            part->p = more < 0 ? part->p : end;
            return more < 0 ? -1 : ing_refuse(part, "a micro-operation has at most three parts");
        }
    }
    if (mop->kind == ING_WRITE && mop->value == ING_NIL) {
        part->p = at;
        return ing_refuse(part, "a write needs a value");
    }
    mop->elem_end = part->elem.n;
    return 0;
}

static int micro_op(struct ing_part *part, int known)
{
    struct ing_mop mop;
    struct ing_scalar key;
    if (ing_common_mop(part, known)) {
        return 0;
    }
    uint8_t close = (uint8_t)ing_open(part);
    if (close == 0) {
        return ing_refuse(part, "a micro-operation is a list: [f, key, value]");
    }
    int more = ing_more(part, close, 1);
    if (more == 0) {
        part->p--;
        return ing_refuse(part, "an empty micro-operation");
    }
    if (more < 0 || function(part, &mop) != 0) {
        return -1;
    }
    const uint8_t *end = part->p;
    more = ing_more(part, close, 0);
    if (more < 0) {
        return -1;
    }
    const uint8_t *at = part->p;
    if (more == 1 && ing_key(part, &key) != 0) {
        return -1;
    }
    if (more == 0 || key.tag == ING_NULL_SCALAR) {
        part->p = end;
        return ing_refuse(part, "a micro-operation needs a key");
    }
    if (ing_known_id(part, &part->keys, &key, at, &mop.key) != 0 ||
        result(part, &mop, close, known) != 0) {
        return -1;
    }
    if (ing_room(&part->memory, part->mop, 1) != 0) {
        return ing_refuse(part, ing_spent);
    }
    part->mop.p[part->mop.n++] = mop;
    return 0;
}

/* A list of micro-operations, or null. 1 where there was a list. `known`: reads tell a result. */
int ing_micro_ops(struct ing_part *part, int known)
{
    uint8_t close = (uint8_t)ing_open(part);
    if (close == 0) {
        const uint8_t *at = part->p;
        struct ing_scalar scalar;
        if (ing_scalar(part, &scalar) != 0) {
            part->p = at;
            return ing_refuse(part, "a transaction is a list of micro-operations");
        }
        if (scalar.tag != ING_NULL_SCALAR) {
            part->p = at;
            return ing_refuse(part, "a transaction is a list of micro-operations");
        }
        return 0;
    }
    int more, first = 1;
    while ((more = ing_more(part, close, first)) == 1) {
        first = 0;
        if (micro_op(part, known) != 0) {
            return -1;
        }
    }
    return more < 0 ? -1 : 1;
}
