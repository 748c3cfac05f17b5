/* The control socket: one line in, one line out.
 *
 *     get                counters, settings and unsynced bytes, as name=value
 *     set NAME VALUE     one setting
 *     clear              no faults any more
 *     rot SEED N NAMES   one bit in each N bytes of the files whose names match NAMES is flipped, of
 *                        bytes that are not zero; `clear` flips them back
 *     cut [SEED]         what was not synced is gone, a stall is over; with a seed, what is lost
 *                        is drawn by the sector
 */
#define _GNU_SOURCE
#include "faultfs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const char *const setting_names[SETTINGS] = {
    "sync_delay_us", "write_delay_us", "sync_errno",   "write_errno",
    "read_errno",    "stall",          "writeback_ms",
};

static const char *const counter_names[COUNTERS] = {
    "reads",      "writes",        "syncs",           "delayed",
    "delayed_us", "refused_reads", "refused_writes",  "refused_syncs",
    "stalled",    "cuts",          "discarded_bytes", "discarded_names",
    "rotted",     "rotten_read",   "rot_replaced",    "rot_put_back",
};

static void tell(FILE *out)
{
    for (int i = 0; i < SETTINGS; i++) {
        fprintf(out, "%s=%lld ", setting_names[i], (long long)fs.settings[i]);
    }
    for (int i = 0; i < COUNTERS; i++) {
        fprintf(out, "%s=%lld ", counter_names[i], (long long)fs.counters[i]);
    }
    fprintf(out, "rotten=%lld ", (long long)rot_bits());
    fprintf(out, "dirty_bytes=%lld\n", (long long)undo_dirty_bytes());
}

/* Does what a line says; nonzero where it says nothing known. */
static int obey(const char *line)
{
    char name[64];
    long long value = 0;
    unsigned long long seed = 0;
    if (strcmp(line, "get") == 0) {
        return 0;
    }
    if (strcmp(line, "clear") == 0) {
        memset(fs.settings, 0, FAULTS * sizeof *fs.settings);
        rot_end();
        return 0;
    }
    if (sscanf(line, "rot %llu %lld %63s", &seed, &value, name) == 3 && value > 0) {
        rot_make(seed, value, name);
        return 0;
    }
    if (strcmp(line, "cut") == 0 || sscanf(line, "cut %llu", &seed) == 1) {
        undo_cut(seed);
        fs.settings[STALL] = 0;
        return 0;
    }
    if (sscanf(line, "set %63s %lld", name, &value) == 2 && value >= 0) {
        for (int i = 0; i < SETTINGS; i++) {
            if (strcmp(name, setting_names[i]) == 0) {
                fs.settings[i] = value;
                return 0;
            }
        }
    }
    return 1;
}

static void serve(int peer)
{
    char line[128];
    FILE *stream = fdopen(peer, "r+");
    if (stream == NULL) {
        close(peer);
        return;
    }
    if (fgets(line, sizeof line, stream) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        pthread_mutex_lock(&fs.lock);
        if (obey(line) == 0) {
            pthread_cond_broadcast(&fs.moved);
            tell(stream);
        } else {
            fprintf(stream, "error: %s\n", line);
        }
        pthread_mutex_unlock(&fs.lock);
    }
    fclose(stream);
}

static void *listen_forever(void *argument)
{
    int server = (int)(intptr_t)argument;
    for (;;) {
        int peer = accept(server, NULL, NULL);
        if (peer >= 0) {
            serve(peer);
        }
    }
    return NULL;
}

static int address_of(const char *path, struct sockaddr_un *address)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    if (strlen(path) >= sizeof address->sun_path) {
        fprintf(stderr, "faultfs: the path of the socket is too long\n");
        return -1;
    }
    strcpy(address->sun_path, path);
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

int control_start(void)
{
    struct sockaddr_un address;
    pthread_t thread;
    int server = address_of(fs.socket, &address);
    unlink(fs.socket);
    if (server < 0 || bind(server, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(server, 8) != 0) {
        perror("faultfs: control socket");
        return -1;
    }
    return pthread_create(&thread, NULL, listen_forever, (void *)(intptr_t)server);
}

int control_ask(const char *socket_path, const char *words)
{
    struct sockaddr_un address;
    char line[2048];
    int peer = address_of(socket_path, &address);
    if (peer < 0 || connect(peer, (struct sockaddr *)&address, sizeof address) != 0) {
        perror("faultfs: no file system answers at the socket");
        return 3;
    }
    FILE *stream = fdopen(peer, "r+");
    if (stream == NULL) {
        return 3;
    }
    fprintf(stream, "%s\n", words);
    fflush(stream);
    if (fgets(line, sizeof line, stream) == NULL) {
        fprintf(stderr, "faultfs: no answer\n");
        return 3;
    }
    fputs(line, stdout);
    fclose(stream);
    return strncmp(line, "error", 5) == 0 ? 2 : 0;
}
