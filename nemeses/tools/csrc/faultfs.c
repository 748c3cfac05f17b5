/* faultfs MOUNT BACKING SOCKET       serve BACKING at MOUNT until it is unmounted
 * faultfs ask SOCKET WORD ...        tell it something (faultfs_control.c) and print the answer
 *
 * High-level libfuse 3. Handles are descriptors of the backing files. Symbolic links, hard links,
 * devices and extended attributes are not supported: data directories of databases do without.
 */
#define FUSE_USE_VERSION 31
#define _GNU_SOURCE
#include "faultfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define PATH_BYTES 4096

struct faultfs fs = {.lock = PTHREAD_MUTEX_INITIALIZER,
                     .moved = PTHREAD_COND_INITIALIZER,
                     .settings = {[WRITEBACK_MS] = 5000}};

static const char *real(const char *path, char out[PATH_BYTES])
{
    snprintf(out, PATH_BYTES, "%s%s", fs.backing, path);
    return out;
}

#define REAL(path) real(path, (char[PATH_BYTES]){0})

static int result(int status)
{
    return status < 0 ? -errno : 0;
}

/* Counts a call; returns the error that it is to fail with, after the delay that it is to have. */
static int apply_fault_policy(enum counter counted, enum counter refused, int errno_setting,
                              int delay_setting)
{
    pthread_mutex_lock(&fs.lock);
    fs.counters[counted]++;
    int error = (int)fs.settings[errno_setting];
    if (counted == SYNCS && fs.settings[STALL] != 0) {
        fs.counters[STALLED]++;
        while (fs.settings[STALL] != 0) {
            pthread_cond_wait(&fs.moved, &fs.lock);
        }
        error = EIO;
    }
    int64_t delay_us = delay_setting < 0 ? 0 : fs.settings[delay_setting];
    if (error != 0) {
        fs.counters[refused]++;
    }
    if (delay_us > 0) {
        fs.counters[DELAYED]++;
        fs.counters[DELAYED_US] += delay_us;
    }
    pthread_mutex_unlock(&fs.lock);
    if (delay_us > 0) {
        struct timespec wait = {delay_us / 1000000, delay_us % 1000000 * 1000};
        nanosleep(&wait, NULL);
    }
    return -error;
}

static int apply_write_policy(void)
{
    return apply_fault_policy(WRITES, REFUSED_WRITES, WRITE_ERRNO, WRITE_DELAY_US);
}

static void *fs_init(struct fuse_conn_info *connection, struct fuse_config *config)
{
    (void)connection;
    config->use_ino = 1;
    config->entry_timeout = config->attr_timeout = config->negative_timeout = 0;
    return control_start() == 0 ? NULL : (exit(4), NULL);
}

static int fs_getattr(const char *path, struct stat *st, struct fuse_file_info *info)
{
    return result(info != NULL ? fstat((int)info->fh, st) : lstat(REAL(path), st));
}

static int fs_readdir(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset,
                      struct fuse_file_info *info, enum fuse_readdir_flags flags)
{
    (void)offset, (void)info, (void)flags;
    DIR *directory = opendir(REAL(path));
    if (directory == NULL) {
        return -errno;
    }
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        if (strcmp(entry->d_name, ".faultfs") != 0) {
            fill(buffer, entry->d_name, NULL, 0, 0);
        }
    }
    closedir(directory);
    return 0;
}

/* The undo log reads what a write replaces, so that no handle may be for writing alone. */
static int backing_flags(int flags)
{
    int access = (flags & O_ACCMODE) == O_RDONLY ? O_RDONLY : O_RDWR;
    return (flags & ~(O_ACCMODE | O_APPEND | O_CREAT | O_EXCL | O_TRUNC | O_DIRECT)) | access |
           O_CLOEXEC;
}

static int fs_open(const char *path, struct fuse_file_info *info)
{
    int fd = open(REAL(path), backing_flags(info->flags));
    info->fh = (uint64_t)fd;
    return result(fd);
}

