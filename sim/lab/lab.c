/*     GET  /, /lab.js …      the page, which is part of the program
 *     GET  /catalog.json     what there is to choose from, and where to start
 *     GET  /published.csv    measured steps, to find the nearest to a plan
 *     POST /run              a question (lab_question.h)
 *     POST /trace            a recording, its bytes; X-Name is what it is called
 *
 * An answer is four little-endian numbers of 32 bits, an exit status and three lengths, and then what the process
 * printed on standard output, on standard error, and the file that it wrote.
 *
 * It listens on the loopback alone; another page that the user has open could still send to it. So a request must
 * name this host (or a name that resolves to here would make it another page's own), come from this page if it comes
 * from any, and be of a kind that a foreign page may not send without asking first. */
#include "lab.h"

#include <gio/gio.h>
#include <glib-unix.h>
#include <glib/gstdio.h>
#include <libsoup/soup.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "lab_catalog.h"
#include "lab_job.h"
#include "lab_page.h"
#include "lab_question.h"

enum { TOO_MANY_REQUESTS = 429 }; /* RFC 6585; libsoup has no name for it */
enum { LIMIT_S = 120, MOST_QUESTION_BYTES = 8 << 20, MOST_RECORDING_BYTES = 512 << 20 };

typedef struct {
  SoupServer *server;
  LabJobs *jobs;
  GMainLoop *loop;
  char *folder, *catalog;
  char *hosts[2]; /* "127.0.0.1:8080", "localhost:8080" */
} Lab;

/* A request that waits for its answer. */
typedef struct {
  SoupServerMessage *message;
  LabJob *job;
  GSource *watch; /* of its connection */
} Waiting;

/* --- answers ----------------------------------------------------------------------------------------------------- */

/* The rest of the request is still read, but not kept. */
static void refuse(SoupServerMessage *message, guint status, const char *why) {
  soup_message_body_set_accumulate(soup_server_message_get_request_body(message), FALSE);
  soup_server_message_set_status(message, status, NULL);
  soup_server_message_set_response(message, "text/plain; charset=utf-8", SOUP_MEMORY_COPY, why, strlen(why));
}

static void waiting_free(Waiting *waiting) {
  g_source_destroy(waiting->watch);
  g_source_unref(waiting->watch);
  g_object_unref(waiting->message);
  g_free(waiting);
}

static void append_part(SoupMessageBody *body, GBytes *part) {
  if (part != NULL && g_bytes_get_size(part) > 0)
    soup_message_body_append_bytes(body, part);
}

static void answer(const LabAnswer *given, gpointer data) {
  Waiting *waiting = data;
  const guint32 head[] = {GUINT32_TO_LE((guint32)given->status), GUINT32_TO_LE((guint32)g_bytes_get_size(given->out)),
                          GUINT32_TO_LE((guint32)g_bytes_get_size(given->errors)),
                          GUINT32_TO_LE(given->written != NULL ? (guint32)g_bytes_get_size(given->written) : 0)};
  SoupServerMessage *message = waiting->message;
  soup_server_message_set_status(message, SOUP_STATUS_OK, NULL);
  soup_message_headers_set_content_type(soup_server_message_get_response_headers(message), "application/octet-stream",
                                        NULL);
  SoupMessageBody *body = soup_server_message_get_response_body(message);
  soup_message_body_append(body, SOUP_MEMORY_COPY, head, sizeof head);
  append_part(body, given->out);
  append_part(body, given->errors);
  append_part(body, given->written);
  soup_message_body_complete(body);
  soup_server_message_unpause(message);
  waiting_free(waiting);
}

