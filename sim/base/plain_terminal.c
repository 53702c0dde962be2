/* A stream in front of the terminal's, that replaces characters. One may come in two writes: its first bytes wait. */
#include "plain_terminal.h"

#include <errno.h>
#include <glib.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST = 6 }; /* bytes of a character, and then some */

typedef struct {
  int fd;
  char kept[LONGEST];
  size_t n_kept;
} Terminal;

static gboolean write_all(int fd, const char *bytes, size_t n) {
  while (n > 0) {
    const ssize_t done = write(fd, bytes, n);
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0)
      return FALSE;
    bytes += done;
    n -= (size_t)done;
  }
  return TRUE;
}

/* Of the same width, as far as it matters: the parts of tables and drawings. NULL: no such character. */
static const char *drawn_as(gunichar c) {
  if (c >= 0x2500 && c < 0x2580) /* lines */
    return c == 0x2500 ? "-" : c == 0x2502 ? "|" : "+";
  if (c >= 0x2580 && c < 0x25a0) /* blocks: of bars those to a half of a column and more */
    return c <= 0x258c ? "#" : c <= 0x258f ? " " : "#";
  switch (c) {
  case 0xb7: /* · */
    return ".";
  case 0x2192: /* → */
    return ">";
  default:
    return NULL;
  }
}

static void append_plain(GString *out, const char *character, gunichar c) {
  const char *drawn = drawn_as(c);
  g_autofree char *one = g_strndup(character, (gsize)g_unichar_to_utf8(c, NULL));
  g_autofree char *ascii = drawn == NULL ? g_str_to_ascii(one, "C") : NULL;
  g_string_append(out, drawn != NULL ? drawn : ascii);
}

static ssize_t write_plain(void *data, const char *bytes, size_t n) {
  Terminal *terminal = data;
  g_autoptr(GString) all = g_string_new_len(terminal->kept, (gssize)terminal->n_kept), out = g_string_new(NULL);
  g_string_append_len(all, bytes, (gssize)n);
  const char *at = all->str, *end = all->str + all->len;
  terminal->n_kept = 0;
  while (at < end) {
    const gunichar c = (guchar)*at < 0x80 ? (guchar)*at : g_utf8_get_char_validated(at, end - at);
    if (c == (gunichar)-2) {
      terminal->n_kept = MIN((size_t)(end - at), sizeof terminal->kept);
      memcpy(terminal->kept, at, terminal->n_kept);
      break;
    }
    if (c < 0x80 || c == (gunichar)-1)
      g_string_append_c(out, *at++);
    else {
      append_plain(out, at, c);
      at = g_utf8_next_char(at);
    }
  }
  return write_all(terminal->fd, out->str, out->len) ? (ssize_t)n : 0;
}

/* `stream` itself if it is no such terminal. */
static FILE *plain(FILE *stream, Terminal *terminal) {
  const int fd = fileno(stream);
  if (fd < 0 || !isatty(fd))
    return stream;
  *terminal = (Terminal){.fd = fd};
  FILE *in_front = fopencookie(terminal, "w", (cookie_io_functions_t){.write = write_plain});
  if (in_front == NULL)
    return stream;
  setvbuf(in_front, NULL, stream == stderr ? _IONBF : _IOLBF, 0);
  return in_front;
}

void plain_terminal_begin(void) {
  static Terminal out, errors; /* to the end of the process */
  if (g_get_charset(NULL))
    return;
  stdout = plain(stdout, &out);
  stderr = plain(stderr, &errors);
}
