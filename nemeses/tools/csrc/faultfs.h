/* A file system that can forget, refuse, delay and rot: what it must undo, and what it is told.
 *
 * All files lie in a backing directory. A write goes there at once, and what it replaced is kept
 * until the file is synced, by whichever of its names; a power cut puts it back. Names (what is
 * created, linked, renamed, removed) are undone likewise until any file or directory is synced, as
 * one journal would have it. Owners, modes, times and attributes are safe at once.
 */
#ifndef DSTEST_FAULTFS_H
#define DSTEST_FAULTFS_H

#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>

#define TRASH ".faultfs" /* where removed names wait, on top of the backing directory */

/* Told by `set NAME VALUE`. */
enum setting {
    SYNC_DELAY_US,
    WRITE_DELAY_US,
    SYNC_ERRNO,  /* every fsync and fdatasync fails with it */
    WRITE_ERRNO, /* every write, truncation, allocation and creation */
    READ_ERRNO,
    STALL,  /* syncs wait; those that waited fail with EIO when it ends */
    FAULTS, /* those above make a fault: `clear` sets them to zero, and they are zero at first */
    WRITEBACK_MS = FAULTS, /* what nobody syncs is safe after this time, as on any system */
    SETTINGS
};

/* Since the start; told by `get`. */
enum counter {
    READS,
    WRITES,
    SYNCS,
    DELAYED,    /* calls that were delayed */
    DELAYED_US, /* for how long in all */
    REFUSED_READS,
    REFUSED_WRITES,
    REFUSED_SYNCS,
    STALLED, /* syncs that had to wait */
    CUTS,
    DISCARDED_BYTES, /* of writes that power cuts undid */
    DISCARDED_NAMES, /* creations, removals and renames that they undid */
    ROTTED,          /* bits that were flipped */
    ROTTEN_READ,     /* how often one of them was read */
    ROT_REPLACED,    /* bits that were written over, or cut off */
    ROT_PUT_BACK,
    COUNTERS
};

struct faultfs {
    const char *backing, *socket;
    pthread_cond_t moved; /* a stall is over */
    pthread_mutex_t lock; /* settings, counters, and all that the undo log holds */
    int64_t settings[SETTINGS], counters[COUNTERS];
};

extern struct faultfs fs;

/* The undo log; fs.lock is held by the caller. Of bytes (faultfs_undo.c): */
int undo_write(int fd, off_t from, size_t length);
int undo_size(int fd, off_t to);
void undo_sync(int fd);
void undo_forget_old(void);
int64_t undo_dirty_bytes(void);
/* Back to what was synced; `seed` not 0: of each file some unsynced sectors stay, others go. */
void undo_cut(uint64_t seed);

/* Of names (faultfs_journal.c), by their backing paths: */
int undo_created(const char *path);
int undo_renamed(const char *from, const char *to);
int undo_exchanged(const char *one, const char *other);
/* Moves what is at `path` away, to be put back. */
int undo_removed(const char *path);
/* How many names of this file have been moved away. */
nlink_t undo_removed_links(ino_t number);
/* Puts the newest name back, of a call that has failed halfway. */
void undo_last_name(void);
void undo_forget_names(int64_t older_than_ns);
void undo_cut_names(void);

/* Bits that rot (faultfs_rot.c); fs.lock is held. One of each `every` bytes of the files whose
 * names match `pattern`. */
void rot_make(uint64_t seed, int64_t every, const char *pattern);
void rot_end(void);
void rot_read(int fd, off_t from, const void *data, size_t length);
/* Before what is from one byte to before another is replaced: what an undo keeps is not rotten. */
void rot_replaced(int fd, off_t from, off_t to);
int64_t rot_bits(void);

int64_t now_ns(void);
int control_start(void);
int control_ask(const char *socket, const char *words);

#endif
