/* Programs as text, for tests: a small pipeline, and edits of its text. */
#pragma once
#include "program_text.h"
#include <check.h>
#include <string.h>

/* Two ranks, two micro-batches, 1f1b, a norm over both ranks. */
static const char two_ranks[] = "program ranks=2 stages=2 micro_batches=2 steps=1 expanded=0\n"
                                "group 0 world axes=none pp=all charge=pp\n"
                                "work 0 F stage=0\n"
                                "work 1 B stage=0\n"
                                "work 2 F stage=1\n"
                                "work 3 B stage=1\n"
                                "transfer 0 send 0->1 bytes=1000\n"
                                "transfer 1 send 1->0 bytes=1000\n"
                                "transfer 2 all_reduce group=0 bytes=4\n"
                                "rank 0\n"
                                "  0 compute 0F0 work=0\n"
                                "  1 send_f 0SEND_F0 peer=1 tag=0 transfer=0 after=0\n"
                                "  2 compute 0F1 work=0\n"
                                "  3 send_f 0SEND_F1 peer=1 tag=2 transfer=0 after=2\n"
                                "  4 recv_b 0RECV_B0 peer=1 tag=1 transfer=1\n"
                                "  5 compute 0B0 work=1 after=4\n"
                                "  6 recv_b 0RECV_B1 peer=1 tag=3 transfer=1\n"
                                "  7 compute 0B1 work=1 after=6\n"
                                "  8 dp NORM transfer=2 after=7\n"
                                "rank 1\n"
                                "  0 recv_f 1RECV_F0 peer=0 tag=0 transfer=0\n"
                                "  1 recv_f 1RECV_F1 peer=0 tag=2 transfer=0\n"
                                "  2 compute 1F0 work=2 after=0\n"
                                "  3 compute 1B0 work=3\n"
                                "  4 send_b 1SEND_B0 peer=0 tag=1 transfer=1 after=3\n"
                                "  5 compute 1F1 work=2 after=1\n"
                                "  6 compute 1B1 work=3\n"
                                "  7 send_b 1SEND_B1 peer=0 tag=3 transfer=1 after=6\n"
                                "  8 dp NORM transfer=2 after=6\n";

typedef struct {
  const char *from, *to; /* `from` occurs exactly once in the text */
} Edit;
enum { MAX_EDITS = 10 };
#define EDITS(...) ((const Edit[MAX_EDITS]){__VA_ARGS__})

/* `text` after the edits, made in order (up to the first without `from`); owned by the caller. */
static inline char *edit_text(const char *text, const Edit edits[MAX_EDITS]) {
  char *edited = g_strdup(text);
  for (int i = 0; i < MAX_EDITS && edits[i].from; i++) {
    char *at = strstr(edited, edits[i].from);
    ck_assert_msg(at != NULL, "\"%s\" is not in the text", edits[i].from);
    ck_assert_msg(strstr(at + 1, edits[i].from) == NULL, "\"%s\" is in the text twice", edits[i].from);
    g_autofree char *head = g_strndup(edited, (gsize)(at - edited));
    char *next = g_strconcat(head, edits[i].to, at + strlen(edits[i].from), NULL);
    g_free(edited);
    edited = next;
  }
  return edited;
}

/* Asserts that the edited text is refused with a message that contains `says`. */
static inline void assert_edit_refused(const char *program, const Edit edits[MAX_EDITS], const char *says) {
  g_autofree char *text = edit_text(program, edits);
  g_autoptr(GError) error = NULL;
  g_autoptr(Program) read = program_from_text(text, "test", &error);
  ck_assert_msg(read == NULL, "accepted:\n%s", text);
  ck_assert_msg(strstr(error->message, says) != NULL, "expected \"%s\" in: %s", says, error->message);
}

static inline Program *read_program(const char *text) {
  g_autoptr(GError) error = NULL;
  Program *program = program_from_text(text, "test", &error);
  ck_assert_msg(program != NULL, "%s", error ? error->message : "");
  return program;
}
