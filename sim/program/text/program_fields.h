/* Private to the Program's text form: one line as words and `key=value` fields. Every failure is INPUT and starts
 * with name:line. */
#pragma once
#include "program.h"

/* Words that writer and reader share, NULL-terminated, in enum order. */
extern const char *const phase_words[N_PHASES + 1];
extern const char *const piece_words[N_PIECES + 1];
extern const char *const op_kind_words[N_OP_KINDS + 1];
enum { N_AXIS_BITS = N_AXES + 4 };
extern const char *const axis_words[N_AXIS_BITS + 1];   /* by bit of an AxisSet: the axes, dp_shard, dp_replica,
                                                           expert_shard,   dp_island */
extern const char *const route_words[N_ROUTE_BITS + 1]; /* by bit of a CopyRoute */

/* The kind of an op on `stream` unless its line says `kind=`. */
OpKind usual_op_kind(Stream stream);

typedef struct {
  const char *name; /* of the text, for messages */
  int number;       /* line number from 1 */
  GPtrArray *words; /* borrowed from the text, NULL-terminated */
} Line;

/* Quotes what was found, shortened so that a message stays short. */
#define FOUND "\"%.40s\""

gboolean line_fail(const Line *line, GError **error, const char *format, ...) G_GNUC_PRINTF(3, 4);
/* "<what> "found": expected one of words; did you mean …" */
gboolean line_fail_word(const Line *line, const char *what, const char *found, const char *const *words,
                        GError **error);

guint line_n_words(const Line *line);
const char *line_word(const Line *line, guint i); /* "" past the last */
/* Index of `text` in the NULL-terminated `words`, or −1 with the error set. */
int line_word_of(const Line *line, const char *what, const char *text, const char *const *words, GError **error);
/* `text` must be the number `expected`. */
gboolean line_check_number(const Line *line, const char *text, guint expected, GError **error);

/* A 32-bit integer ≥ least at `text`; *end is set to the first character after it. */
gboolean field_parse_int(const char *text, const char **end, gint32 least, gint32 *value);

/* Readers of one value into `target`, whose type is noted after each. */
typedef gboolean (*ValueReader)(const Line *line, const char *key, const char *value, gpointer target, GError **error);
gboolean field_count(const Line *, const char *key, const char *value, gpointer target, GError **);  /* gint32 ≥ 0 */
gboolean field_int(const Line *, const char *key, const char *value, gpointer target, GError **);    /* gint32 */
gboolean field_byte(const Line *, const char *key, const char *value, gpointer target, GError **);   /* guint8 */
gboolean field_number(const Line *, const char *key, const char *value, gpointer target, GError **); /* double ≥ 0 */
gboolean field_piece(const Line *, const char *key, const char *value, gpointer target, GError **);  /* gint32 */
gboolean field_others(const Line *, const char *key, const char *value, gpointer target, GError **); /* OtherLayers */
gboolean field_kind(const Line *, const char *key, const char *value, gpointer target, GError **);   /* guint8 */
gboolean field_items(const Line *, const char *key, const char *value, gpointer target, GError **);  /* Work */
gboolean field_axes(const Line *, const char *key, const char *value, gpointer target, GError **);   /* AxisSet */
gboolean field_route(const Line *, const char *key, const char *value, gpointer target, GError **);  /* guint8 */
gboolean field_charge(const Line *, const char *key, const char *value, gpointer target, GError **); /* guint8 */
gboolean field_pp(const Line *, const char *key, const char *value, gpointer target, GError **);     /* Group */
gboolean field_after(const Line *, const char *key, const char *value, gpointer target, GError **);  /* Op.after */

typedef struct {
  const char *key;
  ValueReader read;
  gpointer target; /* unchanged if the key is absent */
  gboolean is_required;
} Field;
enum { MAX_FIELDS = 17 };

/* Reads words [first, end) of the line as fields; unknown, duplicate and missing keys are errors. Modifies the
 * words. */
gboolean line_read_fields(const Line *line, guint first, guint end, const Field *fields, int n_fields, GError **error);
