/* A rank waits for something or is in an op; every sentence has a place for that:
 *
 *   rank 1 (pid 123) died  [while it was in 0F3 | (it waits for …)]  [; this rank was in 1F2 | ; this rank waits for …]
 */
#include "end_message.h"

#include "launcher.h"

#include <string.h>
#include <unistd.h>

static void append_own(const RankStatus *own, char *message) {
  if (own->text[0] == '\0')
    return;
  g_strlcat(message, own->activity == RANK_WAITS ? "; this rank " : "; this rank was in ", END_MESSAGE_BYTES);
  g_strlcat(message, own->text, END_MESSAGE_BYTES);
}

static void append_other(const RankStatus *other, char *message) {
  if (other->text[0] == '\0')
    return;
  const gboolean waits = other->activity == RANK_WAITS;
  g_strlcat(message, waits ? " (it " : " while it was in ", END_MESSAGE_BYTES);
  g_strlcat(message, other->text, END_MESSAGE_BYTES);
  g_strlcat(message, waits ? ")" : "", END_MESSAGE_BYTES);
}

void end_message_of_death(const RankStatus *dead, const RankStatus *own, char *message) {
  g_snprintf(message, END_MESSAGE_BYTES, "rank %d (pid %" G_GINT64_FORMAT ") died", dead->rank, dead->pid);
  append_other(dead, message);
  append_own(own, message);
}

void end_message_of_failure(const RankStatus *failed, const RankStatus *own, char *message) {
  g_snprintf(message, END_MESSAGE_BYTES, "stops: rank %d failed: %s", failed->rank, failed->failure);
  append_own(own, message);
}

void end_message_of_stall(double idle_s, const RankStatus *cause, gboolean is_stopped, const RankStatus *own,
                          char *message) {
  g_strlcpy(message, "stuck: every rank of this machine waits", END_MESSAGE_BYTES);
  if (cause != NULL) {
    g_snprintf(message, END_MESSAGE_BYTES, "stuck: rank %d (pid %" G_GINT64_FORMAT ") %s", cause->rank, cause->pid,
               is_stopped ? "is stopped" : "comes to no kernel's end");
    append_other(cause, message);
  }
  const gsize n = strlen(message);
  g_snprintf(message + n, END_MESSAGE_BYTES - n, ": nothing has moved for %.1f s", idle_s);
  if (cause == NULL || cause->rank != own->rank)
    append_own(own, message);
}

void end_message_of_signal(const char *name, const RankStatus *own, char *message) {
  g_snprintf(message, END_MESSAGE_BYTES, "ended by %s", name);
  append_other(own, message);
}

void end_message_print(int rank, const char *message) {
  char name[32], text[END_MESSAGE_BYTES + 64];
  g_snprintf(name, sizeof name, "%d", rank);
  g_snprintf(text, sizeof text - 1, "stepreal: rank %s: %s", rank < 0 ? launcher_rank() /* before MPI is up */ : name,
             message);
  gsize n = strlen(text);
  text[n] = '\n';
  if (write(STDERR_FILENO, text, n + 1) < 0)
    return; /* nobody listens */
}
