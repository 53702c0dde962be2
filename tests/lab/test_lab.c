/* The lab's server: whom it answers, what it runs, that it is the command line's answer, and what it leaves behind. */
#include "run_suite.h"

#include <check.h>
#include <gio/gio.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static GSubprocess *lab;
static GDataInputStream *lab_out;
static guint16 port;
static char *folder; /* for temporary files of this run */

static void start_lab(void) {
  g_autoptr(GError) error = NULL;
  lab = g_subprocess_new(G_SUBPROCESS_FLAGS_STDOUT_PIPE, &error, STEPSIM, "lab", "--port", "0", "--no-browser", NULL);
  ck_assert_msg(lab != NULL, "%s", error != NULL ? error->message : "");
  lab_out = g_data_input_stream_new(g_subprocess_get_stdout_pipe(lab));
  g_autofree char *address = g_data_input_stream_read_line(lab_out, NULL, NULL, NULL);
  ck_assert_ptr_nonnull(address);
  ck_assert_msg(g_str_has_prefix(address, "http://127.0.0.1:"), "%s", address);
  port = (guint16)atoi(address + strlen("http://127.0.0.1:"));
}

static void stop_lab(void) {
  g_subprocess_send_signal(lab, SIGTERM);
  ck_assert(g_subprocess_wait(lab, NULL, NULL));
  ck_assert_int_eq(g_subprocess_get_exit_status(lab), 0);
  g_clear_object(&lab_out);
  g_clear_object(&lab);
}

static GSocketConnection *dial(void) {
  g_autoptr(GSocketClient) client = g_socket_client_new();
  GSocketConnection *connection = g_socket_client_connect_to_host(client, "127.0.0.1", port, NULL, NULL);
  ck_assert_ptr_nonnull(connection);
  return connection;
}

static void say(GSocketConnection *connection, const char *text, gsize length) {
  GOutputStream *out = g_io_stream_get_output_stream(G_IO_STREAM(connection));
  g_output_stream_write_all(out, text, length, NULL, NULL,
                            NULL); /* one that is refused early may close while we write */
}

/* Until the other side closes. */
static GByteArray *hear(GSocketConnection *connection) {
  GByteArray *all = g_byte_array_new();
  GInputStream *in = g_io_stream_get_input_stream(G_IO_STREAM(connection));
  guint8 block[16384];
  gssize n;
  while ((n = g_input_stream_read(in, block, sizeof block, NULL, NULL)) > 0)
    g_byte_array_append(all, block, (guint)n);
  g_byte_array_append(all, (const guint8 *)"", 1);
  return all;
}

/* The answer to `lines` (of the request, each ended by \n) and a body. */
static GByteArray *request(const char *lines, const char *body) {
  g_autoptr(GString) text = g_string_new(lines);
  g_string_append(text, "Connection: close\n\n");
  g_string_replace(text, "\n", "\r\n", 0);
  g_string_append(text, body);
  g_autoptr(GSocketConnection) connection = dial();
  say(connection, text->str, text->len);
  return hear(connection);
}

static int status_of(const GByteArray *answer) {
  ck_assert_msg(answer->len > 13 && g_str_has_prefix((const char *)answer->data, "HTTP/1.1 "), "%s", answer->data);
  return atoi((const char *)answer->data + 9);
}

static char *own_host(void) {
  return g_strdup_printf("Host: 127.0.0.1:%u\n", port);
}

static GByteArray *ask(const char *question) {
  g_autofree char *host = own_host();
  g_autofree char *lines = g_strdup_printf("POST /run HTTP/1.1\n%sX-Stepsim-Lab: 1\nContent-Type: application/json\n"
                                           "Content-Length: %zu\n",
                                           host, strlen(question));
  return request(lines, question);
}

/* Of an answer to a question: exit status, and what was printed. */
typedef struct {
  guint32 status;
  const char *out, *errors;
} Said;

static Said said_in(GByteArray *answer) {
  ck_assert_int_eq(status_of(answer), 200);
  const guint8 *body = (const guint8 *)strstr((const char *)answer->data, "\r\n\r\n") + 4;
  guint32 head[4];
  memcpy(head, body, sizeof head);
  ck_assert_uint_eq((gsize)(body - answer->data) + 16 + head[1] + head[2] + head[3] + 1, answer->len);
  return (Said){head[0], (const char *)body + 16, (const char *)body + 16 + head[1]};
}

static void check_status(const char *what, const char *lines, const char *body, int expected) {
  g_autoptr(GByteArray) answer = request(lines, body);
  ck_assert_msg(status_of(answer) == expected, "%s: %d, expected %d", what, status_of(answer), expected);
}

