/* What the operations of the file system share; they are in faultfs.c and faultfs_names.c. */
#ifndef DSTEST_FAULTFS_OPS_H
#define DSTEST_FAULTFS_OPS_H

#define FUSE_USE_VERSION 31
#define _GNU_SOURCE
#include "faultfs.h"

#include <fuse3/fuse.h>
#include <sys/stat.h>

#define PATH_BYTES 4096
#define REAL(path) real(path, (char[PATH_BYTES]){0})

const char *real(const char *path, char out[PATH_BYTES]);
/* 0, or what `errno` says, as an operation returns it. */
int result(int status);
/* How the backing file is opened for a handle with these flags. */
int backing_flags(int flags);
/* Counts a write; the error that it is to fail with. */
int apply_write_policy(void);

int fs_create(const char *path, mode_t mode, struct fuse_file_info *info);
int fs_mknod(const char *path, mode_t mode, dev_t device);
int fs_mkdir(const char *path, mode_t mode);
int fs_symlink(const char *target, const char *path);
int fs_readlink(const char *path, char *target, size_t size);
int fs_link(const char *from, const char *to);
int fs_rmdir(const char *path);
int fs_unlink(const char *path);
int fs_rename(const char *from, const char *to, unsigned flags);

#endif
