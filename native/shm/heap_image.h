/* What forks of one process have in common, once: an image of its heap, which lies behind its heap from then on.
 *
 * A fork copies a page when it writes to it, and keeps the copy, though most writes are counts that go up and down
 * again. After `mpb_heap_image_take` the pages of the heap, and of what large libraries write to, are a private mapping
 * of the image (a sealed memfd), in this process and in all its forks; `mpb_heap_image_give_back` drops the copies that
 * say again what the image says. Both are for a process of one thread. Where the kernel does not tell what is needed
 * (/proc, memfd), nothing happens. */
#ifndef MPB_HEAP_IMAGE_H
#define MPB_HEAP_IMAGE_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the image; 0: none was taken. Once in a process and its forks. */
size_t mpb_heap_image_take(void);

/* Bytes given back. */
size_t mpb_heap_image_give_back(void);

/* Gives back at times that lie further and further apart, from a second after the first call of a process on; a call
 * that is not due costs a comparison. */
extern uint64_t mpb_heap_image_due_ns; /* UINT64_MAX: never */
void mpb_heap_image_look(uint64_t now_ns);

static inline void mpb_heap_image_idle(uint64_t now_ns)
{
    if (now_ns >= mpb_heap_image_due_ns)
        mpb_heap_image_look(now_ns);
}

#endif
