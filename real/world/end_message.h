/* What a rank says when the run ends because of others. */
#pragma once
#include "rank_status.h"

enum { END_MESSAGE_BYTES = 1024 };

/* "rank 1 (pid 123) died while it was in 0F3; this rank waits for 1RECV_F0 from rank 1" into message
 * [END_MESSAGE_BYTES].
 */
void end_message_of_death(const RankStatus *dead, const RankStatus *own, char *message);
/* "stops: rank 1 failed: …; this rank was in 0F3" */
void end_message_of_failure(const RankStatus *failed, const RankStatus *own, char *message);
/* "stuck: every rank of this machine waits …"; with the rank that the others wait for, `cause`: "stuck: rank 1 (pid
 * 123) is stopped while it was in 0F3 …" or "… comes to no kernel's end while it was in 0F3 …". */
void end_message_of_stall(double idle_s, const RankStatus *cause, gboolean is_stopped, const RankStatus *own,
                          char *message);
/* "ended by SIGTERM while it was in 0F3" */
void end_message_of_signal(const char *name, const RankStatus *own, char *message);

/* "stepreal: rank R: message" on standard error in one write, so that the lines of several ranks do not mix. `rank` <
 * 0: not known yet. */
void end_message_print(int rank, const char *message);
