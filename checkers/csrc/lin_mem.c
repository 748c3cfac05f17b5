#include "lin_mem.h"

#include <stdlib.h>

int lin_reserve(struct lin_mem *mem, struct lin_array *array, size_t need)
{
    if (need <= array->cap) {
        return 0;
    }
    size_t cap = array->cap < 16 ? 16 : array->cap + array->cap / 2;
    if (cap < need) {
        cap = need;
    }
    if (cap > SIZE_MAX / array->size) {
        return -1;
    }
    size_t held = array->cap * array->size;
    size_t wanted = cap * array->size;
    /* realloc may hold both copies for a moment, so both count */
    if (wanted > mem->max || mem->used > mem->max - wanted) {
        return -1;
    }
    void *p = realloc(array->p, wanted);
    if (p == NULL) {
        return -1;
    }
    array->p = p;
    array->cap = cap;
    mem->used = mem->used - held + wanted;
    return 0;
}

void lin_release(struct lin_mem *mem, struct lin_array *array)
{
    free(array->p);
    mem->used -= array->cap * array->size;
    array->p = NULL;
    array->cap = 0;
}
