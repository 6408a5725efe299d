/* Work in a process of its own that dies at a named point, and what is left of it is in shared memory. */
#ifndef MPB_TESTS_KILLED_AT_H
#define MPB_TESTS_KILLED_AT_H

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/inject.h"
#include "tests/stepping/check.h"

/* Whether it died there; else it came to its end, or died of something else. No point is armed afterwards. */
static inline bool killed_at(struct mpb_core *core, const char *point, void (*work)(void *), void *with)
{
    int status;
    CHECK_EQ(mpb_inject_arm(core, point), 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        work(with);
        _exit(9);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    mpb_inject_clear(core);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

#endif
