#include "cluster.h"
#include "data_path.h"
#include "error.h"
#include "run_suite.h"
#include "suggest.h"

#include <check.h>
#include <glib/gstdio.h>
#include <string.h>

static const char *const names[] = {"gpipe", "1f1b", "interleaved", "zb-h1", NULL};

TEST(each_kind_of_slip_finds_the_name) {
  ck_assert_str_eq(suggest_nearest("gpip", names), "gpipe");   /* left out */
  ck_assert_str_eq(suggest_nearest("gpiipe", names), "gpipe"); /* doubled */
  ck_assert_str_eq(suggest_nearest("gpope", names), "gpipe");  /* replaced */
  ck_assert_str_eq(suggest_nearest("gippe", names), "gpipe");  /* swapped */
  ck_assert_str_eq(suggest_nearest("GPIPE", names), "gpipe");  /* case */
  ck_assert_str_eq(suggest_nearest("interleave", names), "interleaved");
}

TEST(a_swap_is_one_edit) {
  static const char *const swapped[] = {"axxd", "acbd", NULL};
  /* to "axxd": 2 replaced; to "acbd": 1 swap */
  ck_assert_str_eq(suggest_nearest("abcd", swapped), "acbd");
}

TEST(a_slip_is_at_most_two_edits_and_not_the_name_itself) {
  ck_assert(suggest_is_slip("intermediate_sise", "intermediate_size"));
  ck_assert(suggest_is_slip("vocabsiez", "vocab_size"));
  ck_assert(!suggest_is_slip("vocab_size", "VOCAB_SIZE"));
  ck_assert(!suggest_is_slip("moe_intermediate_size", "intermediate_size"));
  ck_assert(!suggest_is_slip("num_heads", "num_kv_heads"));
}

TEST(a_common_start_is_nearer_than_common_letters) {
  static const char *const options[] = {"--tp", "--price", "--global-batch", "--seq-len", NULL};
  ck_assert_str_eq(suggest_nearest("--tp-size", options), "--tp"); /* "--price" is four edits away */
  ck_assert_str_eq(suggest_nearest("--global-batch-size", options), "--global-batch");
  ck_assert_str_eq(suggest_nearest("--glob", options), "--global-batch");
  ck_assert_str_eq(suggest_nearest("--seq-length", options), "--seq-len");
  ck_assert_ptr_null(suggest_nearest("--", options));      /* the start of all */
  ck_assert_ptr_null(suggest_nearest("--phase", options)); /* three of five letters of "--price" are others */
}

TEST(of_names_as_near_the_capitals_tell) {
  static const char *const rates[] = {"Gb/s", "GB/s", NULL};
  ck_assert_str_eq(suggest_nearest("GBps", rates), "GB/s"); /* an eighth of it is as near case-blind */
  ck_assert_str_eq(suggest_nearest("Gbps", rates), "Gb/s");
  ck_assert_str_eq(suggest_nearest("Gbit/s", rates), "Gb/s");
}

TEST(a_name_that_has_what_was_typed_as_a_word_is_meant) {
  static const char *const frameworks[] = {"megatron-lm", "megatron-core", "pytorch-fsdp", NULL};
  ck_assert_str_eq(suggest_nearest("fsdp", frameworks), "pytorch-fsdp");
  static const char *const options[] = {"--micro-batch", "--global-batch", "--offload-optimizer", NULL};
  ck_assert_str_eq(suggest_nearest("--optimizer", options), "--offload-optimizer");
  ck_assert_str_eq(suggest_nearest("--batch", options), "--micro-batch"); /* the shorter of two */
  g_autofree char *both = suggest_question("--batch", options);
  ck_assert_str_eq(both, "did you mean --micro-batch or --global-batch?");
}

TEST(the_same_letters_are_the_same_name) {
  const char *const known[] = {"all_to_all", "all_gather", "zb-h1", "fp8", "<", NULL};
  ck_assert_int_eq(suggest_same("all_to_all", known), 0);
  ck_assert_int_eq(suggest_same("alltoall", known), 0);
  ck_assert_int_eq(suggest_same("All-To-All", known), 0);
  ck_assert_int_eq(suggest_same("AllGather", known), 1);
  ck_assert_int_eq(suggest_same("ZB_H1", known), 2);
  ck_assert_int_eq(suggest_same("<", known), 4);
  for (const char *const *other = (const char *const[]){"all_to_al", "alltoalls", "h1", "", "_", ">", NULL};
       *other != NULL; other++)
    ck_assert_int_eq(suggest_same(*other, known), -1);
  ck_assert_int_eq(suggest_same(NULL, known), -1);
  const char *const near[] = {"fp-8", "fp8", NULL};
  ck_assert_int_eq(suggest_same("fp8", near), 1); /* the name itself goes before one that is written otherwise */
}

