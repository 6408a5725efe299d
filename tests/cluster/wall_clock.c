/* Preloaded into a broker's processes: the wall clock is off by what stands in the file $WALL_CLOCK_FILE (int64,
 * nanoseconds), which may be changed at any time. CLOCK_MONOTONIC is left alone. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *off_ns;

__attribute__((constructor)) static void map_offset(void) {
	const char *path = getenv("WALL_CLOCK_FILE");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	void *at = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
	off_ns = at == MAP_FAILED ? NULL : at;
	close(fd);
}

int clock_gettime(clockid_t id, struct timespec *out) {
	int error = (int)syscall(SYS_clock_gettime, id, out);
	if (error || !off_ns || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE))
		return error;
	int64_t ns = (int64_t)out->tv_sec * 1000000000 + out->tv_nsec + *off_ns;
	out->tv_sec = ns / 1000000000;
	out->tv_nsec = ns % 1000000000;
	return 0;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
	struct timespec now;
	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	out->tv_sec = now.tv_sec;
	out->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *out) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (out)
		*out = now.tv_sec;
	return now.tv_sec;
}
