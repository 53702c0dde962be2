/* Words of scripts that start other programs. */
#include "shell_words.h"

#include <check.h>
#include <string.h>

#include "run_suite.h"

/* "word@line", one after the other, | behind the last of a command; then the notices, each on its own line. */
static char *words_of(const char *text) {
  g_autoptr(GPtrArray) notices = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GArray) words = shell_words("x.sh", text, notices);
  g_autoptr(GString) out = g_string_new(NULL);
  for (guint i = 0; i < words->len; i++) {
    const ShellWord *word = &g_array_index(words, ShellWord, i);
    g_string_append_printf(out, "%s%s@%u%s", i > 0 ? " " : "", word->text, word->line, word->ends ? "|" : "");
  }
  for (guint i = 0; i < notices->len; i++)
    g_string_append_printf(out, "\n%s", (const char *)notices->pdata[i]);
  return g_string_free(g_steal_pointer(&out), FALSE);
}

#define AGAIN(line) ": set again in line " line " before it is used: what is said there counts"

TEST(words_are_as_a_shell_has_them) {
  static const struct {
    const char *text, *words;
  } cases[] = {
      {"a --b 'c d' \"e f\"g # h\ni", "a@1 --b@1 c d@1 e fg@1| i@2|"},
      {"a \\\n  --b 2 \\\r\n --c;d && e", "a@1 --b@2 2@2 --c@3| d@3| e@3|"},
      {"ARGS=(\n  --tp 8 # eight\n  --pp 4\n)\nrun ${ARGS[@]} \"${ARGS[@]}\"", "--tp@2 8@2 --pp@3 4@3| run@5|"},
      {"TP=8\nPP=${PP:-4}\na $TP ${PP} ${CP-2} $1 $X", "a@3 8@3 4@3 2@3 $1@3 $X@3|"},
      {"O=\"--tp $TP \\\n --pp 2\"\nexport N=3\nrun $O --n=$N", "--tp@1 $TP@1 --pp@2 2@2| export@3| run@4 --n=3@4|"},
      {"A+=(--x)\nW=$((2 * $N)) b", "--x@1| b@2|"},
      {"a \"b\\\"c\" d\\ e '$f'", "a@1 b\"c@1 d e@1 $f@1|"},
      {"a#b \"open", "a#b@1 open@1|"},
      {"${open $( \\", "${open@1 $( \\@1|"},
      {"a --b 2 2>&1 | tee c", "a@1 --b@1 2@1| tee@1 c@1|"},
      {"a >b --c 3 2> d &>>e <f&\ng >|h 2", "a@1 --c@1 3@1| g@2 2@2|"},
      {"a --b <c> --d 4 < <(e)", "a@1 --b@1 --d@1 4@1 e@1|"},
      {"T=4\nT=$((T/2))\na $T", "a@3 $T@3|"},
      {"T=4; a $T; T=$1; b $T ${T:-8}", "a@1 4@1| b@1 $T@1 8@1|"},
      {"T=4; T=`b`; a $T", "a@1 $T@1|\nx.sh:1: T" AGAIN("1")},
      {"T=1; T+=2; a $T", "a@1 12@1|"},
      {"X=\"--b c\"\nX=\"\"\na --d $X", "a@3 --d@3|\nx.sh:1: X" AGAIN("2")},
      {"X=(\n--b c)\nX=(--d)\na ${X[@]} e", "--d@3| a@4 e@4|\nx.sh:1: X" AGAIN("3")},
      {"X=\"--b\"\nX=\"$X --c\"\na $X", "--b@1| --c@2| a@3|"},
      {"X=\"--b\"\nY=(--c)\na --d $Y", "--c@2| a@3 --d@3|\nx.sh:1: X: no command uses it, its options are left out"},
      {"f() { a --b $X; }\nX=\"--c\"\nf", "f@1| {@1 a@1 --b@1 $X@1| }@1| --c@2| f@3|"},
      {"export X=\"--c\"\na --d", "export@1 --c@1| a@2 --d@2|"},
      {"X=(--b)\na", "--b@1| a@2|"},
      {"", ""},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *words = words_of(cases[i].text);
    ck_assert_msg(strcmp(words, cases[i].words) == 0, "%s\nfound    %s\nexpected %s", cases[i].text, words,
                  cases[i].words);
  }
}

int main(void) {
  return run_tests();
}
