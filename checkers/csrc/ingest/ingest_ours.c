/* Our JSONL: a header line, then one record of twelve keys per line (dstest/core/op.py). */
#include "ingest_part.h"

#include <string.h>

#define SCHEMA "dstest.history/1"

enum field {
    OP_ID,
    PROCESS,
    INVOKE,
    COMPLETE,
    OP_TYPE,
    INPUT,
    OUTPUT,
    ERROR,
    TIMEOUT,
    KEY,
    NODE,
    EPOCH,
    EXTRA,
    OTHER
};

/* What must be there for a record to be judged. */
#define NEEDED (1 << OP_ID | 1 << PROCESS | 1 << INVOKE | 1 << OP_TYPE)

/* What a record must say, if only null, for a clean history to be valid. */
#define TELLING (1 << COMPLETE | 1 << INPUT | 1 << OUTPUT | 1 << ERROR | 1 << TIMEOUT)

static int is(const struct ing_scalar *s, const char *word, int64_t size)
{
    return s->tag == ING_STRING && s->size == size && memcmp(s->text, word, (size_t)size) == 0;
}

static enum field field_of(const struct ing_scalar *key)
{
    switch (key->size) {
    case 3:
        return is(key, "key", 3) ? KEY : is(key, "idx", 3) ? EXTRA : OTHER;
    case 5:
        return is(key, "op_id", 5)   ? OP_ID
               : is(key, "input", 5) ? INPUT
               : is(key, "error", 5) ? ERROR
                                     : OTHER;
    case 6:
        return is(key, "output", 6) ? OUTPUT : OTHER;
    case 7:
        return is(key, "op_type", 7) ? OP_TYPE : OTHER;
    case 8:
        return is(key, "error_ts", 8) || is(key, "retry_of", 8) ? EXTRA : OTHER;
    case 9:
        return is(key, "invoke_ts", 9) ? INVOKE : is(key, "node_seen", 9) ? NODE : OTHER;
    case 10:
        return is(key, "process_id", 10) ? PROCESS : OTHER;
    case 11:
        return is(key, "complete_ts", 11) ? COMPLETE : is(key, "fault_epoch", 11) ? EPOCH : OTHER;
    case 12:
        return is(key, "fault_epochs", 12) ? EXTRA : OTHER;
    case 14:
        return is(key, "timeout_marker", 14) ? TIMEOUT : OTHER;
    default:
        return OTHER;
    }
}

/* The rest of a line after its value: nothing but white space, and the line's end. */
static int end_of_line(struct ing_part *part)
{
    while (part->p < part->end && (*part->p == ' ' || *part->p == '\t' || *part->p == '\r')) {
        part->p++;
    }
    if (part->p == part->end) {
        return ing_refuse(part, "the last line has no newline: the file is cut off");
    }
    if (*part->p != '\n') {
        return ing_refuse(part, "need the end of the line after the record");
    }
    part->p++;
    return 0;
}

int ing_our_header(struct ing_part *part)
{
    struct ing_scalar key, value;
    int more, first = 1, known = 0;
    const uint8_t *open = part->p;
    if (part->p == part->end || *part->p != '{') {
        return ing_refuse(part, "need a header: {\"schema\": \"" SCHEMA "\", ...}");
    }
    part->p++;
    while ((more = ing_more(part, '}', first)) == 1) {
        first = 0;
        if (*part->p != '"') {
            return ing_refuse(part, "need a string as key");
        }
        if (ing_string(part, &key) != 0) {
            return -1;
        }
        int is_schema = is(&key, "schema", 6);
        if (ing_colon(part) != 0) {
            return -1;
        }
        const uint8_t *at = part->p;
        if (!is_schema) {
            if (ing_skip_value(part, 1) != 0) {
                return -1;
            }
            continue;
        }
        if (ing_scalar(part, &value) != 0) {
            return -1;
        }
        if (!is(&value, SCHEMA, (int64_t)strlen(SCHEMA))) {
            part->p = at;
            return ing_refuse(part, "unknown schema; need " SCHEMA);
        }
        known = 1;
    }
    if (more < 0) {
        return -1;
    }
    if (!known) {
        part->p = open;
        return ing_refuse(part, "the header names no schema; need " SCHEMA);
    }
    return end_of_line(part);
}

/* A record while it is read. Micro-operations of the input end at `input`, of the output at the
 * part's. */
struct draft {
    int64_t first, input;
    struct ing_event event;
    struct ing_times times;
    int seen, has_input, has_output, failed, timed_out;
};

