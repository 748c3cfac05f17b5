/* Parts of a text into the columns of one history. */
#include "ingest_part.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Ids of the second part as ids of the first. */
struct ids {
    int32_t *keys, *values, *processes;
};

static int same_ids(const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] != i) {
            return 0;
        }
    }
    return 1;
}

static int append(struct ing_part *to, const struct ing_part *from, const struct ids *ids)
{
    if (ing_room(&to->memory, to->event, from->event.n) != 0 ||
        ing_room(&to->memory, to->times, from->times.n) != 0) {
        return -1;
    }
    for (int64_t i = 0; i < from->event.n; i++) {
        struct ing_event *event = &to->event.p[to->event.n++];
        *event = from->event.p[i];
        event->mop_end += to->mop.n;
        event->process = event->process >= 0 ? ids->processes[event->process] : event->process;
    }
    if (from->times.n > 0) {
        memcpy(to->times.p + to->times.n, from->times.p,
               (size_t)from->times.n * sizeof *to->times.p);
    }
    to->times.n += from->times.n;
    for (int i = 0; i < ING_SKIPS; i++) {
        to->skipped[i] += from->skipped[i];
    }
    to->writes |= from->writes;
    return 0;
}

static int join_fields(struct ing_part *to, const struct ing_part *from)
{
    int32_t *ids = ing_translate(&to->memory, &to->fields, &from->fields);
    int64_t more = to->fields.name.n - to->n_fields.n;
    if (ids == NULL || ing_room(&to->memory, to->n_fields, more) != 0) {
        free(ids);
        return -1;
    }
    for (; to->n_fields.n < to->fields.name.n; to->n_fields.n++) {
        to->n_fields.p[to->n_fields.n] = 0;
    }
    for (int64_t i = 0; i < from->n_fields.n; i++) {
        to->n_fields.p[ids[i]] += from->n_fields.p[i];
    }
    free(ids);
    return 0;
}

int ing_join(struct ing_part *first, struct ing_part *second)
{
    int status = -1;
    struct ids ids = {
        .keys = ing_translate(&first->memory, &first->keys, &second->keys),
        .values = ing_translate(&first->memory, &first->values, &second->values),
        .processes = ing_translate(&first->memory, &first->processes, &second->processes),
    };
    if (ids.keys == NULL || ids.values == NULL || ids.processes == NULL) {
        goto done;
    }
    for (int64_t i = 0; i < second->mop.n; i++) {
        struct ing_mop *mop = &second->mop.p[i];
        mop->key = ids.keys[mop->key];
        mop->value = mop->value == ING_NIL ? ING_NIL : ids.values[mop->value];
        mop->elem_end += first->elem.n;
    }
    int kept = same_ids(ids.values, second->values.name.n);
    for (int64_t i = 0; i < second->elem.n && !kept; i++) {
        second->elem.p[i] = ids.values[second->elem.p[i]];
    }
    first->rest = second;
    status = append(first, second, &ids) != 0 ? -1 : join_fields(first, second);
done:
    free(ids.keys);
    free(ids.values);
    free(ids.processes);
    return status;
}

static int reserve(struct core_memory *memory, struct ing_columns *out)
{
    out->outcome = ing_array(memory, out->n, sizeof *out->outcome);
    out->process = ing_array(memory, out->n, sizeof *out->process);
    out->invoke_pos = ing_array(memory, out->n, sizeof *out->invoke_pos);
    out->complete_pos = ing_array(memory, out->n, sizeof *out->complete_pos);
    out->op_index = ing_array(memory, out->n, sizeof *out->op_index);
    out->mop_start = ing_array(memory, out->n + 1, sizeof *out->mop_start);
    out->mop_kind = ing_array(memory, out->m, sizeof *out->mop_kind);
    out->mop_key = ing_array(memory, out->m, sizeof *out->mop_key);
    out->mop_value = ing_array(memory, out->m, sizeof *out->mop_value);
    out->mop_known = ing_array(memory, out->m, sizeof *out->mop_known);
    out->elem_start = ing_array(memory, out->m + 1, sizeof *out->elem_start);
    out->elem = ing_array(memory, out->e, sizeof *out->elem);
    return out->outcome && out->process && out->invoke_pos && out->complete_pos && out->op_index &&
                   out->mop_start && out->mop_kind && out->mop_key && out->mop_value &&
                   out->mop_known && out->elem_start && out->elem
               ? 0
               : -1;
}

struct span {
    int64_t from, to; /* micro-ops */
    int64_t elem;     /* where their elements start */
};

static struct span span_of(const struct ing_part *part, int64_t event)
{
    struct span span = {event == 0 ? 0 : part->event.p[event - 1].mop_end,
                        part->event.p[event].mop_end, 0};
    span.elem = span.from == 0 ? 0 : ing_mop_at(part, span.from - 1)->elem_end;
    return span;
}

/* The event whose micro-ops count: the completion's, where it tells any. */
static int64_t answering_event(const struct ing_part *part, const struct ing_pair *pair)
{
    if (pair->complete >= 0 && (part->event.p[pair->complete].has_value || pair->invoke < 0)) {
        return pair->complete;
    }
    return pair->invoke;
}

/* Transactions [from, to), whose micro-ops and elements begin at m and e. */
struct filling {
    const struct ing_part *part;
    const struct ing_pair *pairs;
    struct ing_columns *out;
    int64_t from, to, m, e;
};

