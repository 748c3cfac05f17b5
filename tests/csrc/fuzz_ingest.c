/* Malformed histories against the reader, under sanitizers.
 *
 *     fuzz_ingest SEED ROUNDS FILE...
 *
 * Reads each file in each notation, cut at every byte, then ROUNDS mutations of them with one and
 * with two threads and small memory budgets. The text is always a heap block of exactly its size.
 * What is accepted must be well formed: ids within bounds, starts that grow. Built with
 * -DLIBFUZZER it is an entry point for coverage-guided fuzzing instead; the first byte chooses the
 * notation.
 */
#include "ingest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void require(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "violated: %s\n", what);
        abort();
    }
}

static void validate(const struct ing_columns *c)
{
    int64_t keys = c->keys.name.n, values = c->values.name.n;
    require(c->mop_start[0] == 0 && c->mop_start[c->n] == c->m, "micro-ops of transactions");
    require(c->elem_start[0] == 0 && c->elem_start[c->m] == c->e, "elements of micro-ops");
    for (int64_t t = 0; t < c->n; t++) {
        require(c->outcome[t] <= 2 && c->mop_start[t] <= c->mop_start[t + 1], "transaction");
        require(c->process[t] >= -1 && (c->invoke_pos[t] >= 0 || c->complete_pos[t] >= 0), "event");
    }
    for (int64_t i = 0; i < c->m; i++) {
        require(c->mop_kind[i] <= 1 && c->mop_known[i] <= 2, "micro-op");
        require(c->mop_key[i] >= 0 && c->mop_key[i] < keys, "key");
        require(c->mop_value[i] >= -1 && c->mop_value[i] < values, "value");
        require(c->elem_start[i] <= c->elem_start[i + 1], "elements");
    }
    for (int64_t i = 0; i < c->e; i++) {
        require(c->elem[i] >= 0 && c->elem[i] < values, "element");
    }
}

static void try(const uint8_t *text, int64_t size, int format, int threads, int64_t memory)
{
    struct ing_columns columns;
    struct ing_error error = {NULL, -1, -1};
    uint8_t *copy = malloc(size == 0 ? 1 : (size_t)size);
    require(copy != NULL, "memory");
    if (size > 0) {
        memcpy(copy, text, (size_t)size);
    }
    if (ing_read(copy, size, format, threads, memory, &columns, &error) == 0) {
        validate(&columns);
        ing_free(&columns);
    } else {
        require(error.message != NULL && error.line >= 0 && error.column >= 0, "an error");
    }
    free(copy);
}

#ifdef LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0) {
        try(data + 1, (int64_t)size - 1, data[0] % 3, 1 + data[0] / 3 % 2, (int64_t)1 << 26);
    }
    return 0;
}
#else

static uint64_t state;

static uint64_t roll(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static void mutate(uint8_t *text, int64_t *size, int64_t cap)
{
    static const char *const tokens[] = {"[", "]", "{", "}", "\"", "\\", "#_", "#tag ", "null", "nil",
                                         "-", "1e9", "0", ":", ",", "\n", ";", "\\u00e9", "\xff",
                                         "99999999999999999999", "[:r 1 nil]", "[\"r\",1,[1]]"};
    for (uint64_t n = 1 + roll(4); n > 0 && *size > 0; n--) {
        int64_t at = (int64_t)roll((uint64_t)*size);
        const char *token = tokens[roll(sizeof tokens / sizeof *tokens)];
        int64_t length = (int64_t)strlen(token);
        switch (roll(4)) {
        case 0:
            text[at] = (uint8_t)roll(256);
            break;
        case 1:
            *size = at;
            break;
        case 2:
            memmove(text + at, text + at + 1, (size_t)(*size - at - 1));
            (*size)--;
            break;
        default:
            if (*size + length <= cap) {
                memmove(text + at + length, text + at, (size_t)(*size - at));
                memcpy(text + at, token, (size_t)length);
                *size += length;
            }
        }
    }
}

int main(int argc, char **argv)
{
    enum { CAP = 1 << 20 };
    uint8_t *seed = malloc(CAP), *text = malloc(CAP);
    state = argc > 1 ? strtoull(argv[1], NULL, 10) * 2654435761u + 88172645463325252u : 1;
    long rounds = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    require(seed != NULL && text != NULL, "memory");
    for (int i = 3; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        require(file != NULL, argv[i]);
        int64_t size = (int64_t)fread(seed, 1, CAP / 2, file);
        fclose(file);
        for (int64_t cut = 0; cut <= size && cut < 3000; cut++) {
            try(seed, cut, i % 3, 1, (int64_t)1 << 26);
        }
        for (long round = 0; round < rounds; round++) {
            int64_t now = size;
            memcpy(text, seed, (size_t)size);
            mutate(text, &now, CAP);
            int64_t memory = roll(8) == 0 ? (int64_t)roll(4096) : (int64_t)1 << 26;
            try(text, now, (int)roll(3), 1 + (int)roll(2), memory);
        }
        for (int format = 0; format < 3; format++) {
            try(seed, size, format, 2, (int64_t)1 << 26);
        }
    }
    free(seed);
    free(text);
    printf("%d files, %ld rounds\n", argc > 3 ? argc - 3 : 0, rounds);
    return 0;
}
#endif
