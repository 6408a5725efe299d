/* Names of the waits the C core enters by itself: values of mpb_process.wait. mpbroker/shm/waits.py has a sentence for
 * each and numbers the waits of Python code from MPB_WAIT_PYTHON_FIRST. */
#ifndef MPB_WAITS_H
#define MPB_WAITS_H

enum mpb_wait_id {
    MPB_WAIT_NONE = 0,            /* working */
    MPB_WAIT_REQUEST = 1,         /* handler: for a request */
    MPB_WAIT_CONTROL_REQUEST = 2, /* reserved handler: for a request of the control plane */
    MPB_WAIT_COMMAND = 3,         /* controller: for a command of a handler */
    MPB_WAIT_SERVICE = 4,         /* other single processes: to be rung */
    MPB_WAIT_HANDED = 5,          /* coordinator: for a request that is handed over to it */
    MPB_WAIT_PYTHON_FIRST = 16,
    MPB_WAIT_EPOLL = 16 /* processor: for a socket, an answer or a new connection; numbered by Python code */
};

#endif
