/* A text in one of the formats to rows. */
#include "sess_part.h"

int sess_read(const uint8_t *text, int64_t size, int format, int64_t memory_bytes,
              struct sess_rows *out, struct sess_error *error)
{
    static int (*const readers[SESS_FORMATS])(struct sess_reading *) = {sess_plume, sess_awdit};
    struct sess_reading r = {
        .memory = core_memory_of(memory_bytes),
        .text = text,
        .end = text + size,
        .error = error,
    };
    int status = readers[format](&r);
    ing_array_free(&r.memory, r.slot, r.slots, sizeof *r.slot);
    if (status != 0) {
        sess_rows_free(&r.rows);
    }
    *out = r.rows;
    return status;
}
