/* Bytes that unsynced calls replaced, newest first. */
#define _GNU_SOURCE
#include "faultfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SECTOR 512
#define CHUNK 65536
#define FORGET_EVERY_NS INT64_C(500000000)
#define BYTES_MAX (INT64_C(256) << 20)

struct piece {
    struct piece *older;
    off_t at, size; /* size: of the file before */
    size_t length;
    int64_t when_ns;
    uint8_t old[];
};

struct file {
    struct file *next;
    dev_t device;
    ino_t number;
    int fd;
    int64_t bytes;
    struct piece *last;
};

static struct file *files;

int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static struct file *file_of(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        return NULL;
    }
    for (struct file *f = files; f != NULL; f = f->next) {
        if (f->number == st.st_ino && f->device == st.st_dev) {
            return f;
        }
    }
    struct file *f = calloc(1, sizeof *f);
    if (f == NULL) {
        return NULL;
    }
    *f = (struct file){files, st.st_dev, st.st_ino, dup(fd), 0, NULL};
    if (f->fd < 0) {
        free(f);
        return NULL;
    }
    files = f;
    return f;
}

static void free_pieces(struct file *f, struct piece *from)
{
    while (from != NULL) {
        struct piece *older = from->older;
        f->bytes -= (int64_t)from->length;
        free(from);
        from = older;
    }
}

static void drop_file(struct file *gone)
{
    for (struct file **at = &files; *at != NULL; at = &(*at)->next) {
        if (*at == gone) {
            *at = gone->next;
            break;
        }
    }
    free_pieces(gone, gone->last);
    close(gone->fd);
    free(gone);
}

int64_t undo_dirty_bytes(void)
{
    int64_t bytes = 0;
    for (const struct file *f = files; f != NULL; f = f->next) {
        bytes += f->bytes;
    }
    return bytes;
}

/* Beyond the limit the file with most unsynced bytes counts as written back. */
static void limit(void)
{
    static int64_t forgot_ns;
    if (now_ns() - forgot_ns > FORGET_EVERY_NS) {
        undo_forget_old();
        forgot_ns = now_ns();
    }
    while (undo_dirty_bytes() > BYTES_MAX) {
        struct file *largest = files;
        for (struct file *f = files; f != NULL; f = f->next) {
            largest = f->bytes > largest->bytes ? f : largest;
        }
        drop_file(largest);
    }
}

static int keep(struct file *f, off_t at, size_t length, off_t size)
{
    struct piece *p = malloc(sizeof *p + length);
    if (p == NULL) {
        return -ENOMEM;
    }
    *p = (struct piece){f->last, at, size, length, now_ns()};
    size_t have = at >= size ? 0 : (size_t)(size - at) < length ? (size_t)(size - at) : length;
    size_t got = 0;
    while (got < have) {
        ssize_t n = pread(f->fd, p->old + got, have - got, at + (off_t)got);
        if (n <= 0) {
            free(p);
            return n < 0 ? -errno : -EIO;
        }
        got += (size_t)n;
    }
    memset(p->old + have, 0, length - have);
    f->last = p;
    f->bytes += (int64_t)length;
    return 0;
}

int undo_write(int fd, off_t from, size_t length)
{
    struct stat st;
    struct file *f = file_of(fd);
    if (f == NULL || fstat(fd, &st) != 0) {
        return -EIO;
    }
    int status = keep(f, from, length, st.st_size);
    limit();
    return status;
}

int undo_size(int fd, off_t to)
{
    struct stat st;
    struct file *f = file_of(fd);
    if (f == NULL || fstat(fd, &st) != 0) {
        return -EIO;
    }
    int status = keep(f, to, 0, st.st_size);
    for (off_t at = to; status == 0 && at < st.st_size; at += CHUNK) {
        /* the end of a preallocated file is zeros, which need not be kept */
        static uint8_t chunk[CHUNK];
        ssize_t n = pread(f->fd, chunk, CHUNK, at);
        if (n > 0 && (chunk[0] != 0 || memcmp(chunk, chunk + 1, (size_t)n - 1) != 0)) {
            status = keep(f, at, (size_t)n, st.st_size);
        }
    }
    limit();
    return status;
}

void undo_sync(int fd)
{
    struct stat st;
    undo_forget_names(INT64_MAX);
    if (fstat(fd, &st) != 0) {
        return;
    }
    for (struct file *f = files; f != NULL; f = f->next) {
        if (f->number == st.st_ino && f->device == st.st_dev) {
            drop_file(f);
            return;
        }
    }
}

void undo_forget_old(void)
{
    int64_t now = now_ns(), expires_ns = fs.settings[WRITEBACK_MS] * 1000000;
    undo_forget_names(now - expires_ns);
    for (struct file *f = files, *next; f != NULL; f = next) {
        next = f->next;
        struct piece **p = &f->last;
        while (*p != NULL && now - (*p)->when_ns < expires_ns) {
            p = &(*p)->older;
        }
        free_pieces(f, *p);
        *p = NULL;
        if (f->last == NULL) {
            drop_file(f);
        }
    }
}

/* Whether a sector of a file survives although nothing synced it; the newest never does. */
static int survives(uint64_t seed, const struct file *f, off_t sector)
{
    if (f->last->length > 0 && sector == f->last->at / SECTOR) {
        return 0;
    }
    uint64_t h = seed ^ (uint64_t)f->number * UINT64_C(0x9E3779B97F4A7C15) ^ (uint64_t)sector;
    h = (h ^ h >> 33) * UINT64_C(0xFF51AFD7ED558CCD);
    h = (h ^ h >> 33) * UINT64_C(0xC4CEB9FE1A85EC53);
    return seed != 0 && ((h ^ h >> 33) & 1);
}

static void put_back(const struct file *f, uint64_t seed)
{
    struct stat st;
    off_t size = 0, end = 0;
    if (fstat(f->fd, &st) != 0) {
        return;
    }
    for (const struct piece *p = f->last; p != NULL; p = p->older) {
        size = p->size;
        for (size_t done = 0, part; done < p->length; done += part) {
            off_t at = p->at + (off_t)done;
            part = SECTOR - (size_t)(at % SECTOR);
            part = part < p->length - done ? part : p->length - done;
            if (survives(seed, f, at / SECTOR)) {
                end = at + (off_t)part > end ? at + (off_t)part : end;
            } else if (pwrite(f->fd, p->old + done, part, at) == (ssize_t)part) {
                fs.counters[DISCARDED_BYTES] += (int64_t)part;
            }
        }
    }
    end = end < st.st_size ? end : st.st_size;
    if (ftruncate(f->fd, end > size ? end : size) != 0) {
        perror("faultfs: ftruncate");
    }
}

void undo_cut(uint64_t seed)
{
    undo_forget_old();
    while (files != NULL) {
        put_back(files, seed);
        drop_file(files);
    }
    undo_cut_names();
    fs.counters[CUTS]++;
}
