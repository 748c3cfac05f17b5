/* Pieces of a text, one after the other. */
#include "stream_state.h"

#include <stdlib.h>
#include <string.h>

/* Names of a part that are worth keeping for the next piece. */
#ifndef STREAM_NAMES_MAX
#define STREAM_NAMES_MAX 65536
#endif

struct stream *stream_open(int64_t memory_bytes, int64_t window_bytes)
{
    struct stream *s = calloc(1, sizeof *s);
    if (s != NULL) {
        core_budget_begin(&s->budget, 0, memory_bytes, NULL);
        s->window_bytes = window_bytes;
        s->now = INT64_MIN;
    }
    return s;
}

/* Time and stop flag of one call. */
static void begin_call(struct stream *s, int64_t time_ns, const int32_t *stop)
{
    struct core_budget fresh;
    core_budget_begin(&fresh, time_ns, 0, stop);
    fresh.memory = s->budget.memory;
    s->budget = fresh;
}

static void drop_names(struct stream *s)
{
    struct ing_part *part = &s->part;
    ing_names_free(&part->keys);
    ing_names_free(&part->values);
    ing_names_free(&part->processes);
    ing_drop(part->event);
    ing_drop(part->times);
    ing_drop(part->mop);
    ing_drop(part->elem);
    ing_drop(part->scratch);
    ing_drop(s->value_code);
    ing_drop(s->process_code);
    ing_drop(s->key_number);
    s->value_code.p = s->process_code.p = NULL;
    s->key_number.p = NULL;
    s->value_code.n = s->value_code.cap = s->process_code.n = s->process_code.cap = 0;
    s->key_number.n = s->key_number.cap = 0;
    *part = (struct ing_part){.json = 1, .format = ING_OURS};
}

/* What the part holds counts, and no more than what is left may be added to it. */
static void charge_part(struct stream *s)
{
    core_refund(&s->budget.memory, s->part_bytes);
    s->part_bytes = s->part.memory.used;
    if (core_charge(&s->budget.memory, s->part_bytes) != 0) {
        s->part_bytes = 0;
        stream_spent(s, STREAM_MEMORY);
    }
    size_t used = s->budget.memory.used;
    s->report.memory_bytes = used > s->report.memory_bytes ? used : s->report.memory_bytes;
}

static void begin_part(struct stream *s, const uint8_t *text, int64_t size)
{
    struct ing_part *part = &s->part;
    if (part->keys.name.n + part->values.name.n + part->processes.name.n > STREAM_NAMES_MAX ||
        !s->headed) {
        drop_names(s);
        charge_part(s);
    }
    part->event.n = part->times.n = part->mop.n = part->elem.n = 0;
    part->text = part->p = text;
    part->end = part->stop = text + size;
    part->message = NULL;
    part->memory.max = part->memory.used + (s->budget.memory.max - s->budget.memory.used);
}

/* Why the part is refused; memory that is out is no fault of its. */
static void refuse(struct stream *s)
{
    if (s->part.message == ing_spent) {
        stream_spent(s, STREAM_MEMORY);
        return;
    }
    ing_locate(&s->part, s->part.p - s->part.text, s->part.message, &s->error);
    s->error.line += s->lines;
    stream_spent(s, STREAM_REFUSED);
}

/* To the next record; 0 where there is none. */
static int at_record(struct ing_part *part)
{
    while (part->p < part->end && (*part->p == '\n' || *part->p == '\r')) {
        part->p++;
    }
    return part->p < part->end;
}

static void read_piece(struct stream *s)
{
    struct ing_part *part = &s->part;
    if (!s->headed) {
        if (part->end - part->p >= 3 && memcmp(part->p, "\xef\xbb\xbf", 3) == 0) {
            part->text = part->p += 3;
        }
        if (ing_our_header(part) != 0) {
            refuse(s);
            return;
        }
        s->headed = 1;
    }
    while (at_record(part)) {
        if (ing_our_record(part) != 0) {
            refuse(s);
            return;
        }
    }
}

static int64_t lines_between(const uint8_t *from, const uint8_t *to)
{
    int64_t n = 0;
    while (from < to && (from = memchr(from, '\n', (size_t)(to - from))) != NULL) {
        n++;
        from++;
    }
    return n;
}

static void take_records(struct stream *s)
{
    const struct ing_part *part = &s->part;
    const uint8_t *at = part->text;
    int64_t line = s->lines + 1;
    for (int64_t i = 0; i < part->event.n && s->status == STREAM_GOING; i++) {
        const uint8_t *here = part->text + part->event.p[i].offset;
        line += lines_between(at, here);
        at = here;
        stream_record(s, i, line);
    }
    s->lines = line - 1 + lines_between(at, part->end);
}

static int told(const struct stream *s, struct ing_error *error)
{
    *error = s->error;
    return s->status;
}

