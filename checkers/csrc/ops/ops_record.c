/* One record of ours: twelve keys on a line (dstest/core/op.py). */
#include "ingest/ingest_fields.h"
#include "ops_part.h"

#include <string.h>

#define TIME_MAX (INT64_C(1) << 62)

#define EACH                                                                                       \
    (1 << ING_OP_ID | 1 << ING_PROCESS | 1 << ING_INVOKE_TS | 1 << ING_COMPLETE_TS |               \
     1 << ING_OP_TYPE | 1 << ING_INPUT | 1 << ING_OUTPUT | 1 << ING_ERROR | 1 << ING_TIMEOUT |     \
     1 << ING_KEY | 1 << ING_NODE | 1 << ING_EPOCH)

/* The id of a name that is text, or an integer where that may be; null is -1 where it may be. */
static int name(struct ing_part *part, struct ing_names *names, int may_be_int, int may_be_null,
                int32_t *id)
{
    struct ing_scalar scalar;
    if (ing_scalar(part, &scalar) != 0) {
        return -1;
    }
    int fits = scalar.tag == ING_STRING || (may_be_int && scalar.tag == ING_INT) ||
               (may_be_null && scalar.tag == ING_NULL_SCALAR);
    if (!fits) {
        return ing_refuse(part, "a name of another type");
    }
    *id = ing_id(&part->memory, names, &scalar);
    return *id >= ING_NIL ? 0 : ing_refuse(part, *id == -3 ? "text that is not UTF-8" : ing_spent);
}

struct draft {
    struct ops_row row;
    int64_t due;
    int seen, timed_out;
    int32_t error;
};

static int field_value(struct ops_part *part, enum ing_field field, struct draft *d)
{
    struct ing_part *scan = &part->scan;
    struct ops_row *row = &d->row;
    int32_t unused;
    switch (field) {
    case ING_OP_ID:
        return ing_integer(scan, &row->op_id, 0);
    case ING_PROCESS:
        return name(scan, &scan->processes, 1, 0, &row->process);
    case ING_INVOKE_TS:
        return ing_integer(scan, &row->invoke, 0);
    case ING_COMPLETE_TS:
        return ing_integer(scan, &row->complete, 1);
    case ING_OP_TYPE:
        return name(scan, &part->types, 0, 0, &row->type);
    case ING_KEY:
        return ops_value(scan, 1, &row->key);
    case ING_INPUT:
        return ops_value(scan, 0, &row->input);
    case ING_OUTPUT:
        return ops_value(scan, 0, &row->output);
    case ING_ERROR:
        return name(scan, &part->texts, 0, 1, &d->error);
    case ING_TIMEOUT:
        return ing_flag(scan, &d->timed_out);
    case ING_NODE:
    case ING_EPOCH:
        return name(scan, &part->texts, 0, 1, &unused);
    case ING_DUE:
        return ing_integer(scan, &d->due, 0);
    default:
        return ing_refuse(scan, "a field beyond the twelve");
    }
}

/* What contradicts itself, or NULL. */
static const char *flaw(const struct draft *d)
{
    const struct ops_row *row = &d->row;
    if ((d->seen & EACH) != EACH) {
        return "a record that lacks a field";
    }
    if (row->invoke <= -TIME_MAX || row->invoke >= TIME_MAX) {
        return "a time beyond what is computed with";
    }
    if (d->seen >> ING_DUE & 1 && (d->due < 0 || d->due > row->invoke)) {
        return "due before all, or after it was sent";
    }
    if (d->timed_out) {
        return row->complete != OPS_NEVER || row->output != 0 ? "unknown, yet with an answer"
                                                              : NULL;
    }
    if (row->complete >= TIME_MAX || row->complete < row->invoke) {
        return "no end, or one before its beginning";
    }
    return d->error >= 0 && row->output != 0 ? "an output and an error" : NULL;
}

int ops_record(struct ops_part *part)
{
    static const struct ing_written written[] = {
        ING_WRITTEN("\"op_id\":", ING_OP_ID),
        ING_WRITTEN(",\"process_id\":", ING_PROCESS),
        ING_WRITTEN(",\"invoke_ts\":", ING_INVOKE_TS),
        ING_WRITTEN(",\"complete_ts\":", ING_COMPLETE_TS),
        ING_WRITTEN(",\"op_type\":", ING_OP_TYPE),
        ING_WRITTEN(",\"key\":", ING_KEY),
        ING_WRITTEN(",\"input\":", ING_INPUT),
        ING_WRITTEN(",\"output\":", ING_OUTPUT),
        ING_WRITTEN(",\"error\":", ING_ERROR),
        ING_WRITTEN(",\"timeout_marker\":", ING_TIMEOUT),
        ING_WRITTEN(",\"node_seen\":", ING_NODE),
        ING_WRITTEN(",\"fault_epoch\":", ING_EPOCH),
    };
    struct ing_part *scan = &part->scan;
    struct draft d = {.row = {.complete = OPS_NEVER, .offset = scan->p - scan->text}, .error = -1};
    int more, first = 1, next = 0;
    if (*scan->p != '{') {
        return ing_refuse(scan, "a record is an object");
    }
    scan->p++;
    for (;;) {
        int field = ing_expected(scan, written, (int)(sizeof written / sizeof *written), &next);
        if (field == ING_OTHER) {
            if ((more = ing_more(scan, '}', first)) != 1) {
                break;
            }
            if ((field = ing_named_field(scan)) < 0) {
                return -1;
            }
        }
        first = 0;
        if (d.seen >> field & 1) {
            return ing_refuse(scan, "a key that stands twice in one record");
        }
        if (field_value(part, (enum ing_field)field, &d) != 0) {
            return -1;
        }
        d.seen |= 1 << field;
    }
    const uint8_t *open = scan->text + d.row.offset;
    const char *wrong = more < 0 ? NULL
                        : memchr(open, '\n', (size_t)(scan->p - open)) != NULL
                            ? "a line that ends early"
                            : flaw(&d);
    if (wrong != NULL) {
        ing_refuse(scan, wrong);
    }
    if (more < 0 || wrong != NULL || ing_room(&scan->memory, part->row, 1) != 0) {
        return scan->message != NULL ? -1 : ing_refuse(scan, ing_spent);
    }
    d.row.outcome = d.timed_out ? OPS_UNKNOWN : d.error >= 0 ? OPS_FAIL : OPS_OK;
    part->row.p[part->row.n++] = d.row;
    return ing_end_of_line(scan);
}
