/* Bits that are not what was written: some are flipped in the backing files, while nobody has these
 * open, and flipped back where nobody has written since. How many of them are read is counted.
 *
 * A file is held open as long as one of its bits is rotten, so that its number is nobody else's.
 */
#define _GNU_SOURCE
#include "faultfs.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX 512
#define BITS_MAX 8192
#define OPEN_AT_ONCE 16
#define WINDOW 65536

struct bit {
    int file; /* of the table below */
    off_t at;
    unsigned char was, is;
};

static struct {
    struct {
        int fd;
        dev_t device;
        ino_t number;
    } files[FILES_MAX];
    struct bit bits[BITS_MAX];
    int file_count, bit_count;
    uint64_t seed;
    off_t every, bytes;
    const char *pattern;
} rot;

/* splitmix64: equal bits for equal seeds. */
static uint64_t drawn(uint64_t x)
{
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

/* A byte of a part of a file that holds something, drawn; -1 where none was met. One that is zero may
 * be room for later. */
static off_t place_in(int fd, off_t part, off_t length, uint64_t draw, unsigned char *byte)
{
    static unsigned char window[WINDOW];
    off_t room = length > WINDOW ? length - WINDOW : 0;
    off_t from = part + (off_t)(draw % (uint64_t)(room + 1));
    ssize_t n = pread(fd, window, length - room, from);
    for (ssize_t i = 0; i < n; i++) {
        ssize_t at = (ssize_t)((drawn(draw) + (uint64_t)i) % (uint64_t)n);
        if (window[at] != 0) {
            *byte = window[at];
            return from + at;
        }
    }
    return -1;
}

/* One bit of each part of `every` bytes. */
static int flip_in(int fd, off_t size)
{
    int before = rot.bit_count;
    uint64_t draw = rot.seed;
    for (off_t part = 0; part < size && rot.bit_count < BITS_MAX; part += rot.every) {
        unsigned char byte = 0;
        off_t data = lseek(fd, part, SEEK_DATA); /* holes hold nothing */
        if (data < 0) {
            break;
        }
        part = data - data % rot.every;
        off_t length = size - part < rot.every ? size - part : rot.every;
        draw = drawn(draw);
        off_t at = place_in(fd, part, length, draw, &byte);
        unsigned char wrong = byte ^ (unsigned char)(1U << (draw >> 61));
        if (at >= 0 && pwrite(fd, &wrong, 1, at) == 1) {
            rot.bits[rot.bit_count++] = (struct bit){rot.file_count, at, byte, wrong};
        }
    }
    return rot.bit_count - before;
}

static int is_meant(const char *path, const struct stat *st, int kind, const struct FTW *where)
{
    return kind == FTW_F && S_ISREG(st->st_mode) &&
           fnmatch(rot.pattern, path + where->base, 0) == 0;
}

static int is_ours(const char *path, int kind, const struct FTW *where)
{
    return kind == FTW_D && strcmp(path + where->base, TRASH) == 0;
}

static int add_size(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    if (is_ours(path, kind, where)) {
        return FTW_SKIP_SUBTREE;
    }
    rot.bytes += is_meant(path, st, kind, where) ? st->st_size : 0;
    return FTW_CONTINUE;
}

static int file_of(int fd)
{
    struct stat st;
    if (rot.bit_count == 0 || fstat(fd, &st) != 0) {
        return -1;
    }
    for (int i = 0; i < rot.file_count; i++) {
        if (rot.files[i].number == st.st_ino && rot.files[i].device == st.st_dev) {
            return i;
        }
    }
    return -1;
}

static int rot_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    if (is_ours(path, kind, where)) {
        return FTW_SKIP_SUBTREE;
    }
    if (!is_meant(path, st, kind, where) || rot.file_count == FILES_MAX) {
        return FTW_CONTINUE;
    }
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        return FTW_CONTINUE;
    }
    rot.seed = drawn(rot.seed);
    if (file_of(fd) >= 0 || flip_in(fd, st->st_size) == 0) { /* it may have several names */
        close(fd);
        return FTW_CONTINUE;
    }
    rot.files[rot.file_count].fd = fd;
    rot.files[rot.file_count].device = st->st_dev;
    rot.files[rot.file_count++].number = st->st_ino;
    return FTW_CONTINUE;
}

void rot_make(uint64_t seed, int64_t every, const char *pattern)
{
    rot_end();
    rot.seed = seed;
    rot.pattern = pattern;
    rot.bytes = 0;
    nftw(fs.backing, add_size, OPEN_AT_ONCE, FTW_PHYS | FTW_ACTIONRETVAL);
    /* Spread over all of them, where there would be too many. */
    off_t least = rot.bytes / (BITS_MAX / 2);
    rot.every = every > least ? every : least;
    nftw(fs.backing, rot_one, OPEN_AT_ONCE, FTW_PHYS | FTW_ACTIONRETVAL);
    fs.counters[ROTTED] += rot.bit_count;
}

void rot_read(int fd, off_t from, const void *data, size_t length)
{
    int file = file_of(fd);
    const unsigned char *bytes = data;
    for (int i = 0; file >= 0 && i < rot.bit_count; i++) {
        off_t at = rot.bits[i].at - from;
        if (rot.bits[i].file == file && at >= 0 && (uint64_t)at < length) {
            fs.counters[ROTTEN_READ] += bytes[at] == rot.bits[i].is;
        }
    }
}

static int put_back(const struct bit *bit)
{
    unsigned char byte;
    int fd = rot.files[bit->file].fd;
    return pread(fd, &byte, 1, bit->at) == 1 && byte == bit->is &&
           pwrite(fd, &bit->was, 1, bit->at) == 1;
}

void rot_replaced(int fd, off_t from, off_t to)
{
    int file = file_of(fd), kept = 0;
    if (file < 0) {
        return;
    }
    for (int i = 0; i < rot.bit_count; i++) {
        struct bit *bit = &rot.bits[i];
        if (bit->file == file && bit->at >= from && bit->at < to) {
            put_back(bit);
        } else {
            rot.bits[kept++] = *bit;
        }
    }
    fs.counters[ROT_REPLACED] += rot.bit_count - kept;
    rot.bit_count = kept;
}

void rot_end(void)
{
    for (int i = 0; i < rot.bit_count; i++) {
        fs.counters[ROT_PUT_BACK] += put_back(&rot.bits[i]);
    }
    for (int i = 0; i < rot.file_count; i++) {
        close(rot.files[i].fd);
    }
    rot.file_count = rot.bit_count = 0;
}

int64_t rot_bits(void)
{
    return rot.bit_count;
}