TEST(the_page_is_served_and_nothing_else) {
  g_autofree char *host = own_host();
  g_autofree char *index = g_strconcat("GET / HTTP/1.1\n", host, NULL);
  g_autoptr(GByteArray) page = request(index, "");
  ck_assert_int_eq(status_of(page), 200);
  ck_assert_ptr_nonnull(strstr((const char *)page->data, "<title>stepsim lab</title>"));
  ck_assert_ptr_nonnull(strstr((const char *)page->data, "Content-Security-Policy: default-src 'none'"));
  static const char *const places[] = {"/lab.js", "/catalog.json", "/published.csv"};
  static const char *const nowhere[] = {"/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/run",
                                        "/lab.c"};
  for (gsize i = 0; i < G_N_ELEMENTS(places); i++) {
    g_autofree char *lines = g_strdup_printf("GET %s HTTP/1.1\n%s", places[i], host);
    check_status(places[i], lines, "", 200);
  }
  for (gsize i = 0; i < G_N_ELEMENTS(nowhere); i++) {
    g_autofree char *lines = g_strdup_printf("GET %s HTTP/1.1\n%s", nowhere[i], host);
    check_status(nowhere[i], lines, "", 404);
  }
}

TEST(other_pages_are_not_answered) {
  g_autofree char *host = own_host(), *long_body = g_strnfill(9000000, ' ');
  const struct {
    const char *what, *method, *headers, *body;
    int status;
  } cases[] = {
      {"another name", "GET / HTTP/1.1\nHost: evil.example\n", "", "", 403},
      {"another port", "GET / HTTP/1.1\nHost: 127.0.0.1:1\n", "", "", 403},
      {"another origin", "POST /run HTTP/1.1\n", "Origin: http://evil.example\nX-Stepsim-Lab: 1\nContent-Length: 2\n",
       "{}", 403},
      {"an origin that only begins alike", "POST /run HTTP/1.1\n",
       "Origin: http://127.0.0.1.evil.example\nX-Stepsim-Lab: 1\nContent-Length: 2\n", "{}", 403},
      {"another site", "GET /catalog.json HTTP/1.1\n", "Sec-Fetch-Site: cross-site\n", "", 403},
      {"a plain form", "POST /run HTTP/1.1\n", "Content-Length: 2\n", "{}", 403},
      {"another method", "PUT /run HTTP/1.1\n", "Content-Length: 2\nX-Stepsim-Lab: 1\n", "{}", 405},
      {"no length", "POST /run HTTP/1.1\n", "Transfer-Encoding: chunked\nX-Stepsim-Lab: 1\n", "0\r\n\r\n", 411},
      {"too long", "POST /run HTTP/1.1\n", "Content-Length: 9000000\nX-Stepsim-Lab: 1\n", long_body, 413},
      {"nowhere", "POST /elsewhere HTTP/1.1\n", "Content-Length: 2\nX-Stepsim-Lab: 1\n", "{}", 404},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    const gboolean has_host = strstr(cases[i].method, "Host:") != NULL;
    g_autofree char *lines = g_strconcat(cases[i].method, has_host ? "" : host, cases[i].headers, NULL);
    check_status(cases[i].what, lines, cases[i].body, cases[i].status);
  }
}

/* Without the line of the time that the engine took. */
static char *without_wall(const char *json) {
  g_autoptr(GRegex) regex = g_regex_new("\"wall_s\" : [^\n]*", 0, 0, NULL);
  return g_regex_replace_literal(regex, json, -1, 0, "", 0, NULL);
}

TEST(the_answer_is_the_command_lines) {
  g_autoptr(GByteArray) answer =
      ask("{\"verb\": \"simulate\", \"options\": [[\"model\", \"llama-3-8b\"], [\"cluster\", \"dgx-h100\"], [\"tp\", "
          "\"4\"], [\"gpus\", \"16\"], [\"price\", \"2 $/h\"], [\"tokens\", \"1T\"]], \"writes\": \"npz\"}");
  const Said said = said_in(answer);
  ck_assert_uint_eq(said.status, 0);
  ck_assert(g_str_has_prefix(said.errors, "PK")); /* nothing was printed as an error: the arrays follow */
  g_autoptr(GSubprocess) process =
      g_subprocess_new(G_SUBPROCESS_FLAGS_STDOUT_PIPE, NULL, STEPSIM, "simulate", "--model", "llama-3-8b", "--cluster",
                       "dgx-h100", "--tp", "4", "--gpus", "16", "--price", "2 $/h", "--tokens", "1T", "--json", NULL);
  g_autofree char *out = NULL;
  ck_assert(g_subprocess_communicate_utf8(process, NULL, NULL, &out, NULL, NULL));
  g_autofree char *printed = g_strndup(said.out, (gsize)(said.errors - said.out));
  g_autofree char *ours = without_wall(printed), *theirs = without_wall(out);
  ck_assert_str_eq(ours, theirs);
}

