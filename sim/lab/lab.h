/* `stepsim lab`: one page on the loopback, and the engine behind it. The page is in page/; the server knows nothing of
 * plans: it runs verbs of this program, each a process of its own with the options that the page shows, and hands back
 * what they print. So a page and a command line that say the same get the same bytes; a question that is no longer
 * wanted is ended with its process; and a fault ends the question, not the lab. */
#pragma once
#include "options.h"

typedef struct {
  int port;                    /* 0: any free one */
  gboolean opens_browser;      /* once it listens */
  const PlanOptions *at_first; /* what was typed: where the page starts */
} LabOptions;

/* Serve until SIGINT or SIGTERM. INPUT: the port is taken, or a file that was named cannot be read. */
gboolean lab_serve(const LabOptions *options, GError **error);
