/* Writes the response to a Fetch request that is served natively, in the request's version. */
#ifndef MPB_FETCH_ANSWER_H
#define MPB_FETCH_ANSWER_H

#include "fetch/fetch_request.h"

/* The whole response frame with its length in front, of the parts that are told; records are read into it. `frame` NULL:
 * nothing is written or read. Returns the frame's bytes; 0: a log changed under its plan. */
uint32_t mpb_fetch_answer(const struct mpb_fetch_request *request, int32_t correlation_id, struct mpb_log *log,
                          uint8_t *frame);
/* The session's id, into an answer that is written. */
void mpb_fetch_answer_session(const struct mpb_fetch_request *request, uint32_t session_id, uint8_t *frame);

#endif