TEST(what_is_wrong_is_said_as_on_the_command_line) {
  const struct {
    const char *question, *expected;
    int status; /* of HTTP */
  } cases[] = {
      {"{", "the question: ", 400},
      {"[]", "found no object", 400},
      {"{\"verb\": \"simulat\", \"options\": []}", "did you mean \"simulate\"?", 400},
      {"{\"verb\": \"fit\", \"options\": []}", "expected one of simulate", 400},
      {"{\"verb\": 3, \"options\": []}", "expected one of simulate", 400},
      {"{\"verb\": \"simulate\", \"options\": [[\"model\", \"@mine\"]], \"files\": {\"model\": 3}}",
       "found no file of that option", 400},
      {"{\"verb\": \"simulate\"}", "found no list under \"options\"", 400},
      {"{\"verb\": \"simulate\", \"options\": [[\"tp\", 8]]}", "found something else at 0", 400},
      {"{\"verb\": \"simulate\", \"options\": [[\"dump\", \"x\"]]}", "--dump: simulate takes no such option", 400},
      {"{\"verb\": \"simulate\", \"options\": [[\"trace\", \"x\"]]}", "--trace: simulate takes no such option", 400},
      {"{\"verb\": \"simulate\", \"options\": [[\"model\", \"/etc/passwd\"]]}", "found the path /etc/passwd", 400},
      {"{\"verb\": \"simulate\", \"options\": [[\"rank-map\", \"../x\"]]}", "found the path ../x", 400},
      {"{\"verb\": \"simulate\", \"options\": [[\"schedule\", \"file:/etc/passwd\"]]}", "found the path file:", 400},
      {"{\"verb\": \"simulate\", \"options\": [[\"model\", \"@mine\"]]}", "found no file of that option", 400},
      {"{\"verb\": \"simulate\", \"options\": [], \"writes\": \"exe\"}", "expected npz, json, svg or html", 400},
      {"{\"verb\": \"explain\", \"options\": [], \"writes\": \"npz\"}", "of simulate", 400},
      {"{\"verb\": \"simulate\", \"options\": [[\"model\", \"llama-3-8\"], [\"cluster\", \"dgx-h100\"]]}",
       "did you mean \"llama-3-8b\"?", 200},
      {"{\"verb\": \"simulate\", \"options\": [[\"model\", \"llama-3-8b\"], [\"cluster\", \"dgx-h100\"], [\"tp\", "
       "\"3\"]]}",
       "tp 3", 200},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GByteArray) answer = ask(cases[i].question);
    ck_assert_msg(status_of(answer) == cases[i].status, "%s: %s", cases[i].question, answer->data);
    const char *text = cases[i].status == 200 ? said_in(answer).errors : strstr((const char *)answer->data, "\r\n\r\n");
    ck_assert_msg(strstr(text, cases[i].expected) != NULL, "%s: %s", cases[i].question, text);
  }
}

/* Of a shipped cluster, with another file for its GPU; as text inside JSON. */
static char *cluster_with_gpu(const char *gpu) {
  g_autofree char *text = NULL;
  ck_assert(g_file_get_contents(STEPSIM_SOURCE_DATA "/topologies/dgx-h100.yaml", &text, NULL, NULL));
  g_autoptr(GRegex) line = g_regex_new("^gpu:.*$", G_REGEX_MULTILINE, 0, NULL);
  g_autofree char *with = g_strconcat("gpu: ", gpu, NULL);
  g_autoptr(GString) out = g_string_new(NULL);
  g_autofree char *changed = g_regex_replace_literal(line, text, -1, 0, with, 0, NULL);
  g_string_assign(out, changed);
  ck_assert_ptr_nonnull(strstr(out->str, with));
  g_string_replace(out, "\\", "\\\\", 0);
  g_string_replace(out, "\"", "\\\"", 0);
  g_string_replace(out, "\n", "\\n", 0);
  return g_strdup(out->str);
}

