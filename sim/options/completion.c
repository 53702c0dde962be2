/* Values of an option come from its row of a plan's fields, else from its help, which lists them: "mfu, tokens_per_s or
 * cost", maybe behind a colon, maybe each with a remark in parentheses; a name before a colon (topk:SHARE) is offered
 * with the colon. A list's last value is completed behind the others. */
#include "completion.h"

#include <string.h>

#include "data_path.h"
#include "framework_releases.h"
#include "parser.h"
#include "plan_fields.h"

const Shipped shipped[N_SHIPPED] = {{"model", "models", ".json"},
                                    {"cluster", "topologies", ".yaml"},
                                    {"framework", "topologies/frameworks", ".yaml"},
                                    {"gpu", "topologies/gpus", ".yaml"}};

enum { MOST_MEANING = 90 }; /* letters: what a terminal shows beside a name */

typedef struct {
  const Completed *verb;
  const char *typed;
  GString *text;
} Asked;

/* The help without its default, as far as there is room. */
static void append_meaning(GString *text, const char *meaning) {
  const char *end = strstr(meaning, " (default");
  g_autofree char *bare = g_strndup(meaning, end != NULL ? (gsize)(end - meaning) : strlen(meaning));
  g_strdelimit(bare, "\t\n", ' ');
  if (g_utf8_strlen(bare, -1) > MOST_MEANING) {
    *g_utf8_offset_to_pointer(bare, MOST_MEANING) = '\0';
    char *space = strrchr(bare, ' ');
    *(space != NULL ? space : bare) = '\0';
    g_string_append_printf(text, "\t%s …", bare);
  } else if (*bare != '\0') {
    g_string_append_printf(text, "\t%s", bare);
  }
}

gboolean completion_offer(GString *text, const char *typed, const char *head, const char *name, const char *meaning) {
  g_autofree char *word = g_strconcat(head, name, NULL);
  if (!g_str_has_prefix(word, typed))
    return FALSE;
  g_string_append(text, word);
  append_meaning(text, meaning);
  g_string_append_c(text, '\n');
  return TRUE;
}

static void offer_files(Asked *asked, const char *head) {
  g_string_append_printf(asked->text, ":files\t%s\n", head);
}

/* --- what help lists --- */

/* Behind what parts names of a list; NULL: nothing of the kind is there. */
static const char *skip_separator(const char *at) {
  static const char *const separators[] = {", or ", "; or ", ", ", " or "};
  for (gsize i = 0; i < G_N_ELEMENTS(separators); i++)
    if (g_str_has_prefix(at, separators[i]))
      return at + strlen(separators[i]);
  return NULL;
}

/* Behind what a name's colon begins: topk:SHARE, or lora:RANK before the colon of a remark. */
static const char *skip_rest(const char *colon) {
  const char *end = colon + strcspn(colon, " ,;()");
  return end[-1] == ':' ? end - 1 : end;
}

/* A name at *at, which moves behind its remark in parentheses and to the next name, or becomes NULL where there is
 * none. NULL: words of a sentence are there. Owned by the caller. */
static char *take_listed(const char **at) {
  const char *start = *at, *end = start;
  while (g_ascii_isalnum(*end) ? !g_ascii_isupper(*end) : end > start && *end != '\0' && strchr("_-+.", *end) != NULL)
    end++;
  const gboolean goes_on = *end == ':' && end[1] != ' ' && end[1] != '\0';
  g_autofree char *name = g_strndup(start, (gsize)(end - start) + (goes_on ? 1 : 0));
  if (goes_on)
    end = skip_rest(end);
  const char *remark = g_str_has_prefix(end, " (") ? strchr(end, ')') : NULL;
  const char *behind = remark != NULL ? remark + 1 : end;
  *at = skip_separator(behind);
  if (end == start || (*at == NULL && *behind != '\0' && strchr(",:;", *behind) == NULL))
    return NULL;
  return g_steal_pointer(&name);
}

/* The names of a list that begins at `at`, two at least, else none. Owned by the caller. */
static GPtrArray *list_at(const char *at) {
  g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
  char *name;
  while (at != NULL && (name = take_listed(&at)) != NULL)
    g_ptr_array_add(names, name);
  if (names->len < 2)
    g_ptr_array_set_size(names, 0);
  g_ptr_array_add(names, NULL);
  return g_steal_pointer(&names);
}

