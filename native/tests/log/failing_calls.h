/* Of one kind of calls on files some succeed, and then some fail. */
#ifndef MPB_TESTS_FAILING_CALLS_H
#define MPB_TESTS_FAILING_CALLS_H

#include "log/log_io.h"

static struct {
    enum mpb_io_call kind;
    int good, error, times, failed;
} failing_calls;

static int fail_a_call(enum mpb_io_call call, size_t *limit)
{
    (void)limit;
    if (call != failing_calls.kind || failing_calls.good-- > 0 || failing_calls.failed == failing_calls.times)
        return 0;
    failing_calls.failed++;
    return failing_calls.error;
}

/* Until mpb_io_fault is taken away. */
static void let_fail(enum mpb_io_call kind, int good, int error, int times)
{
    failing_calls.kind = kind;
    failing_calls.good = good;
    failing_calls.error = error;
    failing_calls.times = times;
    failing_calls.failed = 0;
    mpb_io_fault = fail_a_call;
}

#endif
