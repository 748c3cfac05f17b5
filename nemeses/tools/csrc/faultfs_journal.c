/* Names that unsynced calls changed, newest first. */
#define _GNU_SOURCE
#include "faultfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum name_kind { CREATED, REMOVED, RENAMED, EXCHANGED };

struct name {
    struct name *older;
    enum name_kind kind;
    ino_t number; /* REMOVED: of the file */
    int64_t when_ns;
    char *path, *other; /* REMOVED: where it was moved to; RENAMED: the new name */
};

static struct name *names;
static int64_t trashed;

static int push(enum name_kind kind, const char *path, const char *other, ino_t number)
{
    struct name *n = calloc(1, sizeof *n);
    char *a = strdup(path), *b = other == NULL ? NULL : strdup(other);
    if (n == NULL || a == NULL || (other != NULL && b == NULL)) {
        free(n);
        free(a);
        free(b);
        return -ENOMEM;
    }
    *n = (struct name){names, kind, number, now_ns(), a, b};
    names = n;
    return 0;
}

/* Frees a name; the one before it. */
static struct name *drop(struct name *n)
{
    struct name *older = n->older;
    free(n->path);
    free(n->other);
    free(n);
    return older;
}

int undo_created(const char *path)
{
    return push(CREATED, path, NULL, 0);
}

int undo_renamed(const char *from, const char *to)
{
    return push(RENAMED, from, to, 0);
}

int undo_exchanged(const char *one, const char *other)
{
    return push(EXCHANGED, one, other, 0);
}

int undo_removed(const char *path)
{
    struct stat st;
    char where[4096];
    snprintf(where, sizeof where, "%s/" TRASH, fs.backing);
    mkdir(where, 0700);
    snprintf(where, sizeof where, "%s/" TRASH "/%lld", fs.backing, (long long)trashed++);
    if (lstat(path, &st) != 0 || rename(path, where) != 0) {
        return -errno;
    }
    return push(REMOVED, path, where, st.st_ino);
}

nlink_t undo_removed_links(ino_t number)
{
    nlink_t links = 0;
    for (const struct name *n = names; n != NULL; n = n->older) {
        links += n->kind == REMOVED && n->number == number;
    }
    return links;
}

static int put_back(const struct name *n)
{
    switch (n->kind) {
    case CREATED:
        return remove(n->path);
    case EXCHANGED:
        return renameat2(AT_FDCWD, n->path, AT_FDCWD, n->other, RENAME_EXCHANGE);
    case REMOVED:
    case RENAMED:
        return rename(n->other, n->path);
    }
    return -1;
}

void undo_last_name(void)
{
    if (put_back(names) != 0) {
        perror("faultfs: a name could not be put back");
    }
    names = drop(names);
}

void undo_forget_names(int64_t older_than_ns)
{
    struct name **from = &names;
    while (*from != NULL && (*from)->when_ns > older_than_ns) {
        from = &(*from)->older;
    }
    struct name *n = *from;
    *from = NULL;
    while (n != NULL) {
        if (n->kind == REMOVED) {
            remove(n->other);
        }
        n = drop(n);
    }
}

void undo_cut_names(void)
{
    while (names != NULL) {
        undo_last_name();
        fs.counters[DISCARDED_NAMES]++;
    }
}
