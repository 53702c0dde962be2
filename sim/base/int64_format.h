/* Shorthand for gint64 in format strings: "%" INT64. */
#pragma once
#include <glib.h>

#define INT64 G_GINT64_FORMAT
