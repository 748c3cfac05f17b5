/* One text in one or two parts. */
#include "ingest_part.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Less is read faster by one thread than a second one starts. */
#ifndef WORTH_A_THREAD
#define WORTH_A_THREAD ((int64_t)1 << 18)
#endif

/* Does the name of an EDN tag go on with this byte? */
static int continues_tag(uint8_t c)
{
    return c > ' ' && c != '{' && c != '"' && c != '#' && c != ';';
}

static int tagged_event(struct ing_part *part)
{
    if (part->json || part->p == part->end || *part->p != '#') {
        return ing_jepsen_event(part);
    }
    const uint8_t *p = part->p + 1;
    while (p < part->end && continues_tag(*p)) {
        p++;
    }
    if (p == part->p + 1) {
        return ing_refuse(part, "an event is a map: {type, process, f, value}");
    }
    part->p = p;
    return ing_space(part) != 0 ? -1 : ing_jepsen_event(part);
}

static int jepsen(struct ing_part *part)
{
    if (ing_space(part) != 0) {
        return -1;
    }
    uint8_t close = (uint8_t)ing_open(part);
    if (close != 0) {
        int more, first = 1;
        while ((more = ing_more(part, close, first)) == 1) {
            first = 0;
            if (tagged_event(part) != 0) {
                return -1;
            }
        }
        if (more < 0 || ing_space(part) != 0) {
            return -1;
        }
        return part->p == part->end ? 0 : ing_refuse(part, "need the end of the text");
    }
    while (part->p < part->stop) {
        if (tagged_event(part) != 0 || ing_space(part) != 0) {
            return -1;
        }
    }
    return 0;
}

static int ours(struct ing_part *part)
{
    if (part->p == part->text && ing_our_header(part) != 0) {
        return -1;
    }
    while (part->p < part->stop) {
        if (*part->p == '\n' || *part->p == '\r') {
            part->p++;
        } else if (ing_our_record(part) != 0) {
            return -1;
        }
    }
    return 0;
}

static void *read_part(void *argument)
{
    struct ing_part *part = argument;
    if ((part->format == ING_OURS ? ours(part) : jepsen(part)) != 0 && part->message == NULL) {
        part->message = "malformed";
    }
    return NULL;
}

static void part_free(struct ing_part *part)
{
    ing_drop(part->event);
    ing_drop(part->times);
    ing_drop(part->mop);
    ing_drop(part->elem);
    ing_drop(part->scratch);
    ing_names_free(&part->keys);
    ing_names_free(&part->values);
    ing_names_free(&part->processes);
    ing_names_free(&part->fields);
    ing_drop(part->n_fields);
    memset(part, 0, sizeof *part);
}

static struct ing_part part_of(const uint8_t *text, int64_t from, int64_t stop, int64_t size,
                               int format, int64_t memory_bytes)
{
    return (struct ing_part){
        .text = text,
        .p = text + from,
        .end = text + size,
        .stop = text + stop,
        .json = format != ING_EDN,
        .format = format,
        .memory = core_memory_of(memory_bytes),
    };
}

/* Where a second part may begin: after a newline, at an event. 0 where there is no such place. */
static int64_t middle(const uint8_t *text, int64_t size, int format)
{
    int64_t first = 0;
    while (first < size && (text[first] <= ' ')) {
        first++;
    }
    if (first == size || (format != ING_OURS && text[first] != '{')) {
        return 0;
    }
    const uint8_t *p = text + size / 2, *end = text + size;
    while ((p = memchr(p, '\n', (size_t)(end - p))) != NULL && ++p < end) {
        if (*p == '{' && (format == ING_OURS || p[-2] == '}')) {
            return p - text;
        }
    }
    return 0;
}

/* Both halves at once; `parts[0]` stands for both, as long as `parts[1]` is there. -1 where the text has to be read as a whole. */
static int read_halves(struct ing_part *parts, int64_t middle)
{
    pthread_t thread;
    int threaded = pthread_create(&thread, NULL, read_part, &parts[1]) == 0;
    read_part(&parts[0]);
    if (threaded) {
        pthread_join(thread, NULL);
    } else {
        read_part(&parts[1]);
    }
    int whole = parts[0].message == NULL && parts[1].message == NULL &&
                parts[0].p == parts[0].text + middle;
    if (!whole) {
        return -1;
    }
    parts[0].memory.max += parts[1].memory.max;
    parts[0].memory.used += parts[1].memory.used;
    return ing_join(&parts[0], &parts[1]);
}

void ing_free(struct ing_columns *columns)
{
    free(columns->outcome);
    free(columns->process);
    free(columns->invoke_pos);
    free(columns->complete_pos);
    free(columns->op_index);
    free(columns->mop_start);
    free(columns->mop_kind);
    free(columns->mop_key);
    free(columns->mop_value);
    free(columns->mop_known);
    free(columns->elem_start);
    free(columns->elem);
    ing_names_free(&columns->keys);
    ing_names_free(&columns->values);
    ing_names_free(&columns->fields);
    free(columns->n_fields);
    memset(columns, 0, sizeof *columns);
}

int ing_read(const uint8_t *text, int64_t size, int format, int threads, int64_t memory_bytes,
             struct ing_columns *out, struct ing_error *error)
{
    struct ing_part parts[2];
    int status = -1;
    memset(out, 0, sizeof *out);
    memset(parts, 0, sizeof parts);
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        size -= 3;
    }
    int64_t half = threads > 1 && size >= WORTH_A_THREAD ? middle(text, size, format) : 0;
    if (half > 0) {
        parts[0] = part_of(text, 0, half, size, format, memory_bytes / 2);
        parts[1] = part_of(text, half, size, size, format, memory_bytes / 2);
        status = read_halves(parts, half);
    }
    if (status != 0) {
        part_free(&parts[0]);
        part_free(&parts[1]);
        parts[0] = part_of(text, 0, size, size, format, memory_bytes);
        read_part(&parts[0]);
    }
    if (parts[0].message != NULL) {
        ing_locate(&parts[0], parts[0].p - text, parts[0].message, error);
        status = -1;
    } else {
        status = ing_columns_of(&parts[0], out, error);
    }
    if (status == 0) {
        out->keys = parts[0].keys;
        out->values = parts[0].values;
        memcpy(out->skipped, parts[0].skipped, sizeof out->skipped);
        out->writes = parts[0].writes;
        out->fields = parts[0].fields;
        out->n_fields = parts[0].n_fields.p;
        parts[0].n_fields.p = NULL;
        parts[0].n_fields.cap = 0;
        memset(&parts[0].fields, 0, sizeof parts[0].fields);
        memset(&parts[0].keys, 0, sizeof parts[0].keys);
        memset(&parts[0].values, 0, sizeof parts[0].values);
    } else {
        ing_free(out);
    }
    part_free(&parts[0]);
    part_free(&parts[1]);
    return status;
}
