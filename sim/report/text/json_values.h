/* Members of JSON objects built with json-glib, written the same way by all verbs: numbers read back as the same
 * doubles, non-finite ones are null. */
#pragma once
#include "interval.h"
#include "metrics.h"
#include <glib.h>
#include <json-glib/json-glib.h>

void json_add_number(JsonBuilder *builder, const char *key, double value);
void json_add_count(JsonBuilder *builder, const char *key, gint64 value);
void json_add_flag(JsonBuilder *builder, const char *key, gboolean value);
void json_add_text(JsonBuilder *builder, const char *key, const char *value); /* NULL: null */
void json_begin_object(JsonBuilder *builder, const char *key);                /* NULL: an element of a list */
void json_begin_list(JsonBuilder *builder, const char *key);
void json_add_texts(JsonBuilder *builder, const char *key, const GPtrArray *texts);
/* {compute, recompute, …}: seconds of each BreakdownKind, [N_BREAKDOWN]. */
void json_add_breakdown(JsonBuilder *builder, const char *key, const double *breakdown_s);
/* The member "interval" of an open object; none if it is unknown. */
void json_add_interval(JsonBuilder *builder, const Interval *interval);
/* Takes over the builder, whose root must be complete; returns its text and a newline, owned by the caller. */
char *json_finish(JsonBuilder *builder);

/* JSON written by hand, for files too large to build as a tree first. */

/* Append `text` as a JSON string, quotes included. NULL becomes "". Bytes that are not UTF-8 become U+FFFD. */
void json_append_string(GString *out, const char *text);
/* Append a number with ten significant digits and a decimal point in any locale; non-finite: null. */
void json_append_number(GString *out, double value);
