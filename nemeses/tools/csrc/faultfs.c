/* faultfs MOUNT BACKING SOCKET       serve BACKING at MOUNT until it is unmounted
 * faultfs ask SOCKET WORD ...        tell it something (faultfs_control.c) and print the answer
 *
 * High-level libfuse 3. Handles are descriptors of the backing files. The kernel checks permissions
 * and keeps locks. Not supported: devices, access control lists.
 */
#include "faultfs_ops.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define CHUNK 65536
#define HIDDEN ".fuse_hidden" /* what libfuse calls removed files that are still open */
#define ACL "system.posix_acl_"
/* Of the usual ten threads, ten syncs that wait would leave none for the rest. */
#define OPTIONS "fsname=faultfs,allow_other,default_permissions,max_threads=1000"

struct faultfs fs = {.lock = PTHREAD_MUTEX_INITIALIZER,
                     .moved = PTHREAD_COND_INITIALIZER,
                     .settings = {[WRITEBACK_MS] = 5000}};

const char *real(const char *path, char out[PATH_BYTES])
{
    snprintf(out, PATH_BYTES, "%s%s", fs.backing, path);
    return out;
}

int result(int status)
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

int apply_write_policy(void)
{
    return apply_fault_policy(WRITES, REFUSED_WRITES, WRITE_ERRNO, WRITE_DELAY_US);
}

static void *fs_init(struct fuse_conn_info *connection, struct fuse_config *config)
{
    connection->max_readahead = 0; /* what is counted as read, somebody asked for */
    config->use_ino = 1;
    config->entry_timeout = config->attr_timeout = config->negative_timeout = 0;
    if (control_start() != 0) {
        exit(4);
    }
    umask(0); /* the caller's was applied by the kernel */
    return NULL;
}

static int fs_getattr(const char *path, struct stat *st, struct fuse_file_info *info)
{
    int status = result(info != NULL ? fstat((int)info->fh, st) : lstat(REAL(path), st));
    if (status == 0 && S_ISREG(st->st_mode) && st->st_nlink > 1) {
        pthread_mutex_lock(&fs.lock);
        st->st_nlink -= undo_removed_links(st->st_ino);
        pthread_mutex_unlock(&fs.lock);
    }
    return status;
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
        if (strcmp(entry->d_name, TRASH) != 0 &&
            strncmp(entry->d_name, HIDDEN, strlen(HIDDEN)) != 0) {
            fill(buffer, entry->d_name, NULL, 0, 0);
        }
    }
    closedir(directory);
    return 0;
}

static int resize(int fd, off_t size)
{
    pthread_mutex_lock(&fs.lock);
    rot_replaced(fd, size, INT64_MAX);
    int status = undo_size(fd, size);
    status = status != 0 ? status : result(ftruncate(fd, size));
    pthread_mutex_unlock(&fs.lock);
    return status;
}

/* The undo log reads what a write replaces, so that no handle may be for writing alone. */
int backing_flags(int flags)
{
    int access = (flags & O_ACCMODE) == O_RDONLY ? O_RDONLY : O_RDWR;
    return (flags & ~(O_ACCMODE | O_APPEND | O_CREAT | O_EXCL | O_TRUNC | O_DIRECT)) | access |
           O_CLOEXEC;
}

/* The kernel leaves O_TRUNC to us. */
static int fs_open(const char *path, struct fuse_file_info *info)
{
    int truncates = info->flags & O_TRUNC;
    int status = truncates ? apply_write_policy() : 0;
    if (status != 0) {
        return status;
    }
    int fd = open(REAL(path), backing_flags(info->flags));
    if (fd < 0) {
        return -errno;
    }
    if (truncates && (status = resize(fd, 0)) != 0) {
        close(fd);
    }
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
    if (n < 0) {
        return -errno;
    }
    pthread_mutex_lock(&fs.lock);
    rot_read((int)info->fh, offset, buffer, (size_t)n);
    pthread_mutex_unlock(&fs.lock);
    return (int)n;
}

