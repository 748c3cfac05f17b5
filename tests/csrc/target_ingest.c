/* One notation of the reader as a target for libFuzzer; -DNOTATION=0, 1 or 2 chooses it. The driver
 * fuzz_ingest.c reads its texts in the same way.
 *
 * Each text is read by one thread, by two, and with a budget that it picks itself. All readings
 * must be the same, columns or refusal, but for a budget that is too small; what is accepted must
 * be well formed; JSON must say the same when it is written as EDN.
 *
 * With -Dpthread_create=no_thread no thread is ever started, since ASan keeps a record of each one
 * that ever was: the second half is then read after the first, as it is where the system has no
 * thread to give.
 */
#include "target_ingest.h"

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

static void validate(const struct ing_columns *c)
{
    int64_t keys = c->keys.name.n, values = c->values.name.n;
    require(c->mop_start[0] == 0 && c->mop_start[c->n] == c->m, "micro-ops of transactions");
    require(c->elem_start[0] == 0 && c->elem_start[c->m] == c->e, "elements of micro-ops");
    for (int64_t t = 0; t < c->n; t++) {
        require(c->outcome[t] <= 2 && c->mop_start[t] <= c->mop_start[t + 1], "transaction");
        require(c->process[t] >= -1 && (c->invoke_pos[t] >= 0 || c->complete_pos[t] >= 0), "event");
    }
    for (int64_t i = 0; i < c->m; i++) {
        require(c->mop_kind[i] <= 1 && c->mop_known[i] <= 2, "micro-op");
        require(c->mop_key[i] >= 0 && c->mop_key[i] < keys, "key");
        require(c->mop_value[i] >= -1 && c->mop_value[i] < values, "value");
        require(c->elem_start[i] <= c->elem_start[i + 1], "elements");
    }
    for (int64_t i = 0; i < c->e; i++) {
        require(c->elem[i] >= 0 && c->elem[i] < values, "element");
    }
}

struct reading {
    int status;
    struct ing_columns columns;
    struct ing_error error;
};

static void read_text(struct reading *r, const uint8_t *text, size_t size, int format, int threads,
                      int64_t memory)
{
    r->error = (struct ing_error){NULL, -1, -1};
    r->status = ing_read(text, (int64_t)size, format, threads, memory, &r->columns, &r->error);
    if (r->status == 0) {
        validate(&r->columns);
    } else {
        require(r->error.message != NULL && r->error.line >= 0 && r->error.column >= 0, "an error");
    }
}

static int same(const void *a, const void *b, int64_t n, size_t size)
{
    return n == 0 || memcmp(a, b, (size_t)n * size) == 0;
}

static void require_same_names(const struct ing_names *a, const struct ing_names *b)
{
    require(a->name.n == b->name.n && a->text.n == b->text.n, "as many names");
    require(same(a->text.p, b->text.p, a->text.n, 1), "names");
    for (int64_t i = 0; i < a->name.n; i++) {
        const struct ing_name *x = &a->name.p[i], *y = &b->name.p[i];
        require(x->bits == y->bits && x->size == y->size && x->tag == y->tag, "a name");
    }
}

static void require_same(const struct reading *one, const struct reading *other)
{
    const struct ing_columns *a = &one->columns, *b = &other->columns;
    require(one->status == other->status, "accepted by both");
    if (one->status != 0) {
        require(strcmp(one->error.message, other->error.message) == 0 &&
                    one->error.line == other->error.line &&
                    one->error.column == other->error.column,
                "the same refusal");
        return;
    }
    require(a->n == b->n && a->m == b->m && a->e == b->e, "as many rows");
    require(same(a->outcome, b->outcome, a->n, 1), "outcome");
    require(same(a->process, b->process, a->n, 8), "process");
    require(same(a->invoke_pos, b->invoke_pos, a->n, 8), "invoke_pos");
    require(same(a->complete_pos, b->complete_pos, a->n, 8), "complete_pos");
    require(same(a->op_index, b->op_index, a->n, 8), "op_index");
    require(same(a->mop_start, b->mop_start, a->n + 1, 8), "mop_start");
    require(same(a->mop_kind, b->mop_kind, a->m, 1), "mop_kind");
    require(same(a->mop_key, b->mop_key, a->m, 4), "mop_key");
    require(same(a->mop_value, b->mop_value, a->m, 4), "mop_value");
    require(same(a->mop_known, b->mop_known, a->m, 1), "mop_known");
    require(same(a->elem_start, b->elem_start, a->m + 1, 8), "elem_start");
    require(same(a->elem, b->elem, a->e, 4), "elem");
    require(same(a->skipped, b->skipped, ING_SKIPS, 8), "skipped");
    require(a->writes == b->writes, "writes");
    require_same_names(&a->keys, &b->keys);
    require_same_names(&a->values, &b->values);
}

static void drop(struct reading *r)
{
    if (r->status == 0) {
        ing_free(&r->columns);
    }
}

/* JSON that was accepted, as EDN: without colons, and with nil for null. Returns its size. */
static size_t as_edn(const uint8_t *json, size_t size, uint8_t *edn)
{
    size_t n = 0;
    int quoted = 0;
    for (size_t i = 0; i < size; i++) {
        uint8_t c = json[i];
        if (quoted) {
            edn[n++] = c;
            if (c == '\\') {
                edn[n++] = json[++i];
            }
            quoted = c != '"';
        } else if (c == 'n') {
            memcpy(edn + n, "nil", 3);
            n += 3;
            i += 3;
        } else {
            edn[n++] = c == ':' ? ' ' : c;
            quoted = c == '"';
        }
    }
    return n;
}

/* What is said in both notations must be the same in both. */
static void compare_with_edn(const struct reading *json, const uint8_t *data, size_t size)
{
    struct reading edn;
    uint8_t *text = malloc(size + 1);
    require(text != NULL, "memory");
    read_text(&edn, text, as_edn(data, size, text), ING_EDN, 1, (int64_t)1 << 26);
    require_same(json, &edn);
    drop(&edn);
    free(text);
}

/* A budget below 16 KiB that the same text always picks. */
static int64_t small_budget(const uint8_t *data, size_t size)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ data[i]) * 16777619u;
    }
    return hash >> 18;
}

void read_in_every_way(const uint8_t *data, size_t size, int format)
{
    const int64_t enough = (int64_t)1 << 26;
    struct reading one, two, starved;
    read_text(&one, data, size, format, 1, enough);
    read_text(&two, data, size, format, 2, enough);
    require_same(&one, &two);
    read_text(&starved, data, size, format, (int)(size & 1) + 1, small_budget(data, size));
    if (starved.status == 0) {
        require_same(&one, &starved);
    }
    if (format == ING_JSON && one.status == 0) {
        compare_with_edn(&one, data, size);
    }
    drop(&one);
    drop(&two);
    drop(&starved);
}

#ifdef NOTATION
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_in_every_way(data, size, NOTATION);
    return 0;
}
#endif
