/* Records of ours: their fields, and what stands around them (dstest/core/op.py). */
#ifndef DSTEST_INGEST_FIELDS_H
#define DSTEST_INGEST_FIELDS_H

#include "ingest_part.h"

enum ing_field {
    ING_OP_ID,
    ING_PROCESS,
    ING_INVOKE_TS,
    ING_COMPLETE_TS,
    ING_OP_TYPE,
    ING_INPUT,
    ING_OUTPUT,
    ING_ERROR,
    ING_TIMEOUT,
    ING_KEY,
    ING_NODE,
    ING_EPOCH,
    ING_EXTRA,
    ING_DUE,
    ING_OTHER
};

/* How our own writer begins each field. */
struct ing_written {
    const char *text;
    int64_t size;
    enum ing_field field;
};

#define ING_WRITTEN(text, field)                                                                   \
    {                                                                                              \
        text, (int64_t)sizeof text - 1, field                                                      \
    }

/* The field that a key names. */
enum ing_field ing_field_of(const struct ing_scalar *key);

/* The next of `written` where it stands under the cursor, which then is at its value; else
 * ING_OTHER, with nothing consumed, and none is looked for again in this record. */
enum ing_field ing_expected(struct ing_part *part, const struct ing_written *written, int n,
                            int *next);

/* The field whose key stands under the cursor, which then is at its value; else -1. */
int ing_named_field(struct ing_part *part);

/* The rest of a line after its value: nothing but white space, and the line's end. */
int ing_end_of_line(struct ing_part *part);

/* The first line: which schema? */
int ing_our_header(struct ing_part *part);

/* Scalars of a kind under the cursor. Where it may be null, `value` stays as it is then. */
int ing_integer(struct ing_part *part, int64_t *value, int may_be_null);
int ing_flag(struct ing_part *part, int *value);

#endif