/* With O_SYNC or O_DSYNC the kernel asks for an fsync afterwards. */
static int fs_write(const char *path, const char *buffer, size_t size, off_t offset,
                    struct fuse_file_info *info)
{
    (void)path;
    int error = apply_write_policy();
    if (error != 0) {
        return error;
    }
    pthread_mutex_lock(&fs.lock);
    rot_replaced((int)info->fh, offset, offset + (off_t)size);
    int status = undo_write((int)info->fh, offset, size);
    if (status == 0) {
        ssize_t n = pwrite((int)info->fh, buffer, size, offset);
        status = n < 0 ? -errno : (int)n;
    }
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

/* A hole, or zeros: bytes that are replaced, as by a write. */
static int punch(int fd, int mode, off_t offset, off_t length)
{
    int status = 0;
    pthread_mutex_lock(&fs.lock);
    rot_replaced(fd, offset, offset + length);
    for (off_t done = 0; status == 0 && done < length; done += CHUNK) {
        off_t part = length - done < CHUNK ? length - done : CHUNK;
        status = undo_write(fd, offset + done, (size_t)part);
    }
    status = status != 0 ? status : result(fallocate(fd, mode, offset, length));
    pthread_mutex_unlock(&fs.lock);
    return status;
}

static int fs_fallocate(const char *path, int mode, off_t offset, off_t length,
                        struct fuse_file_info *info)
{
    (void)path;
    struct stat st;
    int keeps_size = mode & FALLOC_FL_KEEP_SIZE, replaces = mode & ~FALLOC_FL_KEEP_SIZE;
    if (replaces & ~(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) {
        return -EOPNOTSUPP;
    }
    int error = apply_write_policy();
    if (error != 0 || fstat((int)info->fh, &st) != 0) {
        return error != 0 ? error : -errno;
    }
    if (replaces) {
        off_t most = st.st_size - offset;
        off_t inside = keeps_size && most < length ? most : length;
        return inside <= 0 ? 0 : punch((int)info->fh, mode, offset, inside);
    }
    int grows = !keeps_size && offset + length > st.st_size;
    return grows ? resize((int)info->fh, offset + length) : 0;
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

/* The kernel would not obey access control lists, which we could keep only as plain attributes. */
static int is_acl(const char *name)
{
    return strncmp(name, ACL, strlen(ACL)) == 0;
}

static int fs_setxattr(const char *path, const char *name, const char *value, size_t size,
                       int flags)
{
    return is_acl(name) ? -EOPNOTSUPP : result(lsetxattr(REAL(path), name, value, size, flags));
}

static int fs_getxattr(const char *path, const char *name, char *value, size_t size)
{
    ssize_t n = is_acl(name) ? -1 : lgetxattr(REAL(path), name, value, size);
    return is_acl(name) ? -EOPNOTSUPP : n < 0 ? -errno : (int)n;
}

static int fs_listxattr(const char *path, char *names, size_t size)
{
    ssize_t n = llistxattr(REAL(path), names, size);
    return n < 0 ? -errno : (int)n;
}

static int fs_removexattr(const char *path, const char *name)
{
    return result(lremovexattr(REAL(path), name));
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
    .mknod = fs_mknod,
    .mkdir = fs_mkdir,
    .link = fs_link,
    .symlink = fs_symlink,
    .readlink = fs_readlink,
    .rmdir = fs_rmdir,
    .unlink = fs_unlink,
    .rename = fs_rename,
    .statfs = fs_statfs,
    .chmod = fs_chmod,
    .chown = fs_chown,
    .utimens = fs_utimens,
    .setxattr = fs_setxattr,
    .getxattr = fs_getxattr,
    .listxattr = fs_listxattr,
    .removexattr = fs_removexattr,
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
    char *arguments[] = {argv[0], "-f", "-o", OPTIONS, argv[1], NULL};
    return fuse_main(5, arguments, &operations, NULL);
}