/* The first list of the help: at its beginning, or behind a colon. Owned by the caller. */
static GPtrArray *listed_in_help(const char *help) {
  const char *end = strstr(help, " (default");
  g_autofree char *bare = g_strndup(help, end != NULL ? (gsize)(end - help) : strlen(help));
  GPtrArray *names = list_at(bare);
  for (const char *colon = strstr(bare, ": "); colon != NULL && names->len == 1; colon = strstr(colon + 1, ": ")) {
    g_ptr_array_unref(names);
    names = list_at(colon + 2);
  }
  return names;
}

/* Offer the lines "  name   meaning" below the line that begins with `title` and ends with a colon. */
static gboolean offer_lines(Asked *asked, const char *head, const char *title) {
  gboolean is_below = FALSE, any = FALSE;
  for (gsize i = 0; i < G_N_ELEMENTS(asked->verb->texts) && asked->verb->texts[i] != NULL; i++) {
    g_auto(GStrv) lines = g_strsplit(asked->verb->texts[i], "\n", -1);
    for (char **line = lines; *line != NULL; line++) {
      if (!is_below || !g_str_has_prefix(*line, "  ")) {
        is_below = g_ascii_strncasecmp(*line, title, strlen(title)) == 0 && g_str_has_suffix(*line, ":");
        continue;
      }
      char *name = *line + 2, *gap = strchr(name, ' ');
      const char *meaning = gap != NULL ? g_strchug(gap + 1) : "";
      if (gap != NULL)
        *gap = '\0';
      any = completion_offer(asked->text, asked->typed, head, name, meaning) || any;
    }
  }
  return any;
}

/* --- values --- */

/* Offer a name that is not yet in the list in front of it. */
static gboolean offer_value(Asked *asked, const char *head, const char *list, const char *name) {
  g_auto(GStrv) before = g_strsplit_set(list, ",+", -1);
  return !g_strv_contains((const char *const *)before, name) &&
         completion_offer(asked->text, asked->typed, head, name, "");
}

static gboolean offer_names(Asked *asked, const char *head, const char *list, const char *const *names) {
  gboolean any = FALSE;
  for (; *names != NULL; names++)
    any = offer_value(asked, head, list, *names) || any;
  return any;
}

/* The field that the option is, with the same help but for its default; NULL: it is none. */
static const PlanField *field_of(const GOptionEntry *entry) {
  const int i = plan_field_find(entry->long_name);
  if (i < 0)
    return NULL;
  const char *help = plan_field(i)->help;
  return help == NULL || g_str_has_prefix(entry->description, help) ? plan_field(i) : NULL;
}

/* on|off, or the last of TIME|best. */
static gboolean offer_alternatives(Asked *asked, const char *head, const char *list, const char *value) {
  g_auto(GStrv) parts = g_strsplit(value, "|", -1);
  gboolean any = FALSE;
  for (char **part = parts; strchr(value, '|') != NULL && strchr(value, '.') == NULL && *part != NULL; part++)
    if (g_ascii_islower(**part))
      any = offer_value(asked, head, list, *part) || any;
  return any;
}

static gboolean offer_choices(Asked *asked, const GOptionEntry *entry, const char *head, const char *list) {
  const PlanField *field = field_of(entry);
  if (offer_alternatives(asked, head, list, field != NULL ? field->value : entry->arg_description))
    return TRUE;
  if (field != NULL && field->names != NULL)
    return offer_names(asked, head, list, field->names());
  const gboolean has_default = field != NULL && field->by_default != NULL && g_ascii_islower(*field->by_default);
  g_autoptr(GPtrArray) names = listed_in_help(entry->description);
  if (has_default && !g_strv_contains((const char *const *)names->pdata, field->by_default))
    g_ptr_array_insert(names, 0, g_strdup(field->by_default));
  g_autofree char *title = g_strdup_printf("--%s ", entry->long_name);
  return offer_names(asked, head, list, (const char *const *)names->pdata) || offer_lines(asked, head, title);
}

/* Products and files, and behind a product's name and "@" its releases, of those without a number the month. */
static gboolean offer_frameworks(Asked *asked, const char *head, const char *list) {
  g_auto(GStrv) names = framework_choices();
  gboolean any = offer_names(asked, head, list, (const char *const *)names);
  g_autoptr(FrameworkReleases) releases = framework_releases_read(NULL);
  const char *typed = asked->typed + strlen(head), *at = strchr(typed, '@');
  g_autofree char *name = at != NULL ? g_strndup(typed, (gsize)(at - typed)) : NULL;
  const FrameworkProduct *product = releases != NULL && name != NULL ? framework_product_find(releases, name) : NULL;
  for (guint i = 0; product != NULL && i < product->releases->len; i++) {
    const FrameworkRelease *row = &g_array_index(product->releases, FrameworkRelease, i);
    g_autofree char *word = g_strconcat(name, "@", row->release != NULL ? row->release : row->since, NULL);
    any = offer_value(asked, head, list, word) || any;
  }
  return any;
}