TEST(noise_suggests_nothing) {
  ck_assert_ptr_null(suggest_nearest("qqqqqqqq", names));
  ck_assert_ptr_null(suggest_nearest("", names));
  ck_assert_ptr_null(suggest_nearest(NULL, names));
  ck_assert_ptr_null(suggest_nearest("x", (const char *const[]){NULL}));
  g_autofree char *megabytes = g_strnfill(10 << 20, 'g');
  ck_assert_ptr_null(suggest_nearest(megabytes, names));
}

TEST(the_message_lists_all_and_asks_only_when_near) {
  g_autofree char *near = suggest_message("zbh1", names);
  g_autofree char *far = suggest_message("qqqqqqqq", names);
  ck_assert_str_eq(near, "expected one of gpipe, 1f1b, interleaved, zb-h1; did you mean \"zb-h1\"?");
  ck_assert_str_eq(far, "expected one of gpipe, 1f1b, interleaved, zb-h1");
}

TEST(who_types_the_start_or_a_word_of_a_name_means_it_and_no_slip) {
  static const char *const gpus[] = {"gb200", "b200-sxm-180gb", NULL};
  static const char *const models[] = {"gpt2", "gpt3-175b", "llama-3-8b", "qwen3-32b", NULL};
  static const char *const clusters[] = {"h800", "dgx-h100", "gb200-nvl72", "dgx-b200", NULL};
  ck_assert_str_eq(suggest_nearest("b200", gpus), "b200-sxm-180gb"); /* one edit from gb200 */
  ck_assert_str_eq(suggest_nearest("gpt3", models), "gpt3-175b");    /* one edit from gpt2 */
  ck_assert_str_eq(suggest_nearest("gpt-2", models), "gpt2");
  ck_assert_str_eq(suggest_nearest("llama3", models), "llama-3-8b");
  ck_assert_str_eq(suggest_nearest("Qwen3_32B", models), "qwen3-32b");
  ck_assert_str_eq(suggest_nearest("h100", clusters), "dgx-h100"); /* one edit from h800 */
  ck_assert_str_eq(suggest_nearest("b200", clusters), "dgx-b200"); /* gb200 has it within a word */
  ck_assert_str_eq(suggest_nearest("h80", clusters), "h800");
}

TEST(several_names_that_may_be_meant_are_asked_for_the_shortest_first) {
  static const char *const gpus[] = {"a100-pcie", "h100-pcie", "h100-sxm", "h200-sxm", "gb200", NULL};
  g_autofree char *both = suggest_message("H100", gpus);
  ck_assert_str_eq(both, "expected one of a100-pcie, h100-pcie, h100-sxm, h200-sxm, gb200; "
                         "did you mean \"h100-sxm\" or \"h100-pcie\"?");
  g_autofree char *start = suggest_question("gb20", gpus);
  ck_assert_str_eq(start, "did you mean \"gb200\"?");
  static const char *const many[] = {"lama-70b", "lama-7b-b", "lama-7b", "lama-7b-c", "lama-7b-d", NULL};
  g_autofree char *four = suggest_question("lama", many);
  ck_assert_str_eq(four, "did you mean \"lama-7b\" or \"lama-70b\" or \"lama-7b-b\" or \"lama-7b-c\"?");
  ck_assert_ptr_null(suggest_question("7b-", many)); /* two letters and digits */
  ck_assert_ptr_null(suggest_question("a", gpus));
  ck_assert_ptr_null(suggest_question(NULL, gpus));
}

TEST(a_gpu_that_is_no_file_is_asked_for_by_those_that_have_its_name) {
  g_autofree char *folder = g_dir_make_tmp("stepsim-test-gpu-XXXXXX", NULL);
  g_autofree char *file = g_build_filename(folder, "mine.yaml", NULL);
  static const char *const spelled[] = {"h100", "gpus/h100.yaml"};
  for (gsize i = 0; i < G_N_ELEMENTS(spelled); i++) {
    g_autofree char *text = g_strdup_printf("name: mine\nbase: dgx-h100\ngpu: %s\n", spelled[i]);
    ck_assert(g_file_set_contents(file, text, -1, NULL));
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(cluster_read(file, &error));
    ck_assert_ptr_nonnull(
        strstr(error->message, "did you mean \"h100-pcie-80gb\" or \"h100-sxm5-80gb\" or \"h100-sxm-96gb-hbm2e\"?"));
  }
  g_unlink(file);
  g_rmdir(folder);
}

