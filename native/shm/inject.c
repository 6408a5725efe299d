#include "shm/inject.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct mpb_inject *find(struct mpb_core *core, const char *name, size_t length)
{
    for (uint32_t i = 1; i < MPB_INJECT_ROWS; i++) {
        struct mpb_inject *row = &core->injects[i];
        if (strncmp(row->name, name, length) == 0 && row->name[length] == 0)
            return row;
    }
    return NULL;
}

#ifdef MPB_INJECT
#define STOPS (1ull << 63) /* in `remaining` */
#define STOP_SUFFIX "=stop"

void mpb_crash_point_armed(struct mpb_core *core, const char *name)
{
    struct mpb_inject *row = find(core, name, strlen(name));
    if (row == NULL)
        return;
    mpb_add_relaxed(&row->hits, 1);
    uint64_t remaining = mpb_load_acquire(&row->remaining);
    while ((remaining & ~STOPS) != 0 && !mpb_cas64(&row->remaining, &remaining, remaining - 1))
        ;
    if ((remaining & ~STOPS) == 1)
        kill(getpid(), remaining & STOPS ? SIGSTOP : SIGKILL);
}

static int arm_one(struct mpb_core *core, const char *name, size_t length, uint64_t nth)
{
    if (length == 0 || length >= sizeof core->injects[0].name)
        return -1;
    struct mpb_inject *row = find(core, name, length);
    if (row == NULL) {
        row = find(core, "", 0);
        if (row == NULL)
            return -2;
        memcpy(row->name, name, length);
    }
    mpb_store_relaxed(&row->hits, 0);
    mpb_store_release(&row->remaining, nth);
    mpb_add_relaxed(&core->injects[0].hits, 1);
    return 0;
}

int mpb_inject_arm(struct mpb_core *core, const char *spec)
{
    while (*spec != 0) {
        size_t length = strcspn(spec, ":,=");
        const char *name = spec;
        uint64_t nth = 1;
        spec += length;
        if (*spec == ':') {
            char *end;
            nth = strtoull(spec + 1, &end, 10);
            if (end == spec + 1)
                return -1;
            spec = end;
        }
        if (nth == 0 || nth >= STOPS)
            return -1;
        if (strncmp(spec, STOP_SUFFIX, strlen(STOP_SUFFIX)) == 0) {
            spec += strlen(STOP_SUFFIX);
            nth |= STOPS;
        }
        int status = arm_one(core, name, length, nth);
        if (status != 0)
            return status;
        if (*spec == ',')
            spec++;
        else if (*spec != 0)
            return -1;
    }
    return 0;
}
#else
int mpb_inject_arm(struct mpb_core *core, const char *spec)
{
    (void)core;
    return *spec == 0 ? 0 : -3;
}
#endif

void mpb_inject_clear(struct mpb_core *core)
{
    mpb_store_relaxed(&core->injects[0].hits, 0);
    for (uint32_t i = 1; i < MPB_INJECT_ROWS; i++)
        mpb_store_relaxed(&core->injects[i].remaining, 0);
}

uint64_t mpb_inject_hits(struct mpb_core *core, const char *name)
{
    struct mpb_inject *row = find(core, name, strlen(name));
    return row == NULL ? 0 : mpb_load_relaxed(&row->hits);
}