static int integer(struct ing_part *part, int64_t *value, int may_be_null)
{
    struct ing_scalar scalar;
    const uint8_t *at = part->p;
    if (ing_scalar(part, &scalar) != 0) {
        return -1;
    }
    if (scalar.tag == ING_NULL_SCALAR && may_be_null) {
        return 0;
    }
    if (scalar.tag != ING_INT || scalar.bits == INT64_MAX) {
        part->p = at;
        return ing_refuse(part, may_be_null ? "need an integer or null" : "need an integer");
    }
    *value = scalar.bits;
    return 0;
}

static int process_of(struct ing_part *part, struct ing_event *event)
{
    struct ing_scalar scalar;
    const uint8_t *at = part->p;
    if (ing_scalar(part, &scalar) != 0) {
        return -1;
    }
    if (scalar.tag != ING_INT && scalar.tag != ING_STRING) {
        part->p = at;
        return ing_refuse(part, "a process_id is an integer or a string");
    }
    int32_t id = ing_id(&part->memory, &part->processes, &scalar);
    if (id < 0) {
        part->p = at;
        return ing_refuse(part, id == -3 ? "text that is not UTF-8" : ing_spent);
    }
    event->process = id;
    return 0;
}

static int flag(struct ing_part *part, int *value)
{
    struct ing_scalar scalar;
    const uint8_t *at = part->p;
    if (ing_scalar(part, &scalar) != 0) {
        return -1;
    }
    if (scalar.tag != ING_BOOL) {
        part->p = at;
        return ing_refuse(part, "a timeout_marker is true or false");
    }
    *value = (int)scalar.bits;
    return 0;
}

static int op_type(struct ing_part *part)
{
    struct ing_scalar scalar;
    const uint8_t *at = part->p;
    if (ing_scalar(part, &scalar) != 0) {
        return -1;
    }
    if (!is(&scalar, "txn", 3)) {
        part->p = at;
        return ing_refuse(part, "not a transactional history: an operation that is no txn");
    }
    return 0;
}

static int micro_ops(struct ing_part *part, struct draft *d, enum field field)
{
    if (field == INPUT && d->seen >> OUTPUT & 1) {
        return ing_refuse(part, "need the input once, before the output");
    }
    int has = ing_micro_ops(part, field == OUTPUT);
    if (has < 0) {
        return -1;
    }
    if (field == INPUT) {
        d->has_input = has;
        d->input = part->mop.n;
    } else {
        d->has_output = has;
    }
    return 0;
}

static int field_value(struct ing_part *part, enum field field, struct draft *d)
{
    struct ing_scalar scalar;
    const uint8_t *at = part->p;
    switch (field) {
    case OP_ID:
        if (ing_scalar(part, &scalar) != 0) {
            return -1;
        }
        if (scalar.tag == ING_INT) {
            d->event.index = scalar.bits;
            d->event.no_index = 0;
        } else if (scalar.tag != ING_STRING) {
            part->p = at;
            return ing_refuse(part, "an op_id is an integer or a string");
        }
        part->skipped[ING_NAMED] += scalar.tag == ING_STRING;
        return 0;
    case PROCESS:
        return process_of(part, &d->event);
    case INVOKE:
        return integer(part, &d->times.begin, 0);
    case COMPLETE:
        return integer(part, &d->times.end, 1);
    case OP_TYPE:
        return op_type(part);
    case INPUT:
    case OUTPUT:
        return micro_ops(part, d, field);
    case ERROR:
        d->failed = !(part->end - part->p >= 4 && memcmp(part->p, "null", 4) == 0);
        return ing_skip_value(part, 1);
    case TIMEOUT:
        return flag(part, &d->timed_out);
    default:
        return ing_skip_value(part, 1);
    }
}

/* Keeps the output's micro-operations where they are known to have happened, else the input's. */
static void choose(struct ing_part *part, struct draft *d)
{
    if (d->event.type != ING_OK || !d->has_output) {
        part->mop.n = d->input;
        part->elem.n = d->input > 0 ? part->mop.p[d->input - 1].elem_end : 0;
        return;
    }
    /* elements lie behind each other already: inputs have none */
    int64_t n = part->mop.n - d->input;
    memmove(part->mop.p + d->first, part->mop.p + d->input, (size_t)n * sizeof *part->mop.p);
    part->mop.n = d->first + n;
}

