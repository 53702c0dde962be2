/*     ask → waiting, aside │ run, at most one per processor │ answered
 *                    └────── cancel: forgotten, or ended with its process
 *
 * Those asked aside leave a processor to the others.
 *
 * To start and link a program takes longer than most questions. So a spare process has done that when a question comes,
 * and reads its arguments, each ended by a NUL, from standard input; the next is started when an answer has come. */
#include "lab_job.h"

#include <glib/gstdio.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* More than a page with all its maps open asks at once, many times over. */
enum { MOST_WAITING = 4096 };

struct LabJobs {
  char *folder;
  guint limit_s, n_most;
  guint64 n_asked;
  GQueue waiting, aside; /* of LabJob */
  GHashTable *running;   /* of LabJob */
  GSubprocess *spare;    /* NULL: none */
  guint next_spare;      /* source that starts it; 0: none */
};

struct LabJob {
  LabJobs *jobs;
  GStrv arguments, files;
  char *written; /* option=file that it writes; NULL: none */
  LabAnswered answered;
  gpointer data;
  gboolean aside;
  GSubprocess *process; /* NULL: it waits, or could not be started */
  GError *failure;      /* why not; NULL: it was */
  guint limit;          /* source that ends it; 0: none */
  gboolean is_cancelled, is_late;
  gboolean is_of_spare; /* its process was one */
};

static void job_free(LabJob *job) {
  for (GStrv file = job->files; file != NULL && *file != NULL; file++)
    g_remove(*file); /* files, then the folders that were made for them */
  if (job->written != NULL)
    g_unlink(strchr(job->written, '=') + 1);
  if (job->limit != 0)
    g_source_remove(job->limit);
  g_clear_object(&job->process);
  g_clear_error(&job->failure);
  g_strfreev(job->arguments);
  g_strfreev(job->files);
  g_free(job->written);
  g_free(job);
}

/* However the lab ends, its processes end with it. */
static void end_with_lab(gpointer data) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static GSubprocess *process_new(const LabJobs *jobs, GError **error) {
  /* even if another has been installed meanwhile */
  g_autofree char *program = g_strdup_printf("/proc/%d/exe", (int)getpid());
  const char *const argv[] = {program, NULL};
  g_autoptr(GSubprocessLauncher) launcher = g_subprocess_launcher_new(
      G_SUBPROCESS_FLAGS_STDIN_PIPE | G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_PIPE);
  g_subprocess_launcher_set_cwd(launcher, jobs->folder);
  g_subprocess_launcher_set_child_setup(launcher, end_with_lab, NULL, NULL);
  g_subprocess_launcher_setenv(launcher, "STEPSIM_CONFINED", jobs->folder, TRUE);
  return g_subprocess_launcher_spawnv(launcher, argv, error);
}

GStrv lab_job_arguments(char **argv) {
  g_autoptr(GPtrArray) arguments = g_ptr_array_new_with_free_func(g_free);
  char *text = NULL;
  size_t room = 0;
  g_ptr_array_add(arguments, g_strdup(argv[0]));
  while (getdelim(&text, &room, '\0', stdin) > 0)
    g_ptr_array_add(arguments, g_strdup(text));
  free(text);
  g_ptr_array_add(arguments, NULL);
  return (GStrv)g_ptr_array_free(g_steal_pointer(&arguments), FALSE);
}

static gboolean start_spare(gpointer data) {
  LabJobs *jobs = data;
  jobs->next_spare = 0;
  if (jobs->spare != NULL && g_subprocess_get_identifier(jobs->spare) == NULL) /* something has ended it */
    g_clear_object(&jobs->spare);
  if (jobs->spare == NULL)
    jobs->spare = process_new(jobs, NULL); /* or else each question starts its own, which says why it cannot */
  return G_SOURCE_REMOVE;
}

static void want_spare(LabJobs *jobs) {
  if (jobs->next_spare == 0)
    jobs->next_spare = g_idle_add(start_spare, jobs);
}

