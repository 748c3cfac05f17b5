/* What the readers of one part of a text share. */
#ifndef DSTEST_OPS_PART_H
#define DSTEST_OPS_PART_H

#include "ingest/ingest_part.h"
#include "ops.h"

/* `scan` names values and processes; types have a table of their own. */
struct ops_part {
    struct ing_part scan;
    struct ing_names types;
    struct ing_names texts; /* nodes, epochs and errors: read so that they are known to be text */
    ING_ARRAY(struct ops_row) row;
};

/* ops_record.c: the record on the line under the cursor. 0, or -1 after ing_refuse. */
int ops_record(struct ops_part *part);

/* ops_value.c: the id of the JSON value under the cursor. 0, or -1 after ing_refuse. */
int ops_value(struct ing_part *part, int only_scalar, int32_t *id);

#endif
