#include "lin_plan.h"
#include "lin_keys.h"

#include <stdlib.h>

#define LOCALS(plan) ((int32_t *)(plan)->locals.p)

void lin_plan_init(struct lin_plan *plan)
{
    *plan = (struct lin_plan){
        .ops = {.size = sizeof(struct lin_op)},
        .events = {.size = sizeof(int32_t)},
        .classes = {.size = sizeof(struct lin_class)},
        .values = {.size = sizeof(struct lin_value)},
        .locals = {.size = sizeof(int32_t)},
        .heap = {.size = sizeof(int32_t)},
        .scratch = {.size = sizeof(int32_t)},
    };
}

void lin_plan_free(struct lin_plan *plan, struct core_memory *memory)
{
    core_release(memory, &plan->ops);
    core_release(memory, &plan->events);
    core_release(memory, &plan->classes);
    core_release(memory, &plan->values);
    core_release(memory, &plan->locals);
    core_release(memory, &plan->heap);
    core_release(memory, &plan->scratch);
}

static int is_unknown(uint8_t kind)
{
    return kind >= LIN_WRITE_UNKNOWN;
}

static int is_cas(uint8_t kind)
{
    return kind == LIN_CAS_TRUE || kind == LIN_CAS_FALSE || kind == LIN_CAS_UNKNOWN;
}

/* Copies operation `i` and checks the copy, which nobody else can change. */
static int copy_op(const struct lin_input *in, int64_t i, int64_t before, struct lin_op *op,
                   struct lin_report *report)
{
    op->kind = in->kind[i];
    op->a = in->a[i];
    op->b = in->b[i];
    op->invoke = in->invoke[i];
    op->complete = in->complete[i];
    op->slot = -1;
    if (op->kind >= LIN_KINDS) {
        return lin_refuse(report, "kind is not one of 0 to 6", i);
    }
    if (op->a < 0 || op->a >= in->n_values || op->b < 0 || op->b >= in->n_values) {
        return lin_refuse(report, "value is not below n_values", i);
    }
    if (op->invoke < before) {
        return lin_refuse(report, "operations of a key are not in order of invocation", i);
    }
    if (is_unknown(op->kind) != (op->complete == LIN_NEVER)) {
        return lin_refuse(report, "unknown operations never complete and all others do", i);
    }
    if (op->complete < op->invoke) {
        return lin_refuse(report, "operation completes before its invocation", i);
    }
    return LIN_OK;
}

/* The local id of a global value, made on first sight. Room is reserved by the caller. */
static int32_t local_of(struct lin_plan *plan, int32_t global)
{
    int32_t *locals = LOCALS(plan);
    if (locals[global] < 0) {
        locals[global] = plan->n_values;
        LIN_VALUES(plan)[plan->n_values++] = (struct lin_value){global, -1, -1, -1};
    }
    return locals[global];
}

/* Gives values local ids. Those that no operation observes become one value: nothing can tell them
 * apart. `exact` keeps them apart for reports. */
static void number_values(struct lin_plan *plan, int32_t initial, int exact)
{
    struct lin_op *ops = LIN_OPS(plan);
    int32_t *locals = LOCALS(plan);
    plan->n_values = 0;
    for (int32_t i = 0; i < plan->n_ops; i++) {
        struct lin_op *op = &ops[i];
        int observes = op->kind == LIN_READ || is_cas(op->kind);
        if (observes || exact) {
            (void)local_of(plan, op->a);
        }
        if (exact && is_cas(op->kind)) {
            (void)local_of(plan, op->b);
        }
    }
    if (exact) {
        (void)local_of(plan, initial);
    }
    int32_t junk = plan->n_values;
    LIN_VALUES(plan)[plan->n_values++] = (struct lin_value){-1, -1, -1, -1};
    plan->initial = locals[initial] < 0 ? junk : locals[initial];
    for (int32_t i = 0; i < plan->n_ops; i++) {
        struct lin_op *op = &ops[i];
        int32_t a = locals[op->a], b = locals[op->b];
        op->a = a < 0 ? junk : a;
        op->b = !is_cas(op->kind) ? op->a : b < 0 ? junk : b;
    }
    for (int32_t v = 0; v < junk; v++) {
        locals[LIN_VALUES(plan)[v].global] = -1;
    }
}

