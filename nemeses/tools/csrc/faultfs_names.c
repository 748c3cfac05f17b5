/* Operations on names: what is created, linked, renamed and removed.
 *
 * What a caller creates belongs to the caller; in a directory with the setgid bit, to its group.
 */
#include "faultfs_ops.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int give_to_caller(const char *created)
{
    const struct fuse_context *caller = fuse_get_context();
    struct stat st, parent;
    char folder[PATH_BYTES];
    snprintf(folder, sizeof folder, "%s", created);
    *strrchr(folder, '/') = '\0';
    if (lstat(created, &st) != 0 || stat(folder, &parent) != 0) {
        return -errno;
    }
    gid_t group = parent.st_mode & S_ISGID ? parent.st_gid : caller->gid;
    if (lchown(created, caller->uid, group) != 0) {
        return -errno;
    }
    /* a change of owner may have taken these bits */
    int has_bits = !S_ISLNK(st.st_mode) && st.st_mode & (S_ISUID | S_ISGID);
    return has_bits ? result(chmod(created, st.st_mode & 07777)) : 0;
}

/* Completes a creation whose call returned `status`. */
static int created(const char *path, int status)
{
    if (status < 0) {
        return -errno;
    }
    status = give_to_caller(path);
    status = status != 0 ? status : undo_created(path);
    if (status != 0) {
        remove(path);
    }
    return status;
}

int fs_create(const char *path, mode_t mode, struct fuse_file_info *info)
{
    int status = apply_write_policy(), flags = backing_flags(info->flags);
    if (status != 0) {
        return status;
    }
    pthread_mutex_lock(&fs.lock);
    int fd = open(REAL(path), flags | O_CREAT | O_EXCL, mode);
    status = created(REAL(path), fd);
    pthread_mutex_unlock(&fs.lock);
    if (status != 0 && fd >= 0) {
        close(fd);
    }
    info->fh = (uint64_t)fd;
    return status;
}

int fs_mknod(const char *path, mode_t mode, dev_t device)
{
    (void)device;
    if (S_ISCHR(mode) || S_ISBLK(mode)) {
        return -EPERM;
    }
    int status = apply_write_policy();
    if (status == 0) {
        pthread_mutex_lock(&fs.lock);
        status = created(REAL(path), mknod(REAL(path), mode, 0));
        pthread_mutex_unlock(&fs.lock);
    }
    return status;
}

int fs_mkdir(const char *path, mode_t mode)
{
    int status = apply_write_policy();
    if (status == 0) {
        pthread_mutex_lock(&fs.lock);
        status = created(REAL(path), mkdir(REAL(path), mode));
        pthread_mutex_unlock(&fs.lock);
    }
    return status;
}

int fs_symlink(const char *target, const char *path)
{
    int status = apply_write_policy();
    if (status == 0) {
        pthread_mutex_lock(&fs.lock);
        status = created(REAL(path), symlink(target, REAL(path)));
        pthread_mutex_unlock(&fs.lock);
    }
    return status;
}

int fs_readlink(const char *path, char *target, size_t size)
{
    ssize_t n = readlink(REAL(path), target, size - 1);
    if (n < 0) {
        return -errno;
    }
    target[n] = '\0';
    return 0;
}

/* A further name of a file, which keeps its owner. */
int fs_link(const char *from, const char *to)
{
    pthread_mutex_lock(&fs.lock);
    int status = result(link(REAL(from), REAL(to)));
    status = status != 0 ? status : undo_created(REAL(to));
    pthread_mutex_unlock(&fs.lock);
    return status;
}

static int is_empty(const char *path)
{
    int entries = 0;
    DIR *directory = opendir(path);
    if (directory == NULL) {
        return 0;
    }
    while (entries <= 2 && readdir(directory) != NULL) {
        entries++;
    }
    closedir(directory);
    return entries <= 2;
}

int fs_rmdir(const char *path)
{
    pthread_mutex_lock(&fs.lock);
    int status = is_empty(REAL(path)) ? undo_removed(REAL(path)) : -ENOTEMPTY;
    pthread_mutex_unlock(&fs.lock);
    return status;
}

int fs_unlink(const char *path)
{
    pthread_mutex_lock(&fs.lock);
    int status = undo_removed(REAL(path));
    pthread_mutex_unlock(&fs.lock);
    return status;
}

static int exchange(const char *from, const char *to)
{
    int status = result(renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE));
    return status != 0 ? status : undo_exchanged(from, to);
}

/* Moves `from` to `to`; what is at `to` moves away first. */
static int move(const char *from, const char *to)
{
    struct stat source, target;
    if (lstat(from, &source) != 0) {
        return -errno;
    }
    int exists = lstat(to, &target) == 0;
    if (exists && source.st_ino == target.st_ino) {
        return 0; /* two names of one file: both stay */
    }
    if (exists && S_ISDIR(target.st_mode) && !is_empty(to)) {
        return -ENOTEMPTY;
    }
    int status = exists ? undo_removed(to) : 0;
    if (status != 0) {
        return status;
    }
    status = result(rename(from, to));
    if (status != 0 && exists) {
        undo_last_name();
    }
    return status != 0 ? status : undo_renamed(from, to);
}

/* That there is nothing at `to`, for RENAME_NOREPLACE, has been checked by the kernel. */
int fs_rename(const char *from, const char *to, unsigned flags)
{
    if (flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE)) {
        return -EINVAL;
    }
    pthread_mutex_lock(&fs.lock);
    int status = flags & RENAME_EXCHANGE ? exchange(REAL(from), REAL(to))
                                         : move(REAL(from), REAL(to));
    pthread_mutex_unlock(&fs.lock);
    return status;
}
