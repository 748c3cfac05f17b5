/* The reader of operations as a target for libFuzzer.
 *
 * Each text is read by one thread, by two, and with a budget that it picks itself. All readings
 * must be the same, columns or refusal, but for a budget that is too small; what is accepted must
 * be well formed. -Dpthread_create=no_thread as in target_ingest.c.
 */
#include "ops/ops.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef pthread_create
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *argument)
{
    (void)thread, (void)attributes, (void)run, (void)argument;
    return EAGAIN;
}
#endif

static void require(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "violated: %s\n", what);
        abort();
    }
}

static void validate(const struct ops_table *table, const uint8_t *text, int64_t size)
{
    int64_t values = table->values.name.n, last = INT64_MIN;
    for (int64_t i = 0; i < table->row.n; i++) {
        const struct ops_row *row = &table->row.p[i];
        require(row->invoke >= last && row->complete >= row->invoke, "times");
        require((row->complete == OPS_NEVER) == (row->outcome == OPS_UNKNOWN), "outcome");
        require(row->outcome == OPS_OK || row->output == 0, "output");
        require(row->offset >= 0 && row->offset < size && text[row->offset] == '{', "offset");
        require(row->type >= 0 && row->type < table->types.name.n, "type");
        require(row->process >= 0 && row->process < table->processes.name.n, "process");
        require(row->key >= 0 && row->key <= values && row->input >= 0 && row->input <= values &&
                    row->output >= 0 && row->output <= values,
                "values");
        last = row->invoke;
    }
}

struct reading {
    int status;
    struct ops_table table;
};

static struct reading read_text(const uint8_t *text, size_t size, int threads, int64_t memory)
{
    struct reading r;
    const char *why = NULL;
    int64_t where = -1;
    r.status = ops_read(text, (int64_t)size, threads, memory, &r.table, &why, &where);
    if (r.status == 0) {
        validate(&r.table, text, (int64_t)size);
    } else {
        require(why != NULL && where >= 0 && where <= (int64_t)size, "a reason");
    }
    return r;
}

static void require_same_name(const struct ing_names *a, const struct ing_names *b, int32_t id)
{
    const struct ing_name *x = &a->name.p[id], *y = &b->name.p[id];
    require(x->tag == y->tag && x->size == y->size, "names");
    if (x->tag >= ING_STRING) {
        require(memcmp(a->text.p + x->bits, b->text.p + y->bits, (size_t)x->size) == 0, "text");
    } else {
        require(x->bits == y->bits, "bits");
    }
}

static void require_same(const struct reading *a, const struct reading *b)
{
    require(a->status == b->status, "one reads what the other refuses");
    if (a->status != 0) {
        return;
    }
    require(a->table.row.n == b->table.row.n, "as many operations");
    require(a->table.values.name.n == b->table.values.name.n, "as many values");
    for (int32_t id = 0; id < a->table.values.name.n; id++) {
        require_same_name(&a->table.values, &b->table.values, id);
    }
    for (int64_t i = 0; i < a->table.row.n; i++) {
        const struct ops_row *x = &a->table.row.p[i], *y = &b->table.row.p[i];
        require(x->op_id == y->op_id && x->invoke == y->invoke && x->complete == y->complete &&
                    x->offset == y->offset && x->key == y->key && x->input == y->input &&
                    x->output == y->output && x->type == y->type && x->process == y->process &&
                    x->outcome == y->outcome,
                "operations");
    }
}

static int64_t small_budget(const uint8_t *data, size_t size)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ data[i]) * 16777619u;
    }
    return hash >> 18;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int64_t enough = (int64_t)1 << 26;
    struct reading one = read_text(data, size, 1, enough), two = read_text(data, size, 2, enough);
    require_same(&one, &two);
    struct reading starved = read_text(data, size, (int)(size & 1) + 1, small_budget(data, size));
    if (starved.status == 0) {
        require_same(&one, &starved);
    }
    ops_free(&one.table);
    ops_free(&two.table);
    ops_free(&starved.table);
    return 0;
}