/* While a request waits nothing is read from its connection, so only this sees that the other side is gone. */
static gboolean see_connection(GSocket *socket, GIOCondition condition, gpointer data) {
  Waiting *waiting = data;
  char byte;
  const gssize n_read = recv(g_socket_get_fd(socket), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (n_read > 0) /* the next request, sent early: what follows it cannot be seen any more */
    return G_SOURCE_REMOVE;
  if (n_read < 0 && (errno == EAGAIN || errno == EINTR) && !(condition & (G_IO_HUP | G_IO_ERR)))
    return G_SOURCE_CONTINUE;
  lab_job_cancel(waiting->job);
  refuse(waiting->message, SOUP_STATUS_SERVICE_UNAVAILABLE, "gone");
  soup_server_message_unpause(waiting->message);
  waiting_free(waiting);
  return G_SOURCE_REMOVE;
}

static void ask(Lab *lab, SoupServerMessage *message, LabQuestion *question) {
  Waiting *waiting = g_new0(Waiting, 1);
  waiting->message = g_object_ref(message);
  GSocket *socket = soup_server_message_get_socket(message);
  waiting->watch = g_socket_create_source(socket, G_IO_IN | G_IO_HUP | G_IO_ERR, NULL);
  g_source_set_callback(waiting->watch, G_SOURCE_FUNC(see_connection), waiting, NULL);
  g_source_attach(waiting->watch, NULL);
  soup_server_message_pause(message);
  waiting->job = lab_job_ask(lab->jobs, g_steal_pointer(&question->arguments), g_steal_pointer(&question->files),
                             question->option, question->suffix, question->aside, answer, waiting);
  if (waiting->job != NULL)
    return;
  refuse(message, TOO_MANY_REQUESTS, "too many questions wait already");
  soup_server_message_unpause(message);
  waiting_free(waiting);
}

/* --- requests ---------------------------------------------------------------------------------------------------- */

static gboolean is_own_host(const Lab *lab, const char *host) {
  return host != NULL && (strcmp(host, lab->hosts[0]) == 0 || strcmp(host, lab->hosts[1]) == 0);
}

/* NULL: it may be answered. */
static const char *foreign(const Lab *lab, SoupServerMessage *message) {
  SoupMessageHeaders *headers = soup_server_message_get_request_headers(message);
  const char *origin = soup_message_headers_get_one(headers, "Origin");
  const char *site = soup_message_headers_get_one(headers, "Sec-Fetch-Site");
  if (!is_own_host(lab, soup_message_headers_get_one(headers, "Host")))
    return "this lab answers 127.0.0.1 and localhost alone";
  if (origin != NULL && (!g_str_has_prefix(origin, "http://") || !is_own_host(lab, origin + strlen("http://"))))
    return "this lab answers its own page alone";
  if (site != NULL && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0)
    return "this lab answers its own page alone";
  return NULL;
}

static gsize most_bytes(const char *path) {
  return strcmp(path, "/trace") == 0 ? MOST_RECORDING_BYTES : MOST_QUESTION_BYTES;
}

/* Once the headers have come, before any of the body is read. A connection is for one request: libsoup before 3.3 keeps
 * those that the other side closes afterwards, and a lab of many hours would have no descriptors left. */
static void check_headers(SoupServer *server, SoupServerMessage *message, const char *path, GHashTable *query,
                          gpointer data) {
  soup_message_headers_replace(soup_server_message_get_response_headers(message), "Connection", "close");
  SoupMessageHeaders *headers = soup_server_message_get_request_headers(message);
  const char *method = soup_server_message_get_method(message), *why = foreign(data, message);
  const gboolean posts = strcmp(method, "POST") == 0;
  if (why != NULL)
    refuse(message, SOUP_STATUS_FORBIDDEN, why);
  else if (!posts && strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
    refuse(message, SOUP_STATUS_METHOD_NOT_ALLOWED, "GET or POST");
  else if (posts && soup_message_headers_get_encoding(headers) != SOUP_ENCODING_CONTENT_LENGTH)
    refuse(message, SOUP_STATUS_LENGTH_REQUIRED, "expected Content-Length");
  else if (posts && soup_message_headers_get_content_length(headers) > (goffset)most_bytes(path))
    refuse(message, SOUP_STATUS_REQUEST_ENTITY_TOO_LARGE, "too large");
  else if (posts && soup_message_headers_get_one(headers, "X-Stepsim-Lab") == NULL)
    refuse(message, SOUP_STATUS_FORBIDDEN, "expected the header X-Stepsim-Lab, which only this lab's page sends");
}

static void post(Lab *lab, SoupServerMessage *message, const char *path) {
  SoupMessageHeaders *headers = soup_server_message_get_request_headers(message);
  const char *name = soup_message_headers_get_one(headers, "X-Name");
  g_autoptr(GBytes) body = soup_message_body_flatten(soup_server_message_get_request_body(message));
  gsize length;
  const char *text = g_bytes_get_data(body, &length);
  g_autoptr(GError) error = NULL;
  LabQuestion question;
  gboolean is_read;
  if (strcmp(path, "/run") == 0) {
    is_read = lab_question_read(&question, lab->folder, text != NULL ? text : "", length, &error);
  } else if (strcmp(path, "/trace") == 0) {
    is_read = lab_question_of_recording(&question, lab->folder, name != NULL ? name : "", text != NULL ? text : "",
                                        length, &error);
  } else {
    refuse(message, SOUP_STATUS_NOT_FOUND, "no such place");
    return;
  }
  if (is_read)
    ask(lab, message, &question);
  else
    refuse(message, SOUP_STATUS_BAD_REQUEST, error->message);
}

static const char *kind_of(const char *path) {
  static const char *const kinds[][2] = {{".html", "text/html; charset=utf-8"},
                                         {".css", "text/css; charset=utf-8"},
                                         {".js", "text/javascript; charset=utf-8"},
                                         {".csv", "text/csv; charset=utf-8"},
                                         {".svg", "image/svg+xml"}};
  for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++)
    if (g_str_has_suffix(path, kinds[i][0]))
      return kinds[i][1];
  return "application/octet-stream";
}

static void get(const Lab *lab, SoupServerMessage *message, const char *path) {
  SoupMessageHeaders *headers = soup_server_message_get_response_headers(message);
  soup_message_headers_replace(headers, "Cache-Control", "no-store");
  soup_message_headers_replace(headers, "X-Content-Type-Options", "nosniff");
  soup_message_headers_replace(headers, "Referrer-Policy", "no-referrer");
  soup_message_headers_replace(headers, "Cross-Origin-Resource-Policy", "same-origin");
  soup_message_headers_replace(headers, "Content-Security-Policy",
                               "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
                               "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; "
                               "frame-ancestors 'none'");
  soup_server_message_set_status(message, SOUP_STATUS_OK, NULL);
  if (strcmp(path, "/catalog.json") == 0) {
    soup_server_message_set_response(message, "application/json", SOUP_MEMORY_COPY, lab->catalog, strlen(lab->catalog));
    return;
  }
  g_autofree char *resource = g_strconcat("/stepsim/lab", strcmp(path, "/") == 0 ? "/index.html" : path, NULL);
  g_autoptr(GBytes) bytes =
      g_resource_lookup_data(lab_page_get_resource(), resource, G_RESOURCE_LOOKUP_FLAGS_NONE, NULL);
  if (bytes == NULL) {
    refuse(message, SOUP_STATUS_NOT_FOUND, "no such place");
    return;
  }
  soup_server_message_set_response(message, kind_of(resource), SOUP_MEMORY_COPY, NULL, 0);
  soup_message_body_append_bytes(soup_server_message_get_response_body(message), bytes);
}

static void handle(SoupServer *server, SoupServerMessage *message, const char *path, GHashTable *query, gpointer data) {
  if (soup_server_message_get_status(message) != 0) /* refused already */
    return;
  if (strcmp(soup_server_message_get_method(message), "POST") == 0)
    post(data, message, path);
  else
    get(data, message, path);
}

/* --- the server -------------------------------------------------------------------------------------------------- */

static void open_browser(const char *address) {
  g_autoptr(GError) error = NULL;
  const gboolean has_display = g_getenv("DISPLAY") != NULL || g_getenv("WAYLAND_DISPLAY") != NULL;
  if (!has_display || !g_app_info_launch_default_for_uri(address, NULL, &error))
    g_printerr("No browser was opened (%s). Open the address in one; on a machine that you reached by ssh, forward the "
               "port first: ssh -L PORT:127.0.0.1:PORT\n",
               has_display ? error->message : "DISPLAY and WAYLAND_DISPLAY are not set");
}

static gboolean stop(gpointer loop) {
  g_main_loop_quit(loop);
  return G_SOURCE_CONTINUE;
}

static gboolean listen_to(Lab *lab, int port, GError **error) {
  g_autoptr(GError) reason = NULL;
  lab->server = soup_server_new("server-header", "stepsim", NULL);
  soup_server_add_early_handler(lab->server, NULL, check_headers, lab, NULL);
  soup_server_add_handler(lab->server, NULL, handle, lab, NULL);
  if (!soup_server_listen_local(lab->server, (guint)port, SOUP_SERVER_LISTEN_IPV4_ONLY, &reason))
    return fail_input(error, "--port %d: %s", port, reason->message);
  GSList *uris = soup_server_get_uris(lab->server);
  const int got = g_uri_get_port(uris->data);
  g_slist_free_full(uris, (GDestroyNotify)g_uri_unref);
  lab->hosts[0] = g_strdup_printf("127.0.0.1:%d", got);
  lab->hosts[1] = g_strdup_printf("localhost:%d", got);
  return TRUE;
}

static void serve(Lab *lab, gboolean opens_browser) {
  lab->jobs = lab_jobs_new(lab->folder, LIMIT_S);
  lab->loop = g_main_loop_new(NULL, FALSE);
  const guint sources[] = {g_unix_signal_add(SIGINT, stop, lab->loop), g_unix_signal_add(SIGTERM, stop, lab->loop)};
  g_autofree char *address = g_strdup_printf("http://%s/", lab->hosts[0]);
  g_print("%s\n", address);
  fflush(stdout);
  if (opens_browser)
    open_browser(address);
  g_main_loop_run(lab->loop);
  for (gsize i = 0; i < G_N_ELEMENTS(sources); i++)
    g_source_remove(sources[i]);
  lab_jobs_free(lab->jobs);
  soup_server_disconnect(lab->server);
  g_main_loop_unref(lab->loop);
}

#define FOLDER_OF_LAB "stepsim-lab-"

/* Removes what is in a folder of the lab: files, and folders of files. */
static void empty(const char *folder) {
  g_autoptr(GDir) directory = g_dir_open(folder, 0, NULL);
  for (const char *name; directory != NULL && (name = g_dir_read_name(directory)) != NULL;) {
    g_autofree char *path = g_build_filename(folder, name, NULL);
    if (g_file_test(path, G_FILE_TEST_IS_DIR) && !g_file_test(path, G_FILE_TEST_IS_SYMLINK))
      empty(path);
    g_remove(path);
  }
}

/* Folders of labs that were killed: their names have the number of a process that is no more. */
static void remove_left(void) {
  g_autoptr(GDir) directory = g_dir_open(g_get_tmp_dir(), 0, NULL);
  for (const char *name; directory != NULL && (name = g_dir_read_name(directory)) != NULL;) {
    const gint64 pid =
        g_str_has_prefix(name, FOLDER_OF_LAB) ? g_ascii_strtoll(name + strlen(FOLDER_OF_LAB), NULL, 10) : 0;
    g_autofree char *path = g_build_filename(g_get_tmp_dir(), name, NULL);
    GStatBuf status;
    if (pid <= 0 || kill((pid_t)pid, 0) == 0 || errno != ESRCH || g_lstat(path, &status) != 0 ||
        !S_ISDIR(status.st_mode) || status.st_uid != getuid())
      continue;
    empty(path);
    g_rmdir(path);
  }
}

gboolean lab_serve(const LabOptions *options, GError **error) {
  Lab lab = {.catalog = lab_catalog(options->at_first, error)};
  if (lab.catalog == NULL)
    return FALSE;
  remove_left();
  g_autofree char *name = g_strdup_printf(FOLDER_OF_LAB "%d-XXXXXX", (int)getpid());
  lab.folder = g_dir_make_tmp(name, error);
  const gboolean listens = lab.folder != NULL && listen_to(&lab, options->port, error);
  if (listens)
    serve(&lab, options->opens_browser);
  g_clear_object(&lab.server);
  if (lab.folder != NULL)
    g_rmdir(lab.folder);
  for (gsize i = 0; i < G_N_ELEMENTS(lab.hosts); i++)
    g_free(lab.hosts[i]);
  g_free(lab.folder);
  g_free(lab.catalog);
  return listens;
}
