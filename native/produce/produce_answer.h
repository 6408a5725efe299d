/* Writes the response to a Produce request that was served natively, in the request's version. */
#ifndef MPB_PRODUCE_ANSWER_H
#define MPB_PRODUCE_ANSWER_H

#include "produce/produce_request.h"

/* The whole response frame with its length in front. `frame` NULL: nothing is written. Returns the frame's bytes. */
uint32_t mpb_produce_answer(const struct mpb_produce_request *request, int32_t correlation_id, uint8_t *frame);

#endif
