/* What lies in the page that clockshift maps into a process: the shift in force, and the functions
 * that answer instead of the vDSO's. They are copied as they are: no calls out of the section, no
 * constants outside of the code. */
#ifndef CLOCKSHIFT_STUBS_H
#define CLOCKSHIFT_STUBS_H

#include <stdint.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#define PAGE 4096
#define JUMP 12
#define ENTRIES 3

/* With `strobe_ns` the shift holds in every second stretch of that length only. */
struct shift {
    int64_t offset_ns, since_ns, rate_ppm, mono, strobe_ns;
};

/* `active` chooses the shift in force: the other one is written first, so none is read half new. */
struct page {
    uint64_t magic, active, hits;
    struct shift shifts[2];
    unsigned char saved[ENTRIES][JUMP];
};

#define STUB __attribute__((section("stubs"), used, noinline))

STUB static int shifted_gettime(int clock, struct timespec *ts)
{
    long done;
    __asm__ volatile("syscall"
                     : "=a"(done)
                     : "0"((long)SYS_clock_gettime), "D"((long)clock), "S"(ts)
                     : "rcx", "r11", "memory");
    if (done != 0)
        return (int)done;
    uint64_t here;
    __asm__("lea 0(%%rip), %0" : "=r"(here));
    struct page *page = (struct page *)(here & ~(uint64_t)(PAGE - 1));
    struct shift *shift = &page->shifts[*(volatile uint64_t *)&page->active & 1];
    int wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    int mono = clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE ||
               clock == CLOCK_MONOTONIC_RAW || clock == CLOCK_BOOTTIME;
    if (!wall && !(mono && shift->mono))
        return 0;
    __atomic_add_fetch(&page->hits, 1, __ATOMIC_RELAXED);
    struct timespec base = *ts;
    if ((shift->rate_ppm != 0 || shift->strobe_ns != 0) && clock != CLOCK_MONOTONIC)
        __asm__ volatile("syscall"
                         : "=a"(done)
                         : "0"((long)SYS_clock_gettime), "D"((long)CLOCK_MONOTONIC), "S"(&base)
                         : "rcx", "r11", "memory");
    int64_t ran_ns = base.tv_sec * 1000000000L + base.tv_nsec - shift->since_ns;
    if (shift->strobe_ns != 0 && (ran_ns / shift->strobe_ns & 1))
        return 0;
    int64_t by_ns = shift->offset_ns + (shift->rate_ppm ? ran_ns / 1000000 * shift->rate_ppm : 0);
    int64_t now_ns = ts->tv_sec * 1000000000L + ts->tv_nsec + by_ns;
    ts->tv_sec = now_ns / 1000000000L;
    ts->tv_nsec = now_ns % 1000000000L;
    return 0;
}

STUB static int shifted_timeofday(struct timeval *tv, void *zone)
{
    struct timespec ts;
    (void)zone;
    int done = tv ? shifted_gettime(CLOCK_REALTIME, &ts) : 0;
    if (done == 0 && tv) {
        tv->tv_sec = ts.tv_sec;
        tv->tv_usec = ts.tv_nsec / 1000;
    }
    return done;
}

STUB static long shifted_time(long *out)
{
    struct timespec ts;
    if (shifted_gettime(CLOCK_REALTIME, &ts) != 0)
        return -1;
    if (out)
        *out = ts.tv_sec;
    return ts.tv_sec;
}

#endif