static void copy_mops(struct filling *f, const struct span *span)
{
    struct ing_columns *out = f->out;
    int64_t elem = span->elem;
    for (int64_t i = span->from; i < span->to; i++) {
        const struct ing_mop *mop = ing_mop_at(f->part, i);
        out->mop_kind[f->m] = mop->kind;
        out->mop_key[f->m] = mop->key;
        out->mop_value[f->m] = mop->value;
        out->mop_known[f->m] = mop->known;
        out->elem_start[f->m++] = f->e;
        if (mop->elem_end > elem) {
            memcpy(out->elem + f->e, ing_elem_at(f->part, elem),
                   (size_t)(mop->elem_end - elem) * sizeof *out->elem);
            f->e += mop->elem_end - elem;
        }
        elem = mop->elem_end;
    }
}

/* A transaction of ours is both events in one. */
static void *fill(void *argument)
{
    struct filling *f = argument;
    for (int64_t t = f->from; t < f->to; t++) {
        const struct ing_pair *pair = &f->pairs[t];
        int64_t event = pair->complete >= 0 ? pair->complete : pair->invoke;
        const struct ing_event *last = &f->part->event.p[event];
        f->out->outcome[t] = last->type == ING_INVOKE ? ING_INFO : last->type;
        f->out->process[t] = last->process;
        f->out->op_index[t] = last->no_index ? event : last->index;
        f->out->mop_start[t] = f->m;
        struct span span = span_of(f->part, answering_event(f->part, pair));
        copy_mops(f, &span);
    }
    return NULL;
}

/* All transactions, by two threads where two have read the text. */
static void fill_all(struct filling *first, struct filling *second)
{
    pthread_t thread;
    int threaded = first->part->rest != NULL && pthread_create(&thread, NULL, fill, second) == 0;
    fill(first);
    if (threaded) {
        pthread_join(thread, NULL);
    } else {
        fill(second);
    }
}

static int filled(struct ing_part *part, const struct ing_pair *pairs, struct ing_columns *out)
{
    struct filling halves[2] = {{part, pairs, out, 0, out->n / 2, 0, 0},
                                {part, pairs, out, out->n / 2, out->n, 0, 0}};
    out->m = out->e = 0;
    for (int64_t t = 0; t < out->n; t++) {
        if (t == halves[1].from) {
            halves[1].m = out->m;
            halves[1].e = out->e;
        }
        struct span span = span_of(part, answering_event(part, &pairs[t]));
        out->m += span.to - span.from;
        out->e += span.to > span.from ? ing_mop_at(part, span.to - 1)->elem_end - span.elem : 0;
    }
    if (reserve(&part->memory, out) != 0) {
        return -1;
    }
    fill_all(&halves[0], &halves[1]);
    return 0;
}

static int ours(struct ing_part *part, struct ing_columns *out, struct ing_pair *pairs,
                int64_t *bad, const char **flaw)
{
    int64_t n = out->n, *scratch = ing_array(&part->memory, 3 * n, sizeof *scratch);
    if (scratch == NULL ||
        ing_order(&part->memory, part->times.p, n, scratch, scratch + n, scratch + 2 * n) != 0 ||
        ing_one_at_a_time(part, scratch, bad, flaw) != 0 || *bad >= 0) {
        ing_array_free(&part->memory, scratch, 3 * n, sizeof *scratch);
        return -1;
    }
    for (int64_t t = 0; t < n; t++) {
        pairs[t] = (struct ing_pair){-1, scratch[t]};
    }
    int status = filled(part, pairs, out);
    for (int64_t t = 0; t < n && status == 0; t++) {
        out->invoke_pos[t] = scratch[n + scratch[t]];
        out->complete_pos[t] = scratch[2 * n + scratch[t]];
    }
    ing_array_free(&part->memory, scratch, 3 * n, sizeof *scratch);
    return status;
}

static int jepsen(struct ing_part *part, struct ing_columns *out, const struct ing_pair *pairs)
{
    int status = filled(part, pairs, out);
    for (int64_t t = 0; t < out->n && status == 0; t++) {
        out->invoke_pos[t] = pairs[t].invoke;
        out->complete_pos[t] = pairs[t].complete;
    }
    return status;
}

int ing_columns_of(struct ing_part *part, struct ing_columns *out, struct ing_error *error)
{
    int64_t bad = -1;
    int is_ours = part->format == ING_OURS;
    const char *disorder = is_ours ? NULL : ing_order_flaw(part, &bad);
    if (bad >= 0) {
        ing_locate(part, part->event.p[bad].offset, disorder, error);
        return -1;
    }
    struct ing_pair *pairs = ing_array(&part->memory, part->event.n, sizeof *pairs);
    if (pairs == NULL) {
        ing_locate(part, -1, ing_spent, error);
        return -1;
    }
    out->n = is_ours ? part->event.n : ing_pair_events(&part->memory, part, pairs, &bad);
    int status = -1;
    const char *flaw = "several operations of this process are open, and not one alone fits";
    for (int64_t t = 0; t < out->n && !is_ours && bad < 0; t++) {
        const char *found = ing_pair_flaw(part, pairs[t].invoke, pairs[t].complete);
        flaw = found != NULL ? found : flaw;
        bad = found == NULL ? -1 : pairs[t].complete >= 0 ? pairs[t].complete : pairs[t].invoke;
    }
    if (bad < 0 && out->n >= 0) {
        status = is_ours ? ours(part, out, pairs, &bad, &flaw) : jepsen(part, out, pairs);
    }
    if (bad >= 0) {
        ing_locate(part, part->event.p[bad].offset, flaw, error);
    } else if (status != 0) {
        ing_locate(part, -1, ing_spent, error);
    } else {
        out->mop_start[out->n] = out->m;
        out->elem_start[out->m] = out->e;
    }
    free(pairs);
    return status;
}