static void give_roles(struct lin_plan *plan)
{
    struct lin_op *ops = LIN_OPS(plan);
    int32_t junk = plan->n_values - 1;
    int any_cas_false = 0;
    for (int32_t i = 0; i < plan->n_ops; i++) {
        any_cas_false |= ops[i].kind == LIN_CAS_FALSE;
    }
    for (int32_t i = 0; i < plan->n_ops; i++) {
        struct lin_op *op = &ops[i];
        int useful = op->b != junk || any_cas_false;
        switch ((enum lin_kind)op->kind) {
        case LIN_READ:
        case LIN_CAS_FALSE:
            op->role = LIN_OBSERVER;
            break;
        case LIN_WRITE:
            op->role = LIN_WRITER;
            break;
        case LIN_CAS_TRUE:
            op->role = op->a == op->b ? LIN_OBSERVER : LIN_SWAPPER;
            break;
        case LIN_WRITE_UNKNOWN:
            op->role = useful ? LIN_CRASHED : LIN_IGNORED;
            break;
        case LIN_CAS_UNKNOWN:
            op->role = useful && op->a != op->b ? LIN_CRASHED : LIN_IGNORED;
            break;
        default:
            op->role = LIN_IGNORED;
        }
    }
}

struct swap {
    int32_t a, b, op;
};

static int by_value(const void *left, const void *right)
{
    const struct swap *x = left, *y = right;
    if (x->b != y->b) {
        return x->b < y->b ? -1 : 1;
    }
    if (x->a != y->a) {
        return x->a < y->a ? -1 : 1;
    }
    return x->op < y->op ? -1 : x->op > y->op;
}

static int32_t add_class(struct lin_plan *plan, int32_t a, int32_t b)
{
    LIN_CLASSES(plan)[plan->n_classes] = (struct lin_class){a, b, 0, 0, 0, -1, -1};
    return plan->n_classes++;
}

/* Puts unknown operations into classes of equals and lays out their bits. */
static int make_classes(struct lin_plan *plan, struct core_memory *memory)
{
    struct lin_op *ops = LIN_OPS(plan);
    struct lin_value *values = LIN_VALUES(plan);
    size_t crashed = 0, swaps = 0;
    for (int32_t i = 0; i < plan->n_ops; i++) {
        crashed += ops[i].role == LIN_CRASHED;
        swaps += ops[i].role == LIN_CRASHED && ops[i].kind == LIN_CAS_UNKNOWN;
    }
    plan->n_classes = 0;
    plan->n_crash_bits = (int32_t)crashed;
    if (crashed == 0) {
        return LIN_OK;
    }
    if (core_reserve(memory, &plan->classes, crashed) != 0 ||
        core_reserve(memory, &plan->scratch, 3 * swaps) != 0) {
        return LIN_MEMORY;
    }
    struct swap *sorted = plan->scratch.p;
    size_t n = 0;
    for (int32_t i = 0; i < plan->n_ops; i++) {
        if (ops[i].role != LIN_CRASHED) {
            continue;
        }
        if (ops[i].kind == LIN_CAS_UNKNOWN) {
            sorted[n++] = (struct swap){ops[i].a, ops[i].b, i};
            continue;
        }
        int32_t *of = &values[ops[i].b].write_class;
        if (*of < 0) {
            *of = add_class(plan, -1, ops[i].b);
        }
        ops[i].slot = *of;
    }
    if (n > 1) {
        qsort(sorted, n, sizeof *sorted, by_value);
    }
    for (size_t i = 0; i < n; i++) {
        struct swap *s = &sorted[i];
        if (i == 0 || s->a != s[-1].a || s->b != s[-1].b) {
            int32_t c = add_class(plan, s->a, s->b);
            LIN_CLASSES(plan)[c].next_in = values[s->b].cas_in;
            LIN_CLASSES(plan)[c].next_out = values[s->a].cas_out;
            values[s->b].cas_in = values[s->a].cas_out = c;
        }
        ops[s->op].slot = plan->n_classes - 1;
    }
    for (int32_t i = 0; i < plan->n_ops; i++) {
        if (ops[i].role == LIN_CRASHED) {
            LIN_CLASSES(plan)[ops[i].slot].count++;
        }
    }
    int32_t base = 0;
    for (int32_t c = 0; c < plan->n_classes; c++) {
        LIN_CLASSES(plan)[c].base = base;
        base += LIN_CLASSES(plan)[c].count;
    }
    return LIN_OK;
}

