/* The part of TOML that configurations are written in, and what is refused with its line. */
#include "toml.h"

#include <check.h>
#include <string.h>

#include "run_suite.h"

static void append(const char *key, const char *text, guint line, gpointer out) {
  g_string_append_printf(out, "%s=%s@%u\n", key, text, line);
}

TEST(values_have_their_keys_and_lines) {
  const char text[] = "# a comment\n"
                      "top = 1_000 # behind a value\n"
                      "[a.\"b c\"]\n"
                      "bare-key = -2.5e3\r\n"
                      "text = \"one\\t\\\"two\\\" \\u00e9 # no comment\"\n"
                      "literal = 'C:\\new'\n"
                      "on = true\n"
                      "\n"
                      "[ parallelism ]\n"
                      "list = [1, 2, # a comment\n"
                      "  3,\n"
                      "]\n"
                      "none = []\n"
                      "parts = [[\"x\", \"y\"], [\"z\"]]\n"
                      "inline = { deep.er = 1, other = \"2\" }\n"
                      "hex = [0xFF, 0o17, 0b1_01]";
  g_autoptr(GString) out = g_string_new(NULL);
  g_autoptr(GError) error = NULL;
  ck_assert_msg(toml_read("x.toml", text, append, out, &error), "%s", error != NULL ? error->message : "");
  ck_assert_str_eq(out->str, "top=1000@2\n"
                             "a.b c.bare-key=-2.5e3@4\n"
                             "a.b c.text=one\t\"two\" \xc3\xa9 # no comment@5\n"
                             "a.b c.literal=C:\\new@6\n"
                             "a.b c.on=true@7\n"
                             "parallelism.list=1,2,3@10\n"
                             "parallelism.none=@13\n"
                             "parallelism.parts=x,y;z@14\n"
                             "parallelism.inline.deep.er=1@15\n"
                             "parallelism.inline.other=2@15\n"
                             "parallelism.hex=255,15,5@16\n");
}

TEST(what_is_wrong_is_told_with_its_line) {
  static const struct {
    const char *text, *words;
  } cases[] = {
      {"\na = \n", "x.toml:2: found \"\", expected a value"},
      {"a = 0b12\n", "x.toml:1: found \"0b12\", expected a value"},
      {"a = yes\n", "x.toml:1: found \"yes\", expected a value"},
      {"a = \"open\n", "expected a closing \""},
      {"a = 1\nb = 2\na = 3\n", "x.toml:3: a: found twice, first in line 1"},
      {"[t]\na = 1\n[t]\na = 1\n", "x.toml:4: t.a: found twice"},
      {"a = [1 2]\n", "expected , or ] in a list"},
      {"a = [1,\n", "expected"},
      {"[a\n", "expected ] behind a table's name"},
      {"[[a]]\n", "lists of tables are not read"},
      {"a = [{b = 1}]\n", "lists of tables are not read"},
      {"a = \"\"\"x\"\"\"\n", "expected a string of one line"},
      {"a = 1979-05-27\n", "expected a value"},
      {"a = 1 b = 2\n", "expected the end of the line"},
      {"a 1\n", "expected = behind a key"},
      {"= 1\n", "expected a key"},
      {"a = \"\\q\"\n", "expected an escape"},
      {"a = [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]\n", "nested less deep"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GString) out = g_string_new(NULL);
    g_autoptr(GError) error = NULL;
    ck_assert_msg(!toml_read("x.toml", cases[i].text, append, out, &error), "%s", cases[i].text);
    ck_assert_msg(strstr(error->message, cases[i].words) != NULL, "%s: %s", cases[i].text, error->message);
  }
}

int main(void) {
  return run_tests();
}
