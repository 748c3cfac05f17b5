/* list-append histories that come in pieces, as a target for libFuzzer.
 *
 * The data are a text of ours, or choices by which one is made: transactions that are executed one after
 * the other, with reads, outcomes and times that may be spoiled. The text is fed as a whole, and line by
 * line with a small window, and with a budget that it picks itself. What was executed to its end must be
 * proved by the checker that sees it all; what that one executes must be executed where the window holds it all.
 */
#include "stream/stream.h"
#include "txn/txn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 3, LENGTH = 40, TEXT = 1 << 16 };

static void require(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "violated: %s\n", what);
        abort();
    }
}

/* A text that is made of choices. */
struct made {
    const uint8_t *data;
    size_t size, at;
    char *text;
    size_t n;
    int list[KEYS][LENGTH], length[KEYS], next[KEYS];
};

static int choose(struct made *m, int below)
{
    return m->at < m->size ? m->data[m->at++] % below : 0;
}

static void put(struct made *m, const char *word)
{
    size_t size = strlen(word);
    if (m->n + size < TEXT) {
        memcpy(m->text + m->n, word, size);
        m->n += size;
    }
}

static void put_number(struct made *m, const char *before, long number)
{
    char word[96];
    snprintf(word, sizeof word, "%s%ld", before, number);
    put(m, word);
}

static void put_list(struct made *m, int key)
{
    int list[LENGTH + 1], n = m->length[key], spoiled = choose(m, 40);
    memcpy(list, m->list[key], sizeof m->list[key]);
    if (spoiled == 1 && n > 0) {
        n--;
    } else if (spoiled == 2) {
        list[n++] = choose(m, 12);
    } else if (spoiled == 3 && n > 1) {
        int swap = list[n - 1];
        list[n - 1] = list[n - 2];
        list[n - 2] = swap;
    }
    put(m, "[");
    for (int i = 0; i < n; i++) {
        put_number(m, i > 0 ? "," : "", list[i]);
    }
    put(m, "]");
}

/* The micro-operations of one transaction; `takes`: it is executed. */
static void put_mops(struct made *m, const int *mops, int n, int takes, int told)
{
    put(m, "[");
    for (int i = 0; i < n; i++) {
        int key = mops[i] % KEYS;
        put(m, i > 0 ? ",[" : "[");
        if (mops[i] < KEYS) {
            put_number(m, "\"r\",", key);
            put(m, ",");
            if (told) {
                put_list(m, key);
            } else {
                put(m, "null");
            }
        } else {
            put_number(m, "\"append\",", key);
            put_number(m, ",", mops[i] / KEYS);
            if (takes && m->length[key] < LENGTH) {
                m->list[key][m->length[key]++] = mops[i] / KEYS;
            }
        }
        put(m, "]");
    }
    put(m, "]");
}

static void put_record(struct made *m, long id, long *now)
{
    int mops[8], n = choose(m, 5), outcome = choose(m, 8), early = choose(m, 16) == 1;
    *now += choose(m, 4);
    long begin = *now - (early ? choose(m, 64) : 0), end = *now + choose(m, 24);
    int takes = outcome != 1 && !(outcome == 2 && choose(m, 2)),
        told = outcome != 1 && outcome != 2;
    for (int i = 0; i < n; i++) {
        int key = choose(m, KEYS);
        mops[i] = choose(m, 2) ? key : key + KEYS * (choose(m, 50) == 1 ? 1 : ++m->next[key]);
    }
    put_number(m, "{\"op_id\":", choose(m, 60) == 1 ? 0 : id);
    put_number(m, ",\"process_id\":", choose(m, 60) == 1 ? 0 : id);
    put_number(m, ",\"invoke_ts\":", begin < 0 ? 0 : begin);
    if (outcome == 2) {
        put(m, ",\"complete_ts\":null");
    } else {
        put_number(m, ",\"complete_ts\":", end);
    }
    put(m, ",\"op_type\":\"txn\",\"key\":null,\"input\":");
    put_mops(m, mops, n, 0, 0);
    put(m, ",\"output\":");
    if (told) {
        put_mops(m, mops, n, takes, 1);
    } else {
        char *text = m->text;
        size_t before = m->n;
        put_mops(m, mops, n, takes, 0); /* executed, and not told */
        m->text = text;
        m->n = before;
        put(m, "null");
    }
    put(m, outcome == 1 ? ",\"error\":\"no\"" : ",\"error\":null");
    put(m, outcome == 2 ? ",\"timeout_marker\":true}\n" : ",\"timeout_marker\":false}\n");
}

static size_t make_text(const uint8_t *data, size_t size, char *text)
{
    static struct made m;
    memset(&m, 0, sizeof m);
    m.data = data;
    m.size = size;
    m.text = text;
    long now = 0;
    put(&m, "{\"schema\":\"dstest.history/1\"}\n");
    for (long id = 1; m.at < size && m.n < TEXT - 4096 && id < 60; id++) {
        put_record(&m, id, &now);
    }
    return m.n;
}

