/* Reads a JSON object that contains one long array without ever holding the array: a json-glib tree takes about
 * fifteen times the file's size, so the array is parsed in batches of elements, and the rest as an object of its
 * own. */
#pragma once
#include <json-glib/json-glib.h>

/* Some elements of the array, all of them objects, in file order; lines[i] is the line on which element i starts. */
typedef void (*JsonEventsVisit)(JsonArray *elements, const guint *lines, gpointer data);

enum { JSON_EVENTS_MOST_MIB = 512 };

/* Pass the elements of the root's member `key` to `visit` and return a parser that holds the root with that array
 * empty. INPUT with file:line for anything that is not one JSON object, for elements that are not objects, for more
 * than JSON_EVENTS_MOST_MIB MiB; with the file's name if it cannot be read. Elements before a mistake may have been
 * visited. */
JsonParser *json_events_read(const char *file, const char *key, JsonEventsVisit visit, gpointer data, GError **error);
