/* Our JSONL: a header line, then one record of twelve keys per line (dstest/core/op.py). */
#include "ingest_fields.h"

#include <string.h>

/* What must be there for a record to be judged. */
#define NEEDED (1 << ING_OP_ID | 1 << ING_PROCESS | 1 << ING_INVOKE_TS | 1 << ING_OP_TYPE)

/* What a record must say, if only null, for a clean history to be valid. */
#define TELLING                                                                                    \
    (1 << ING_COMPLETE_TS | 1 << ING_INPUT | 1 << ING_OUTPUT | 1 << ING_ERROR | 1 << ING_TIMEOUT)

static int is(const struct ing_scalar *s, const char *word, int64_t size)
{
    return s->tag == ING_STRING && s->size == size && memcmp(s->text, word, (size_t)size) == 0;
}

/* A record while it is read. Micro-operations of the input end at `input`, of the output at the
 * part's. */
struct draft {
    int64_t first, input;
    struct ing_event event;
    struct ing_times times;
    int seen, has_input, has_output, failed, timed_out;
};

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

static int micro_ops(struct ing_part *part, struct draft *d, enum ing_field field)
{
    if (field == ING_INPUT && d->seen >> ING_OUTPUT & 1) {
        return ing_refuse(part, "need the input once, before the output");
    }
    int has = ing_micro_ops(part, field == ING_OUTPUT);
    if (has < 0) {
        return -1;
    }
    if (field == ING_INPUT) {
        d->has_input = has;
        d->input = part->mop.n;
    } else {
        d->has_output = has;
    }
    return 0;
}

static int field_value(struct ing_part *part, enum ing_field field, struct draft *d)
{
    struct ing_scalar scalar;
    const uint8_t *at = part->p;
    switch (field) {
    case ING_OP_ID:
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
    case ING_PROCESS:
        return process_of(part, &d->event);
    case ING_INVOKE_TS:
        return ing_integer(part, &d->times.begin, 0);
    case ING_COMPLETE_TS:
        return ing_integer(part, &d->times.end, 1);
    case ING_OP_TYPE:
        return op_type(part);
    case ING_INPUT:
    case ING_OUTPUT:
        return micro_ops(part, d, field);
    case ING_ERROR:
        d->failed = !(part->end - part->p >= 4 && memcmp(part->p, "null", 4) == 0);
        return ing_skip_value(part, 1);
    case ING_TIMEOUT:
        return ing_flag(part, &d->timed_out);
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
    if (n > 0) {
        memmove(part->mop.p + d->first, part->mop.p + d->input, (size_t)n * sizeof *part->mop.p);
    }
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
    if (!(d->seen >> ING_INPUT & 1)) {
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

/* The record on the line under the cursor. */
int ing_our_record(struct ing_part *part)
{
    static const struct ing_written written[] = {
        ING_WRITTEN("\"op_id\":", ING_OP_ID),
        ING_WRITTEN(",\"process_id\":", ING_PROCESS),
        ING_WRITTEN(",\"invoke_ts\":", ING_INVOKE_TS),
        ING_WRITTEN(",\"complete_ts\":", ING_COMPLETE_TS),
        ING_WRITTEN(",\"op_type\":", ING_OP_TYPE),
        ING_WRITTEN(",\"key\":null,\"input\":", ING_INPUT),
        ING_WRITTEN(",\"output\":", ING_OUTPUT),
        ING_WRITTEN(",\"error\":", ING_ERROR),
        ING_WRITTEN(",\"timeout_marker\":", ING_TIMEOUT),
    };
    struct draft d = {
        .first = part->mop.n,
        .input = part->mop.n,
        .event = {.process = ING_NO_PROCESS, .no_index = 1, .type = ING_INFO},
        .times = {0, INT64_MAX},
    };
    const uint8_t *open = part->p;
    int more, first = 1, next = 0;
    d.event.offset = open - part->text;
    if (*part->p != '{') {
        return ing_refuse(part, "a record is an object");
    }
    part->p++;
    for (;;) {
        int field = ing_expected(part, written, (int)(sizeof written / sizeof *written), &next);
        if (field == ING_OTHER) {
            if ((more = ing_more(part, '}', first)) != 1) {
                break;
            }
            if ((field = ing_named_field(part)) < 0) {
                return -1;
            }
        }
        first = 0;
        if (field != ING_EXTRA && d.seen >> field & 1) {
            return ing_refuse(part, "a key that stands twice in one record");
        }
        if (field_value(part, (enum ing_field)field, &d) != 0) {
            return -1;
        }
        d.seen |= 1 << field;
    }
    if (more < 0 || finish(part, &d, open) != 0) {
        return -1;
    }
    return ing_end_of_line(part);
}
