/* Ranks that try what the first one hands out. They read the same files as it, and say so before anything runs when
 * theirs differ. */
#include "sweep_run.h"

#include <string.h>

#include "error.h"
#include "sweep_talk.h"

enum { FIRST_RANK = 0, RANGES_PER_THREAD = 2 };
static const gint64 wait_us = 500;

/* --- before --- */

/* The first message of the others; of those that are not ready, the lowest rank's is the error. */
static gboolean hear_ready(Ranks *ranks, GError **error) {
  g_autofree char **problems = g_new0(char *, ranks_count(ranks) + 1);
  g_autoptr(GByteArray) bytes = g_byte_array_new();
  gboolean ok = TRUE;
  int from, tag, first = 0;
  for (int n = 1; ok && n < ranks_count(ranks); n++) {
    ok = ranks_wait(ranks, &from, &tag, bytes, error);
    if (ok && bytes->len > 0)
      problems[from] = g_strndup((const char *)bytes->data, bytes->len);
  }
  for (int rank = ranks_count(ranks) - 1; rank > 0; rank--)
    first = problems[rank] != NULL ? rank : first;
  if (ok && first > 0)
    ok = fail_input(error, "rank %d: %s", first, problems[first]);
  for (int rank = 0; rank < ranks_count(ranks); rank++)
    g_free(problems[rank]);
  return ok;
}

static gboolean tell_all(Ranks *ranks, SweepTag tag, const GByteArray *bytes, GError **error) {
  for (int rank = 1; rank < ranks_count(ranks); rank++)
    if (!ranks_send(ranks, rank, tag, bytes->data, bytes->len, error))
      return FALSE;
  return TRUE;
}

gboolean sweep_share(Ranks *ranks, const GArray *facts, const GArray *done, GError **error) {
  g_autoptr(GByteArray) setup = g_byte_array_new(), go = g_byte_array_new();
  if (facts != NULL)
    facts_pack(facts, setup);
  if (!tell_all(ranks, TAG_SETUP, setup, error))
    return FALSE;
  const gboolean ready = facts != NULL && hear_ready(ranks, error);
  if (ready) {
    const gint64 n = done->len;
    g_byte_array_append(go, (const guint8 *)&n, sizeof n);
    g_byte_array_append(go, (const guint8 *)done->data, (guint)(done->len * sizeof n));
  }
  return facts == NULL || (tell_all(ranks, TAG_GO, go, ready ? error : NULL) && ready);
}

/* Another rank's setup, from the first one's facts, and what is done already. FALSE with *error when it cannot be made
 * here; with none when there is nothing to do. */
static gboolean receive_setup(Ranks *ranks, SweepSetup *setup, GArray *done, GError **error) {
  g_autoptr(GByteArray) bytes = g_byte_array_new();
  int from, tag;
  if (!ranks_wait(ranks, &from, &tag, bytes, error) || bytes->len == 0)
    return FALSE;
  g_autoptr(GArray) theirs = facts_unpack(bytes), mine = NULL;
  g_autoptr(GError) problem = NULL;
  if (sweep_setup_from(setup, theirs, FALSE, &problem))
    mine = sweep_facts(setup, &problem);
  if (mine != NULL)
    facts_check_equal(mine, theirs, &problem);
  const char *text = problem != NULL ? problem->message : "";
  if (!ranks_send(ranks, FIRST_RANK, TAG_READY, text, strlen(text), error) ||
      !ranks_wait(ranks, &from, &tag, bytes, error))
    return FALSE;
  const gboolean go = bytes->len > 0;
  if (problem != NULL)
    g_propagate_error(error, g_steal_pointer(&problem));
  else if (!go)
    fail_input(error, "another rank cannot sweep");
  if (go)
    g_array_append_vals(done, bytes->data + sizeof(gint64), bytes->len / sizeof(gint64) - 1);
  return go;
}

/* --- trying --- */

typedef struct {
  Ranks *ranks;
  const SweepTable *table;
  SweepPool *pool;
  int n_asked;    /* ranges wanted and not answered */
  gboolean ended; /* there are no more */
  gboolean heard; /* the first rank's last word */
} Server;

static gboolean send_batch(Server *server, SweepBatch *batch, GError **error) {
  g_autoptr(GByteArray) bytes = g_byte_array_new();
  for (int i = 0; i < batch->n_rows; i++)
    sweep_row_pack(&batch->rows[i], server->table, bytes);
  sweep_batch_free(batch, server->table);
  return bytes->len == 0 || ranks_send(server->ranks, FIRST_RANK, TAG_ROWS, bytes->data, bytes->len, error);
}

static gboolean want_more(Server *server, int n_threads, GError **error) {
  while (!server->ended && sweep_pool_n_under_way(server->pool) + server->n_asked < RANGES_PER_THREAD * n_threads) {
    if (!ranks_send(server->ranks, FIRST_RANK, TAG_WANT, "", 0, error))
      return FALSE;
    server->n_asked++;
  }
  return TRUE;
}

static void heed(Server *server, int tag, const GByteArray *bytes) {
  SweepRange range = {0};
  if (tag == TAG_RANGE && bytes->len == sizeof range)
    memcpy(&range, bytes->data, sizeof range);
  server->n_asked -= tag == TAG_RANGE;
  if (range.n > 0)
    sweep_pool_push(server->pool, range);
  else
    server->ended = TRUE;
  if (tag == TAG_STOP) {
    sweep_pool_stop(server->pool);
    server->heard = TRUE;
  }
}

static gboolean turn(Server *server, int n_threads, GByteArray *bytes, GError **error) {
  int from, tag = 0;
  if (!want_more(server, n_threads, error))
    return FALSE;
  while (tag >= 0) {
    if (!ranks_poll(server->ranks, &from, &tag, bytes, error))
      return FALSE;
    if (tag >= 0)
      heed(server, tag, bytes);
  }
  SweepBatch *batch = sweep_pool_pop(server->pool, wait_us);
  return batch == NULL || send_batch(server, batch, error);
}

gboolean sweep_serve(Ranks *ranks, const SweepTable *table, int n_threads, GError **error) {
  g_auto(SweepSetup) setup = {0};
  g_autoptr(GError) problem = NULL;
  g_autoptr(GArray) done = g_array_new(FALSE, FALSE, sizeof(gint64));
  if (!receive_setup(ranks, &setup, done, &problem)) {
    if (problem == NULL)
      return TRUE;
    g_propagate_error(error, g_steal_pointer(&problem));
    return FALSE;
  }
  n_threads = sweep_threads(ranks, n_threads);
  g_autoptr(GByteArray) bytes = g_byte_array_new();
  SweepProblem what = sweep_problem(&setup, table);
  what.n_workers = n_threads * ranks_on_this_machine(ranks);
  const SweepPositions positions = sweep_positions(&setup, done);
  g_autoptr(SweepPool) pool = sweep_pool_new(&what, &positions, n_threads);
  Server server = {.ranks = ranks, .table = table, .pool = pool};
  while (!server.ended || server.n_asked > 0 || sweep_pool_n_under_way(pool) > 0)
    if (!turn(&server, n_threads, bytes, error))
      return FALSE;
  int from, tag;
  return ranks_send(ranks, FIRST_RANK, TAG_BYE, "", 0, error) &&
         (server.heard || ranks_wait(ranks, &from, &tag, bytes, error)); /* nothing is left under way */
}