int stream_feed(struct stream *s, const uint8_t *text, int64_t size, int64_t time_ns,
                const int32_t *stop, struct ing_error *error)
{
    begin_call(s, time_ns, stop);
    if (s->status != STREAM_GOING) {
        return told(s, error);
    }
    begin_part(s, text, size);
    if (s->status == STREAM_GOING) {
        read_piece(s);
    }
    charge_part(s);
    if (s->status == STREAM_GOING && s->part.skipped[ING_NAMED] > 0) {
        stream_spent(s, STREAM_NAMED);
    }
    if (s->status == STREAM_GOING && s->part.writes & ING_SETS) {
        s->error = (struct ing_error){"w is no micro-operation of a list-append history", 0, 0};
        stream_spent(s, STREAM_REFUSED);
    }
    if (s->status == STREAM_GOING && stream_resolve(s) != 0) {
        stream_spent(s, STREAM_MEMORY);
    }
    charge_part(s);
    for (int i = 0; i < ING_SKIPS; i++) {
        s->report.skipped[i] += s->part.skipped[i];
        s->part.skipped[i] = 0;
    }
    if (s->status == STREAM_GOING) {
        take_records(s);
        stream_advance(s, 0);
    }
    charge_part(s);
    s->part.text = s->part.p = s->part.end = s->part.stop = NULL;
    return told(s, error);
}

int stream_finish(struct stream *s, int64_t time_ns, const int32_t *stop, struct ing_error *error)
{
    begin_call(s, time_ns, stop);
    if (s->status == STREAM_GOING && !s->headed) {
        s->error = (struct ing_error){"the history is empty", 0, 0};
        stream_spent(s, STREAM_REFUSED);
    }
    if (s->status == STREAM_GOING) {
        stream_advance(s, 1);
    }
    charge_part(s);
    return told(s, error);
}

void stream_report(const struct stream *s, struct stream_report *report)
{
    *report = s->report;
    report->keys = s->key.n;
    report->involved = s->involved.p;
    report->n_involved = s->involved.n;
}

void stream_rewind(struct stream *s)
{
    s->headed = 0;
    s->lines = 0;
}

static int names_wanted(const struct stream *s, int64_t event)
{
    const struct ing_part *part = &s->part;
    int64_t from = event == 0 ? 0 : part->event.p[event - 1].mop_end;
    for (int64_t i = from; i < part->event.p[event].mop_end; i++) {
        if (s->key.p[s->key_number.p[part->mop.p[i].key]].wanted) {
            return 1;
        }
    }
    return 0;
}

int64_t stream_select(struct stream *s, const uint8_t *text, int64_t size, int64_t n, int64_t *rows,
                      int64_t rows_max)
{
    int64_t found = 0;
    for (int64_t i = 0; i < s->involved.n; i++) {
        uint64_t *number = stream_map_find(&s->key_of, s->involved.p[i]);
        s->key.p[*number - 1].wanted = i < n;
    }
    begin_part(s, text, size);
    read_piece(s);
    charge_part(s);
    if (s->part.message != NULL || stream_resolve(s) != 0) {
        return -1;
    }
    charge_part(s);
    for (int64_t i = 0; i < s->part.event.n && found + 2 <= rows_max; i++) {
        if (names_wanted(s, i)) {
            const uint8_t *from = s->part.text + s->part.event.p[i].offset;
            const uint8_t *to = memchr(from, '\n', (size_t)(s->part.end - from));
            rows[found++] = from - text;
            rows[found++] = (to == NULL ? s->part.end : to) - text;
        }
    }
    return found;
}

static void free_unknown(struct stream *s)
{
    for (uint64_t i = 0; i < s->unknown.n_slots; i++) {
        struct stream_txn *t = (struct stream_txn *)(uintptr_t)s->unknown.slots[i].value;
        if (t != NULL) {
            stream_forget_unknown(s, t);
            core_drop(t, stream_txn_size(t->n));
        }
    }
}

void stream_free(struct stream *s)
{
    struct core_memory *memory = &s->budget.memory;
    if (s == NULL) {
        return;
    }
    for (int64_t i = 0; i < s->queue_n; i++) {
        struct stream_txn *t = s->queue[(s->queue_head + i) & (s->queue_cap - 1)];
        if (t->outcome != ING_INFO || t->n == 0) {
            core_drop(t, stream_txn_size(t->n));
        }
    }
    for (int64_t i = 0; i < s->open.n; i++) {
        core_drop(s->open.p[i], stream_txn_size(s->open.p[i]->n));
    }
    free_unknown(s);
    for (int64_t i = 0; i < s->key.n; i++) {
        struct stream_hot *hot = s->key.p[i].hot;
        if (hot != NULL && hot->cap > 0) {
            core_drop(hot->value, hot->cap * sizeof *hot->value);
            core_drop(hot->readers, ((size_t)hot->cap + 1) * sizeof *hot->readers);
        }
        core_drop(hot, sizeof *hot);
    }
    if (s->queue != NULL) {
        core_drop(s->queue, (size_t)s->queue_cap * sizeof(struct stream_txn *));
    }
    struct stream_map *maps[] = {&s->key_of, &s->ends, &s->ids, &s->appended, &s->unknown};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        stream_map_free(memory, maps[i]);
    }
    drop_names(s);
    ing_names_free(&s->others);
    ing_drop(s->key);
    ing_drop(s->involved);
    ing_drop(s->open);
    free(s);
}
