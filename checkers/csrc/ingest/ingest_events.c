/* The event maps of Jepsen. */
#include "ingest_part.h"

#include <string.h>

enum field {
    UNKNOWN = 0,
    TYPE = 1,
    PROCESS = 2,
    VALUE = 4,
    INDEX = 8,
    FUNCTION = 16,
    KEY = 32,
    TIME = 64,
    HARMLESS = 128
};

/* Says nothing of what an operation did; dstest/history/jepsen_keys.py has the same. */
static int is_harmless(const char *name, int64_t size)
{
    static const char *const names[] = {"node",      "debug",     "trace",         "source",
                                        "dstest",    "latency",   "message",       "op-index",
                                        "exception", "wall-time", "clock-offsets", "error"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (size == (int64_t)strlen(names[i]) && memcmp(name, names[i], (size_t)size) == 0) {
            return 1;
        }
    }
    return 0;
}

static enum field field_of(const struct ing_scalar *key)
{
    if (key->tag != ING_STRING && key->tag != ING_KEYWORD) {
        return UNKNOWN;
    }
    const char *name = key->text;
    int64_t size = key->size;
    if (size > 1 && name[0] == ':') {
        name++;
        size--;
    }
    enum field field = UNKNOWN;
    switch (size) {
    case 1:
        field = *name == 'f' ? FUNCTION : UNKNOWN;
        break;
    case 3:
        field = memcmp(name, "key", 3) == 0 ? KEY : UNKNOWN;
        break;
    case 4:
        field = memcmp(name, "type", 4) == 0 ? TYPE : memcmp(name, "time", 4) == 0 ? TIME : UNKNOWN;
        break;
    case 5:
        field = memcmp(name, "value", 5) == 0   ? VALUE
                : memcmp(name, "index", 5) == 0 ? INDEX
                                                : UNKNOWN;
        break;
    case 7:
        field = memcmp(name, "process", 7) == 0 ? PROCESS : UNKNOWN;
        break;
    default:
        break;
    }
    return field == UNKNOWN && is_harmless(name, size) ? HARMLESS : field;
}

static int type_of(struct ing_part *part, struct ing_event *event)
{
    static const struct {
        const char *name;
        int64_t size;
        uint8_t type;
    } types[] = {
        {"invoke", 6, ING_INVOKE}, {"ok", 2, ING_OK}, {"fail", 4, ING_FAIL}, {"info", 4, ING_INFO}};
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

/* Has it the word in its name, in small letters but for the first? */
static int is_nemesis(const struct ing_scalar *name)
{
    for (int64_t i = 0; i + 7 <= name->size; i++) {
        if ((name->text[i] | 32) == 'n' && memcmp(name->text + i + 1, "emesis", 6) == 0) {
            return 1;
        }
    }
    return 0;
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
        if ((scalar.tag != ING_STRING && scalar.tag != ING_KEYWORD) || !is_nemesis(&scalar)) {
            part->p = at;
            return ing_refuse(part, "a process that is neither an integer nor the nemesis");
        }
        event->process = ING_SKIPPED_PROCESS;
        return 0;
    }
    if (ing_known_id(part, &part->processes, &scalar, at, &id) != 0) {
        return -1;
    }
    event->process = id;
    return 0;
}

#define FIELDS_MAX 16
#define NAMES_MAX 1024

/* An event while it is read. `value` is where micro-operations begin that are yet to be read. */
struct draft {
    struct ing_event event;
    const uint8_t *value;
    int64_t mops, elems; /* how many there were before it */
    int seen, keyed;
    int32_t fields[FIELDS_MAX]; /* that nobody knows, counted where it is an event of a client */
    int n_fields;
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

/* Does this name say that micro-operations are all there is to it? */
static int function_of(struct ing_part *part, struct ing_event *event)
{
    static const char *const names[] = {"txn", "read", "write", "r", "w", "append"};
    struct ing_scalar f;
    if (ing_scalar(part, &f) != 0) {
        return -1;
    }
    event->foreign = f.tag != ING_NULL_SCALAR;
    if (f.tag == ING_STRING || f.tag == ING_KEYWORD) {
        int64_t colon = f.tag == ING_STRING && f.size > 1 && f.text[0] == ':';
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            if (f.size - colon == (int64_t)strlen(names[i]) &&
                memcmp(f.text + colon, names[i], strlen(names[i])) == 0) {
                event->foreign = 0;
            }
        }
    }
    return 0;
}

/* A field that nobody knows; of more than a few the rest is not named. */
static int unknown_field(struct ing_part *part, struct draft *draft, const struct ing_scalar *key,
                         const uint8_t *at)
{
    int null = part->end - part->p >= 3 && memcmp(part->p, part->json ? "nul" : "nil", 3) == 0;
    if (null || key->tag == ING_NULL_SCALAR || draft->n_fields == FIELDS_MAX ||
        part->fields.name.n >= NAMES_MAX) {
        return 0;
    }
    int32_t *id = &draft->fields[draft->n_fields++];
    if (ing_known_id(part, &part->fields, key, at, id) != 0) {
        return -1;
    }
    if (*id == part->n_fields.n) {
        if (ing_room(&part->memory, part->n_fields, 1) != 0) {
            return ing_refuse(part, ing_spent);
        }
        part->n_fields.p[part->n_fields.n++] = 0;
    }
    return 0;
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
    case FUNCTION:
        return function_of(part, &draft->event);
    case KEY:
        draft->keyed = !(part->end - part->p >= 3 &&
                         memcmp(part->p, part->json ? "nul" : "nil", 3) == 0);
        return ing_skip_value(part, 1);
    case TIME:
        if (part->p == part->end || (*part->p != '-' && (uint8_t)(*part->p - '0') > 9)) {
            return ing_skip_value(part, 1);
        }
        if (ing_scalar(part, &scalar) != 0) {
            return -1;
        }
        draft->event.time = scalar.tag == ING_INT ? scalar.bits : ING_NO_TIME;
        return 0;
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
    if (event->process != ING_SKIPPED_PROCESS && draft->keyed) {
        part->p = open;
        return ing_refuse(part,
                          "an event with a key beside its value: a transaction names the keys "
                          "of its micro-operations");
    }
    for (int i = 0; i < draft->n_fields && event->process != ING_SKIPPED_PROCESS; i++) {
        part->n_fields.p[draft->fields[i]]++;
    }
    event->mop_end = part->mop.n;
    event->foreign = event->foreign && part->mop.n == draft->mops;
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
        .event = {.process = ING_NO_PROCESS, .time = ING_NO_TIME, .no_index = 1, .type = 255},
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
        if (field != HARMLESS && draft.seen & field) {
            part->p = at;
            return ing_refuse(part, "a key that stands twice in one map");
        }
        draft.seen |= field;
        if (ing_colon(part) != 0 ||
            (field == UNKNOWN && unknown_field(part, &draft, &key, at) != 0) ||
            field_value(part, field, &draft) != 0) {
            return -1;
        }
    }
    return more < 0 ? -1 : finish(part, &draft, open);
}