static int finish(struct ing_part *part, struct draft *d, const uint8_t *open)
{
    int unknown = d->timed_out || d->times.end == INT64_MAX;
    if ((d->seen & NEEDED) != NEEDED) {
        part->p = open;
        return ing_refuse(part, "a record needs op_id, process_id, invoke_ts and op_type");
    }
    if (!unknown && d->times.end < d->times.begin) {
        part->p = open;
        return ing_refuse(part, "completed before it was invoked");
    }
    d->event.type = unknown ? ING_INFO : d->failed ? ING_FAIL : ING_OK;
    if (!d->has_input && !d->has_output) {
        part->p = open;
        return ing_refuse(part, "a transaction without input");
    }
    if (!(d->seen >> INPUT & 1)) {
        d->input = d->first;
    }
    part->skipped[ING_LACKING] += (d->seen & TELLING) != TELLING;
    struct ing_record record = {
        .first = d->first,
        .input = d->input,
        .end = part->mop.n,
        .timed_out = d->timed_out,
        .ended = d->times.end != INT64_MAX,
        .failed = d->failed,
        .has_input = d->has_input,
        .has_output = d->has_output,
    };
    const char *flaw = ing_record_flaw(part, &record);
    if (flaw != NULL) {
        part->p = open;
        return ing_refuse(part, flaw);
    }
    choose(part, d);
    d->times.end = unknown ? INT64_MAX : d->times.end;
    d->event.mop_end = part->mop.n;
    if (ing_room(&part->memory, part->event, 1) != 0 ||
        ing_room(&part->memory, part->times, 1) != 0) {
        return ing_refuse(part, ing_spent);
    }
    part->event.p[part->event.n++] = d->event;
    part->times.p[part->times.n++] = d->times;
    return 0;
}

/* Our own writer's keys in its order: the key is there before anybody looks. OTHER where it is not,
 * with nothing consumed. */
static enum field expected(struct ing_part *part, int *next)
{
    static const struct {
        const char *text;
        int64_t size;
        enum field field;
    } keys[] = {
#define KEY(text, field) {text, (int64_t)sizeof text - 1, field}
        KEY("\"op_id\":", OP_ID),
        KEY(",\"process_id\":", PROCESS),
        KEY(",\"invoke_ts\":", INVOKE),
        KEY(",\"complete_ts\":", COMPLETE),
        KEY(",\"op_type\":", OP_TYPE),
        KEY(",\"key\":null,\"input\":", INPUT),
        KEY(",\"output\":", OUTPUT),
        KEY(",\"error\":", ERROR),
        KEY(",\"timeout_marker\":", TIMEOUT),
#undef KEY
    };
    int n = (int)(sizeof keys / sizeof *keys);
    if (*next == n || part->end - part->p <= keys[*next].size ||
        memcmp(part->p, keys[*next].text, (size_t)keys[*next].size) != 0) {
        *next = n;
        return OTHER;
    }
    part->p += keys[*next].size;
    if (*part->p <= ' ') {
        part->p -= keys[*next].size;
        return OTHER;
    }
    return keys[(*next)++].field;
}

/* The record on the line under the cursor. */
int ing_our_record(struct ing_part *part)
{
    struct draft d = {
        .first = part->mop.n,
        .input = part->mop.n,
        .event = {.process = ING_NO_PROCESS, .no_index = 1, .type = ING_INFO},
        .times = {0, INT64_MAX},
    };
    const uint8_t *open = part->p;
    struct ing_scalar key;
    int more, first = 1, next = 0;
    d.event.offset = open - part->text;
    if (*part->p != '{') {
        return ing_refuse(part, "a record is an object");
    }
    part->p++;
    for (;;) {
        enum field field = expected(part, &next);
        if (field == OTHER) {
            if ((more = ing_more(part, '}', first)) != 1) {
                break;
            }
            if (*part->p != '"') {
                return ing_refuse(part, "need a string as key");
            }
            const uint8_t *at = part->p;
            if (ing_string(part, &key) != 0) {
                return -1;
            }
            field = field_of(&key);
            if (field == OTHER) {
                part->p = at;
                return ing_refuse(part, "a field that is none of a record's");
            }
            if (ing_colon(part) != 0) {
                return -1;
            }
        }
        first = 0;
        if (field != EXTRA && d.seen >> field & 1) {
            return ing_refuse(part, "a key that stands twice in one record");
        }
        if (field_value(part, field, &d) != 0) {
            return -1;
        }
        d.seen |= 1 << field;
    }
    if (more < 0 || finish(part, &d, open) != 0) {
        return -1;
    }
    return end_of_line(part);
}