TEST(a_description_from_a_page_reads_no_file_of_the_machine) {
  /* the last is a shipped one, to show that the question is good */
  static const char *const gpus[] = {"/etc/passwd", "../../../../../../etc/passwd", "/proc/self/environ",
                                     "gpus/h100-sxm5-80gb"};
  for (gsize i = 0; i < G_N_ELEMENTS(gpus); i++) {
    g_autofree char *cluster = cluster_with_gpu(gpus[i]);
    g_autofree char *question = g_strdup_printf(
        "{\"verb\": \"simulate\", \"options\": [[\"model\", \"llama-3-8b\"], [\"cluster\", \"@mine\"], [\"tp\", "
        "\"8\"]], \"files\": {\"cluster\": \"%s\"}}",
        cluster);
    g_autoptr(GByteArray) answer = ask(question);
    const Said said = said_in(answer);
    const gboolean is_shipped = i + 1 == G_N_ELEMENTS(gpus);
    ck_assert_msg((said.status == 0) == is_shipped, "%s: %s", gpus[i], said.errors);
    ck_assert_msg(is_shipped || strstr(said.errors, "cannot be read: Permission denied") != NULL, "%s", said.errors);
  }
}

TEST(a_file_of_the_users_is_read_under_its_name) {
  g_autoptr(GByteArray) answer = ask(
      "{\"verb\": \"simulate\", \"options\": [[\"model\", \"@my-own\"], [\"cluster\", \"dgx-h100\"], [\"tp\", \"8\"]], "
      "\"files\": {\"model\": \"{\\\"model_type\\\": \\\"llama\\\", \\\"hidden_size\\\": 1024}\"}}");
  ck_assert_msg(strstr(said_in(answer).errors, "my-own.json") != NULL, "%s", said_in(answer).errors);
}

/* Processes that the lab runs, by /proc. */
static char *children(void) {
  const char *id = g_subprocess_get_identifier(lab);
  g_autofree char *file = g_strdup_printf("/proc/%s/task/%s/children", id, id);
  char *text = NULL;
  g_file_get_contents(file, &text, NULL, NULL);
  return text;
}

/* It has worked for longer than it takes to start. */
static gboolean works(const char *process) {
  g_autofree char *file = g_strdup_printf("/proc/%s/stat", process);
  g_autofree char *text = NULL;
  long user = 0, system = 0; /* hundredths of a second */
  const char *after_name = g_file_get_contents(file, &text, NULL, NULL) ? strrchr(text, ')') : NULL;
  return after_name != NULL &&
         sscanf(after_name, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &user, &system) == 2 &&
         user + system > 10;
}

/* −1: a kernel without this list. */
static int n_children(gboolean that_work) {
  g_autofree char *text = children();
  g_auto(GStrv) ids = text != NULL ? g_strsplit(g_strchomp(text), " ", -1) : NULL;
  int n = ids != NULL ? 0 : -1;
  for (GStrv id = ids; id != NULL && *id != NULL; id++)
    n += **id != '\0' && (!that_work || works(*id));
  return n;
}

static gboolean wait_for_children(gboolean that_work, gboolean some) {
  for (int i = 0; i < 2000; i++) {
    if ((n_children(that_work) > 0) == some)
      return TRUE;
    g_usleep(5000);
  }
  return FALSE;
}

/* Minutes of work. */
static GSocketConnection *ask_much(void) {
  const char *question =
      "{\"verb\": \"plan\", \"options\": [[\"model\", \"gpt3-175b\"], [\"cluster\", \"selene\"], [\"gpus\", \"2048\"], "
      "[\"global-batch\", \"1536\"], [\"schedule\", \"auto\"]]}";
  g_autofree char *host = own_host();
  g_autoptr(GString) text = g_string_new(NULL);
  g_string_printf(text, "POST /run HTTP/1.1\n%sX-Stepsim-Lab: 1\nContent-Length: %zu\n\n", host, strlen(question));
  g_string_replace(text, "\n", "\r\n", 0);
  g_string_append(text, question);
  GSocketConnection *connection = dial();
  say(connection, text->str, text->len);
  return connection;
}

TEST(who_goes_away_takes_his_question_with_him) {
  if (n_children(TRUE) < 0)
    return;
  GSocketConnection *connection = ask_much();
  ck_assert(wait_for_children(TRUE, TRUE));
  g_io_stream_close(G_IO_STREAM(connection), NULL, NULL);
  g_object_unref(connection);
  ck_assert(wait_for_children(TRUE, FALSE));
}

/* Not gone, nor a zombie, whose program is no file any more. */
static gboolean is_alive(const char *exe) {
  g_autofree char *program = g_file_read_link(exe, NULL);
  return program != NULL;
}

