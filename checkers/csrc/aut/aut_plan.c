/* One key's operations as the search wants them. */
#include "aut_search.h"
#include "lin/lin_keys.h"

#include <string.h>

static int copy_ops(struct aut_search *s, int64_t first, int64_t last, struct lin_report *report)
{
    int64_t before = INT64_MIN;
    for (int64_t i = first; i < last; i++) {
        struct aut_op op = {s->in->class[i], -1, 0, s->in->invoke[i], s->in->complete[i]};
        if (op.class < 0 || op.class >= s->in->n_classes) {
            return lin_refuse(report, "class out of range", i);
        }
        if (op.invoke < before || op.complete < op.invoke || op.invoke == LIN_NEVER) {
            return lin_refuse(report, "times are out of order", i);
        }
        before = op.invoke;
        op.pure = s->in->pure[op.class] != 0;
        AUT_OPS(s)[i - first] = op;
    }
    return LIN_OK;
}

/* Counts unknown operations by class and lays out their bits. Those that never change a state
 * tell nobody anything and get no class. */
static int make_crashed(struct aut_search *s)
{
    int32_t *of_class = s->of_class.p;
    for (int32_t k = 0; k < s->n_crashed; k++) { /* of the key before */
        of_class[((struct aut_crashed *)s->crashed.p)[k].class] = -1;
    }
    s->n_crashed = s->n_used_bits = 0;
    for (int32_t i = 0; i < s->n_ops; i++) {
        const struct aut_op *op = &AUT_OPS(s)[i];
        if (op->complete != LIN_NEVER || op->pure) {
            continue;
        }
        if (of_class[op->class] < 0) {
            if (core_reserve(&s->budget.memory, &s->crashed, (size_t)s->n_crashed + 1) != 0) {
                return LIN_MEMORY;
            }
            of_class[op->class] = s->n_crashed;
            ((struct aut_crashed *)s->crashed.p)[s->n_crashed++] = (struct aut_crashed){op->class,
                                                                                        0, 0, 0};
        }
        ((struct aut_crashed *)s->crashed.p)[of_class[op->class]].count++;
    }
    for (int32_t k = 0; k < s->n_crashed; k++) {
        struct aut_crashed *crashed = (struct aut_crashed *)s->crashed.p + k;
        crashed->base = s->n_used_bits;
        s->n_used_bits += crashed->count;
    }
    return LIN_OK;
}

/* Fills the arrays by class for the first key. */
static int make_class_arrays(struct aut_search *s)
{
    size_t n = (size_t)s->in->n_classes;
    if (s->of_class.cap > 0 || n == 0) {
        return LIN_OK;
    }
    if (core_reserve(&s->budget.memory, &s->of_class, n) != 0 ||
        core_reserve(&s->budget.memory, &s->tried, n) != 0) {
        return LIN_MEMORY;
    }
    memset(s->of_class.p, 0xff, n * sizeof(int32_t));
    memset(s->tried.p, 0, n * sizeof(int64_t));
    return LIN_OK;
}

/* The most operations of either sort that are pending at once; gives them their bits. */
static void give_slots(struct aut_search *s)
{
    struct aut_op *ops = AUT_OPS(s);
    int32_t *heap = s->heap, *spare[2] = {s->changers, s->observers};
    int32_t n_heap = 0, n_spare[2] = {0, 0}, bits[2] = {0, 0};
    for (int32_t next = 0; next < s->n_ops; next++) {
        if (ops[next].complete == LIN_NEVER) {
            continue;
        }
        while (n_heap > 0 && ops[heap[0]].complete < ops[next].invoke) {
            int32_t done = heap[0], last = heap[--n_heap], hole = 0;
            for (int32_t child; (child = 2 * hole + 1) < n_heap; hole = child) {
                child += child + 1 < n_heap &&
                         ops[heap[child + 1]].complete < ops[heap[child]].complete;
                if (ops[heap[child]].complete >= ops[last].complete) {
                    break;
                }
                heap[hole] = heap[child];
            }
            heap[hole] = last;
            int sort = ops[done].pure;
            spare[sort][n_spare[sort]++] = ops[done].slot;
        }
        int sort = ops[next].pure;
        ops[next].slot = n_spare[sort] > 0 ? spare[sort][--n_spare[sort]] : bits[sort]++;
        int32_t at = n_heap++;
        while (at > 0 && ops[heap[(at - 1) / 2]].complete > ops[next].complete) {
            heap[at] = heap[(at - 1) / 2];
            at = (at - 1) / 2;
        }
        heap[at] = next;
    }
    s->n_done_bits = bits[0];
    s->n_seen_bits = bits[1];
}

int aut_plan(struct aut_search *s, int64_t first, int64_t last, struct lin_report *report)
{
    if (last - first > INT32_MAX / 8) {
        return lin_refuse(report, "more operations on one key than the search can number", first);
    }
    size_t n = (size_t)(last - first);
    if (core_reserve(&s->budget.memory, &s->ops, n) != 0 ||
        core_reserve(&s->budget.memory, &s->lists, 3 * n) != 0 || make_class_arrays(s) != LIN_OK) {
        return LIN_MEMORY;
    }
    s->n_ops = (int32_t)n;
    s->changers = s->lists.p;
    s->observers = n > 0 ? s->changers + n : s->changers;
    s->heap = n > 0 ? s->observers + n : s->changers;
    int verdict = copy_ops(s, first, last, report);
    if (verdict == LIN_OK) {
        verdict = make_crashed(s);
    }
    if (verdict == LIN_OK) {
        give_slots(s);
    }
    return verdict;
}