static int fs_create(const char *path, mode_t mode, struct fuse_file_info *info)
{
    int error = apply_write_policy();
    if (error != 0) {
        return error;
    }
    pthread_mutex_lock(&fs.lock);
    int fd = open(REAL(path), backing_flags(info->flags) | O_CREAT | O_EXCL, mode);
    int status = fd < 0 ? -errno : undo_created(REAL(path), 0);
    pthread_mutex_unlock(&fs.lock);
    info->fh = (uint64_t)fd;
    return status;
}

static int fs_read(const char *path, char *buffer, size_t size, off_t offset,
                   struct fuse_file_info *info)
{
    (void)path;
    int error = apply_fault_policy(READS, REFUSED_READS, READ_ERRNO, -1);
    if (error != 0) {
        return error;
    }
    ssize_t n = pread((int)info->fh, buffer, size, offset);
    return n < 0 ? -errno : (int)n;
}

static int fs_write(const char *path, const char *buffer, size_t size, off_t offset,
                    struct fuse_file_info *info)
{
    (void)path;
    int error = apply_write_policy();
    if (error != 0) {
        return error;
    }
    pthread_mutex_lock(&fs.lock);
    int status = undo_write((int)info->fh, offset, size);
    if (status == 0) {
        ssize_t n = pwrite((int)info->fh, buffer, size, offset);
        status = n < 0 ? -errno : (int)n;
    }
    if (info->flags & (O_SYNC | O_DSYNC)) {
        undo_sync((int)info->fh);
    }
    pthread_mutex_unlock(&fs.lock);
    return status;
}

static int resize(int fd, off_t size)
{
    pthread_mutex_lock(&fs.lock);
    int status = undo_size(fd, size);
    status = status != 0 ? status : result(ftruncate(fd, size));
    pthread_mutex_unlock(&fs.lock);
    return status;
}

