/* The fields of a plan, one row each: an option of every verb that takes a plan, an axis of a space, a column of
 * tables of predicted and of measured steps, a member of plans in JSON. Parsing, help, defaults, ranges and all of
 * these read the row: another field is a member of Plan, a row, and the place where it acts.
 *
 * A field's value has one text, as its option takes it: "8", "on", "selective", "core_attn+mlp". NULL stands for what
 * is left open: to the framework, the schedule or the other fields. */
#pragma once
#include "plan.h"

typedef enum {
  PLAN_COUNT,    /* int */
  PLAN_COUNT64,  /* gint64, guint64 */
  PLAN_RATIO,    /* double */
  PLAN_BYTES,    /* double; its column is called …_bytes */
  PLAN_SWITCH,   /* gboolean, or int if it can be open: −1 */
  PLAN_CHOICE,   /* int or an enum: the place of a name; −1: open */
  PLAN_TEXT,     /* char * */
  PLAN_OWN_TEXT, /* of a kind of its own: `set` and `text` */
} PlanFieldKind;

/* What a field is part of besides a plan's options. */
typedef enum {
  PLAN_FIELD_SIMULATED = 1 << 0, /* only of what is simulated: folding, jitter, slow ranks */
  PLAN_FIELD_PLACED = 1 << 1,    /* only of one plan on one cluster */
  PLAN_FIELD_REPEATED = 1 << 2,  /* the option may be repeated: neither an axis nor a column */
  PLAN_FIELD_FILE = 1 << 3,      /* may name a file to be read */
} PlanFieldUse;

/* What fields are set in. */
typedef struct {
  Plan *plan;             /* borrowed */
  GHashTable *frameworks; /* name → KnownFramework: read before; borrowed; NULL: none */
  gboolean is_column;     /* what is wrong is said of "column zero_ranks", not of "--zero-ranks" */
  gboolean is_by_auto;    /* (set) the schedule is auto, or was found by it */
} PlanTarget;

typedef struct PlanField PlanField;
struct PlanField {
  const char *name;  /* "micro-batch": its option, and its axis */
  const char *value; /* what help calls its value: "N" */
  const char *help;  /* without its default; NULL: the schedule's names */
  PlanFieldKind kind;
  size_t offset;                     /* in Plan */
  gboolean is_open_at_0;             /* 0 stands for open, and may be typed only where `least` is 0 */
  const char *by_default;            /* its text in a new plan; NULL: open */
  const char *otherwise;             /* what help says of the default behind that; NULL: nothing */
  double least, most;                /* of a number; both 0: any */
  const char *means;                 /* what the range is of, "a share from "; NULL: nothing more */
  const char *const *(*names)(void); /* of a choice; NULL-terminated */
  /* NULL: by the kind. `what` names the field in messages. */
  gboolean (*set)(PlanTarget *target, const char *what, const char *text, GError **error);
  const char *(*text)(const Plan *plan); /* the plan's, or static; NULL: by the kind */
  guint uses;                            /* PlanFieldUse */
  int turn;                              /* set after all of smaller turns: its default depends on theirs */
};

enum { N_PLAN_TURNS = 4 };
int plan_n_fields(void);
/* In the order of --help. Static. */
const PlanField *plan_field(int field);
/* −1: there is none of that name ("seq-len"). */
int plan_field_find(const char *name);
/* What help says of it. Static. */
const char *plan_field_help(const PlanField *field);
/* Whether it can be an axis of a space, and is a column of sweeps' rows. */
gboolean plan_field_is_axis(const PlanField *field);
/* Its name as tables have it: seq_len, memory_cap_bytes. Owned by the caller. */
char *plan_field_column(const PlanField *field);

/* Set it from a text. INPUT naming the option, what was found and what was expected. */
gboolean plan_field_set(const PlanField *field, PlanTarget *target, const char *text, GError **error);
/* INPUT for the first number beyond its range. */
gboolean plan_fields_check_ranges(const Plan *plan, GError **error);
/* What a field holds. */
typedef enum { PLAN_VALUE_OPEN, PLAN_VALUE_WHOLE, PLAN_VALUE_REAL, PLAN_VALUE_TEXT } PlanValueType;
typedef struct {
  PlanValueType type;
  gint64 whole;
  double real;
  const char *text; /* static, or the plan's as long as it does not change; NULL for the other types */
} PlanValue;
PlanValue plan_field_value(const PlanField *field, const Plan *plan);
/* Its text. Owned by the caller; NULL: open. A plan's fields set to their texts are the same plan. */
char *plan_field_text(const PlanField *field, const Plan *plan);
