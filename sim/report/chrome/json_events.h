/* A JSON object with one long array in it, read without ever holding the array: a tree of json-glib takes about fifteen
 * times the file's size, so the array is parsed in batches of its elements and what is around it as an object of its
 * own. */
#pragma once
#include <json-glib/json-glib.h>

/* Some elements of the array, all of them objects, in file order; lines[i] is the line element i begins in. */
typedef void (*JsonEventsVisit)(JsonArray *elements, const guint *lines, gpointer data);

enum { JSON_EVENTS_MOST_MIB = 512 };

/* Hand the elements of the root's member `key` to `visit` and return the parser of the root with that array empty.
 * INPUT with file:line for whatever is not one JSON object, for elements that are not objects, for more than
 * JSON_EVENTS_MOST_MIB MiB; with the file's name when it cannot be read. Elements before a mistake may have been
 * visited. */
JsonParser *json_events_read(const char *file, const char *key, JsonEventsVisit visit, gpointer data, GError **error);
