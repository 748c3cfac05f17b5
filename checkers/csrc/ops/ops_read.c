/* One text in one or two parts, and what its operations must be to each other. */
#include "ingest/ingest_fields.h"
#include "ops_part.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Less is read faster by one thread than a second one starts. */
#ifndef OPS_WORTH_A_THREAD
#define OPS_WORTH_A_THREAD ((int64_t)1 << 20)
#endif

static void *read_part(void *argument)
{
    struct ops_part *part = argument;
    struct ing_part *scan = &part->scan;
    if (scan->p == scan->text && ing_our_header(scan) != 0) {
        return NULL;
    }
    while (scan->p < scan->stop) {
        if (*scan->p == '\n') {
            scan->p++;
        } else if (ops_record(part) != 0) {
            return NULL;
        }
    }
    return NULL;
}

static struct ops_part part_of(const uint8_t *text, int64_t from, int64_t stop, int64_t size,
                               int64_t memory_bytes)
{
    return (struct ops_part){
        .scan =
            {
                .text = text,
                .p = text + from,
                .end = text + size,
                .stop = text + stop,
                .json = 1,
                .format = ING_OURS,
                .memory = core_memory_of(memory_bytes),
            },
    };
}

static void part_free(struct ops_part *part)
{
    ing_drop(part->row);
    ing_drop(part->scan.scratch);
    ing_names_free(&part->scan.values);
    ing_names_free(&part->scan.processes);
    ing_names_free(&part->types);
    ing_names_free(&part->texts);
}

/* Where a second part begins: after the first newline of the second half, or 0. */
static int64_t middle(const uint8_t *text, int64_t size)
{
    const uint8_t *line = memchr(text + size / 2, '\n', (size_t)(size - size / 2));
    return line == NULL || line + 1 == text + size || line[1] != '{' ? 0 : line + 1 - text;
}

/* Adds the second part to the first. 0, or -1 where memory is out. */
static int join(struct ops_part *first, struct ops_part *second)
{
    struct core_memory *memory = &first->scan.memory;
    int64_t n = second->row.n;
    int32_t *values = ing_translate(memory, &first->scan.values, &second->scan.values);
    int32_t *types = ing_translate(memory, &first->types, &second->types);
    int32_t *processes = ing_translate(memory, &first->scan.processes, &second->scan.processes);
    int status = -1;
    if (values != NULL && types != NULL && processes != NULL &&
        ing_room(memory, first->row, n) == 0) {
        for (int64_t i = 0; i < n; i++) {
            struct ops_row row = second->row.p[i];
            row.type = types[row.type];
            row.process = processes[row.process];
            row.key = row.key == 0 ? 0 : values[row.key - 1] + 1;
            row.input = row.input == 0 ? 0 : values[row.input - 1] + 1;
            row.output = row.output == 0 ? 0 : values[row.output - 1] + 1;
            first->row.p[first->row.n++] = row;
        }
        status = 0;
    }
    free(values);
    free(types);
    free(processes);
    return status;
}

static int read_halves(struct ops_part *parts)
{
    pthread_t thread;
    int threaded = pthread_create(&thread, NULL, read_part, &parts[1]) == 0;
    read_part(&parts[0]);
    if (threaded) {
        pthread_join(thread, NULL);
    } else {
        read_part(&parts[1]);
    }
    struct ing_part *first = &parts[0].scan, *second = &parts[1].scan;
    if (first->message == NULL && first->p == second->text + (first->stop - first->text) &&
        second->message != NULL) {
        first->p = second->p;
        first->message = second->message;
    }
    if (first->message != NULL) {
        return -1;
    }
    first->memory.max += second->memory.max;
    first->memory.used += second->memory.used;
    int status = join(&parts[0], &parts[1]);
    first->memory.used -= second->memory.used;
    return status == 0 ? 0 : ing_refuse(first, ing_spent);
}

/* Operations in order of invocation, and one at a time for each process, which does nothing more
 * after an unknown one. */
static int in_order(struct ops_part *part)
{
    struct ing_part *scan = &part->scan;
    int64_t n = scan->processes.name.n, *ends = ing_array(&scan->memory, n, sizeof *ends);
    if (ends == NULL) {
        return ing_refuse(scan, ing_spent);
    }
    for (int64_t i = 0; i < n; i++) {
        ends[i] = INT64_MIN;
    }
    int status = 0;
    int64_t last = INT64_MIN;
    for (int64_t i = 0; i < part->row.n && status == 0; i++) {
        const struct ops_row *row = &part->row.p[i];
        if (row->invoke < last || row->invoke < ends[row->process]) {
            scan->p = scan->text + row->offset;
            status = ing_refuse(scan, "not in order of invocation, or two at a time of a process");
        }
        last = row->invoke;
        ends[row->process] = row->complete;
    }
    ing_array_free(&scan->memory, ends, n, sizeof *ends);
    return status;
}

void ops_free(struct ops_table *table)
{
    ing_drop(table->row);
    ing_names_free(&table->values);
    ing_names_free(&table->types);
    ing_names_free(&table->processes);
    memset(table, 0, sizeof *table);
}

int ops_read(const uint8_t *text, int64_t size, int threads, int64_t memory_bytes,
             struct ops_table *out, const char **why, int64_t *where)
{
    struct ops_part parts[2];
    memset(out, 0, sizeof *out);
    memset(parts, 0, sizeof parts);
    int64_t half = threads > 1 && size >= OPS_WORTH_A_THREAD ? middle(text, size) : 0;
    int64_t stop = half > 0 ? half : size, share = half > 0 ? memory_bytes / 2 : memory_bytes;
    parts[0] = part_of(text, 0, stop, size, share);
    int status = 0;
    if (half > 0) {
        parts[1] = part_of(text, half, size, size, share);
        status = read_halves(&parts[0]);
        part_free(&parts[1]);
    } else {
        read_part(&parts[0]);
    }
    struct ing_part *scan = &parts[0].scan;
    if (scan->message != NULL || status != 0 || in_order(&parts[0]) != 0) {
        *why = scan->message;
        *where = scan->p - text;
        part_free(&parts[0]);
        return -1;
    }
    memcpy(&out->row, &parts[0].row, sizeof out->row);
    out->values = scan->values;
    out->processes = scan->processes;
    out->types = parts[0].types;
    memset(&parts[0].row, 0, sizeof parts[0].row);
    memset(&scan->values, 0, sizeof scan->values);
    memset(&scan->processes, 0, sizeof scan->processes);
    memset(&parts[0].types, 0, sizeof parts[0].types);
    part_free(&parts[0]);
    return 0;
}