static gboolean offer_shipped(Asked *asked, const char *option, const char *head, const char *list) {
  if (strcmp(option, "framework") == 0)
    return offer_frameworks(asked, head, list);
  gboolean any = FALSE;
  for (int i = 0; i < N_SHIPPED; i++)
    if (strcmp(shipped[i].option, option) == 0) {
      g_auto(GStrv) names = data_path_list(shipped[i].subdir, shipped[i].suffix);
      any = offer_names(asked, head, list, (const char *const *)names);
    }
  return any;
}

static gboolean takes_list(const GOptionEntry *entry) {
  return strcmp(entry->arg_description, "LIST") == 0 || strchr(entry->arg_description, ',') != NULL;
}

/* Where the last value of a list begins. */
static const char *last_value(const GOptionEntry *entry, const char *value, gboolean is_list) {
  const gboolean is_joined = strstr(entry->description, "joined by +") != NULL;
  const char *start = value;
  for (; *value != '\0'; value++)
    if ((is_list && *value == ',') || (is_joined && *value == '+'))
      start = value + 1;
  return start;
}

static gboolean reads_or_writes_file(const GOptionEntry *entry) {
  return entry->arg == G_OPTION_ARG_FILENAME || strstr(entry->arg_description, "FILE") != NULL ||
         strcmp(entry->arg_description, "LOG") == 0;
}

/* The rest of `typed` behind its first n bytes, which is a value of that option. */
static void complete_value(Asked *asked, const GOptionEntry *entry, gsize n, gboolean is_list) {
  const char *value = asked->typed + n, *last = last_value(entry, value, is_list || takes_list(entry));
  g_autofree char *list = g_strndup(value, (gsize)(last - value));
  g_autofree char *head = g_strndup(asked->typed, (gsize)(last - asked->typed));
  const gboolean is_file = reads_or_writes_file(entry);
  if (is_file && g_str_has_prefix(last, "file:")) {
    g_autofree char *behind = g_strconcat(head, "file:", NULL);
    offer_files(asked, behind);
    return;
  }
  gboolean any = offer_shipped(asked, entry->long_name, head, list);
  if (!(entry->flags & OPTION_WRITES))
    any = offer_choices(asked, entry, head, list) || any;
  if (is_file && !any)
    offer_files(asked, head);
}

/* --- options and words --- */

const GOptionEntry *completion_entry(const GOptionEntry *entries, const char *name, gsize length) {
  for (; entries->long_name != NULL; entries++)
    if (entries->long_name[0] == name[0] && strncmp(entries->long_name, name, length) == 0 &&
        entries->long_name[length] == '\0')
      return entries;
  return NULL;
}

/* Every option that is not there yet, or may be repeated. */
static void offer_options(Asked *asked, GHashTable *given) {
  for (const GOptionEntry *entry = asked->verb->entries; entry->long_name != NULL; entry++)
    if (entry->arg == G_OPTION_ARG_STRING_ARRAY || !g_hash_table_contains(given, entry->long_name))
      completion_offer(asked->text, asked->typed, "--", entry->long_name, entry->description);
}

/* Every option that several plans may differ in, behind the first n bytes of what was typed and before `end`. */
static void offer_axes(Asked *asked, gsize n, const char *end) {
  g_autofree char *start = g_strndup(asked->typed, n);
  for (const GOptionEntry *entry = asked->verb->entries; entry->long_name != NULL; entry++) {
    gboolean is_axis = plan_field_find(entry->long_name) >= 0;
    for (int i = 0; i < N_SHIPPED; i++)
      is_axis = is_axis || strcmp(shipped[i].option, entry->long_name) == 0;
    g_autofree char *name = g_strconcat(entry->long_name, end, NULL);
    if (is_axis)
      completion_offer(asked->text, asked->typed, start, name, entry->description);
  }
}

