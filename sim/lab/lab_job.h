/* A question to the engine: a verb of this program with options, run as a process, one of a few at a time. */
#pragma once
#include <gio/gio.h>

/* Exit status of what was ended because it took too long, as timeout(1) has it. */
enum { LAB_LATE = 124 };

/* What a process printed and wrote. All borrowed. */
typedef struct {
  int status;                     /* exit status; 128 + signal if it was ended by one */
  GBytes *out, *errors, *written; /* written: NULL unless it wrote the file that it was asked for */
} LabAnswer;
/* Called once, unless the job is cancelled before. */
typedef void (*LabAnswered)(const LabAnswer *answer, gpointer data);

typedef struct LabJobs LabJobs;

/* `folder` is private to the lab: questions' files go there, and processes run in it, see nothing outside it but what
 * is shipped or installed (data_path.h), and end after limit_s. */
LabJobs *lab_jobs_new(const char *folder, guint limit_s);
/* Ends all; who waits is answered. */
void lab_jobs_free(LabJobs *jobs);

typedef struct LabJob LabJob;

/* Put a question in its queue. `arguments`, NULL-terminated, begin with the verb; taken over. `files`: paths that were
 * written for it and go when it ends; taken over. `option`, `suffix`: of a file that it writes ("trace", "npz"), or
 * NULL. The later of two questions waits, but any that is asked `aside`, to fill in what nobody waits for, waits for
 * all others. NULL: too many wait already. */
LabJob *lab_job_ask(LabJobs *jobs, GStrv arguments, GStrv files, const char *option, const char *suffix, gboolean aside,
                    LabAnswered answered, gpointer data);
/* The argument list that this process of a lab is told, NULL-terminated; of its own program alone if the lab needs it
 * no more. Waits until it is known. Owned by the caller. */
GStrv lab_job_arguments(char **argv);
/* Nobody wants the answer any more. */
void lab_job_cancel(LabJob *job);
