/* A library for LD_PRELOAD that gives one process a wall clock of its own. gettimeofday, time and
 * clock_gettime(CLOCK_REALTIME) follow the page that LOCKPROXY_CLOCK names; the monotonic clocks
 * show the true time. redis-server cannot use libfaketime, which looks up symbols while jemalloc
 * starts. This library gets the true time by the system call and looks up no symbol.
 *
 * The page has 64-bit numbers: a sequence (odd while the writer changes the page), and, in ns, the
 * true time of the last change (anchor), the clock's lead then (offset), and its gain in a second
 * since (rate). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct page {
	uint64_t sequence;
	int64_t anchor, offset, rate;
};

static struct page *page;

__attribute__((constructor)) static void begin(void) {
	const char *name = getenv("LOCKPROXY_CLOCK");
	int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		_exit(97);
	void *memory = mmap(NULL, sizeof *page, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (memory == MAP_FAILED)
		_exit(98);
	page = memory;
}

static int64_t now(void) {
	struct timespec ts;
	syscall(SYS_clock_gettime, CLOCK_REALTIME, &ts);
	int64_t truth = (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
	if (!page)
		return truth;
	for (;;) {
		uint64_t before = __atomic_load_n(&page->sequence, __ATOMIC_ACQUIRE);
		int64_t anchor = __atomic_load_n(&page->anchor, __ATOMIC_ACQUIRE);
		int64_t offset = __atomic_load_n(&page->offset, __ATOMIC_ACQUIRE);
		int64_t rate = __atomic_load_n(&page->rate, __ATOMIC_ACQUIRE);
		if (before % 2 == 0 && before == __atomic_load_n(&page->sequence, __ATOMIC_ACQUIRE))
			return truth + offset + (int64_t)((__int128)(truth - anchor) * rate / 1000000000);
	}
}

int gettimeofday(struct timeval *tv, void *zone) {
	(void)zone;
	int64_t t = now();
	tv->tv_sec = t / 1000000000;
	tv->tv_usec = t % 1000000000 / 1000;
	return 0;
}

time_t time(time_t *out) {
	time_t t = now() / 1000000000;
	if (out)
		*out = t;
	return t;
}

int clock_gettime(clockid_t id, struct timespec *ts) {
	if (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)
		return syscall(SYS_clock_gettime, id, ts);
	int64_t t = now();
	ts->tv_sec = t / 1000000000;
	ts->tv_nsec = t % 1000000000;
	return 0;
}
