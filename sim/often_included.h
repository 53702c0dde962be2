/* Precompiled where a tree is built once from nothing (-Db_pch=true): what nearly every file includes itself. No guard:
 * it is compiled alone, and what it includes has one. */
#include <glib.h>
#include <math.h>
#include <string.h>
