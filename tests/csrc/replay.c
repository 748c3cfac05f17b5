/* Gives each file to a libFuzzer target, without libFuzzer: `replay FILE...`. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
    enum { CAP = 1 << 16 };
    static uint8_t buffer[CAP];
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (file == NULL) {
            perror(argv[i]);
            return 1;
        }
        size_t size = fread(buffer, 1, CAP, file);
        fclose(file);
        uint8_t *copy = malloc(size + (size == 0));
        if (copy == NULL) {
            return 1;
        }
        memcpy(copy, buffer, size);
        LLVMFuzzerTestOneInput(copy, size);
        free(copy);
    }
    printf("%d files\n", argc - 1);
    return 0;
}
