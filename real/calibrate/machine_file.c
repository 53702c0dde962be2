/* A description of the processor is the file's base: it keeps all it says, as constants of it were found with
 * frameworks, and the tables stand beside them. Without one the analytic fields are set so that the best measurement
 * has efficiency 1: peak = the fastest product, bandwidth = the fastest pass over memory, attention = a share of that
 * peak. Tables do the rest: a size in the table has its measured time, any other the model's time × the ratio measured
 * near it. */
#include "machine_file.h"

#include "data_path.h"
#include "error.h"
#include "units.h"
#include "whole_file.h"
#include "yaml_base.h"

#include <glib/gstdio.h>
#include <string.h>

/* Smallest product (FLOPs) and pass (bytes) that count for a peak rate; if all are smaller, the largest ones count. On
 * a GPU a pass must exceed the L2 cache (50 to 126 MB; H100 and B200 datasheets), or it would measure the cache. */
static const double telling_flops = 1e7, telling_bytes = 1e6, telling_gpu_bytes = 2.5e8;

static char *beside(const char *file, const char *folder) {
  g_autofree char *parent = g_path_get_dirname(file), *name = g_path_get_basename(file);
  return g_build_filename(parent, folder, name, NULL);
}

char *machine_gpu_file(const char *file) {
  return beside(file, "gpus");
}

char *machine_library_file(const char *file) {
  return beside(file, "nccl");
}

static char *machine_name(const char *file) {
  char *name = g_path_get_basename(file);
  if (g_str_has_suffix(name, ".yaml"))
    name[strlen(name) - strlen(".yaml")] = '\0';
  return name;
}

static void append_time(GString *out, double time_s) {
  g_string_append_printf(out, "%.6g us", time_s * 1e6);
}

/* --- rates --- */

static double attention_flops(const WorkItem *item) {
  return item->batch * measured_attention_pairs(item->m, item->n) *
         measured_attention_pair_flops(item->backward, item->k, work_item_v_dim(item));
}

/* The fastest of the items of which there is an amount > 0, per second; of those of the telling amount or more, or of
 * the largest if all are smaller. 0: none was measured. */
static double best_rate(const MachineDescription *machine, double (*amount)(const WorkItem *item, int number),
                        int number, double telling) {
  double best = 0, largest = 0;
  for (int i = 0; i < machine->n_kernels; i++)
    largest = MAX(largest, amount(&machine->kernels[i].item, number));
  for (int i = 0; i < machine->n_kernels; i++) {
    const double own = amount(&machine->kernels[i].item, number);
    if (own > 0 && own >= MIN(telling, largest))
      best = MAX(best, own / machine->kernels[i].median_s);
  }
  return best;
}

/* FLOPs of a product in the number format. */
static double product_flops(const WorkItem *item, int number) {
  const gboolean is_it = item->kind == ITEM_MATMUL && item->number == number;
  return is_it ? 2.0 * item->batch * item->m * item->n * item->k : 0;
}

static double peak_of(const MachineDescription *machine, int number) {
  return machine->base != NULL ? machine->base->peak_flops[number]
                               : best_rate(machine, product_flops, number, telling_flops);
}

static double best_attention(const MachineDescription *machine, gboolean backward) {
  double best = 0;
  for (int i = 0; i < machine->n_kernels; i++) {
    const KernelTime *time = &machine->kernels[i];
    if (time->item.kind == ITEM_ATTENTION && (time->item.backward != 0) == backward &&
        peak_of(machine, time->item.number) > 0)
      best = MAX(best, attention_flops(&time->item) / time->median_s / peak_of(machine, time->item.number));
  }
  return best > 0 ? CLAMP(best, 1e-3, 1) : 0.5;
}

static double pass_bytes(const WorkItem *item, int number) {
  (void)number;
  return item->kind == ITEM_MEMORY && strcmp(item->name, "memory") == 0 ? item->bytes : 0;
}

/* Fastest pass over memory, B/s. */
static double best_memory(const MachineDescription *machine) {
  const double best =
      best_rate(machine, pass_bytes, 0, machine->facts->is_host_memory ? telling_bytes : telling_gpu_bytes);
  g_assert(best > 0); /* passes are always measured */
  return best;
}

/* --- the processor --- */

