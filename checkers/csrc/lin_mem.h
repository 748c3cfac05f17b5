/* Growing arrays under one memory budget. */
#ifndef DSTEST_LIN_MEM_H
#define DSTEST_LIN_MEM_H

#include <stddef.h>
#include <stdint.h>

struct lin_mem {
    size_t used;
    size_t max;
};

/* An array of `cap` elements of `size` bytes at `p`. Grow with lin_reserve, never by hand. */
struct lin_array {
    void *p;
    size_t cap;
    size_t size;
};

/* Makes room for `need` elements; contents stay. 0, or -1 where budget or allocator say no. */
int lin_reserve(struct lin_mem *mem, struct lin_array *array, size_t need);
void lin_release(struct lin_mem *mem, struct lin_array *array);

#endif
