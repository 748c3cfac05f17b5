/* Fields of our records, and the header line. */
#include "ingest_fields.h"

#include <string.h>

#define SCHEMA "dstest.history/1"

static int is(const struct ing_scalar *s, const char *word, int64_t size)
{
    return s->tag == ING_STRING && s->size == size && memcmp(s->text, word, (size_t)size) == 0;
}

enum ing_field ing_field_of(const struct ing_scalar *key)
{
    switch (key->size) {
    case 3:
        return is(key, "key", 3) ? ING_KEY : is(key, "idx", 3) ? ING_EXTRA : ING_OTHER;
    case 5:
        return is(key, "op_id", 5)   ? ING_OP_ID
               : is(key, "input", 5) ? ING_INPUT
               : is(key, "error", 5) ? ING_ERROR
                                     : ING_OTHER;
    case 6:
        return is(key, "output", 6) ? ING_OUTPUT : is(key, "due_ts", 6) ? ING_DUE : ING_OTHER;
    case 7:
        return is(key, "op_type", 7) ? ING_OP_TYPE : ING_OTHER;
    case 8:
        return is(key, "error_ts", 8) || is(key, "retry_of", 8) ? ING_EXTRA : ING_OTHER;
    case 9:
        return is(key, "invoke_ts", 9)   ? ING_INVOKE_TS
               : is(key, "node_seen", 9) ? ING_NODE
                                         : ING_OTHER;
    case 10:
        return is(key, "process_id", 10) ? ING_PROCESS : ING_OTHER;
    case 11:
        return is(key, "complete_ts", 11)   ? ING_COMPLETE_TS
               : is(key, "fault_epoch", 11) ? ING_EPOCH
                                            : ING_OTHER;
    case 12:
        return is(key, "fault_epochs", 12) ? ING_EXTRA : ING_OTHER;
    case 14:
        return is(key, "timeout_marker", 14) ? ING_TIMEOUT : ING_OTHER;
    default:
        return ING_OTHER;
    }
}

int ing_end_of_line(struct ing_part *part)
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
    return ing_end_of_line(part);
}

int ing_integer(struct ing_part *part, int64_t *value, int may_be_null)
{
    struct ing_scalar scalar;
    const uint8_t *at = part->p;
    if (ing_scalar(part, &scalar) != 0) {
        return -1;
    }
    if (scalar.tag == ING_NULL_SCALAR && may_be_null) {
        return 0;
    }
    int plain = 1; /* as a value 1.0 is 1, as a time it is none */
    for (const uint8_t *p = at; p < part->p; p++) {
        plain &= *p != '.' && *p != 'e' && *p != 'E';
    }
    if (scalar.tag != ING_INT || scalar.bits == INT64_MAX || !plain) {
        part->p = at;
        return ing_refuse(part, may_be_null ? "need an integer or null" : "need an integer");
    }
    *value = scalar.bits;
    return 0;
}

int ing_flag(struct ing_part *part, int *value)
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

enum ing_field ing_expected(struct ing_part *part, const struct ing_written *written, int n,
                            int *next)
{
    if (*next >= n || part->end - part->p <= written[*next].size ||
        memcmp(part->p, written[*next].text, (size_t)written[*next].size) != 0) {
        *next = n;
        return ING_OTHER;
    }
    part->p += written[*next].size;
    if (*part->p <= ' ') {
        part->p -= written[*next].size;
        return ING_OTHER;
    }
    return written[(*next)++].field;
}

int ing_named_field(struct ing_part *part)
{
    struct ing_scalar key;
    if (*part->p != '"') {
        return ing_refuse(part, "need a string as key");
    }
    const uint8_t *at = part->p;
    if (ing_string(part, &key) != 0) {
        return -1;
    }
    enum ing_field field = ing_field_of(&key);
    if (field == ING_OTHER) {
        part->p = at;
        return ing_refuse(part, "a field that is none of a record's");
    }
    return ing_colon(part) != 0 ? -1 : (int)field;
}