/* Does operation x complete before y? Ties go by position, so that the order is total. */
static int sooner(const struct lin_op *ops, int32_t x, int32_t y)
{
    return ops[x].complete != ops[y].complete ? ops[x].complete < ops[y].complete : x < y;
}

static void heap_push(const struct lin_op *ops, int32_t *heap, int32_t n, int32_t op)
{
    while (n > 0 && sooner(ops, op, heap[(n - 1) / 2])) {
        heap[n] = heap[(n - 1) / 2];
        n = (n - 1) / 2;
    }
    heap[n] = op;
}

static void heap_pop(const struct lin_op *ops, int32_t *heap, int32_t n)
{
    int32_t last = heap[n - 1], hole = 0;
    n--;
    for (int32_t child; (child = 2 * hole + 1) < n; hole = child) {
        if (child + 1 < n && sooner(ops, heap[child + 1], heap[child])) {
            child++;
        }
        if (!sooner(ops, heap[child], last)) {
            break;
        }
        heap[hole] = heap[child];
    }
    heap[hole] = last;
}

/* Orders invocations and completions in time and gives pending ok operations their bits. On a tie
 * the invocation comes first: intervals are closed, such operations are concurrent. */
static void order_events(struct lin_plan *plan)
{
    struct lin_op *ops = LIN_OPS(plan);
    int32_t *events = plan->events.p, *heap = plan->heap.p, *free_slots = plan->scratch.p;
    int32_t pending = 0, n_free = 0, next = 0;
    plan->n_events = plan->n_slots = 0;
    while (next < plan->n_ops || pending > 0) {
        if (next < plan->n_ops && (pending == 0 || ops[next].invoke <= ops[heap[0]].complete)) {
            struct lin_op *op = &ops[next];
            if (op->role != LIN_IGNORED) {
                events[plan->n_events++] = next * 2;
            }
            if (op->role != LIN_IGNORED && op->role != LIN_CRASHED) {
                op->slot = n_free > 0 ? free_slots[--n_free] : plan->n_slots++;
                heap_push(ops, heap, pending++, next);
            }
            next++;
        } else {
            int32_t done = heap[0];
            heap_pop(ops, heap, pending--);
            events[plan->n_events++] = done * 2 + 1;
            free_slots[n_free++] = ops[done].slot;
        }
    }
}

int lin_plan_make(struct lin_plan *plan, struct core_memory *memory, const struct lin_input *in,
                  int64_t first, int64_t last, int exact_states, struct lin_report *report)
{
    if (last - first > INT32_MAX / 8) {
        return lin_refuse(report, "more operations on one key than the search can number", first);
    }
    size_t n = (size_t)(last - first);
    size_t fresh = plan->locals.cap;
    if (core_reserve(memory, &plan->locals, (size_t)in->n_values) != 0 ||
        core_reserve(memory, &plan->ops, n) != 0 ||
        core_reserve(memory, &plan->events, 2 * n) != 0 ||
        core_reserve(memory, &plan->values, 2 * n + 2) != 0 ||
        core_reserve(memory, &plan->heap, n) != 0 || core_reserve(memory, &plan->scratch, n) != 0) {
        for (; fresh < plan->locals.cap; fresh++) {
            LOCALS(plan)[fresh] = -1;
        }
        return LIN_MEMORY;
    }
    for (; fresh < plan->locals.cap; fresh++) {
        LOCALS(plan)[fresh] = -1;
    }
    plan->n_ops = (int32_t)n;
    int64_t before = INT64_MIN;
    for (int64_t i = first; i < last; i++) {
        struct lin_op *op = &LIN_OPS(plan)[i - first];
        int bad = copy_op(in, i, before, op, report);
        if (bad) {
            return bad;
        }
        before = op->invoke;
    }
    number_values(plan, in->initial, exact_states);
    give_roles(plan);
    int verdict = make_classes(plan, memory);
    if (verdict == LIN_OK) {
        order_events(plan);
    }
    return verdict;
}