LabJobs *lab_jobs_new(const char *folder, guint limit_s) {
  LabJobs *jobs = g_new0(LabJobs, 1);
  jobs->folder = g_strdup(folder);
  jobs->limit_s = limit_s;
  jobs->n_most = MAX(2, g_get_num_processors());
  jobs->running = g_hash_table_new(NULL, NULL);
  g_queue_init(&jobs->waiting);
  g_queue_init(&jobs->aside);
  want_spare(jobs);
  return jobs;
}

static LabJob *next_waiting(LabJobs *jobs) {
  LabJob *job = g_queue_pop_head(&jobs->waiting);
  return job != NULL ? job : g_queue_pop_head(&jobs->aside);
}

static void answer_ended(LabJob *job) {
  g_autoptr(GBytes) none = g_bytes_new_static("", 0);
  job->answered(&(LabAnswer){128 + SIGTERM, none, none, NULL}, job->data);
  job_free(job);
}

/* Whoever waits is answered, and may cancel until then. */
void lab_jobs_free(LabJobs *jobs) {
  GHashTableIter running;
  gpointer key;
  jobs->n_most = 0;
  g_hash_table_iter_init(&running, jobs->running);
  while (g_hash_table_iter_next(&running, &key, NULL)) {
    LabJob *job = key;
    if (job->process != NULL)
      g_subprocess_force_exit(job->process);
  }
  while (g_hash_table_size(jobs->running) > 0) /* their ends arrive as events */
    g_main_context_iteration(NULL, TRUE);
  for (LabJob *job; (job = next_waiting(jobs)) != NULL;)
    answer_ended(job);
  if (jobs->next_spare != 0)
    g_source_remove(jobs->next_spare);
  if (jobs->spare != NULL) {
    g_subprocess_force_exit(jobs->spare);
    g_subprocess_wait(jobs->spare, NULL, NULL);
    g_clear_object(&jobs->spare);
  }
  g_hash_table_unref(jobs->running);
  g_free(jobs->folder);
  g_free(jobs);
}

static void start_some(LabJobs *jobs);
static void start(LabJob *job);

static GBytes *read_written(const LabJob *job) {
  char *bytes;
  gsize length;
  return job->written != NULL && g_file_get_contents(strchr(job->written, '=') + 1, &bytes, &length, NULL)
             ? g_bytes_new_take(bytes, length)
             : NULL;
}

/* Something had ended the spare, or did so just then. */
static gboolean may_ask_again(const LabJob *job, gboolean is_told) {
  return job->is_of_spare && job->jobs->n_most > 0 && !job->is_cancelled && !job->is_late &&
         (!is_told || g_subprocess_get_if_signaled(job->process));
}

static int status_of(const LabJob *job, gboolean is_told) {
  if (job->is_late)
    return LAB_LATE;
  if (!is_told)
    return 2;
  return g_subprocess_get_if_exited(job->process) ? g_subprocess_get_exit_status(job->process)
                                                  : 128 + g_subprocess_get_term_sig(job->process);
}

static void ended(GObject *process, GAsyncResult *result, gpointer data) {
  LabJob *job = data;
  LabJobs *jobs = job->jobs;
  g_autoptr(GBytes) out = NULL, errors = NULL;
  g_autoptr(GError) error = NULL;
  const gboolean is_told = g_subprocess_communicate_finish(G_SUBPROCESS(process), result, &out, &errors, &error);
  g_hash_table_remove(jobs->running, job);
  if (may_ask_again(job, is_told)) {
    g_clear_handle_id(&job->limit, g_source_remove);
    g_clear_object(&job->process);
    start(job);
    return;
  }
  if (!job->is_cancelled) {
    g_autoptr(GBytes) written = read_written(job);
    const int status = status_of(job, is_told);
    const char *why = !is_told ? error->message : status > 128 ? g_strsignal(status - 128) : "";
    if (!is_told || g_bytes_get_size(errors) == 0) {
      g_clear_pointer(&errors, g_bytes_unref);
      errors = g_bytes_new(why, strlen(why));
    }
    g_autoptr(GBytes) printed = is_told ? g_bytes_ref(out) : g_bytes_new_static("", 0);
    job->answered(&(LabAnswer){status, printed, errors, written}, job->data);
  }
  job_free(job);
  start_some(jobs);
  want_spare(jobs);
}