static void append_rates(GString *out, const MachineDescription *machine) {
  g_string_append(out, "\npeak:  # the fastest product measured: not a datasheet's\n");
  for (int number = 0; number < N_NUMBERS; number++)
    if (peak_of(machine, number) > 0)
      g_string_append_printf(out, "  %s: %.6g TFLOP/s\n", number_name((Number)number),
                             peak_of(machine, number) * 1e-12);
  g_string_append_printf(out, "\nhbm:\n  capacity: %.0f B\n  reserved: 0 B\n  bandwidth: %.6g GB/s\n  efficiency: 1\n",
                         machine->facts->memory_bytes, best_memory(machine) * 1e-9);
}

static void append_matmul(GString *out, const MachineDescription *machine) {
  const char *separator = "";
  g_string_append(out, "\nmatmul:\n  sustained: {");
  for (int number = 0; number < N_NUMBERS; number++) {
    if (peak_of(machine, number) <= 0)
      continue;
    g_string_append_printf(out, "%s%s: 1", separator, number_name((Number)number));
    separator = ", ";
  }
  g_string_append(out, "}\n  under_load: 1\n  k_ramp: 16\n  tiles:\n    - {m: 16, n: 16, efficiency: 1}\n");
}

/* What a GPU file says of a processor that is not described elsewhere. */
static void append_processor(GString *out, const MachineDescription *machine) {
  const DeviceFacts *facts = machine->facts;
  g_string_append_printf(out, "source: >-\n  %s\nsms: 1\nclock: %.6g GHz\n", machine->source,
                         (facts->clock_Hz >= 1e8 ? facts->clock_Hz : 1e9) * 1e-9);
  append_rates(out, machine);
  append_matmul(out, machine);
  g_string_append_printf(out, "\nattention:\n  forward: %.4g\n  backward: %.4g\n", best_attention(machine, FALSE),
                         best_attention(machine, TRUE));
  g_string_append_printf(
      out, "\nlatency:\n  kernel: %.6g us\n  host_launch: %.6g us%s\n", facts->kernel_s * 1e6, facts->launch_s * 1e6,
      facts->is_host_memory ? "" : "  # stepreal's: a framework takes longer, and --base keeps that");
}

static void append_product(GString *out, const WorkItem *item) {
  static const char *const layouts[] = {[LAYOUT_TN] = "tn", [LAYOUT_NN] = "nn", [LAYOUT_NT] = "nt"};
  g_string_append_printf(out,
                         "number: %s, layout: %s, accumulate: %s, batch: %" G_GINT64_FORMAT ", m: %" G_GINT64_FORMAT
                         ", n: %" G_GINT64_FORMAT ", k: %" G_GINT64_FORMAT,
                         number_name((Number)item->number), layouts[item->layout], item->accumulate ? "yes" : "no",
                         item->batch, item->m, item->n, item->k);
}

static void append_pass(GString *out, const WorkItem *item) {
  g_string_append_printf(out, "name: %s, bytes: %.0f B", item->name, item->bytes);
}

static void append_attention(GString *out, const WorkItem *item) {
  g_string_append_printf(out, "number: %s, backward: %s, batch: %" G_GINT64_FORMAT ", seq_len: %" G_GINT64_FORMAT,
                         number_name((Number)item->number), item->backward ? "yes" : "no", item->batch, item->m);
  if (item->n != item->m)
    g_string_append_printf(out, ", keys: %" G_GINT64_FORMAT, item->n);
  g_string_append_printf(out, ", head_dim: %" G_GINT64_FORMAT, item->k);
  if (work_item_v_dim(item) != item->k)
    g_string_append_printf(out, ", v_head_dim: %" G_GINT64_FORMAT, work_item_v_dim(item));
}

/* A table of the GPU file, unless it would be empty. */
static void append_table(GString *out, const MachineDescription *machine, const char *heading, int kind,
                         void (*append_item)(GString *out, const WorkItem *item)) {
  for (int i = 0; i < machine->n_kernels; i++) {
    const WorkItem *item = &machine->kernels[i].item;
    if (item->kind != kind || !(kind == ITEM_MEMORY ? item->bytes >= 1 : peak_of(machine, item->number) > 0))
      continue;
    g_string_append_printf(out, "%s    - {", heading);
    append_item(out, item);
    g_string_append(out, ", time: ");
    append_time(out, machine->kernels[i].median_s);
    g_string_append(out, "}\n");
    heading = "";
  }
}

