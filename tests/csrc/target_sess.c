/* The reader and the placing of session files as a target for libFuzzer.
 *
 * The first byte is the format. Each text is read with enough memory and with a budget that it picks
 * itself, and what was read is placed likewise, with a start and without. All must be the same but
 * for a budget that is too small; what is accepted must be well formed.
 */
#include "sess/sess.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t ENOUGH = (int64_t)1 << 26;

static void require(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "violated: %s\n", what);
        abort();
    }
}

static void require_rows(const struct sess_rows *rows, int format, int64_t size)
{
    for (int64_t i = 0; i < rows->m; i++) {
        require(rows->kind[i] <= SESS_WRITE, "kind");
        require(rows->txn[i] >= 0 && rows->txn[i] < rows->n, "txn");
        require(rows->key[i] >= SESS_WIDE - rows->n_wide && rows->key[i] != SESS_WIDE, "key");
        require(rows->value[i] >= SESS_WIDE - rows->n_wide && rows->value[i] != SESS_WIDE, "value");
    }
    int64_t most = format == SESS_PLUME ? rows->n : size;
    for (int64_t t = 0; t < rows->n; t++) {
        require(rows->outcome[t] < SESS_OUTCOMES, "outcome");
        require(rows->session[t] >= SESS_NO_SESSION && rows->session[t] < most, "session");
    }
    for (int64_t i = 0; i < rows->n_wide; i++) {
        require(rows->wide[i].at >= 0 && rows->wide[i].size > 0 &&
                    rows->wide[i].at + rows->wide[i].size <= size,
                "digits");
    }
}

static void require_ids(const int64_t *codes, int64_t n)
{
    for (int64_t id = 1; id < n; id++) {
        require(codes[id - 1] < codes[id], "codes in order");
    }
}

static void require_columns(const struct sess_columns *c, const struct sess_rows *rows)
{
    require(c->n == rows->n && c->m == rows->m, "as many");
    require(c->mop_start[0] == 0 && c->mop_start[c->n] == c->m, "micro-ops");
    for (int64_t t = 0; t < c->n; t++) {
        require(c->mop_start[t] <= c->mop_start[t + 1], "micro-ops in order");
        require(c->invoke_pos[t] == 2 * t && c->complete_pos[t] == 2 * t + 1, "positions");
    }
    for (int64_t i = 0; i < c->m; i++) {
        require(c->mop_key[i] >= 0 && c->mop_key[i] < c->n_keys, "key");
        require(c->mop_value[i] >= SESS_NIL && c->mop_value[i] < c->n_values, "value");
        require(c->mop_kind[i] == SESS_READ || c->mop_known[i] == SESS_KNOWN, "known");
        require(c->elem_start[i] == 0, "elements");
    }
    require_ids(c->keys, c->n_keys);
    require_ids(c->values, c->n_values);
}

static int64_t small_budget(const uint8_t *data, size_t size)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ data[i]) * 16777619u;
    }
    return hash >> 18;
}

static void place(const struct sess_rows *rows, const uint8_t *null, int has_start, int64_t memory)
{
    struct sess_placing in = {
        .m = rows->m,
        .n = rows->n,
        .kind = rows->kind,
        .null = null,
        .outcome = rows->outcome,
        .key = rows->key,
        .value = rows->value,
        .session = rows->session,
        .name = rows->name,
        .txn = rows->txn,
        .has_start = has_start,
    };
    struct sess_columns columns;
    struct sess_error error;
    if (sess_place(&in, memory, &columns, &error) == 0) {
        require_columns(&columns, rows);
        sess_columns_free(&columns);
    } else {
        require(error.flaw == SESS_SPENT && memory < ENOUGH, "rows are placed");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    int format = data[0] % SESS_FORMATS;
    int64_t length = (int64_t)size - 1, little = small_budget(data, size);
    struct sess_rows rows, starved;
    struct sess_error error = {SESS_SPENT, -1, 0, 0, 0}, other;
    int status = sess_read(data + 1, length, format, ENOUGH, &rows, &error);
    int less = sess_read(data + 1, length, format, little, &starved, &other);
    if (status == 0) {
        require_rows(&rows, format, length);
        place(&rows, NULL, 0, ENOUGH);
        place(&rows, rows.kind, 1, little);
        place(&rows, NULL, 1, ENOUGH);
        require(less == 0 || other.flaw == SESS_SPENT, "refused for want of memory alone");
        require(less != 0 || (starved.m == rows.m && starved.n == rows.n), "the same rows");
    } else {
        require(error.flaw != SESS_SPENT && error.flaw < SESS_FLAWS, "a reason");
        require(error.line >= 0 && error.line <= length + 1, "a line");
        require(less != 0, "one reads what the other refuses");
    }
    sess_rows_free(&rows);
    sess_rows_free(&starved);
    return 0;
}
