/* What the readers of a part share: growth, refusals, places. */
#include "ingest_part.h"

#include <stdlib.h>
#include <string.h>

const char ing_spent[] = "memory budget spent";

int ing_grow(struct core_memory *memory, void **p, int64_t *cap, int64_t need, size_t size)
{
    int64_t want = *cap > INT64_MAX / 4 ? INT64_MAX : *cap * 2;
    want = want < need ? need : want;
    want = want < 16 ? 16 : want;
    if (want > INT64_MAX / 2 / (int64_t)size) {
        return -1;
    }
    size_t held = (size_t)*cap * size;
    void *grown = core_resize(memory, *p, held, (size_t)want * size);
    if (grown == NULL && want > need) {
        want = need;
        grown = core_resize(memory, *p, held, (size_t)want * size);
    }
    if (grown == NULL) {
        return -1;
    }
    *p = grown;
    *cap = want;
    return 0;
}

void *ing_array(struct core_memory *memory, int64_t n, size_t size)
{
    if (n >= INT64_MAX / 2 / (int64_t)size || core_charge(memory, ((size_t)n + 1) * size) != 0) {
        return NULL;
    }
    void *p = calloc((size_t)n + 1, size);
    core_advise(p, ((size_t)n + 1) * size);
    return p;
}

void ing_array_free(struct core_memory *memory, void *p, int64_t n, size_t size)
{
    if (p != NULL) {
        core_refund(memory, ((size_t)n + 1) * size);
        free(p);
    }
}

int ing_refuse(struct ing_part *part, const char *message)
{
    part->message = message;
    return -1;
}

void ing_locate(const struct ing_part *part, int64_t offset, const char *message,
                struct ing_error *error)
{
    *error = (struct ing_error){message, 0, 0};
    if (offset < 0) {
        return;
    }
    error->line = 1;
    const uint8_t *from = part->text, *at = part->text + offset, *line = from;
    while ((from = memchr(from, '\n', (size_t)(at - from))) != NULL) {
        error->line++;
        line = ++from;
    }
    error->column = at - line + 1;
}
