/* Which configurations a sweep is asked to try: the space, a sample of it, and what they are judged by. For the verb,
 * and for the library. */
#pragma once
#include "options.h"
#include "sweep_setup.h"

typedef struct {
  Space *space;                                   /* owned; the setup takes it over */
  char *space_file, *price, *prune, *margin_text; /* NULL: not given */
  const char *verb; /* whose lines on standard error tell how a plan was read; NULL: nothing is said */
  gint jobs;        /* or OPTION_NOT_GIVEN, as the next */
  gint64 limit, sample, sample_seed;
  /* parsed */
  double dollars_per_hour; /* < 0: the clusters' own */
  gboolean prunes;
  MemoryMargin margin;
} SweepRequest;

void sweep_request_init(SweepRequest *request);
void sweep_request_clear(SweepRequest *request);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(SweepRequest, sweep_request_clear)
/* Its options, and those of the space's axes. */
void sweep_request_add(SweepRequest *request, Parser *parser);
/* INPUT for a value that is wrong by itself, and for a seed without a sample, unless a stored sweep may have one. */
gboolean sweep_request_check(SweepRequest *request, gboolean resumes, GError **error);
/* The space that options and --space describe, with its files read. */
gboolean sweep_request_setup(SweepRequest *request, SweepSetup *setup, GError **error);