static gboolean end_late(gpointer data) {
  LabJob *job = data;
  job->limit = 0;
  job->is_late = TRUE;
  g_subprocess_force_exit(job->process);
  return G_SOURCE_REMOVE;
}

/* No process could be made. Whoever asked has the job only once this is over. */
static gboolean fail_later(gpointer data) {
  LabJob *job = data;
  LabJobs *jobs = job->jobs;
  g_autoptr(GBytes) none = g_bytes_new_static("", 0);
  g_autoptr(GBytes) why = g_bytes_new(job->failure->message, strlen(job->failure->message));
  job->limit = 0;
  g_hash_table_remove(jobs->running, job);
  if (!job->is_cancelled)
    job->answered(&(LabAnswer){2, none, why, NULL}, job->data);
  job_free(job);
  start_some(jobs);
  return G_SOURCE_REMOVE;
}

/* What the process is told. */
static GBytes *arguments_of(const LabJob *job) {
  GByteArray *told = g_byte_array_new();
  for (GStrv argument = job->arguments; *argument != NULL; argument++)
    g_byte_array_append(told, (const guint8 *)*argument, (guint)strlen(*argument) + 1);
  if (job->written != NULL)
    g_byte_array_append(told, (const guint8 *)job->written, (guint)strlen(job->written) + 1);
  return g_byte_array_free_to_bytes(told);
}

/* In the spare, unless that has ended or been tried, or in a new process. */
static void start(LabJob *job) {
  LabJobs *jobs = job->jobs;
  g_autoptr(GError) error = NULL;
  job->is_of_spare = !job->is_of_spare && jobs->spare != NULL && g_subprocess_get_identifier(jobs->spare) != NULL;
  job->process = job->is_of_spare ? g_steal_pointer(&jobs->spare) : process_new(jobs, &error);
  g_hash_table_add(jobs->running, job);
  if (job->process == NULL) {
    job->failure = g_steal_pointer(&error);
    job->limit = g_idle_add(fail_later, job);
    return;
  }
  g_autoptr(GBytes) told = arguments_of(job);
  job->limit = g_timeout_add_seconds(jobs->limit_s, end_late, job);
  g_subprocess_communicate_async(job->process, told, NULL, ended, job);
}

static void start_some(LabJobs *jobs) {
  while (g_hash_table_size(jobs->running) < jobs->n_most) {
    LabJob *job = g_queue_pop_head(&jobs->waiting);
    if (job == NULL && g_hash_table_size(jobs->running) + 1 < jobs->n_most)
      job = g_queue_pop_head(&jobs->aside);
    if (job == NULL)
      return;
    start(job);
  }
}

LabJob *lab_job_ask(LabJobs *jobs, GStrv arguments, GStrv files, const char *option, const char *suffix, gboolean aside,
                    LabAnswered answered, gpointer data) {
  LabJob *job = g_new0(LabJob, 1);
  *job = (LabJob){.jobs = jobs, .arguments = arguments, .files = files, .answered = answered, .data = data};
  job->aside = aside;
  if (g_queue_get_length(&jobs->waiting) + g_queue_get_length(&jobs->aside) >= MOST_WAITING) {
    job_free(job);
    return NULL;
  }
  if (option != NULL)
    job->written = g_strdup_printf("--%s=%s/%" G_GUINT64_FORMAT ".%s", option, jobs->folder, jobs->n_asked++, suffix);
  g_queue_push_tail(aside ? &jobs->aside : &jobs->waiting, job);
  start_some(jobs);
  return job;
}

void lab_job_cancel(LabJob *job) {
  job->is_cancelled = TRUE;
  if (job->process != NULL)
    g_subprocess_force_exit(job->process);
  if (job->process != NULL || job->failure != NULL)
    return;
  g_queue_remove(job->aside ? &job->jobs->aside : &job->jobs->waiting, job);
  job_free(job);
}