/* NAME=LIST: an option's name, then a list of its values. */
static void complete_named_value(Asked *asked, gsize n) {
  const char *name = asked->typed + n, *equals = strchr(name, '=');
  if (equals == NULL) {
    offer_axes(asked, n, "=");
    return;
  }
  const GOptionEntry *entry = completion_entry(asked->verb->entries, name, (gsize)(equals - name));
  if (entry != NULL && entry->arg != G_OPTION_ARG_NONE)
    complete_value(asked, entry, (gsize)(equals + 1 - asked->typed), TRUE);
}

static void complete_option_value(Asked *asked, const GOptionEntry *entry, gsize n) {
  if (entry->arg == G_OPTION_ARG_NONE)
    return;
  if (g_str_has_prefix(entry->arg_description, "NAME="))
    complete_named_value(asked, n);
  else if (strcmp(entry->arg_description, "OPTION") == 0)
    offer_axes(asked, n, "");
  else
    complete_value(asked, entry, n, FALSE);
}

/* The i-th word of the usage without brackets and dots; the last one if there are fewer. Owned by the caller; NULL:
 * there is none. */
static char *usage_word(const char *usage, int i) {
  g_auto(GStrv) words = g_strsplit(usage != NULL ? usage : "", " ", -1);
  const int n = (int)g_strv_length(words);
  if (n == 0)
    return NULL;
  const char *word = words[MIN(i, n - 1)];
  word += *word == '[';
  return g_strndup(word, strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"));
}

/* The usage's only word is a choice, "[models|clusters]": offers what it lists; FALSE: it is none. */
static gboolean offer_choice(Asked *asked, int i) {
  const char *usage = asked->verb->words;
  if (usage == NULL || strchr(usage, '|') == NULL || strpbrk(usage, " ABCDEFGHIJKLMNOPQRSTUVWXYZ") != NULL)
    return FALSE;
  g_auto(GStrv) names = g_strsplit_set(usage, "[|]", -1);
  for (char **name = names; i == 0 && *name != NULL; name++)
    if (**name != '\0')
      completion_offer(asked->text, asked->typed, "", *name, "");
  return TRUE;
}

static void complete_word(Asked *asked, int i, GHashTable *given) {
  if (offer_choice(asked, i))
    return;
  g_autofree char *word = usage_word(asked->verb->words, i);
  if (word == NULL) {
    offer_options(asked, given);
    return;
  }
  g_autofree char *option = g_ascii_strdown(word, -1), *title = g_strconcat(word, "s:", NULL);
  if (!offer_lines(asked, "", title) && !offer_shipped(asked, option, "", ""))
    offer_files(asked, "");
}

/* The option whose value the last word is; NULL: of none. Notes the options before, and counts the words. */
static const GOptionEntry *walk(const Completed *verb, int n, char **words, GHashTable *given, int *n_words) {
  const GOptionEntry *open = NULL;
  *n_words = 0;
  for (int i = 0; i < n - 1; i++) {
    const char *name = g_str_has_prefix(words[i], "--") ? words[i] + 2 : NULL;
    const GOptionEntry *entry = NULL;
    if (open == NULL && name != NULL)
      entry = completion_entry(verb->entries, name, strcspn(name, "="));
    *n_words += open == NULL && name == NULL;
    if (entry != NULL)
      g_hash_table_add(given, (gpointer)entry->long_name);
    open = entry != NULL && entry->arg != G_OPTION_ARG_NONE && strchr(name, '=') == NULL ? entry : NULL;
  }
  return open;
}

char *completion_of(const Completed *verb, int n, char **words) {
  Asked asked = {verb, n > 0 ? words[n - 1] : "", g_string_new(NULL)};
  g_autoptr(GHashTable) given = g_hash_table_new(g_str_hash, g_str_equal);
  int n_words = 0;
  const GOptionEntry *open = walk(verb, n, words, given, &n_words);
  const char *equals = g_str_has_prefix(asked.typed, "--") ? strchr(asked.typed, '=') : NULL;
  const GOptionEntry *entry =
      equals != NULL ? completion_entry(verb->entries, asked.typed + 2, (gsize)(equals - asked.typed) - 2) : NULL;
  if (open != NULL) {
    complete_option_value(&asked, open, 0);
  } else if (entry != NULL) {
    complete_option_value(&asked, entry, (gsize)(equals + 1 - asked.typed));
  } else if (asked.typed[0] == '-') {
    offer_options(&asked, given);
    completion_offer(asked.text, asked.typed, "", "--help", "this verb's options, with an example");
  } else {
    complete_word(&asked, n_words, given);
  }
  return g_string_free(asked.text, FALSE);
}
