/* Micro-operations, and the event maps of Jepsen. */
#include "ingest_part.h"

#include <string.h>

static int id_of(struct ing_part *part, struct ing_names *names, const struct ing_scalar *scalar,
                 const uint8_t *at, int32_t *id)
{
    *id = ing_id(&part->memory, names, scalar);
    if (*id >= ING_NIL) {
        return 0;
    }
    part->p = at;
    return ing_refuse(part, *id == -3 ? "text that is not UTF-8" : ing_spent);
}

/* The elements of a list, its opening bracket already consumed. */
int ing_elements(struct ing_part *part, uint8_t close)
{
    struct ing_scalar scalar;
    int more, first = 1;
    int32_t id;
    while ((first = ing_known_integers(part, close, first)),
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
        if (id_of(part, &part->values, &scalar, at, &id) != 0) {
            return -1;
        }
        if (ing_room(&part->memory, part->elem, 1) != 0) {
            return ing_refuse(part, ing_spent);
        }
        part->elem.p[part->elem.n++] = id;
    }
    return more;
}

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
        if ((size == 1 && *name == 'w') || (size == 6 && memcmp(name, "append", 6) == 0)) {
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
                if (id_of(part, &part->values, &scalar, at, &mop->value) != 0) {
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
    if (more == 1 && ing_scalar(part, &key) != 0) {
        return -1;
    }
    if (more == 0 || key.tag == ING_NULL_SCALAR) {
        part->p = end;
        return ing_refuse(part, "a micro-operation needs a key");
    }
    if (id_of(part, &part->keys, &key, at, &mop.key) != 0 ||
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

enum field { TYPE = 1, PROCESS = 2, VALUE = 4, INDEX = 8 };

static enum field field_of(const struct ing_scalar *key)
{
    if (key->tag != ING_STRING && key->tag != ING_KEYWORD) {
        return 0;
    }
    const char *name = key->text;
    int64_t size = key->size;
    if (size > 1 && name[0] == ':') {
        name++;
        size--;
    }
    switch (size) {
    case 4:
        return memcmp(name, "type", 4) == 0 ? TYPE : 0;
    case 5:
        return memcmp(name, "value", 5) == 0 ? VALUE : memcmp(name, "index", 5) == 0 ? INDEX : 0;
    case 7:
        return memcmp(name, "process", 7) == 0 ? PROCESS : 0;
    default:
        return 0;
    }
}

static int type_of(struct ing_part *part, struct ing_event *event)
{
    static const struct {
        const char *name;
        int64_t size;
        uint8_t type;
    } types[] = {{"invoke", 6, ING_INVOKE}, {"ok", 2, ING_OK}, {"fail", 4, ING_FAIL},
                 {"info", 4, ING_INFO}};
    struct ing_scalar scalar;
    const uint8_t *at = part->p;
    if (ing_scalar(part, &scalar) != 0) {
        return -1;
    }
    if (scalar.tag == ING_STRING || scalar.tag == ING_KEYWORD) {
        int64_t colon = scalar.tag == ING_STRING && scalar.size > 1 && scalar.text[0] == ':';
        for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
            if (scalar.size - colon == types[i].size &&
                memcmp(scalar.text + colon, types[i].name, (size_t)types[i].size) == 0) {
                event->type = types[i].type;
                return 0;
            }
        }
    }
    part->p = at;
    return ing_refuse(part, "an event is of type invoke, ok, fail or info");
}

static int process_of(struct ing_part *part, struct ing_event *event)
{
    struct ing_scalar scalar;
    const uint8_t *at = part->p;
    int32_t id;
    if (ing_scalar(part, &scalar) != 0) {
        return -1;
    }
    if (scalar.tag == ING_NULL_SCALAR) {
        event->process = ING_NO_PROCESS;
        return 0;
    }
    if (scalar.tag != ING_INT) {
        event->process = ING_SKIPPED_PROCESS;
        return 0;
    }
    if (id_of(part, &part->processes, &scalar, at, &id) != 0) {
        return -1;
    }
    event->process = id;
    return 0;
}

/* An event while it is read. `value` is where micro-operations begin that are yet to be read. */
struct draft {
    struct ing_event event;
    const uint8_t *value;
    int64_t mops, elems; /* how many there were before it */
};

static void forget(struct ing_part *part, struct draft *draft)
{
    part->mop.n = draft->mops;
    part->elem.n = draft->elems;
    draft->event.has_value = 0;
}

/* Only completions that are ok tell what reads returned, and a nemesis tells nothing: a value that
 * comes before the type, or is no transaction, is left for the end of the map. */
static int value_of(struct ing_part *part, struct draft *draft)
{
    const uint8_t *at = part->p;
    forget(part, draft);
    draft->value = NULL;
    if (draft->event.type != 255) {
        int has = ing_micro_ops(part, draft->event.type == ING_OK);
        if (has >= 0) {
            draft->event.has_value = (uint8_t)has;
            return 0;
        }
        if (part->message == ing_spent) {
            return -1;
        }
        forget(part, draft);
        part->message = NULL;
        part->p = at;
    }
    draft->value = at;
    return ing_skip_value(part, 1);
}

static int field_value(struct ing_part *part, enum field field, struct draft *draft)
{
    struct ing_scalar scalar;
    const uint8_t *at = part->p;
    switch (field) {
    case TYPE:
        return type_of(part, &draft->event);
    case PROCESS:
        return process_of(part, &draft->event);
    case VALUE:
        return value_of(part, draft);
    case INDEX:
        if (ing_scalar(part, &scalar) != 0) {
            return -1;
        }
        if (scalar.tag == ING_INT) {
            draft->event.index = scalar.bits;
            draft->event.no_index = 0;
        } else if (scalar.tag != ING_NULL_SCALAR) {
            part->p = at;
            return ing_refuse(part, "the index of an event is an integer");
        }
        return 0;
    default:
        return ing_skip_value(part, 1);
    }
}

static int finish(struct ing_part *part, struct draft *draft, const uint8_t *open)
{
    struct ing_event *event = &draft->event;
    const uint8_t *end = part->p;
    if (event->type == 255) {
        part->p = open;
        return ing_refuse(part, "an event without a type");
    }
    if (event->process == ING_SKIPPED_PROCESS) {
        part->skipped[ING_NOT_A_CLIENT]++;
        forget(part, draft);
    } else if (draft->value != NULL) {
        part->p = draft->value;
        int has = ing_micro_ops(part, event->type == ING_OK);
        if (has < 0) {
            return -1;
        }
        event->has_value = (uint8_t)has;
        part->p = end;
    }
    event->mop_end = part->mop.n;
    if (ing_room(&part->memory, part->event, 1) != 0) {
        return ing_refuse(part, ing_spent);
    }
    part->event.p[part->event.n++] = *event;
    return 0;
}

/* The event map that begins under the cursor. */
int ing_jepsen_event(struct ing_part *part)
{
    struct draft draft = {
        .event = {.process = ING_NO_PROCESS, .no_index = 1, .type = 255},
        .mops = part->mop.n,
        .elems = part->elem.n,
    };
    const uint8_t *open = part->p;
    struct ing_scalar key;
    int more, first = 1;
    draft.event.offset = open - part->text;
    if (part->p == part->end || *part->p != '{') {
        return ing_refuse(part, "an event is a map: {type, process, f, value}");
    }
    part->p++;
    while ((more = ing_more(part, '}', first)) == 1) {
        const uint8_t *at = part->p;
        first = 0;
        if (ing_scalar(part, &key) != 0) {
            return -1;
        }
        if (part->json && key.tag != ING_STRING) {
            part->p = at;
            return ing_refuse(part, "need a string as key");
        }
        enum field field = field_of(&key);
        if (ing_colon(part) != 0 || field_value(part, field, &draft) != 0) {
            return -1;
        }
    }
    return more < 0 ? -1 : finish(part, &draft, open);
}
