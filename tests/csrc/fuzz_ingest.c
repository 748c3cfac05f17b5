/* Malformed histories against the reader, under sanitizers.
 *
 *     fuzz_ingest SEED ROUNDS FILE...
 *
 * Reads each file in each notation; with ROUNDS also cut at every byte, and as many mutations of
 * it. The text is always a heap block of exactly its size.
 */
#include "target_ingest.h"

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

static void try(const uint8_t *text, int64_t size, int format)
{
    uint8_t *copy = malloc(size == 0 ? 1 : (size_t)size);
    require(copy != NULL, "memory");
    if (size > 0) {
        memcpy(copy, text, (size_t)size);
    }
    read_in_every_way(copy, (size_t)size, format);
    free(copy);
}

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
    static const char *const tokens[] = {"[",          "]",
                                         "{",          "}",
                                         "\"",         "\\",
                                         "#_",         "#tag ",
                                         "null",       "nil",
                                         "-",          "1e9",
                                         "0",          ":",
                                         ",",          "\n",
                                         ";",          "\\u00e9",
                                         "\xff",       "99999999999999999999",
                                         "[:r 1 nil]", "[\"r\",1,[1]]"};
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
        for (int64_t cut = 0; rounds > 0 && cut <= size && cut < 3000; cut++) {
            try(seed, cut, i % 3);
        }
        for (long round = 0; round < rounds; round++) {
            int64_t now = size;
            memcpy(text, seed, (size_t)size);
            mutate(text, &now, CAP);
            try(text, now, (int)roll(3));
        }
        for (int format = 0; format < 3; format++) {
            try(seed, size, format);
        }
    }
    free(seed);
    free(text);
    printf("%d files, %ld rounds\n", argc > 3 ? argc - 3 : 0, rounds);
    return 0;
}
