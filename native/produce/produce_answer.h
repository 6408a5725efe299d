/* Writes the response to a Produce request that was served natively, in the request's version. */
#ifndef MPB_PRODUCE_ANSWER_H
#define MPB_PRODUCE_ANSWER_H

#include "produce/produce_request.h"

/* The bytes of the whole response frame, with its length in front: known before anything is appended. */
uint32_t mpb_produce_answer_bytes(const struct mpb_produce_request *request);

/* Writes it into `frame`, which has room for those. Returns its bytes, the same number. */
uint32_t mpb_produce_answer(const struct mpb_produce_request *request, int32_t correlation_id, uint8_t *frame);

#endif