TEST(a_lab_that_is_killed_leaves_nothing_to_the_next) {
  if (n_children(TRUE) < 0)
    return;
  g_autoptr(GSocketConnection) connection = ask_much();
  ck_assert(wait_for_children(TRUE, TRUE));
  g_autofree char *text = children();
  g_auto(GStrv) ids = g_strsplit(g_strchomp(text), " ", -1);
  g_subprocess_force_exit(lab);
  g_subprocess_wait(lab, NULL, NULL);
  g_clear_object(&lab_out);
  g_clear_object(&lab);
  for (GStrv id = ids; *id != NULL; id++) {
    g_autofree char *process = g_strconcat("/proc/", *id, "/exe", NULL);
    for (int i = 0; i < 2000 && is_alive(process); i++)
      g_usleep(5000);
    ck_assert(!is_alive(process));
  }
  start_lab(); /* the folder of the first is gone: see end() */
}

static int n_descriptors(void) {
  g_autofree char *path = g_strdup_printf("/proc/%s/fd", g_subprocess_get_identifier(lab));
  g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
  int n = 0;
  while (dir != NULL && g_dir_read_name(dir) != NULL)
    n++;
  return n;
}

TEST(who_closes_his_connection_leaves_no_descriptor) {
  if (n_children(FALSE) < 0)
    return;
  g_autofree char *request = g_strdup_printf("GET /lab.js HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n\r\n", port);
  ck_assert(wait_for_children(FALSE, TRUE));
  const int n_before = n_descriptors();
  for (int i = 0; i < 20; i++) {
    g_autoptr(GSocketConnection) connection = dial();
    char byte;
    say(connection, request, strlen(request));
    ck_assert_int_eq(g_input_stream_read(g_io_stream_get_input_stream(G_IO_STREAM(connection)), &byte, 1, NULL, NULL),
                     1);
    g_io_stream_close(G_IO_STREAM(connection), NULL, NULL);
  }
  for (int i = 0; i < 2000 && n_descriptors() > n_before; i++)
    g_usleep(5000);
  ck_assert_int_le(n_descriptors(), n_before);
}

/* What waits for the next question. */
TEST(a_spare_process_that_was_killed_is_replaced) {
  if (n_children(FALSE) < 0)
    return;
  for (int i = 0; i < 2; i++) {
    ck_assert(wait_for_children(FALSE, TRUE));
    g_autofree char *spare = children();
    ck_assert(g_ascii_isdigit(*spare));
    kill((pid_t)atoi(spare), SIGKILL);
    ck_assert(wait_for_children(FALSE, FALSE));
    g_autoptr(GByteArray) answer = ask("{\"verb\": \"simulate\", \"options\": [[\"model\", \"llama-3-8b\"], "
                                       "[\"cluster\", \"dgx-h100\"], [\"tp\", \"8\"]]}");
    ck_assert_uint_eq(said_in(answer).status, 0);
  }
}

TEST(a_hundred_ask_at_once) {
  const char *question = "{\"verb\": \"simulate\", \"options\": [[\"model\", \"llama-3-8b\"], [\"cluster\", "
                         "\"dgx-h100\"], [\"tp\", \"8\"]]}";
  g_autofree char *host = own_host();
  g_autoptr(GString) text = g_string_new(NULL);
  g_string_printf(text, "POST /run HTTP/1.1\n%sX-Stepsim-Lab: 1\nConnection: close\nContent-Length: %zu\n\n", host,
                  strlen(question));
  g_string_replace(text, "\n", "\r\n", 0);
  g_string_append(text, question);
  GSocketConnection *connections[100];
  for (gsize i = 0; i < G_N_ELEMENTS(connections); i++) {
    connections[i] = dial();
    say(connections[i], text->str, text->len);
  }
  for (gsize i = 0; i < G_N_ELEMENTS(connections); i++) {
    g_autoptr(GByteArray) answer = hear(connections[i]);
    ck_assert_uint_eq(said_in(answer).status, 0);
    g_object_unref(connections[i]);
  }
}

/* Folders that a lab made in the temporary folder of this test. */
static guint n_left(void) {
  g_autoptr(GDir) dir = g_dir_open(g_getenv("TMPDIR"), 0, NULL);
  guint n = 0;
  for (const char *name; (name = g_dir_read_name(dir)) != NULL;)
    n += g_str_has_prefix(name, "stepsim-lab-");
  return n;
}

static void begin(void) {
  folder = g_dir_make_tmp("test-lab-XXXXXX", NULL);
  g_setenv("TMPDIR", folder, TRUE);
  start_lab();
}

static void end(void) {
  ck_assert_uint_eq(n_left(), 1);
  stop_lab();
  ck_assert_uint_eq(n_left(), 0);
  g_rmdir(folder);
  g_free(folder);
}

int main(void) {
  tcase_add_unchecked_fixture(listed_tests(), begin, end);
  return run_tests();
}
