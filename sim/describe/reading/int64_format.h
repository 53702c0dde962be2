/* Of a gint64, in the format of what is printed. */
#pragma once
#include <glib.h>

#define INT64 G_GINT64_FORMAT
