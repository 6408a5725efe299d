/* Memory that a process and its forks share: a page is shared until one of them writes to it. */
#define _GNU_SOURCE
#include "python/module.h"
#include "shm/heap_image.h"
#include <link.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int has_text_relocations(const struct dl_phdr_info *library)
{
    for (int i = 0; i < library->dlpi_phnum; i++) {
        if (library->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        for (const ElfW(Dyn) *entry = (const void *)(library->dlpi_addr + library->dlpi_phdr[i].p_vaddr);
             entry->d_tag != DT_NULL; entry++)
            if (entry->d_tag == DT_TEXTREL || (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_TEXTREL)))
                return 1;
    }
    return 0;
}

/* Take the segments that nobody can have written to out of this process's page table: their pages stay in the page
 * cache, and those that are used again come back with a minor fault. */
static int release_library(struct dl_phdr_info *library, size_t size, void *released)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    (void)size;
    if (library->dlpi_name == NULL || library->dlpi_name[0] != '/' || has_text_relocations(library))
        return 0; /* the program itself, the vdso; or text that the loader has patched */
    for (int i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &library->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_W) != 0)
            continue;
        uintptr_t from = (library->dlpi_addr + segment->p_vaddr) & ~(page - 1);
        uintptr_t end = library->dlpi_addr + segment->p_vaddr + segment->p_memsz;
        if (madvise((void *)from, end - from, MADV_DONTNEED) == 0)
            *(size_t *)released += end - from;
    }
    return 0;
}

static PyObject *release_library_pages(PyObject *module, PyObject *ignored)
{
    size_t released = 0;
    (void)module;
    (void)ignored;
    dl_iterate_phdr(release_library, &released);
    return PyLong_FromSize_t(released);
}

/* How CPython allocates objects: up to 512 bytes, in steps of 16, from pools of one size. Where it does otherwise, as
 * with PYTHONMALLOC=malloc, MOST_BYTES are taken of each size and nothing is gained. */
#define LARGEST_OBJECT 512u
#define OBJECT_STEP 16u
#define POOL_BYTES 16384u
#define POOL_HEADER 48u
#define SEEN_IN_A_ROW 3
#define MOST_BYTES 65536u /* of one size; a heap with more free places keeps the rest */

/* Allocate blocks of one size until they are the first ones of a pool that nobody has used. */
static size_t fill_objects(size_t size)
{
    void *in_a_row[SEEN_IN_A_ROW];
    size_t filled = 0;
    int seen = 0;
    while (seen < SEEN_IN_A_ROW && filled < MOST_BYTES) {
        void *block = PyObject_Malloc(size);
        if (block == NULL)
            break;
        if ((uintptr_t)block % POOL_BYTES != POOL_HEADER + (size_t)seen * size)
            seen = (uintptr_t)block % POOL_BYTES == POOL_HEADER ? 0 : -1;
        if (++seen > 0)
            in_a_row[seen - 1] = block;
        filled += size;
    }
    for (; seen > 0; filled -= size)
        PyObject_Free(in_a_row[--seen]);
    return filled;
}

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
#define LARGEST_CHUNK ((size_t)1 << 16) /* below what malloc maps by itself */
#define LARGEST_EXACT 1040u             /* malloc keeps freed chunks up to so many bytes by their exact size */
#define SMALLEST_CHUNK 24u

static size_t next_smaller(size_t size) { return size > LARGEST_EXACT ? size / 2 : size - OBJECT_STEP; }

/* Allocate from malloc's free chunks, the largest first, until nothing is left but the end of the heap. */
static size_t fill_chunks(void)
{
    uintptr_t break_at = (uintptr_t)sbrk(0);
    uintptr_t last_chunk = break_at - mallinfo2().keepcost - 2 * sizeof(size_t);
    size_t filled = 0;
    for (size_t size = LARGEST_CHUNK; size >= SMALLEST_CHUNK; size = next_smaller(size)) {
        for (size_t taken = 0; taken < MOST_BYTES; taken += size) {
            void *chunk = malloc(size);
            uintptr_t at = (uintptr_t)chunk;
            if (chunk == NULL || at >= last_chunk) {
                free(chunk);
                break;
            }
            filled += size;
        }
    }
    return filled;
}
#else
static size_t fill_chunks(void) { return 0; } /* where the end of the heap is, only glibc tells */
#endif

static PyObject *fill_free_memory(PyObject *module, PyObject *ignored)
{
    size_t filled = 0;
    (void)module;
    (void)ignored;
    for (size_t size = OBJECT_STEP; size <= LARGEST_OBJECT; size += OBJECT_STEP)
        filled += fill_objects(size);
    return PyLong_FromSize_t(filled + fill_chunks());
}

static PyObject *take_heap_image(PyObject *module, PyObject *ignored)
{
    (void)module;
    (void)ignored;
    return PyLong_FromSize_t(mpb_heap_image_take());
}

static PyObject *give_back_heap(PyObject *module, PyObject *ignored)
{
    (void)module;
    (void)ignored;
    return PyLong_FromSize_t(mpb_heap_image_give_back());
}

static PyMethodDef functions[] = {
    {"release_library_pages", release_library_pages, METH_NOARGS,
     "release_library_pages() -> bytes of address space. Unmaps the read-only pages of all shared libraries from this\n"
     "process; what is used again is mapped again from the page cache. For a process that has loaded libraries, whose\n"
     "relocation tables the loader read, only for its children to use."},
    {"fill_free_memory", fill_free_memory, METH_NOARGS,
     "fill_free_memory() -> bytes, for good. Takes the free places between the objects of this process, so that what\n"
     "its forks allocate lies together on pages of their own and not on a copied page each."},
    {"take_heap_image", take_heap_image, METH_NOARGS,
     "take_heap_image() -> bytes, 0: not possible here. From here on the heap of this process and of its forks is a\n"
     "private mapping of what it is now. Of a process of one thread, once."},
    {"give_back_heap", give_back_heap, METH_NOARGS,
     "give_back_heap() -> bytes. Copies of the image's pages that equal it are the image again."},
    {NULL, NULL, 0, NULL},
};

int mpb_add_memory(PyObject *module) { return PyModule_AddFunctions(module, functions); }