/* What a checker that sees it all says: 1 executed, 0 nothing wrong, -1 something, -2 refused. */
static int judged(const uint8_t *text, size_t size)
{
    struct ing_columns c;
    struct ing_error error;
    if (ing_read(text, (int64_t)size, ING_OURS, 1, (int64_t)1 << 26, &c, &error) != 0) {
        return -2;
    }
    int64_t last = 0, processes = 0;
    for (int64_t t = 0; t < c.n; t++) {
        last = c.invoke_pos[t] > last ? c.invoke_pos[t] : last;
        last = c.complete_pos[t] > last ? c.complete_pos[t] : last;
        processes = c.process[t] >= processes ? c.process[t] + 1 : processes;
    }
    struct txn_input in = {
        .outcome = c.outcome,
        .process = c.process,
        .invoke_pos = c.invoke_pos,
        .complete_pos = c.complete_pos,
        .mop_start = c.mop_start,
        .mop_kind = c.mop_kind,
        .mop_key = c.mop_key,
        .mop_value = c.mop_value,
        .mop_known = c.mop_known,
        .elem_start = c.elem_start,
        .elem = c.elem,
        .n = c.n,
        .m = c.m,
        .e = c.e,
        .n_keys = c.keys.name.n,
        .n_values = c.values.name.n,
        .n_processes = processes,
        .n_positions = last + 1,
    };
    struct txn_options options = {.workload = TXN_LIST_APPEND,
                                  .between = TXN_REALTIME,
                                  .time_ns = INT64_MAX,
                                  .memory_bytes = 1 << 26};
    struct txn_report report = {0};
    int status = txn_check(&in, &options, &report), found = report.cycles.used > 0;
    for (int i = 0; i < TXN_FINDINGS; i++) {
        found |= report.counts[i] > 0;
    }
    int answer = status == TXN_INVALID ? -2 : found ? -1 : report.proved && report.edges > 0;
    if (c.writes & ING_SETS) {
        answer = -2;
    }
    txn_report_free(&report);
    ing_free(&c);
    return answer;
}

/* Where the line under `from` ends, its newline included; the end of the text for `whole`. */
static size_t piece(const uint8_t *text, size_t size, size_t from, int whole)
{
    const uint8_t *end = whole ? NULL : memchr(text + from, '\n', size - from);
    return end == NULL ? size : (size_t)(end - text) + 1;
}

static void select_all(struct stream *s, const uint8_t *text, size_t size, int whole)
{
    int64_t rows_max = (int64_t)(size / STREAM_LINE_MIN + 1) * 2;
    int64_t *rows = calloc((size_t)rows_max, sizeof *rows);
    require(rows != NULL, "memory");
    stream_rewind(s);
    for (size_t at = 0, end; at < size; at = end) {
        end = piece(text, size, at, whole);
        int64_t n = stream_select(s, text + at, (int64_t)(end - at), 3, rows, rows_max);
        for (int64_t i = 0; i < n; i += 2) {
            require(rows[i] >= 0 && rows[i] < rows[i + 1], "a line begins before its end");
            require(rows[i + 1] <= (int64_t)(end - at), "a line ends in its piece");
        }
    }
    free(rows);
}

enum streamed { REFUSED = -2, ENDED = -1, UNSEEN = 0, EXECUTED = 1, GAVE_UP = 2 };

/* What comes of a text: executed to its end, with or without anybody who saw anything, or ended. */
static enum streamed streamed(const uint8_t *text, size_t size, int whole, int64_t window,
                              int64_t memory)
{
    struct stream *s = stream_open(memory, window);
    struct stream_report report;
    struct ing_error error;
    require(s != NULL, "memory");
    int status = STREAM_GOING;
    for (size_t at = 0, end; at < size && status == STREAM_GOING; at = end) {
        end = piece(text, size, at, whole);
        status = stream_feed(s, text + at, (int64_t)(end - at), INT64_MAX, NULL, &error);
    }
    status = stream_finish(s, INT64_MAX, NULL, &error);
    require(status != STREAM_REFUSED || error.message != NULL, "a reason");
    stream_report(s, &report);
    require((int64_t)report.memory_bytes <= memory, "memory within the budget");
    if (status == STREAM_GOING && report.end != STREAM_RUNS) {
        require(report.n_involved > 0, "keys that it may be about");
        select_all(s, text, size, whole);
    }
    stream_free(s);
    return status == STREAM_REFUSED    ? REFUSED
           : status != STREAM_GOING    ? GAVE_UP
           : report.end != STREAM_RUNS ? ENDED
           : report.seen > 0           ? EXECUTED
                                       : UNSEEN;
}

static int64_t hash_of(const uint8_t *data, size_t size)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ data[i]) * 16777619u;
    }
    return hash;
}

static void feed_in_every_way(const uint8_t *text, size_t size)
{
    const int64_t enough = (int64_t)1 << 26, pick = hash_of(text, size);
    int all = judged(text, size), whole = (int)(pick & 1);
    int one = streamed(text, size, 1, enough, enough);
    require(one != EXECUTED || all >= 0, "what is executed as a whole is right");
    require(all != 1 || one != ENDED, "what can be executed is executed");
    int lines = streamed(text, size, 0, pick % 4096, enough);
    require(lines != EXECUTED || all >= 0, "what is executed line by line is right");
    int starved = streamed(text, size, whole, pick % 2048, pick >> 8 & 0xffff);
    require(starved != EXECUTED || all >= 0, "what is executed in little memory is right");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] == '{') {
        feed_in_every_way(data, size);
        return 0;
    }
    char *text = malloc(TEXT);
    require(text != NULL, "memory");
    size_t n = make_text(data, size, text);
    uint8_t *copy = malloc(n);
    require(copy != NULL, "memory");
    memcpy(copy, text, n);
    feed_in_every_way(copy, n);
    free(copy);
    free(text);
    return 0;
}
