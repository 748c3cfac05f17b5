/* Operations out of our JSONL, straight into columns. No Python in here.
 *
 * What is unusual is refused, not judged: records that lack a field or have more than twelve,
 * contradict themselves or each other, or hold values whose equality takes more than a look. The
 * text may still be a history, which a slower reader says, or else what is wrong with it.
 *
 * Nothing is read outside text[0 .. size). Memory is bounded by the budget.
 */
#ifndef DSTEST_OPS_H
#define DSTEST_OPS_H

#include "ingest/ingest.h"

enum ops_outcome { OPS_OK = 0, OPS_FAIL = 1, OPS_UNKNOWN = 2 };

#define OPS_NEVER INT64_MAX

/* One operation. Ids of values are 0 for null, else one more than the name's. */
struct ops_row {
    int64_t op_id, invoke, complete; /* ns; OPS_NEVER of an unknown one */
    int64_t offset;                  /* of its line in the text */
    int32_t process, type, key, input, output;
    uint8_t outcome;
};

/* In order of invocation. `values` names keys, inputs and outputs: equal JSON has one id. */
struct ops_table {
    ING_ARRAY(struct ops_row) row;
    struct ing_names values, types, processes;
};

/* 0, or -1 with why, and the offset of what was being read then. On success the caller owns `out`
 * and gives it back with ops_free. */
int ops_read(const uint8_t *text, int64_t size, int threads, int64_t memory_bytes,
             struct ops_table *out, const char **why, int64_t *where);

void ops_free(struct ops_table *table);

#endif