static int fs_truncate(const char *path, off_t size, struct fuse_file_info *info)
{
    int error = apply_write_policy();
    if (error != 0 || info != NULL) {
        return error != 0 ? error : resize((int)info->fh, size);
    }
    int fd = open(REAL(path), O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    int status = resize(fd, size);
    close(fd);
    return status;
}

static int fs_fallocate(const char *path, int mode, off_t offset, off_t length,
                        struct fuse_file_info *info)
{
    (void)path;
    struct stat st;
    if (mode != 0) {
        return mode == FALLOC_FL_KEEP_SIZE ? 0 : -EOPNOTSUPP;
    }
    int error = apply_write_policy();
    if (error != 0 || fstat((int)info->fh, &st) != 0) {
        return error != 0 ? error : -errno;
    }
    return offset + length <= st.st_size ? 0 : resize((int)info->fh, offset + length);
}

static int fs_fsync(const char *path, int data_only, struct fuse_file_info *info)
{
    (void)path, (void)data_only;
    int error = apply_fault_policy(SYNCS, REFUSED_SYNCS, SYNC_ERRNO, SYNC_DELAY_US);
    if (error == 0) {
        pthread_mutex_lock(&fs.lock);
        undo_sync(info == NULL ? -1 : (int)info->fh);
        undo_forget_old();
        pthread_mutex_unlock(&fs.lock);
    }
    return error;
}

static int fs_fsyncdir(const char *path, int data_only, struct fuse_file_info *info)
{
    (void)info;
    return fs_fsync(path, data_only, NULL);
}

static int fs_release(const char *path, struct fuse_file_info *info)
{
    (void)path;
    return result(close((int)info->fh));
}

static int fs_mkdir(const char *path, mode_t mode)
{
    pthread_mutex_lock(&fs.lock);
    int status = result(mkdir(REAL(path), mode));
    status = status != 0 ? status : undo_created(REAL(path), 1);
    pthread_mutex_unlock(&fs.lock);
    return status;
}

static int fs_rmdir(const char *path)
{
    struct stat st;
    pthread_mutex_lock(&fs.lock);
    int status = result(stat(REAL(path), &st) != 0 ? -1 : rmdir(REAL(path)));
    status = status != 0 ? status : undo_removed_directory(REAL(path), st.st_mode & 07777);
    pthread_mutex_unlock(&fs.lock);
    return status;
}

static int fs_unlink(const char *path)
{
    struct stat st;
    pthread_mutex_lock(&fs.lock);
    int status = result(lstat(REAL(path), &st));
    status = status != 0 ? status : undo_removed(REAL(path));
    pthread_mutex_unlock(&fs.lock);
    return status;
}

static int fs_rename(const char *from, const char *to, unsigned flags)
{
    struct stat st;
    if (flags != 0) {
        return -EINVAL;
    }
    pthread_mutex_lock(&fs.lock);
    int status = result(lstat(REAL(from), &st));
    if (status == 0 && !S_ISDIR(st.st_mode)) {
        status = undo_removed(REAL(to));
    }
    status = status != 0 ? status : result(rename(REAL(from), REAL(to)));
    status = status != 0 ? status : undo_renamed(REAL(from), REAL(to));
    pthread_mutex_unlock(&fs.lock);
    return status;
}

static int fs_statfs(const char *path, struct statvfs *st)
{
    int status = result(statvfs(REAL(path), st));
    pthread_mutex_lock(&fs.lock);
    if (fs.settings[WRITE_ERRNO] == ENOSPC) {
        st->f_bavail = st->f_bfree = 0;
    }
    pthread_mutex_unlock(&fs.lock);
    return status;
}

static int fs_chmod(const char *path, mode_t mode, struct fuse_file_info *info)
{
    (void)info;
    return result(chmod(REAL(path), mode));
}

static int fs_chown(const char *path, uid_t user, gid_t group, struct fuse_file_info *info)
{
    (void)info;
    return result(lchown(REAL(path), user, group));
}

static int fs_utimens(const char *path, const struct timespec times[2], struct fuse_file_info *info)
{
    (void)info;
    return result(utimensat(AT_FDCWD, REAL(path), times, AT_SYMLINK_NOFOLLOW));
}

static const struct fuse_operations operations = {
    .init = fs_init,
    .getattr = fs_getattr,
    .readdir = fs_readdir,
    .open = fs_open,
    .create = fs_create,
    .read = fs_read,
    .write = fs_write,
    .truncate = fs_truncate,
    .fallocate = fs_fallocate,
    .fsync = fs_fsync,
    .fsyncdir = fs_fsyncdir,
    .release = fs_release,
    .mkdir = fs_mkdir,
    .rmdir = fs_rmdir,
    .unlink = fs_unlink,
    .rename = fs_rename,
    .statfs = fs_statfs,
    .chmod = fs_chmod,
    .chown = fs_chown,
    .utimens = fs_utimens,
};

static int ask(int argc, char **argv)
{
    char words[128] = "";
    for (int i = 3; i < argc; i++) {
        size_t used = strlen(words);
        snprintf(words + used, sizeof words - used, "%s%s", used ? " " : "", argv[i]);
    }
    return control_ask(argv[2], words);
}

int main(int argc, char **argv)
{
    if (argc >= 4 && strcmp(argv[1], "ask") == 0) {
        return ask(argc, argv);
    }
    if (argc != 4) {
        fprintf(stderr, "usage: faultfs MOUNT BACKING SOCKET | faultfs ask SOCKET WORD ...\n");
        return 2;
    }
    fs.backing = argv[2];
    fs.socket = argv[3];
    char *arguments[] = {argv[0], "-f", "-o", "fsname=faultfs,allow_other", argv[1], NULL};
    return fuse_main(5, arguments, &operations, NULL);
}