/* By whatever path, links included; a file that does not exist is none. */
static gboolean is_same_file(const char *a, const char *b) {
  GStatBuf first, second;
  return g_stat(a, &first) == 0 && g_stat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

/* How the GPU file names its base: by its name where that leads to the same file, else by its path; as YAML, owned by
 * the caller. */
static char *base_text(const char *gpu_file, const Gpu *base) {
  g_autofree char *name = machine_name(base->file);
  g_autofree char *found = data_path_find_beside(gpu_file, "topologies/gpus", name, ".yaml", NULL);
  if (found != NULL && is_same_file(found, base->file))
    return g_steal_pointer(&name);
  g_autofree char *path = g_canonicalize_filename(base->file, NULL);
  g_auto(GStrv) parts = g_strsplit(path, "'", -1);
  g_autofree char *quoted = g_strjoinv("''", parts);
  return g_strdup_printf("'%s'", quoted);
}

gboolean machine_base_check(const char *file, const Gpu *base, GError **error) {
  g_autofree char *gpu_file = machine_gpu_file(file), *name = base_text(gpu_file, base);
  gboolean is_own = is_same_file(gpu_file, base->file);
  for (guint i = 0; i < base->bases->len; i++)
    is_own = is_own || is_same_file(gpu_file, g_ptr_array_index(base->bases, i));
  if (is_own)
    return fail_input(error,
                      "--base %s and --output %s clash: %s would be written over its own base; expected another "
                      "--output, or the base of that file",
                      base->file, file, gpu_file);
  g_autofree char *text = g_strdup_printf("name: x\nbase: %s\n", name);
  YamlFile *yaml = yaml_file_parse(gpu_file, text, strlen(text), error);
  g_autoptr(YamlFile) over =
      yaml != NULL ? yaml_over_bases(yaml, &(YamlBases){"topologies/gpus", NULL, NULL}, NULL, error) : NULL;
  return over != NULL;
}

/* The memory-bound kernels and launches are stepreal's own, those of a CPU those of the only program there is for it.
 */
static void append_origin(GString *out, const MachineDescription *machine) {
  if (machine->base == NULL && machine->facts->is_host_memory)
    return;
  g_string_append(out, "  origin: stepreal  # launches and memory-bound kernels: not a framework's\n");
  if (machine->base != NULL)
    g_string_append_printf(out, "  under_load: 1\n  kernel: %.6g us\n  host_launch: %.6g us\n",
                           machine->facts->kernel_s * 1e6, machine->facts->launch_s * 1e6);
}

static char *gpu_text(const MachineDescription *machine) {
  g_autofree char *name = machine_name(machine->file), *file = machine_gpu_file(machine->file);
  GString *out = g_string_new(NULL);
  g_string_append_printf(out, "# Written by stepreal calibrate; run it again rather than editing this.\nname: %s\n",
                         name);
  if (machine->base != NULL) {
    g_autofree char *base = base_text(file, machine->base);
    g_string_append_printf(out, "base: %s\n", base);
  } else {
    append_processor(out, machine);
  }
  g_string_append_printf(out, "\nmeasured:\n  source: >-\n    %s\n", machine->source);
  append_origin(out, machine);
  append_table(out, machine, "  products:\n", ITEM_MATMUL, append_product);
  append_table(out, machine, "  kernels:\n", ITEM_MEMORY, append_pass);
  append_table(out, machine, "  attention:\n", ITEM_ATTENTION, append_attention);
  return g_string_free(out, FALSE);
}

/* --- the cluster --- */

/* The time of an operation's smallest or largest buffer, on the largest group that spans `n_nodes`; NULL: none. */
static const LinkTime *find_link(const LinkTimes *links, Collective op, int n_nodes, gboolean largest) {
  const LinkTime *found = NULL;
  for (guint i = 0; i < links->times->len; i++) {
    const LinkTime *time = &g_array_index(links->times, LinkTime, i);
    if (time->op != op || time->n_nodes != n_nodes)
      continue;
    if (found == NULL || time->n_ranks > found->n_ranks ||
        (time->n_ranks == found->n_ranks && (largest ? time->bytes > found->bytes : time->bytes < found->bytes)))
      found = time;
  }
  return found;
}

/* Bus bandwidth of the largest all-reduce on the largest group that spans `n_nodes`. */
static double bus_Bps(const LinkTimes *links, int n_nodes) {
  const LinkTime *time = find_link(links, COLLECTIVE_ALL_REDUCE, n_nodes, TRUE);
  return time ? time->bytes / time->median_s * collective_bus_factor(COLLECTIVE_ALL_REDUCE, time->n_ranks) : 1e9;
}

static double least_send_s(const LinkTimes *links) {
  const LinkTime *time = find_link(links, COLLECTIVE_SEND_RECV, 1, FALSE);
  return time ? time->median_s : 1e-6;
}

/* Of each operation and group the smallest transfer by itself, if that is not what the tables have: it includes its
 * launch, which a host that is ahead hides. */
static void append_latencies(GString *out, const GArray *times) {
  const LinkTime *before = NULL;
  for (guint i = 0; i < times->len; i++) {
    const LinkTime *time = &g_array_index(times, LinkTime, i);
    const gboolean is_smallest = before == NULL || before->op != time->op || before->n_ranks != time->n_ranks;
    if (is_smallest && time->once_s > time->median_s)
      g_string_append_printf(
          out,
          "  # %s over %d GPUs, %" G_GINT64_FORMAT " B: %.6g us by itself, with its launch, beside %.6g us in a row\n",
          collective_name(time->op), time->n_ranks, time->bytes, time->once_s * 1e6, time->median_s * 1e6);
    before = time;
  }
}

static void append_link_tables(GString *out, const MachineDescription *machine) {
  const GArray *times = machine->links->times;
  g_string_append_printf(out, "\nmeasured:\n  source: >-\n    %s\n", machine->source);
  append_latencies(out, times);
  for (int of_sends = 0; of_sends < 2; of_sends++) {
    const char *heading = of_sends ? "  sends:\n" : "  collectives:\n";
    for (guint i = 0; i < times->len; i++) {
      const LinkTime *time = &g_array_index(times, LinkTime, i);
      if ((time->op == COLLECTIVE_SEND_RECV) != of_sends)
        continue;
      g_string_append_printf(out, "%s    - {", heading);
      if (of_sends)
        g_string_append(out, "link: node");
      else
        g_string_append_printf(out, "op: %s, gpus: %d, nodes: %d", collective_name(time->op), time->n_ranks,
                               time->n_nodes);
      g_string_append_printf(out, ", bytes: %" G_GINT64_FORMAT " B, time: ", time->bytes);
      append_time(out, time->median_s);
      g_string_append(out, "}\n");
      heading = "";
    }
  }
}

static void append_beside(GString *out, const LinkTimes *links) {
  if (links->products_beside > 0)
    g_string_append_printf(out,
                           "# Side by side: products beside an all_reduce of all ranks take %.3g times as long as alone"
                           ", the all_reduce %.3g times.\n",
                           links->products_beside, links->collective_beside);
  if (links->tax > 0)
    g_string_append_printf(out, "transfer_tax: %.3g  # seconds of products lost per second of all_reduce beside them\n",
                           links->tax);
}

/* Lowest efficiency that a cluster file may state (sim/machine/hardware/host.c). */
static const double least_update_efficiency = 1e-3;

/* Efficiencies are relative to measured rates, so that of copies is 1. */
static void append_host(GString *out, const HostTimes *host) {
  g_string_append_printf(
      out,
      "  host_memory: %.0f B  # that could be had\n  host:\n    link: %.6g GB/s  # one rank's copies, "
      "the slower way\n    links_together: %.6g GB/s\n    link_efficiency: 1\n",
      host->memory_bytes, host->link_Bps * 1e-9, host->links_Bps * 1e-9);
  const double share = host->update_Bps / host->memory_Bps;
  g_string_append_printf(out, "    memory_bandwidth: %.6g GB/s\n    update_efficiency: %.4g", host->memory_Bps * 1e-9,
                         MAX(share, least_update_efficiency));
  if (share < least_update_efficiency)
    g_string_append_printf(out, "  # the least that can be stated; measured: %.3g", share);
  g_string_append_c(out, '\n');
}

static char *cluster_text(const MachineDescription *machine) {
  g_autofree char *name = machine_name(machine->file);
  const LinkTimes *links = machine->links;
  const int n_nodes = (machine->n_ranks + machine->n_local - 1) / machine->n_local;
  GString *out = g_string_new(NULL);
  g_string_append_printf(out,
                         "# Written by stepreal calibrate; run it again rather than editing this.\n"
                         "name: %s\nsource: >-\n  %s\n",
                         name, machine->source);
  append_beside(out, links);
  g_string_append_printf(out,
                         "gpu: gpus/%s.yaml\ncollectives: nccl/%s.yaml\n\nnode:\n  gpus: %d\n  scale_up:\n"
                         "    kind: %s\n    bandwidth: %.6g GB/s%s\n    efficiency: 1\n    latency: %.6g us\n",
                         name, name, machine->n_local, machine->base ? "nvswitch" : "pcie", bus_Bps(links, 1) * 1e-9,
                         machine->n_local > 1 ? "" : "  # assumed: one rank has no link", least_send_s(links) * 1e6);
  g_string_append_printf(out, "  nics: %d\n", n_nodes > 1 ? machine->n_local : 0);
  if (n_nodes > 1)
    g_string_append_printf(out, "  nic:\n    bandwidth: %.6g GB/s\n    efficiency: 1\n    latency: %.6g us\n",
                           bus_Bps(links, n_nodes) * 1e-9, least_send_s(links) * 1e6);
  append_host(out, machine->host);
  g_string_append_printf(out, "max_gpus: %d\n", machine->n_ranks);
  if (links->times->len > 0)
    append_link_tables(out, machine);
  return g_string_free(out, FALSE);
}

/* --- the library --- */

static void append_protocols(GString *out, const char *indent, const char *value) {
  static const char *const algorithms[] = {"ring", "tree"};
  for (gsize i = 0; i < G_N_ELEMENTS(algorithms); i++)
    g_string_append_printf(out, "%s%s: {ll: %s, ll128: %s, simple: %s}\n", indent, algorithms[i], value, value, value);
}

/* All protocols get the same values: half of the smallest all-reduce's time is a fixed cost, half is in its steps. */
static char *library_text(const MachineDescription *machine) {
  static const char *const links[] = {"nvlink", "pcie", "net"};
  const LinkTime *least = find_link(machine->links, COLLECTIVE_ALL_REDUCE, 1, FALSE);
  const double base_s = least ? least->median_s / 2 : 1e-6;
  const double hop_s = least ? base_s / (2 * (least->n_ranks - 1)) : 1e-6;
  g_autofree char *base = g_strdup_printf("%.6g us", base_s * 1e6), *hop = g_strdup_printf("%.6g us", hop_s * 1e6);
  GString *out = g_string_new(NULL);
  g_string_append_printf(out,
                         "# Written by stepreal calibrate. Serves where the cluster's measured curves do not reach.\n"
                         "version: measured\nsource: >-\n  %s\neager: %" G_GINT64_FORMAT " B\n"
                         "ring_search: none  # one channel over each NIC, at its rate: the curves hold the rest\n\n"
                         "base:\n",
                         machine->source, machine->links->eager_bytes);
  append_protocols(out, "  ", base);
  g_string_append(out, "hop:\n");
  for (gsize i = 0; i < G_N_ELEMENTS(links); i++) {
    g_string_append_printf(out, "  %s:\n", links[i]);
    append_protocols(out, "    ", hop);
  }
  g_string_append(out, "bandwidth_share:\n");
  append_protocols(out, "  ", "1");
  return g_string_free(out, FALSE);
}

/* --- files --- */

static gboolean make_folder(const char *file, GError **error) {
  g_autofree char *folder = g_path_get_dirname(file);
  if (g_mkdir_with_parents(folder, 0777) == 0)
    return TRUE;
  return fail_input(error, "%s: cannot make the folder", folder);
}

gboolean machine_files_write(const MachineDescription *machine, GError **error) {
  g_autofree char *gpu_file = machine_gpu_file(machine->file), *library_file = machine_library_file(machine->file);
  const char *const files[] = {gpu_file, library_file, machine->file}; /* last the one that names the others */
  char *(*const texts[])(const MachineDescription *) = {gpu_text, library_text, cluster_text};
  WholeFile out[G_N_ELEMENTS(files)] = {{0}};
  gboolean ok = TRUE;
  for (gsize i = 0; i < G_N_ELEMENTS(files) && ok; i++) {
    g_autofree char *text = texts[i](machine);
    ok = make_folder(files[i], error) && whole_file_open(&out[i], files[i], error);
    if (ok)
      whole_file_write(&out[i], text, strlen(text));
  }
  for (gsize i = 0; i < G_N_ELEMENTS(files); i++)
    if (ok)
      ok = whole_file_close(&out[i], error);
    else
      whole_file_discard(&out[i]);
  return ok;
}