TEST(messages_cannot_drive_the_terminal) {
  g_autoptr(GError) error = NULL;
  ck_assert(!fail_input(&error, "found \"%s\"", "\x1b[2J\xff"));
  ck_assert_ptr_null(strchr(error->message, '\x1b'));
  ck_assert(g_utf8_validate(error->message, -1, NULL));
  ck_assert(!fail_impossible(NULL, "nobody listens"));
}

/* A root of data: <folder>/models/mine.json. Removed by drop_root(). */
static char *make_root(void) {
  char *root = g_dir_make_tmp("stepsim-test-data-XXXXXX", NULL);
  ck_assert_ptr_nonnull(root);
  g_autofree char *models = g_build_filename(root, "models", NULL);
  g_autofree char *mine = g_build_filename(models, "mine.json", NULL);
  ck_assert_int_eq(g_mkdir(models, 0700), 0);
  ck_assert(g_file_set_contents(mine, "{}", -1, NULL));
  return root;
}

static void drop_root(const char *root) {
  g_autofree char *models = g_build_filename(root, "models", NULL);
  g_autofree char *mine = g_build_filename(models, "mine.json", NULL);
  g_unlink(mine);
  g_rmdir(models);
  g_rmdir(root);
}

TEST(bare_names_are_found_under_the_users_data) {
  g_autofree char *root = make_root();
  g_setenv("STEPSIM_DATA", root, TRUE);
  const char *spellings[] = {"mine", "mine.json", "models/mine", "models/mine.json"};
  for (size_t i = 0; i < G_N_ELEMENTS(spellings); i++) {
    g_autofree char *path = data_path_find("models", spellings[i], ".json", NULL);
    ck_assert_ptr_nonnull(path);
    ck_assert(g_str_has_prefix(path, root));
  }
  g_unsetenv("STEPSIM_DATA");
  ck_assert_ptr_null(data_path_find("models", "mine", ".json", NULL));
  drop_root(root);
}

TEST(an_existing_path_is_itself) {
  g_autofree char *root = make_root();
  g_autofree char *mine = g_build_filename(root, "models", "mine.json", NULL);
  g_autofree char *path = data_path_find("models", mine, ".json", NULL);
  ck_assert_str_eq(path, mine);
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(data_path_find("models", root, ".json", &error)); /* a folder is no file */
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
  drop_root(root);
}

TEST(a_missing_file_lists_what_there_is) {
  g_autofree char *root = make_root();
  g_setenv("STEPSIM_DATA", root, TRUE);
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(data_path_find("models", "models/mien.json", ".json", &error));
  ck_assert_ptr_nonnull(strstr(error->message, "did you mean \"mine\"?"));
  g_autoptr(GError) path = NULL;
  ck_assert_ptr_null(data_path_find("models", "/no/folder/mien.json", ".json", &path));
  ck_assert_str_eq(path->message, "/no/folder/mien.json: no such file; did you mean \"mine\"?");
  g_unsetenv("STEPSIM_DATA");
  g_autoptr(GError) none = NULL;
  ck_assert_ptr_null(data_path_find("no-such-folder", "x", ".json", &none));
  ck_assert_ptr_nonnull(strstr(none->message, "no no-such-folder/*.json was found"));
  drop_root(root);
}

/* Shipped files call theirs gpus/… and nccl/…, which lie beside them and not beside a copy. */
TEST(a_copy_of_a_shipped_cluster_is_read_elsewhere) {
  static const char *const files[] = {"dgx-h100.yaml", "a100-pcie.yaml", "gb200-nvl72.yaml"};
  for (guint i = 0; i < G_N_ELEMENTS(files); i++) {
    g_autofree char *original = g_build_filename(STEPSIM_SOURCE_DATA, "topologies", files[i], NULL);
    g_autofree char *text = NULL;
    ck_assert(g_file_get_contents(original, &text, NULL, NULL));
    g_autoptr(GError) error = NULL;
    g_autoptr(Cluster) copy = cluster_parse("/no/folder/copy.yaml", text, &error);
    ck_assert_msg(copy != NULL, "%s", error != NULL ? error->message : "");
    g_autoptr(Cluster) shipped = cluster_read(original, NULL);
    ck_assert_str_eq(copy->gpu.name, shipped->gpu.name);
  }
}

TEST(a_file_is_read_whole_or_not_at_all) {
  g_autofree char *root = make_root();
  g_autofree char *mine = g_build_filename(root, "models", "mine.json", NULL);
  gsize length = 0;
  g_autofree char *text = data_file_read(mine, &length, NULL);
  ck_assert_str_eq(text, "{}");
  ck_assert_uint_eq(length, 2);
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(data_file_read(root, &length, &error));
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
  ck_assert_ptr_null(data_file_read("/dev/zero", &length, NULL));
  drop_root(root);
}

int main(void) {
  return run_tests();
}
