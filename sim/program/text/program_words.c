#include "program_words.h"

const char *const phase_words[N_PHASES + 1] = {"F", "I", "W", "B", "OPTIMIZER", NULL};
const char *const piece_words[N_PIECES + 1] = {"embedding", "dense_layer", "layer", "head", NULL};
const char *const op_kind_words[N_OP_KINDS + 1] = {"compute", "send", "recv", "collective", "host", NULL};
const char *const axis_words[N_AXIS_BITS + 1] = {"tp",       "cp",         "ep",           "dp", "pp",
                                                 "dp_shard", "dp_replica", "expert_shard", NULL};

const char *const route_words[N_ROUTE_BITS + 1] = {"link_in", "link_out", "nvme_read", "nvme_write", NULL};

OpKind program_words_usual_kind(Stream stream) {
  static const OpKind kinds[N_STREAMS] = {
      [STREAM_COMPUTE] = OP_COMPUTE,    [STREAM_TP] = OP_COLLECTIVE,    [STREAM_CP] = OP_COLLECTIVE,
      [STREAM_EP] = OP_COLLECTIVE,      [STREAM_SEND_F] = OP_SEND,      [STREAM_RECV_F] = OP_RECV,
      [STREAM_SEND_B] = OP_SEND,        [STREAM_RECV_B] = OP_RECV,      [STREAM_DP] = OP_COLLECTIVE,
      [STREAM_SEND_F_BACK] = OP_SEND,   [STREAM_RECV_F_BACK] = OP_RECV, [STREAM_SEND_B_BACK] = OP_SEND,
      [STREAM_RECV_B_BACK] = OP_RECV,   [STREAM_COPY] = OP_COLLECTIVE,  [STREAM_HOST] = OP_HOST,
      [STREAM_COPY_OUT] = OP_COLLECTIVE};
  return kinds[stream];
}
